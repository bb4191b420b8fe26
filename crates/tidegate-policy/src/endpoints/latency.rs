use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Timestamp;
use crate::timestamp::{LONGEST_SPAN, nanos};

/// The time over which an estimate forgets, in nanoseconds.
const MEMORY: f64 = 10e9;
/// What a sample above the estimate counts for.
const STEP_UP: f64 = 1.0 / 4.0;
/// The least that a sample below the estimate counts for, whatever the time since the last one.
const LEAST_STEP: f64 = 1.0 / 16.0;
/// Silence counts as latency up to so many times the estimate. Without a bound, one request that waits for long would
/// keep an endpoint without others until it ends.
const MOST_SILENCE: f64 = 10.0;

/// How long an endpoint takes to respond, estimated from its responses and from their absence.
///
/// A sample above the estimate moves it a quarter of the way up at once, because trouble must show before many requests
/// have met it. A sample below moves it down by dt ÷ (dt + 10 s), where dt is the time since the last sample, but at
/// least by a sixteenth. Without that least step, an endpoint with more requests has a higher estimate: it has more
/// peaks, and no more time to forget them. After the last sample:
///
/// - No request has begun: the estimate decays, as 10 s ÷ (10 s + the time since the sample). An endpoint that was slow
///   once is measured again instead of being avoided for ever. What is in flight says nothing: it may be a stream or a
///   WebSocket, whose head came long ago.
/// - A request has begun: the silence since then is evidence. If it is longer than the estimate, it counts instead, up
///   to ten times the estimate. So a frozen endpoint shows before any timeout. The silence ends with a sample, or when
///   that request ends without one, because its client left or its connection failed. Then the next request that
///   begins counts.
///
/// Threads update it without a lock. Of two samples at the same moment one may get lost, which an estimate can bear.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// In nanoseconds, the bits of an `f64`; 0 before the first sample.
    measured: AtomicU64,
    /// When the last sample came.
    sampled_at: AtomicU64,
    /// When the first request began after the last sample; 0 if none has, or if it is no longer in flight.
    silent_since: AtomicU64,
}

impl Latency {
    /// A request begins.
    #[inline]
    pub(super) fn begin(&self, now: Timestamp) {
        if self.silent_since.load(Relaxed) == 0 {
            self.silent_since.store(now.as_nanos(), Relaxed);
        }
    }

    /// The request that began at `began` is no longer in flight.
    #[inline]
    pub(super) fn end(&self, began: Timestamp) {
        if self.silent_since.load(Relaxed) == began.as_nanos() {
            self.silent_since.store(0, Relaxed);
        }
    }

    /// A response came after `took`.
    #[inline]
    pub(super) fn sample(&self, took: Duration, now: Timestamp) {
        self.sample_nanos(span(took), now);
    }

    /// A failure after `took`. A quick failure is no sign of speed: it never lowers the estimate.
    pub(super) fn sample_failure(&self, took: Duration, now: Timestamp) {
        let took = span(took);
        if took > self.measured() {
            self.sample_nanos(took, now);
        }
    }

    #[inline]
    fn sample_nanos(&self, took: f64, now: Timestamp) {
        let before = self.measured();
        let step = if before == 0.0 {
            1.0
        } else if took > before {
            STEP_UP
        } else {
            let elapsed = real(now.as_nanos().saturating_sub(self.sampled_at.load(Relaxed)));
            (elapsed / (elapsed + MEMORY)).max(LEAST_STEP)
        };
        let measured = before + (took - before) * step;
        self.measured.store(measured.to_bits(), Relaxed);
        self.sampled_at.store(now.as_nanos(), Relaxed);
        self.silent_since.store(0, Relaxed);
    }

    /// The estimate at the last sample, in nanoseconds; 0 before the first.
    #[inline]
    pub(super) fn measured(&self) -> f64 {
        f64::from_bits(self.measured.load(Relaxed))
    }

    /// What to expect at `now`, in nanoseconds, if `measured` was the estimate at the last sample.
    #[inline]
    pub(super) fn expected(&self, measured: f64, now: Timestamp) -> f64 {
        let silent_since = self.silent_since.load(Relaxed);
        if silent_since == 0 {
            let elapsed = real(now.as_nanos().saturating_sub(self.sampled_at.load(Relaxed)));
            return measured * (MEMORY / (MEMORY + elapsed));
        }
        let silence = real(now.as_nanos().saturating_sub(silent_since));
        silence.max(measured).min(measured * MOST_SILENCE)
    }
}

/// `took` in nanoseconds: at least one, because 0 is no sample, and at most [`LONGEST_SPAN`].
fn span(took: Duration) -> f64 {
    real(nanos(took).clamp(1, nanos(LONGEST_SPAN)))
}

/// Nanoseconds as an `f64`, in one instruction: they are below 2⁶³, so they may count as signed.
#[expect(clippy::cast_precision_loss, reason = "an estimate has no use for 53 exact bits")]
const fn real(nanos: u64) -> f64 {
    nanos as i64 as f64
}
