//! Adaptation without a gateway: the very objects that decide in one, for simulated time.

use std::time::Duration;

use serde_json::Value;
use tidegate_policy::Timestamp;

use super::attack::AttackEvent;
use super::ceiling::Quantiles;
use super::ledger::Ledger;
use super::pilot::{Counting, Pilot};
use super::recommendation::Recommendation;
use super::second::Second;
use super::snapshot::Snapshot;
use super::telling;
use crate::config::numbers::LimitNumbers;
use crate::metrics::latency_bounds;
use crate::settings::Rails;

/// The share of errors above which an upstream counts as overloaded, unless a file says otherwise.
const USUAL_ERRORS: f64 = 0.05;

/// What one gateway's adaptation does to one limit, handed the time and what was seen. It asks nobody: whoever runs it carries snapshots to a
/// forecaster and answers back.
pub struct Autopilot {
    pilot: Pilot,
    ledger: Ledger,
    base: LimitNumbers,
    interval: Duration,
    bounds: Vec<f64>,
    now: Second,
}

/// Something that was decided or happened, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Numbers, and why.
    Decided(String),
    /// An attack begins or ends.
    Attack(String),
}

impl Autopilot {
    /// For a limit with these numbers of the operator's; none if they have no rate.
    pub fn new(base: LimitNumbers, rails: Rails, interval: Duration) -> Option<Self> {
        let pilot = Pilot::of(rails, None, USUAL_ERRORS, base.clone())?;
        let (ledger, bounds) = (Ledger::default(), latency_bounds());
        Some(Self { pilot, ledger, base, interval, now: Second::default(), bounds })
    }

    /// The limit was asked about a request.
    pub fn decided(&mut self, is_admitted: bool) {
        self.now.offered += 1;
        self.now.refused += u64::from(!is_admitted);
    }

    /// The upstream has answered after this time.
    pub fn answered(&mut self, took: Duration, is_error: bool) {
        self.now.errors += u64::from(is_error);
        let place = self.bounds.partition_point(|bound| *bound < took.as_secs_f64());
        if self.now.latency.len() <= place {
            self.now.latency.resize(place + 1, 0);
        }
        self.now.latency[place] += 1;
    }

    /// The second before this moment is over; `is_enforced`: the limit was in force in it.
    pub fn second(&mut self, now: Timestamp, is_enforced: bool) -> Vec<Told> {
        let at = (now.as_nanos() / 1_000_000_000).saturating_sub(1);
        let second = Second { at, is_whole: true, ..std::mem::take(&mut self.now) };
        let latency = Quantiles::of(&second, &self.bounds);
        let events = self.pilot.observe(&second, latency, is_enforced, &accepts);
        let clip = self.pilot.is_attacked().then(|| self.pilot.hard_ceiling());
        self.ledger.push(second, clip);
        let attack = events.attack.map(|event| match event {
            AttackEvent::Begins(why) => Told::Attack(format!("attack begins: {why}")),
            AttackEvent::Ends => Told::Attack("attack is over".to_owned()),
        });
        let decided = events.ceiling.map(|made| Told::Decided(telling::in_words(&made)));
        attack.into_iter().chain(decided).collect()
    }

    /// What a forecaster is to be told at this moment; none if there is nothing to tell.
    pub fn snapshot(&self, now: Timestamp, source: &str) -> Option<Value> {
        let period = self.ledger.period();
        if !period.is_telling(false) {
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

    /// A forecaster has answered a snapshot of this moment. An error says why nothing of it is used.
    pub fn advised(&mut self, answer: &Value, asked_at: Timestamp) -> Result<(), String> {
        let recommendation = Recommendation::read(answer)?;
        self.ledger.told(self.ledger.period().end());
        self.pilot.receive(recommendation, asked_at, &accepts)
    }

    /// Does what is due. `is_limiting`: the limit is in force.
    pub fn look(&mut self, now: Timestamp, is_limiting: bool) -> Option<Told> {
        let counting = if is_limiting { Counting::AsMeant } else { Counting::Nowhere };
        let made = self.pilot.look(now, counting, &accepts)?;
        Some(Told::Decided(telling::in_words(&made)))
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
