//! What adaptation decides: which numbers a limit is to have, and why. It is handed the time and everything it knows,
//! and does nothing itself, so that it can be tried in simulated time.

use std::time::Duration;

use tidegate_policy::numbers::LimitNumbers;
use tidegate_policy::shape::Shape;
use tidegate_policy::{Algorithm, Timestamp};

use crate::attack::{Attack, AttackEvent};
use crate::ceiling::{Ceiling, CeilingEvent, Quantiles, Rates, Thresholds};
use crate::decision::{Decision, Verdict};
use crate::guard_rails::{Accepts, Bounded, Guard, Rails, at_rate, kept_by, made};
use crate::published_limit::PublishedLimit;
use crate::recommendation::Recommendation;
use crate::schedule::{Due, Schedule};
use crate::second::Second;

/// Nothing that another gateway decided lasts longer by itself.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What happened in a second.
#[derive(Default)]
pub struct Events {
    /// An attack begins or ends.
    pub attack: Option<AttackEvent>,
    /// Measurements lower the limit, or no longer do.
    pub ceiling: Option<Decision>,
}

/// Where a limit is counted at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Where it should be.
    AsMeant,
    /// Nowhere: Redis is away, and requests pass unlimited or not at all.
    Nowhere,
    /// By each gateway in its memory, because Redis is away.
    Apart,
}

/// Why something that is due has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Store,
    /// This, and nothing that is due later.
    Attack(Due),
}

/// Decides. `held` is what the forecast has led to so far, within the rails; over it lies the measured ceiling.
pub struct Pilot {
    rails: Rails,
    soft: u64,
    base: LimitNumbers,
    base_shape: Shape,
    held: LimitNumbers,
    held_shape: Shape,
    /// Of the last recommendation without a schedule.
    steady: Option<LimitNumbers>,
    schedule: Option<Schedule>,
    /// When the numbers that another gateway left to this one end, and which return then.
    inherited: Option<(Timestamp, LimitNumbers)>,
    settled: Option<Due>,
    waits: Option<Waits>,
    changed_at: Option<Timestamp>,
    switched_at: Option<Timestamp>,
    ceiling: Ceiling,
    attack: Attack,
}

impl Pilot {
    /// For a limit with these numbers of the operator's; none if they have no rate. `soft` is what the limit admits
    /// on top.
    pub fn new(rails: Rails, thresholds: Thresholds, base: LimitNumbers, soft: u64) -> Option<Self> {
        let shape = base.shape()?;
        Some(Self::with(rails, Ceiling::new(thresholds), base, shape, soft))
    }

    fn with(rails: Rails, ceiling: Ceiling, base: LimitNumbers, base_shape: Shape, soft: u64) -> Self {
        Self {
            rails,
            soft,
            held: base.clone(),
            held_shape: base_shape,
            base,
            base_shape,
            steady: None,
            schedule: None,
            inherited: None,
            settled: None,
            waits: None,
            changed_at: None,
            switched_at: None,
            ceiling,
            attack: Attack::default(),
        }
    }

    /// The operator has set these numbers: everything begins anew with them. False if they have no rate.
    pub fn rebase(&mut self, base: LimitNumbers, soft: u64) -> bool {
        self.ceiling.forget();
        self.begin(base, soft)
    }

    /// Begins anew with these numbers of the operator's. What was learnt of the upstream stays. False if they have no
    /// rate.
    fn begin(&mut self, base: LimitNumbers, soft: u64) -> bool {
        let Some(shape) = base.shape() else { return false };
        let mut ceiling = std::mem::replace(&mut self.ceiling, Ceiling::new(Thresholds::default()));
        ceiling.lift();
        let attack = std::mem::take(&mut self.attack);
        *self = Self { attack, ..Self::with(self.rails, ceiling, base, shape, soft) };
        true
    }

    /// The operator's rate, in requests a second.
    pub fn base_rate(&self) -> f64 {
        self.base_shape.rate_per_second
    }

    /// Requests a second that the limit is never raised above.
    pub fn hard_ceiling(&self) -> f64 {
        Guard::ceiling(&self.rails, &self.base_shape)
    }

    /// The measured ceiling, while it binds.
    pub fn measured_ceiling(&self) -> Option<f64> {
        self.ceiling.bound()
    }

    /// Whether an attack is under way.
    pub fn is_attacked(&self) -> bool {
        self.attack.is_on()
    }

    /// What another gateway has decided, within the rails of this one: what comes from elsewhere is read with
    /// suspicion.
    pub fn vetted(&self, published: PublishedLimit, now: Timestamp, accepts: Accepts<'_>) -> Option<PublishedLimit> {
        let within = |numbers| Some(self.guard(true).within(numbers, accepts)?.remembering(&self.base));
        let floor = Guard::floor(&self.rails, &self.base_shape);
        let ends = match published.ends {
            None => None,
            Some((at, then)) => Some((at.min(now + LONGEST), within(then)?)),
        };
        let bound = published.bound.map(|bound| bound.max(floor));
        Some(PublishedLimit { numbers: within(published.numbers)?, bound, ends })
    }

    /// From now on this gateway is the leader, and begins with what all follow. What it has measured itself while
    /// nobody decided stays: an upstream does not get well because Redis is back.
    pub fn take_over(&mut self, published: Option<PublishedLimit>, base: LimitNumbers, soft: u64, now: Timestamp) {
        let own = self.ceiling.bound();
        self.follow(published, base, soft, now);
        let bound = self.ceiling.bound().into_iter().chain(own).reduce(f64::min);
        self.ceiling.inherit(bound);
    }

    /// Has the numbers that all are to have: those that another gateway has decided, or the operator's.
    pub fn follow(&mut self, published: Option<PublishedLimit>, base: LimitNumbers, soft: u64, now: Timestamp) {
        self.begin(base, soft);
        if let Some(published) = published {
            self.inherit(published, now);
        }
    }

    /// What was recommended, without what is measured; and whether that lowers it.
    pub fn standing(&self) -> (LimitNumbers, bool) {
        let is_lowered = self.ceiling.bound().is_some_and(|bound| bound < self.held_shape.rate_per_second);
        (self.held.clone(), is_lowered)
    }

    /// Begins with what another gateway has decided, at this moment.
    fn inherit(&mut self, published: PublishedLimit, now: Timestamp) {
        let PublishedLimit { numbers, bound, ends } = published;
        let Some(shape) = numbers.shape() else { return };
        // Nobody knows when it was switched, so it may have been just now.
        self.switched_at = (shape.algorithm != self.base_shape.algorithm).then_some(now);
        self.steady = Some(ends.as_ref().map_or_else(|| numbers.clone(), |(_, then)| then.clone()));
        (self.held, self.held_shape, self.inherited) = (numbers, shape, ends);
        self.ceiling.inherit(bound);
    }

    /// What others shall follow, and the next leader begins with; none where that is the operator's numbers.
    pub fn published(&self) -> Option<PublishedLimit> {
        let bound = self.ceiling.bound().filter(|bound| *bound < self.held_shape.rate_per_second);
        let is_base = self.held.relevant() == self.base.relevant() && bound.is_none();
        (!is_base).then(|| PublishedLimit { numbers: self.held.clone(), bound, ends: self.ends() })
    }

    /// When what is recommended now ends, and what returns then: for the next leader.
    fn ends(&self) -> Option<(Timestamp, LimitNumbers)> {
        let Some(schedule) = &self.schedule else { return self.inherited.clone() };
        Some((schedule.end()?, self.steady.clone().unwrap_or_else(|| self.base.clone())))
    }

    /// The numbers that are to be in force: `min(measured ceiling, recommended)`.
    pub fn numbers(&self, accepts: Accepts<'_>) -> LimitNumbers {
        let lower = self.ceiling.bound().filter(|bound| *bound < self.held_shape.rate_per_second);
        let Some(rate) = lower else { return self.held.clone() };
        let floor = Guard::floor(&self.rails, &self.base_shape);
        let lowered = made(&at_rate(&self.held_shape, rate), floor, self.soft, accepts);
        // What can't be had at that rate stays as it is: numbers nearby are rejected for no other reason.
        lowered.map_or_else(|_| self.held.clone(), |lowered| lowered.remembering(&self.base))
    }

    /// A second has passed; `is_enforced`: its requests were limited, by the numbers decided here.
    pub fn observe(
        &mut self,
        second: &Second,
        latency: Option<Quantiles>,
        is_enforced: bool,
        accepts: Accepts<'_>,
    ) -> Events {
        let attack = self.attack.observe(second, self.hard_ceiling());
        if attack == Some(AttackEvent::Ends) && self.waits != Some(Waits::Store) {
            self.waits = None;
        }
        let from = self.numbers(accepts);
        let wanted = self.held_shape.rate_per_second;
        let rates = Rates {
            now: self.ceiling.bound().map_or(wanted, |bound| bound.min(wanted)),
            wanted,
            base: self.base_rate(),
            floor: Guard::floor(&self.rails, &self.base_shape),
            is_enforced,
        };
        let event = self.ceiling.observe(second, latency, rates);
        let ceiling = event.map(|event| {
            let (verdict, why) = match event {
                CeilingEvent::Lowered(why) => (Verdict::Lowered, why),
                CeilingEvent::Released => (Verdict::Released, "the upstream bears the limit again".to_owned()),
            };
            Decision { verdict, from, to: self.numbers(accepts), why, caps: Vec::new(), predicted: None }
        });
        Events { attack, ceiling }
    }

    /// A recommendation has come, to a snapshot of this moment. It replaces the one before, or is rejected whole.
    pub fn receive(
        &mut self,
        recommendation: Recommendation,
        asked_at: Timestamp,
        accepts: Accepts<'_>,
    ) -> Result<(), String> {
        for shape in recommendation.shapes() {
            self.guard(true).bound(shape, accepts)?;
        }
        let is_of_attack = self.attack.is_on();
        self.schedule = Some(Schedule::new(recommendation, asked_at, is_of_attack));
        (self.settled, self.waits, self.inherited) = (None, None, None);
        Ok(())
    }

    /// The decision about a recommendation that is not used at all.
    pub fn refused(&self, why: String) -> Decision {
        Decision { predicted: None, ..self.decision(Verdict::Refused, why) }
    }

    /// When to look again, besides each second.
    pub fn wakes_at(&self, now: Timestamp) -> Option<Timestamp> {
        // What is over and still waits, for Redis say, is looked at each second.
        let is_to_come = |at: &Timestamp| *at > now;
        let Some(schedule) = &self.schedule else {
            return self.inherited.as_ref().map(|(at, _)| *at).filter(is_to_come);
        };
        let next = schedule.next(now);
        let due = schedule.due(now);
        let is_pending =
            ![Some(Waits::Store), Some(Waits::Attack(due))].contains(&self.waits) && self.settled != Some(due);
        let dwelt = self.changed_at.map(|at| at + self.rails.dwell).filter(|_| is_pending);
        next.into_iter().chain(dwelt).min()
    }

    /// Applies what is due of the recommendation. None if there is nothing to report.
    pub fn apply_due(&mut self, now: Timestamp, counting: Counting, accepts: Accepts<'_>) -> Option<Decision> {
        let Some(schedule) = &self.schedule else { return self.end_inherited(now, counting, accepts) };
        let due = schedule.due(now);
        if self.settled == Some(due) {
            return None;
        }
        let may_be = |shape: &Shape| shape.rate_per_second <= self.highest_apart();
        let why = match counting {
            Counting::AsMeant => None,
            Counting::Nowhere => {
                Some("Redis is away, and with it the limits; the newest recommendation is applied when it is back")
            }
            // What was raised before has its end all the same.
            Counting::Apart if schedule.shape(due).is_none_or(may_be) => None,
            Counting::Apart => {
                Some("Redis is away, and each gateway limits by itself: nothing is raised until it is back")
            }
        };
        if let Some(why) = why {
            let is_new = self.waits.replace(Waits::Store) != Some(Waits::Store);
            return is_new.then(|| self.decision(Verdict::Deferred, why.to_owned()));
        }
        if self.waits == Some(Waits::Store) {
            self.waits = None;
        }
        let is_early = self.changed_at.is_some_and(|at| now < at + self.rails.dwell);
        if is_early || self.waits == Some(Waits::Attack(due)) {
            return None;
        }
        let Some(wanted) = schedule.shape(due).copied() else { return self.revert(now, counting, accepts) };
        let bounded = match self.guard(self.may_switch(now)).bound(&wanted, accepts) {
            Ok(bounded) => bounded,
            Err(why) => {
                self.settled = Some(due);
                return Some(self.decision(Verdict::Refused, why));
            }
        };
        self.settle(due, bounded, now)
    }

    /// Takes what is left of a step, unless it is a raise that was learnt from an attack under way.
    fn settle(&mut self, due: Due, bounded: Bounded, now: Timestamp) -> Option<Decision> {
        let is_of_attack = self.schedule.as_ref().is_some_and(|schedule| schedule.is_of_attack);
        let highest = self.held_shape.rate_per_second.max(self.base_shape.rate_per_second);
        let shape = bounded.numbers.shape()?;
        if is_of_attack && self.attack.is_on() && shape.rate_per_second > highest {
            self.waits = Some(Waits::Attack(due));
            let why = "an attack is under way: nothing is raised because of what it brings, until it is over";
            return Some(self.decision(Verdict::Frozen, why.to_owned()));
        }
        self.settled = Some(due);
        let numbers = bounded.numbers.remembering(&self.base);
        if self.schedule.as_ref().is_some_and(|schedule| !schedule.has_steps()) {
            self.steady = Some(numbers.clone());
        }
        let verdict = match () {
            () if numbers.relevant() == self.held.relevant() && due == Due::Top && !bounded.caps.is_empty() => {
                Verdict::Capped
            }
            () if numbers.relevant() == self.held.relevant() && due == Due::Top => Verdict::Unchanged,
            () if numbers.relevant() == self.held.relevant() => return None,
            () if bounded.caps.is_empty() => Verdict::Applied,
            () => Verdict::Capped,
        };
        let mut decision = self.decision(verdict, self.reason(due));
        if let Some(algorithm) = bounded.not_yet {
            decision.why.push_str(&self.has_to_wait(algorithm));
        }
        (decision.to, decision.caps) = (numbers.clone(), bounded.caps);
        self.hold(numbers, shape, now);
        Some(decision)
    }

    /// The time of what another gateway left may be over.
    fn end_inherited(&mut self, now: Timestamp, counting: Counting, accepts: Accepts<'_>) -> Option<Decision> {
        self.inherited.take_if(|(at, _)| *at <= now && counting != Counting::Nowhere)?;
        self.revert(now, counting, accepts)
    }

    /// While each gateway limits by itself nobody raises what is meant for all together, beyond what the operator
    /// admits.
    fn highest_apart(&self) -> f64 {
        self.held_shape.rate_per_second.max(self.base_shape.rate_per_second)
    }

    /// The time of the recommendation is over. Another algorithm returns only when it may be had; its rate does at
    /// once.
    fn revert(&mut self, now: Timestamp, counting: Counting, accepts: Accepts<'_>) -> Option<Decision> {
        self.settled = Some(Due::Over);
        let is_too_high = |steady: &LimitNumbers| {
            let rate = steady.shape().map_or(0.0, |shape| shape.rate_per_second);
            counting == Counting::Apart && rate > self.highest_apart()
        };
        let steady = self.steady.clone().filter(|steady| !is_too_high(steady)).unwrap_or_else(|| self.base.clone());
        let shape = steady.shape()?;
        let again_at = self.switched_at.map(|at| at + self.rails.algorithm_dwell).filter(|at| *at > now);
        let waits_until = again_at.filter(|_| shape.algorithm != self.held_shape.algorithm);
        let mut why = "the recommendation has run out".to_owned();
        let mut numbers = steady.clone();
        if let Some(at) = waits_until {
            let floor = Guard::floor(&self.rails, &self.base_shape);
            let kept = made(&kept_by(&self.held_shape, &shape), floor, self.soft, accepts);
            numbers = kept.map_or_else(|_| self.held.clone(), |kept| kept.remembering(&self.base));
            why.push_str(&self.has_to_wait(shape.algorithm));
            // As if it had been left to this gateway: numbers in force, their end, and what returns then.
            (self.schedule, self.inherited) = (None, Some((at, steady)));
        }
        if numbers.relevant() == self.held.relevant() {
            return None;
        }
        let mut decision = self.decision(Verdict::Reverted, why);
        decision.to = numbers.clone();
        let shape = numbers.shape()?;
        self.hold(numbers, shape, now);
        Some(decision)
    }

    fn has_to_wait(&self, algorithm: Algorithm) -> String {
        let dwell = self.rails.algorithm_dwell.as_secs();
        format!("; `{algorithm}` has to wait: the algorithm has changed within {dwell} s")
    }

    fn hold(&mut self, numbers: LimitNumbers, shape: Shape, now: Timestamp) {
        if shape.algorithm != self.held_shape.algorithm {
            self.switched_at = Some(now);
        }
        if numbers.relevant() != self.held.relevant() {
            self.changed_at = Some(now);
        }
        (self.held, self.held_shape) = (numbers, shape);
    }

    fn guard(&self, may_switch: bool) -> Guard<'_> {
        Guard { rails: &self.rails, base: &self.base_shape, held: &self.held_shape, may_switch, soft: self.soft }
    }

    fn may_switch(&self, now: Timestamp) -> bool {
        let dwell: Duration = self.rails.algorithm_dwell;
        self.switched_at.is_none_or(|at| now >= at + dwell)
    }

    fn reason(&self, due: Due) -> String {
        self.schedule.as_ref().map(|schedule| schedule.reason(due).to_owned()).unwrap_or_default()
    }

    /// A decision that changes nothing.
    fn decision(&self, verdict: Verdict, why: String) -> Decision {
        let predicted = self.schedule.as_ref().and_then(|schedule| schedule.recommendation.predicted);
        let (from, to) = (self.held.clone(), self.held.clone());
        Decision { verdict, from, to, why, caps: Vec::new(), predicted }
    }
}

#[cfg(test)]
mod tests;
