//! From snapshots to advice: what is learnt of one limit.

use crate::advice::{Advice, Bounds, Situation, advise};
use crate::capacity::{LearntCapacity, Seen};
use crate::forecaster::{Forecast, Forecaster, Settings};
use crate::snapshot::{MOST_SECONDS, Snapshot};

/// The settings of an adviser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Requests a second that the target bears; learnt from its latency and errors, if it is not set.
    pub capacity: Option<f64>,
    /// Never advise fewer requests a second.
    pub floor: f64,
    /// Seconds that are forecast.
    pub horizon: usize,
    /// Seconds of load that are kept.
    pub kept: usize,
    /// Whether another algorithm may be advised.
    pub may_switch: bool,
}

impl Default for Policy {
    /// A minute ahead, of a day, down to 5 requests a second, whatever the algorithm; the capacity is learnt.
    fn default() -> Self {
        Self { capacity: None, floor: 5.0, horizon: 60, kept: 86_400, may_switch: true }
    }
}

impl Policy {
    /// What forecasts need of it.
    pub fn settings(&self) -> Settings {
        Settings { step: 1, horizon: self.horizon, stride: STRIDE, kept: self.kept }
    }
}

/// Seconds from one forecast that is scored to the next.
const STRIDE: usize = 5;

/// What is known of one limit of one gateway, or of several that adapt as one. It has no clock: the same snapshots get
/// the same advice.
pub struct Adviser {
    policy: Policy,
    /// What is known of the load.
    pub forecaster: Forecaster,
    /// What is known of the target.
    pub capacity: LearntCapacity,
    /// When the last snapshot was taken, by its own clock.
    last: Option<f64>,
    /// For how many seconds most was rejected.
    rejecting: f64,
    /// How many in a row came from another time altogether.
    from_elsewhen: u32,
}

/// What was found for a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What the limits should be.
    pub advice: Advice,
    /// Why.
    pub forecast: Option<Forecast>,
    /// What the target bears, as set or learnt.
    pub capacity: Option<f64>,
}

/// An attack is this many times the capacity, or more than this share of it is rejected; what it brings is learnt as
/// the capacity.
const ATTACK: f64 = 3.0;
const ATTACK_REJECTED: f64 = 0.5;
const ATTACK_SECONDS: f64 = 10.0;
/// A clock may be set back by so many seconds without further ado, and so many snapshots must agree on anything else.
const SET_BACK: f64 = 60.0;
const AGREEING: u32 = 3;

impl Adviser {
    /// One that forecasts by this, which is made of [`Policy::settings`].
    pub fn new(policy: Policy, forecaster: Forecaster) -> Self {
        Self { policy, forecaster, capacity: LearntCapacity::default(), last: None, rejecting: 0.0, from_elsewhen: 0 }
    }

    /// With what was learnt of the target before.
    #[must_use]
    pub fn with_capacity(mut self, capacity: LearntCapacity) -> Self {
        self.capacity = capacity;
        self
    }

    /// Learns from a snapshot, and says what the limits should be.
    pub fn advise(&mut self, snapshot: &Snapshot) -> Found {
        let policy = self.policy;
        let capacity = if self.is_believed(snapshot.timestamp) {
            let since = self.last.map_or(snapshot.interval, |last| Some(snapshot.timestamp - last));
            let is_new = since.is_none_or(|seconds| seconds > 0.0);
            let seconds = since.filter(|seconds| *seconds > 0.0).unwrap_or(1.0);
            self.last = Some(snapshot.timestamp);
            if is_new {
                // What got no response is sent again, from the last one that did: what came since then is as long as
                // its series.
                let reported = snapshot.series.as_ref().map(|series| series.values.len() as f64);
                let reported = reported.filter(|seconds| *seconds >= 1.0).unwrap_or(seconds);
                self.learn_capacity(snapshot, reported);
                let rejects = snapshot.rejected > ATTACK_REJECTED;
                self.rejecting = if rejects { self.rejecting + seconds } else { 0.0 };
            }
            let capacity = policy.capacity.or(self.capacity.rate());
            self.learn_load(snapshot, seconds, capacity);
            capacity
        } else {
            policy.capacity.or(self.capacity.rate())
        };
        // A forecast for another time does not count.
        let reach = policy.horizon as f64 / 2.0;
        let forecast =
            self.forecaster.forecast().filter(|forecast| (forecast.start as f64 - snapshot.timestamp).abs() <= reach);
        let bounds = Bounds { capacity, ceiling: snapshot.ceiling, floor: policy.floor, may_switch: policy.may_switch };
        let load = self.forecaster.load();
        let advice = advise(&Situation {
            timestamp: snapshot.timestamp,
            forecast: forecast.as_ref(),
            history: self.forecaster.history(),
            load: load.history(),
            numbers: &snapshot.numbers,
            base: &snapshot.base,
            bounds,
        });
        Found { advice, forecast, capacity }
    }

    /// Whether a snapshot's time fits those before. A single one from far away would make all that is known old, or
    /// itself the past of everything that follows; but a clock may be set, and when several agree what was known before
    /// is given up.
    fn is_believed(&mut self, timestamp: f64) -> bool {
        let known_until = self.last.or_else(|| {
            let history = self.forecaster.history();
            (!history.values.is_empty()).then(|| history.end() as f64)
        });
        let fits =
            known_until.is_none_or(|last| (last - SET_BACK..last + self.policy.kept as f64).contains(&timestamp));
        if fits {
            self.from_elsewhen = 0;
            return true;
        }
        self.from_elsewhen += 1;
        if self.from_elsewhen < AGREEING {
            return false;
        }
        self.from_elsewhen = 0;
        self.last = None;
        self.forecaster.forget();
        true
    }

    fn learn_capacity(&mut self, snapshot: &Snapshot, seconds: f64) {
        let admitted = snapshot.observed * (1.0 - snapshot.rejected);
        let responded = (admitted * seconds).max(1.0);
        let errors = (snapshot.errors / responded).min(1.0);
        self.capacity.observe(Seen { admitted, latency: snapshot.latency, errors });
    }

    fn learn_load(&mut self, snapshot: &Snapshot, seconds: f64, capacity: Option<f64>) {
        let is_attack = self.rejecting >= ATTACK_SECONDS;
        let believed = |value: f64| match capacity {
            Some(capacity) if value > capacity && (is_attack || value > capacity * ATTACK) => capacity,
            _ => value,
        };
        let now = snapshot.timestamp.floor() as i64;
        if let Some(offered) = &snapshot.series {
            let newest = now - MOST_SECONDS as i64..=now;
            for (second, value) in (offered.start..).zip(&offered.values) {
                if let Some(value) = value.filter(|_| newest.contains(&second)) {
                    self.forecaster.observe(second, believed(value));
                }
            }
        } else {
            // Nothing is known but the mean since the last one.
            let count = (seconds.round() as i64).clamp(1, MOST_SECONDS as i64);
            for second in now - count..now {
                self.forecaster.observe(second, believed(snapshot.observed));
            }
        }
    }
}
