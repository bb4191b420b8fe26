use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Timestamp;
use crate::numbers::figure;

/// The time over which an estimate forgets, in nanoseconds.
const MEMORY: f64 = 10e9;
/// The least that a sample below the estimate counts for, whatever the time since the last one.
const LEAST_STEP: f64 = 1.0 / 16.0;
/// Silence counts as latency up to so many times the estimate. Without a bound, one long event stream would keep an
/// endpoint without other requests for ever.
const MOST_SILENCE: u64 = 10;

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
    /// In nanoseconds; 0 before the first sample.
    estimate: AtomicU64,
    /// When the last sample came.
    sampled_at: AtomicU64,
    /// When the first of those in flight began, after a time with none.
    busy_since: AtomicU64,
}

impl Latency {
    /// A request begins, and none was in flight.
    pub(super) fn begin_busy(&self, now: Timestamp) {
        self.busy_since.store(now.as_nanos(), Relaxed);
    }

    /// A response came after `took` nanoseconds.
    pub(super) fn sample(&self, took: u64, now: Timestamp) {
        let estimate = self.estimate.load(Relaxed);
        let took = took.max(1);
        let next = if estimate == 0 {
            took
        } else if took >= estimate {
            estimate + (took - estimate).div_ceil(4)
        } else {
            let elapsed = figure(now.as_nanos().saturating_sub(self.sampled_at.load(Relaxed)));
            let step = (elapsed / (elapsed + MEMORY)).max(LEAST_STEP);
            estimate - (figure(estimate - took) * step) as u64
        };
        self.estimate.store(next, Relaxed);
        self.sampled_at.store(now.as_nanos(), Relaxed);
    }

    /// A failure after `took` nanoseconds. A quick failure is no sign of speed: it never lowers the estimate.
    pub(super) fn sample_failure(&self, took: u64, now: Timestamp) {
        if took > self.measured() {
            self.sample(took, now);
        }
    }

    /// The estimate at the last sample, in nanoseconds; 0 before the first.
    pub(super) fn measured(&self) -> u64 {
        self.estimate.load(Relaxed)
    }

    /// What to expect at `now`, in nanoseconds, with so many in flight, if `measured` was the estimate at the last
    /// sample.
    pub(super) fn expected(&self, measured: u64, in_flight: u32, now: Timestamp) -> f64 {
        let (sampled_at, now) = (self.sampled_at.load(Relaxed), now.as_nanos());
        if in_flight == 0 {
            let idle = figure(now.saturating_sub(sampled_at));
            return figure(measured) * (MEMORY / (MEMORY + idle));
        }
        let silence = now.saturating_sub(sampled_at.max(self.busy_since.load(Relaxed)));
        figure(silence.clamp(measured, measured.saturating_mul(MOST_SILENCE)))
    }
}
