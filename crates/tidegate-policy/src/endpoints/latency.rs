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
/// Silence counts as latency up to so many times the estimate. Without a bound, one long event stream would keep an
/// endpoint without other requests for ever.
const MOST_SILENCE: f64 = 10.0;

/// How long an endpoint takes to respond, estimated from its responses and from their absence.
///
/// A sample above the estimate moves it a quarter of the way up at once, because trouble must show before many requests
/// have met it. A sample below moves it down by dt ÷ (dt + 10 s), where dt is the time since the last sample, but at
/// least by a sixteenth. Without that least step, an endpoint with more requests has a higher estimate: it has more
/// peaks, and no more time to forget them. Without samples:
///
/// - Nothing is in flight: the estimate decays, as 10 s ÷ (10 s + idle). An endpoint that was slow once is measured
///   again instead of being avoided for ever.
/// - Something is in flight: the silence itself is evidence. If no response has come for longer than the estimate, the
///   silence counts instead, up to ten times the estimate. So a frozen endpoint shows before any timeout.
///
/// Threads update it without a lock. Of two samples at the same moment one may get lost, which an estimate can bear.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// In nanoseconds, the bits of an `f64`; 0 before the first sample.
    measured: AtomicU64,
    /// When the last sample came.
    sampled_at: AtomicU64,
    /// When the first of those in flight began, after a time with none.
    busy_since: AtomicU64,
}

impl Latency {
    /// A request begins, and none was in flight.
    #[inline]
    pub(super) fn begin_busy(&self, now: Timestamp) {
        self.busy_since.store(now.as_nanos(), Relaxed);
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
    }

    /// The estimate at the last sample, in nanoseconds; 0 before the first.
    #[inline]
    pub(super) fn measured(&self) -> f64 {
        f64::from_bits(self.measured.load(Relaxed))
    }

    /// What to expect at `now`, in nanoseconds, with so many in flight, if `measured` was the estimate at the last
    /// sample.
    #[inline]
    pub(super) fn expected(&self, measured: f64, in_flight: u32, now: Timestamp) -> f64 {
        let (sampled_at, now) = (self.sampled_at.load(Relaxed), now.as_nanos());
        if in_flight == 0 {
            return measured * (MEMORY / (MEMORY + real(now.saturating_sub(sampled_at))));
        }
        let silence = real(now.saturating_sub(sampled_at.max(self.busy_since.load(Relaxed))));
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
