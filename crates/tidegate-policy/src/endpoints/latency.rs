use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Timestamp;
use crate::numbers::figure;

/// The time over which an estimate forgets, in nanoseconds.
const MEMORY: f64 = 10e9;
/// Silence counts as latency up to so many times the estimate. Without a bound, one long event stream would keep an
/// endpoint without other requests for ever.
const MOST_SILENCE: u64 = 10;

/// How long an endpoint takes to respond, estimated from its responses and from their absence.
///
/// A sample above the estimate moves it half way up at once, because trouble must show before many requests have met
/// it. A sample below moves it down by dt ÷ (dt + 10 s), where dt is the time since the last sample. Without samples:
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
        let next = if took >= estimate {
            if estimate == 0 { took } else { estimate + (took - estimate).div_ceil(2) }
        } else {
            let elapsed = figure(now.nanos_since(Timestamp::from_nanos(self.sampled_at.load(Relaxed))));
            let step = figure(estimate - took) * elapsed / (elapsed + MEMORY);
            estimate - step as u64
        };
        self.estimate.store(next, Relaxed);
        self.sampled_at.store(now.as_nanos(), Relaxed);
    }

    /// A failure after `took` nanoseconds. A quick failure is no sign of speed: it never lowers the estimate.
    pub(super) fn sample_failure(&self, took: u64, now: Timestamp) {
        if took > self.estimate.load(Relaxed) {
            self.sample(took, now);
        }
    }

    /// The estimate in nanoseconds at `now`, for an endpoint with so many in flight; 0 before the first sample.
    pub(super) fn estimate(&self, in_flight: u32, now: Timestamp) -> f64 {
        let estimate = self.estimate.load(Relaxed);
        let (sampled_at, now) = (self.sampled_at.load(Relaxed), now.as_nanos());
        if in_flight == 0 {
            let idle = figure(now.saturating_sub(sampled_at));
            return figure(estimate) * (MEMORY / (MEMORY + idle));
        }
        let silence = now.saturating_sub(sampled_at.max(self.busy_since.load(Relaxed)));
        figure(silence.clamp(estimate, estimate.saturating_mul(MOST_SILENCE)))
    }
}
