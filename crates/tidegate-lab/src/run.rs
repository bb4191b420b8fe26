//! A run of a scenario, live or simulated: what was seen of it.

use std::time::Duration;

use tidegate_input::grouped;
use tidegate_store::FailureMode;

use crate::observation::Observation;
use crate::oracle::Judged;
use crate::pool_record::PoolRecord;

/// What was seen of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What became of each request.
    pub observation: Observation,
    /// What the exact definition says of the decisions; none without a limit.
    pub judged: Option<Judged>,
    /// Limit, forecast and target, second by second.
    pub levels: Levels,
    /// What happened.
    pub events: Vec<Event>,
    /// What became of requests while Redis was away; none if it never was.
    pub outage: Option<Outage>,
    /// When no limit could be judged, in the order of time.
    pub exempt: Vec<Exempt>,
    /// What was expected at which second, by adaptation.
    pub predictions: Vec<Prediction>,
    /// What was seen of several targets.
    pub targets: Option<PoolRecord>,
    /// What was seen of the gateway's policies, where the scenario has its own configuration.
    pub policies: Option<PolicyRecord>,
    /// What the gateway itself used; only live.
    pub gateway: Option<GatewayCost>,
}

/// What was seen of the gateway's policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyRecord {
    /// Requests that targets got, if that is known.
    pub sent: Option<u64>,
    /// When circuit breakers opened, in seconds from the start of the load.
    pub opened_at: Vec<f64>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// In seconds from the start of the load.
    pub at: f64,
    /// Its kind.
    pub kind: EventKind,
    /// In words.
    pub text: String,
}

/// Verdicts of adaptation that change a limit.
pub(crate) const CHANGES: [&str; 5] = ["applied", "capped", "reverted", "lowered", "released"];

impl Event {
    /// The text without the reason of a change, for where there is little room.
    pub fn short(&self) -> &str {
        let is_change = CHANGES.iter().any(|verdict| self.text.starts_with(verdict));
        self.text.split_once(" (").filter(|_| is_change).map_or(&self.text, |(before, _)| before)
    }
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Something goes wrong, on purpose, or no longer does.
    Fault,
    /// Limits change.
    Adaptation,
    /// An attack is seen, or its end.
    Attack,
    /// Redis is away, or back.
    FailOpen,
    /// One of several targets no longer gets requests, or does again.
    Endpoint,
    /// A circuit breaker opens, is half-open or closes.
    Breaker,
}

impl EventKind {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Adaptation => "adaptation",
            Self::Attack => "attack",
            Self::FailOpen => "failopen",
            Self::Endpoint => "endpoint",
            Self::Breaker => "breaker",
        }
    }
}

/// What was expected of a second beforehand: a band and its middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Band {
    /// One of ten is below.
    pub low: f64,
    /// The middle.
    pub middle: f64,
    /// One of ten is above.
    pub high: f64,
}

/// Limit, forecast and target at the end of each second.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    now: Option<f64>,
    /// The limit in force, in requests a second.
    pub limit: Vec<Option<f64>>,
    /// What was expected of it.
    pub forecast: Vec<Option<Band>>,
    /// Workers of the target that were busy.
    pub busy: Vec<Option<u64>>,
    /// Requests that waited there.
    pub queue: Vec<Option<u64>>,
    expected: Option<Band>,
}

impl Levels {
    /// With this limit in force from the start.
    pub fn new(limit: Option<f64>) -> Self {
        Self { now: limit, ..Self::default() }
    }

    /// From now on another limit is in force.
    pub fn limit(&mut self, rate: f64) {
        self.now = Some(rate);
    }

    /// What is expected of the second that begins now.
    pub fn forecast(&mut self, band: Option<Band>) {
        self.forecast.push(self.expected.take());
        self.expected = band;
    }

    /// Whether there is a limit at all.
    pub fn is_limited(&self) -> bool {
        self.now.is_some()
    }

    /// A second is over, with so many busy workers and waiting requests in the target.
    pub fn seen(&mut self, busy: Option<u64>, queue: Option<u64>) {
        self.limit.push(self.now);
        self.busy.push(busy);
        self.queue.push(queue);
    }

    /// Exactly so many seconds, in steps of so many: each with the values of its end.
    #[must_use]
    pub fn finished(mut self, seconds: usize, step: usize) -> Self {
        fn folded<T: Clone>(
            mut values: Vec<Option<T>>,
            seconds: usize,
            step: usize,
            rest: Option<T>,
        ) -> Vec<Option<T>> {
            values.resize(seconds, rest);
            values.chunks(step.max(1)).filter_map(|chunk| chunk.last().cloned()).collect()
        }
        self.limit = folded(self.limit, seconds, step, self.now);
        self.forecast = folded(self.forecast, seconds, step, None);
        self.busy = folded(self.busy, seconds, step, None);
        self.queue = folded(self.queue, seconds, step, None);
        self
    }
}

/// What became of requests that were due while Redis was away.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outage {
    /// How many there were.
    pub offered: u64,
    /// How many of them were rejected.
    pub rejected: u64,
    /// From Redis' return to the limit's, the longest.
    pub limiting_back: Option<Duration>,
}

impl Outage {
    /// One of them has ended.
    pub fn note(&mut self, is_rejected: bool) {
        self.offered += 1;
        self.rejected += u64::from(is_rejected);
    }

    /// The limit is in force again, so long after Redis' return.
    pub fn returned(&mut self, after: Duration) {
        self.limiting_back = Some(self.limiting_back.map_or(after, |longest| longest.max(after)));
    }
}

/// A time in which the gateway knew that Redis was away and did what its failure mode says instead of limiting: its
/// decisions are not held against the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Exempt {
    /// In seconds from the start of the load.
    pub from: f64,
    /// The same.
    pub until: f64,
    /// What the gateway did instead.
    pub instead: Instead,
    /// Requests that were admitted then.
    pub admitted: u64,
    /// Requests that were rejected then.
    pub rejected: u64,
}

/// What a gateway does instead of limiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// It admits everything.
    AdmitsAll,
    /// It rejects everything.
    RejectsAll,
}

impl Instead {
    /// What a gateway with this failure mode does while Redis is away; none if it goes on limiting.
    pub fn of(on_failure: FailureMode) -> Option<Self> {
        match on_failure {
            FailureMode::Open => Some(Self::AdmitsAll),
            FailureMode::Closed => Some(Self::RejectsAll),
            FailureMode::Local => None,
        }
    }

    /// Why decisions are not scored.
    pub fn reason(self) -> &'static str {
        match self {
            Self::AdmitsAll => "Redis was unavailable and on_failure is open, so no limit was enforced",
            Self::RejectsAll => "Redis was unavailable and on_failure is closed, so every request was rejected",
        }
    }
}

impl Exempt {
    /// One that begins, without any requests yet.
    pub(crate) fn new(from: Duration, until: Duration, instead: Instead) -> Self {
        Self { from: from.as_secs_f64(), until: until.as_secs_f64(), instead, admitted: 0, rejected: 0 }
    }

    /// A request of this time was decided.
    pub(crate) fn note(&mut self, is_rejected: bool) {
        *if is_rejected { &mut self.rejected } else { &mut self.admitted } += 1;
    }

    /// For people.
    pub fn sentence(&self) -> String {
        let (count, done) = match self.instead {
            Instead::AdmitsAll => (self.admitted, "admitted"),
            Instead::RejectsAll => (self.rejected, "rejected"),
        };
        format!(
            "Not scored: {:.1} s to {:.1} s. {}; {} {} {done} then.",
            self.from,
            self.until,
            self.instead.reason(),
            grouped(count),
            if count == 1 { "request was" } else { "requests were" },
        )
    }
}

impl Outcome {
    /// What part of a time, in seconds, was without any limit, by design.
    pub(crate) fn unlimited_share(&self, from: f64, until: f64) -> f64 {
        let seconds: f64 =
            self.unlimited().map(|exempt| (exempt.until.min(until) - exempt.from.max(from)).max(0.0)).sum();
        if until > from { (seconds / (until - from)).min(1.0) } else { 0.0 }
    }

    /// Requests that were admitted while there was no limit.
    pub(crate) fn admitted_unlimited(&self) -> u64 {
        self.unlimited().map(|exempt| exempt.admitted).sum()
    }

    /// Times without any limit, by design.
    fn unlimited(&self) -> impl Iterator<Item = &Exempt> {
        self.exempt.iter().filter(|exempt| exempt.instead == Instead::AdmitsAll)
    }
}

/// The highest rate that was expected within a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// When that was predicted, in seconds from the start.
    pub at: f64,
    /// For how long.
    pub valid_for: f64,
    /// Requests a second.
    pub highest: f64,
}

/// What the gateway itself used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatewayCost {
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// How long 99 of 100 rejections took at most, in seconds.
    pub rejection_p99: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_of_a_change_the_reason_is_left_out() {
        for (text, short) in [
            ("applied: from 150 to 284 req/s (a rise is due now)", "applied: from 150 to 284 req/s"),
            ("frozen: from 150 to 150 req/s (an attack)", "frozen: from 150 to 150 req/s (an attack)"),
            ("Redis hangs", "Redis hangs"),
        ] {
            let event = Event { at: 5.0, kind: EventKind::Adaptation, text: text.to_owned() };
            assert_eq!(event.short(), short);
        }
    }
}
