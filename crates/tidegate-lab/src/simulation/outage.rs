//! How a gateway behaves while Redis is away.

use std::time::Duration;

use super::events::{Events, Occurrence};
use super::nanos;
use crate::run::{Exempt, Instead, Outage};
use crate::scenario::{Fault, FaultKind, Scenario};

/// How long a gateway waits for Redis' response. After three late ones in a row it counts as away.
const BUDGET: Duration = Duration::from_millis(20);
/// On the average half of the longest pause between two tries to reconnect.
const RETURN: Duration = Duration::from_millis(500);

/// What becomes of limits that are kept in Redis.
pub(super) struct Outages {
    is_shared: bool,
    is_on: bool,
    /// When Redis was there again, which the gateway has not noticed yet.
    back_at: Option<u64>,
    spans: Vec<(u64, u64)>,
    found: Outage,
    /// What the gateway does instead of limiting; none if it goes on limiting.
    instead: Option<Instead>,
    /// When it did so.
    exempt: Vec<Exempt>,
}

impl Outages {
    pub(super) fn new(scenario: &Scenario, is_limited: bool) -> Self {
        let is_shared = is_limited && scenario.store.is_shared();
        let of_redis = scenario.faults.iter().filter(|fault| is_felt(fault.kind));
        let spans = of_redis.map(|fault| (nanos(fault.at), nanos(fault.until))).collect();
        let instead = Instead::of(scenario.on_failure);
        Self { is_shared, is_on: false, back_at: None, spans, found: Outage::default(), instead, exempt: Vec::new() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn fault(&mut self, now: u64, fault: &Fault, begins: bool, events: &mut Events) {
        if !self.is_shared || !is_felt(fault.kind) {
            return;
        }
        if begins {
            // A lost connection shows at once, a hang after three responses that did not come.
            let notice = if fault.kind == FaultKind::RedisKilled { Duration::ZERO } else { BUDGET };
            events.push(now + nanos(notice), Occurrence::RedisIsAway);
        } else {
            self.back_at = Some(now);
            let forgets = fault.kind == FaultKind::RedisKilled;
            events.push(now + nanos(RETURN), Occurrence::RedisIsBack { forgets });
        }
    }

    pub(super) fn begin(&mut self, now: u64) {
        self.is_on = true;
        let now = Duration::from_nanos(now);
        // The end is set later.
        self.exempt.extend(self.instead.map(|instead| Exempt::new(now, Duration::MAX, instead)));
    }

    /// What the gateway does instead of limiting, with a request that is decided now.
    pub(super) fn instead(&mut self) -> Option<Instead> {
        let instead = self.instead.filter(|_| self.is_on)?;
        if let Some(exempt) = self.exempt.last_mut() {
            exempt.note(instead == Instead::RejectsAll);
        }
        Some(instead)
    }

    pub(super) fn end(&mut self, now: u64) {
        self.is_on = false;
        if let Some(exempt) = self.exempt.last_mut() {
            exempt.until = Duration::from_nanos(now).as_secs_f64();
        }
        if let Some(back_at) = self.back_at.take() {
            self.found.returned(Duration::from_nanos(now - back_at));
        }
    }

    /// A request that was due then has ended.
    pub(super) fn note(&mut self, intended: u64, is_rejected: bool) {
        if self.is_shared && self.spans.iter().any(|(from, to)| (*from..*to).contains(&intended)) {
            self.found.note(is_rejected);
        }
    }

    /// What was seen of it in a run that lasted so long.
    pub(super) fn found(self, duration: Duration) -> (Option<Outage>, Vec<Exempt>) {
        let outage = (self.is_shared && !self.spans.is_empty()).then_some(self.found);
        let mut exempt = self.exempt;
        for exempt in &mut exempt {
            exempt.until = exempt.until.min(duration.as_secs_f64());
        }
        // What begins after the last request exempts nothing.
        exempt.retain(|exempt| exempt.from < exempt.until);
        (outage, exempt)
    }
}

/// Whether the gateway gives up on Redis because of it.
fn is_felt(kind: FaultKind) -> bool {
    match kind {
        FaultKind::RedisKilled | FaultKind::RedisHangs => true,
        FaultKind::RedisSlow(delay) => delay >= BUDGET,
        FaultKind::ForecasterKilled
        | FaultKind::Target(_)
        | FaultKind::Faulty(..)
        | FaultKind::GatewaySlow(_)
        | FaultKind::Kill(_)
        | FaultKind::Freeze(_)
        | FaultKind::Slow(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report of a run of 20 s had "Not scored: 20.4 s to 20.0 s".
    #[test]
    fn an_outage_after_the_run_exempts_nothing() {
        let mut outages = Outages {
            is_shared: true,
            is_on: false,
            back_at: None,
            spans: Vec::new(),
            found: Outage::default(),
            instead: Some(Instead::AdmitsAll),
            exempt: Vec::new(),
        };
        let at = |millis: u64| nanos(Duration::from_millis(millis));
        outages.begin(at(5_000));
        outages.end(at(6_000));
        outages.begin(at(20_400));
        let (_, exempt) = outages.found(Duration::from_secs(20));
        let spans: Vec<(f64, f64)> = exempt.iter().map(|exempt| (exempt.from, exempt.until)).collect();
        assert_eq!(spans, [(5.0, 6.0)]);
    }
}
