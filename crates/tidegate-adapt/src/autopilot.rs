//! Adaptation without a gateway: the very objects that decide in one, for simulated time.

use std::time::Duration;

use serde_json::Value;
use tidegate_policy::Timestamp;
use tidegate_policy::numbers::LimitNumbers;

use crate::attack::AttackEvent;
use crate::ceiling::{Quantiles, Thresholds};
use crate::guard_rails::Rails;
use crate::latency::latency_bounds_seconds;
use crate::pilot::{Counting, Pilot};
use crate::recent_seconds::RecentSeconds;
use crate::recommendation::Recommendation;
use crate::second::Second;
use crate::snapshot::Snapshot;

/// What one gateway's adaptation does to one limit, handed the time and what was seen. It asks nobody: its caller
/// carries snapshots to a forecaster and recommendations back.
pub struct Autopilot {
    pilot: Pilot,
    recent: RecentSeconds,
    base: LimitNumbers,
    interval: Duration,
    bounds: Vec<f64>,
    now: Second,
}

/// Something that was decided or happened, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutopilotEvent {
    /// Numbers, and why.
    Decision(String),
    /// An attack begins or ends.
    Attack(String),
}

impl Autopilot {
    /// For a limit with these numbers of the operator's; none if they have no rate.
    pub fn new(base: LimitNumbers, rails: Rails, interval: Duration) -> Option<Self> {
        let pilot = Pilot::new(rails, Thresholds::default(), base.clone(), 0)?;
        let (recent, bounds) = (RecentSeconds::default(), latency_bounds_seconds());
        Some(Self { pilot, recent, base, interval, now: Second::default(), bounds })
    }

    /// The limit has decided about a request.
    pub fn decided(&mut self, is_admitted: bool) {
        self.now.offered += 1;
        self.now.rejected += u64::from(!is_admitted);
    }

    /// The upstream has responded after this time.
    pub fn responded(&mut self, took: Duration, is_error: bool) {
        self.now.errors += u64::from(is_error);
        let index = self.bounds.partition_point(|bound| *bound < took.as_secs_f64());
        if self.now.latency.len() <= index {
            self.now.latency.resize(index + 1, 0);
        }
        self.now.latency[index] += 1;
    }

    /// The second before this moment is over; `is_enforced`: the limit was in force in it.
    pub fn second(&mut self, now: Timestamp, is_enforced: bool) -> Vec<AutopilotEvent> {
        let at = (now.as_nanos() / 1_000_000_000).saturating_sub(1);
        let second = Second { at, is_whole: true, ..std::mem::take(&mut self.now) };
        let latency = Quantiles::of(&second, &self.bounds);
        let events = self.pilot.observe(&second, latency, is_enforced, &accepts);
        let clip = self.pilot.is_attacked().then(|| self.pilot.hard_ceiling());
        self.recent.push(second, clip);
        let attack = events.attack.map(|event| match event {
            AttackEvent::Begins(why) => AutopilotEvent::Attack(format!("attack begins: {why}")),
            AttackEvent::Ends => AutopilotEvent::Attack("attack is over".to_owned()),
        });
        let decided = events.ceiling.map(|decision| AutopilotEvent::Decision(decision.describe()));
        attack.into_iter().chain(decided).collect()
    }

    /// What is to be sent to a forecaster at this moment; none if nothing is known yet.
    pub fn snapshot(&self, now: Timestamp, source: &str) -> Option<Value> {
        let period = self.recent.period();
        if !period.is_askable(false) {
            return None;
        }
        let snapshot = Snapshot {
            at: now,
            p95: period.sum.latency_quantile(0.95, &self.bounds),
            period: &period,
            in_force: &self.pilot.numbers(&accepts),
            base: &self.base,
            source,
            interval_seconds: self.interval.as_secs_f64(),
            ceiling: self.pilot.hard_ceiling(),
        };
        Some(snapshot.json())
    }

    /// A forecaster has responded to a snapshot of this moment. An error says why nothing of it is used.
    pub fn advised(&mut self, response: &Value, asked_at: Timestamp) -> Result<(), String> {
        let recommendation = Recommendation::read(response)?;
        self.recent.sent(self.recent.period().end());
        self.pilot.receive(recommendation, asked_at, &accepts)
    }

    /// Applies what is due. `is_limiting`: the limit is in force.
    pub fn apply_due(&mut self, now: Timestamp, is_limiting: bool) -> Option<AutopilotEvent> {
        let counting = if is_limiting { Counting::AsMeant } else { Counting::Nowhere };
        let decision = self.pilot.apply_due(now, counting, &accepts)?;
        Some(AutopilotEvent::Decision(decision.describe()))
    }

    /// The numbers that are to be in force.
    pub fn numbers(&self) -> LimitNumbers {
        self.pilot.numbers(&accepts)
    }

    /// When to look again, besides each second.
    pub fn wakes_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.pilot.wakes_at(now)
    }
}

/// In memory every rule can be had.
fn accepts(numbers: &LimitNumbers) -> Result<(), String> {
    numbers.rule(0).map(|_| ()).map_err(|error| error.to_string())
}
