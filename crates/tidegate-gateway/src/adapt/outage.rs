//! A forecaster that does not answer as it should: told once, counted each time.

use std::sync::atomic::Ordering::Relaxed;

use tidegate_policy::Timestamp;

use super::asking::Miss;
use super::telling::{COMPONENT, because};
use crate::gateway::Gateway;

/// Misses in a row.
#[derive(Default)]
pub(super) struct Outage {
    since: Option<Timestamp>,
    misses: u32,
    /// What was last told of it.
    told: String,
}

impl Outage {
    /// There is no answer that could be used. After `most` of them somebody should know.
    pub(super) fn missed(&mut self, gateway: &Gateway, now: Timestamp, miss: &Miss, most: u32) {
        self.since.get_or_insert(now);
        self.misses = self.misses.saturating_add(1);
        let cause = miss.to_string();
        if self.told != cause {
            // Once an outage, and once more where its cause is another.
            let told = if miss.is_answer() { "AI module's answer can't be used" } else { "AI module unreachable" };
            gateway.log.warn(COMPONENT, format_args!("{told}, continuing with last known limits: {cause}"));
            gateway.adaptation.record(now, miss.word(), because(cause.clone()));
            self.told = cause;
        }
        let gauges = &gateway.adaptation.gauges;
        gauges.misses.store(self.misses, Relaxed);
        if self.misses == most {
            gauges.stale.store(true, Relaxed);
            let told = format!(
                "no usable answer of the AI module, {most} times in a row: what it recommended last goes on to its end, nothing else changes"
            );
            gateway.log.warn(COMPONENT, &told);
            gateway.adaptation.record(now, "stale", because(told));
        }
    }

    /// It has answered.
    pub(super) fn is_over(&mut self, gateway: &Gateway, now: Timestamp) {
        let Self { since: Some(since), misses, .. } = std::mem::take(self) else { return };
        let seconds = now.since(since).as_secs_f64();
        let told = format!("AI module is back after {misses} missed answers ({seconds:.1} s)");
        gateway.log.info(COMPONENT, &told);
        gateway.adaptation.record(now, "back", because(told));
        gateway.adaptation.gauges.misses.store(0, Relaxed);
        gateway.adaptation.gauges.stale.store(false, Relaxed);
    }
}
