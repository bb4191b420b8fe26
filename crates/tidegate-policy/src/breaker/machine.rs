use std::time::Duration;

use super::counts::{Counts, Ended};
use super::settings::BreakerSettings;
use super::snapshot::{BreakerSnapshot, Totals};
use super::transition::{Forced, Phase, Transition, Trigger};
use super::window::Calls;
use crate::Timestamp;
use crate::timestamp::nanos;

/// What a breaker knows and decides, for one thread at a time.
pub(super) struct Machine {
    settings: BreakerSettings,
    state: State,
    forced: Forced,
    /// Grows with each state. What is reported of an earlier one counts nowhere.
    generation: u64,
    window: Calls,
    failures_in_a_row: u32,
    /// How often it has opened since it was closed.
    openings: u32,
    totals: Totals,
}

enum State {
    Closed,
    Open {
        /// `None`: until an operator changes that.
        until: Option<Timestamp>,
    },
    HalfOpen(Probes),
}

#[derive(Clone, Copy, Default)]
struct Probes {
    /// Let through, without those that were given back.
    granted: u32,
    succeeded: u32,
    slow: u32,
    /// When the last one was let through.
    last: Timestamp,
}

/// What becomes of a call.
pub(super) enum Asked {
    Passes { generation: u64, is_probe: bool },
    Rejected { retry_after: Option<Duration> },
}

impl Machine {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: State::Closed,
            forced: Forced::Auto,
            generation: 0,
            window: Calls::new(settings.window),
            failures_in_a_row: 0,
            openings: 0,
            totals: Totals::default(),
        }
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether all calls go through, and none of them is a probe.
    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    pub(super) fn ask(&mut self, now: Timestamp) -> (Asked, Option<Transition>) {
        let mut transition = None;
        if let State::Open { until: Some(until) } = self.state
            && until <= now
        {
            transition = Some(self.enter(State::HalfOpen(Probes::default()), Trigger::OpenTimeOver, now));
        }
        if let State::HalfOpen(probes) = &self.state
            && probes.granted >= self.settings.probes
            && probes.last.later(nanos(self.settings.probe_timeout)) <= now
        {
            transition = Some(self.open(Trigger::ProbesTimedOut, now));
        }
        let generation = self.generation;
        let asked = match &mut self.state {
            State::Closed => Asked::Passes { generation, is_probe: false },
            State::HalfOpen(probes) if probes.granted < self.settings.probes => {
                probes.granted += 1;
                probes.last = now;
                Asked::Passes { generation, is_probe: true }
            }
            State::HalfOpen(_) => Asked::Rejected { retry_after: None },
            State::Open { until } => Asked::Rejected { retry_after: until.map(|until| until.since(now)) },
        };
        if matches!(asked, Asked::Rejected { .. }) {
            self.totals.rejected += 1;
        }
        (asked, transition)
    }

    /// Whether a call would be rejected. Nothing is counted.
    pub(super) fn rejects(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Closed => false,
            State::Open { until } => until.is_none_or(|until| until > now),
            // When all probes are out and overdue, it opens again.
            State::HalfOpen(probes) => probes.granted >= self.settings.probes,
        }
    }

    /// Counts how a call ended.
    #[inline]
    pub(super) fn record(
        &mut self,
        generation: u64,
        is_failure: bool,
        took: Duration,
        now: Timestamp,
    ) -> Option<Transition> {
        if generation != self.generation {
            self.totals.late += 1;
            return None;
        }
        if self.forced == Forced::Disabled {
            return None;
        }
        let is_slow = self.settings.slow.is_some_and(|slow| took >= slow.threshold);
        self.count(Ended { is_failure, is_slow }, now)
    }

    /// The response of a call that was recorded has failed later on: one more failure.
    pub(super) fn broke_off(&mut self, generation: u64, now: Timestamp) -> Option<Transition> {
        self.record(generation, true, Duration::ZERO, now)
    }

    #[inline]
    fn count(&mut self, ended: Ended, now: Timestamp) -> Option<Transition> {
        if ended.is_failure {
            self.totals.failures += 1;
        } else {
            self.totals.successes += 1;
        }
        self.totals.slow += u64::from(ended.is_slow);
        let trigger = match self.state {
            State::Closed => {
                self.failures_in_a_row = if ended.is_failure { self.failures_in_a_row.saturating_add(1) } else { 0 };
                let counts = self.window.add(ended, now);
                if self.forced == Forced::Closed { None } else { self.exceeded(counts) }
            }
            State::HalfOpen(probes) => return self.count_probe(ended, probes, now),
            // Nothing belongs to the generation of an open breaker.
            State::Open { .. } => None,
        };
        trigger.map(|trigger| self.open(trigger, now))
    }

    fn count_probe(&mut self, ended: Ended, probes: Probes, now: Timestamp) -> Option<Transition> {
        let probes = Probes { succeeded: probes.succeeded + 1, slow: probes.slow + u32::from(ended.is_slow), ..probes };
        let too_slow = self.settings.slow.is_some_and(|slow| reaches(probes.slow, slow.share, self.settings.probes));
        if ended.is_failure {
            Some(self.open(Trigger::ProbeFailed, now))
        } else if too_slow {
            Some(self.open(Trigger::ProbesSlow, now))
        } else if probes.succeeded >= self.settings.probes {
            Some(self.enter(State::Closed, Trigger::ProbesSucceeded, now))
        } else {
            self.state = State::HalfOpen(probes);
            None
        }
    }

    /// A probe has said nothing: another may take its slot.
    pub(super) fn give_back_probe(&mut self, generation: u64) {
        if let (State::HalfOpen(probes), true) = (&mut self.state, generation == self.generation) {
            probes.granted = probes.granted.saturating_sub(1);
        }
    }

    /// Why the calls in the window open the breaker, if they do.
    #[inline]
    fn exceeded(&self, counts: Counts) -> Option<Trigger> {
        let Counts { calls, failures, slow } = counts;
        let in_a_row = self.failures_in_a_row;
        if self.settings.consecutive.is_some_and(|most| in_a_row >= most) {
            return Some(Trigger::Consecutive { failures: in_a_row });
        }
        if calls < self.settings.minimum {
            return None;
        }
        if self.settings.failures.is_some_and(|share| reaches(failures, share, calls)) {
            return Some(Trigger::Failures { failures, calls });
        }
        let is_slow = self.settings.slow.is_some_and(|most| reaches(slow, most.share, calls));
        is_slow.then_some(Trigger::Slow { slow, calls })
    }

    fn open(&mut self, trigger: Trigger, now: Timestamp) -> Transition {
        self.openings = self.openings.saturating_add(1);
        let until = now.later(self.settings.open_nanos(self.openings));
        self.enter(State::Open { until: Some(until) }, trigger, now)
    }

    /// Begins a new state. Nothing that was counted before plays a part in it.
    fn enter(&mut self, state: State, trigger: Trigger, now: Timestamp) -> Transition {
        let from = self.phase();
        self.state = state;
        self.generation += 1;
        self.window.clear();
        self.failures_in_a_row = 0;
        let (to, open_for) = (self.phase(), self.open_for(now));
        if to == Phase::Closed {
            self.openings = 0;
        }
        self.totals.transitions[usize::from(to.number())] += 1;
        Transition { number: self.totals.transitions.iter().sum(), from, to, trigger, open_for }
    }

    pub(super) fn force(&mut self, forced: Forced, now: Timestamp) -> Option<Transition> {
        let before = std::mem::replace(&mut self.forced, forced);
        if before == forced {
            return None;
        }
        let trigger = Trigger::Operator(forced);
        match (forced, &self.state) {
            (Forced::Open, State::Open { .. }) => {
                self.state = State::Open { until: None };
                None
            }
            (Forced::Open, State::Closed | State::HalfOpen(_)) => {
                Some(self.enter(State::Open { until: None }, trigger, now))
            }
            (Forced::Closed | Forced::Disabled | Forced::Auto, State::Open { .. } | State::HalfOpen(_)) => {
                Some(self.enter(State::Closed, trigger, now))
            }
            (Forced::Closed | Forced::Disabled | Forced::Auto, State::Closed) => None,
        }
    }

    /// New settings. The phase stays; probes begin anew, and so does a window of another size.
    pub(super) fn change(&mut self, settings: BreakerSettings) {
        if settings == self.settings {
            return;
        }
        if settings.window != self.settings.window {
            self.window = Calls::new(settings.window);
        }
        self.settings = settings;
        if let State::HalfOpen(probes) = &mut self.state {
            *probes = Probes::default();
            self.generation += 1;
        }
    }

    const fn phase(&self) -> Phase {
        match self.state {
            State::Closed => Phase::Closed,
            State::Open { .. } => Phase::Open,
            State::HalfOpen(_) => Phase::HalfOpen,
        }
    }

    fn open_for(&self, now: Timestamp) -> Option<Duration> {
        match self.state {
            State::Open { until } => until.map(|until| until.since(now)),
            State::Closed | State::HalfOpen(_) => None,
        }
    }

    pub(super) fn snapshot(&self, now: Timestamp) -> BreakerSnapshot {
        let Counts { calls, failures, slow } = self.window.counts(now);
        let probes = if let State::HalfOpen(probes) = self.state { probes } else { Probes::default() };
        BreakerSnapshot {
            phase: self.phase(),
            forced: self.forced,
            calls,
            failures,
            slow,
            failures_in_a_row: self.failures_in_a_row,
            open_for: self.open_for(now),
            probes: probes.granted,
            probes_succeeded: probes.succeeded,
            totals: self.totals,
        }
    }
}

/// Whether so many are at least that share of all. What arithmetic leaves of a whole number is one.
#[inline]
fn reaches(count: u32, share: f64, all: u32) -> bool {
    const FUZZ: f64 = 1e-12;
    f64::from(count) >= share * f64::from(all) * (1.0 - FUZZ)
}
