//! What a report must know of its plan.

use std::time::Duration;

use serde_json::Value;

use crate::plan::{Class, Plan, Threshold};

/// The most thresholds of a plan, and of merged ones together.
pub(super) const MOST_THRESHOLDS: usize = 100;

/// The most characters of a target's address.
pub(super) const LONGEST_TARGET: usize = 200;

/// What a report must know of its plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) digest: u64,
    pub(super) target: String,
    pub(super) profile: String,
    pub(super) duration: Duration,
    pub(super) timeout: Duration,
    pub(super) lag_budget: Duration,
    pub(super) max_lag: Duration,
    pub(super) concurrency: u64,
    pub(super) thresholds: Vec<Threshold>,
    /// Names and classes.
    pub(super) groups: Vec<(String, Class)>,
    /// Without secrets.
    pub(super) plan: Value,
}

impl Setting {
    pub(super) fn new(plan: &Plan) -> Self {
        let shown = plan.shown();
        let url = ["limiterUrl", "url"].into_iter().find_map(|field| shown[field].as_str()).unwrap_or_default();
        Self {
            digest: plan.digest(),
            target: url.chars().filter(|character| !character.is_control()).take(LONGEST_TARGET).collect(),
            profile: plan.kind.to_owned(),
            duration: micros(plan.duration),
            timeout: micros(plan.request.timeout),
            lag_budget: micros(plan.lag_budget),
            max_lag: micros(plan.max_lag),
            concurrency: plan.concurrency as u64,
            thresholds: plan.thresholds.clone(),
            groups: plan.clients.iter().map(|group| (group.name.clone(), group.class)).collect(),
            plan: shown.clone(),
        }
    }

    /// Those of another report of the same plan too: what was asked of one of them is asked of all together.
    pub(super) fn add_thresholds(&mut self, others: Vec<Threshold>) -> Result<(), &'static str> {
        let more: Vec<Threshold> = others.into_iter().filter(|other| !self.thresholds.contains(other)).collect();
        if more.is_empty() {
            return Ok(());
        }
        self.thresholds.extend(more);
        if self.thresholds.len() > MOST_THRESHOLDS {
            return Err("has thresholds that are more than 100 together with the others'");
        }
        self.plan["thresholds"] = self.thresholds.iter().map(ToString::to_string).collect();
        Ok(())
    }
}

/// As much of it as the file holds.
fn micros(time: Duration) -> Duration {
    Duration::from_micros(time.as_micros() as u64)
}
