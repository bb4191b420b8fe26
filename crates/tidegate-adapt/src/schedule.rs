//! A recommendation through time: the limit for each of its steps, and which step is due.

use tidegate_policy::Timestamp;
use tidegate_policy::shape::Shape;

use crate::recommendation::Recommendation;

/// A recommendation, and the moment that its times count from.
pub(crate) struct Schedule {
    pub(crate) recommendation: Recommendation,
    asked_at: Timestamp,
    /// Whether it was given during an attack: then it may have been learnt from it.
    pub(crate) is_of_attack: bool,
}

/// What of a recommendation is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The numbers at the top.
    Top,
    /// The step with this index.
    Step(usize),
    /// Its time is over: the numbers before it return.
    Over,
}

impl Schedule {
    pub(crate) fn new(recommendation: Recommendation, asked_at: Timestamp, is_of_attack: bool) -> Self {
        Self { recommendation, asked_at, is_of_attack }
    }

    /// What is to hold at this moment.
    pub(crate) fn due(&self, now: Timestamp) -> Due {
        if self.end().is_some_and(|end| now >= end) {
            return Due::Over;
        }
        let steps = &self.recommendation.steps;
        let passed = steps.partition_point(|step| self.asked_at + step.after <= now);
        passed.checked_sub(1).map_or(Due::Top, Due::Step)
    }

    /// When the next step is due.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let steps = self.recommendation.steps.iter().map(|step| self.asked_at + step.after);
        steps.chain(self.end()).find(|at| *at > now)
    }

    /// The numbers of a step; none when it is over.
    pub(crate) fn shape(&self, due: Due) -> Option<&Shape> {
        match due {
            Due::Top => Some(&self.recommendation.top),
            Due::Step(index) => self.recommendation.steps.get(index).map(|step| &step.shape),
            Due::Over => None,
        }
    }

    /// Why, in the forecaster's words: a step's own, or those of all of it.
    pub(crate) fn reason(&self, due: Due) -> &str {
        let own = match due {
            Due::Step(index) => self.recommendation.steps.get(index).and_then(|step| step.reason.as_deref()),
            Due::Top | Due::Over => None,
        };
        own.unwrap_or(&self.recommendation.reason)
    }

    pub(crate) fn has_steps(&self) -> bool {
        !self.recommendation.steps.is_empty()
    }

    /// With steps the numbers before return in the end; without any nothing does.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        let valid_for = self.recommendation.valid_for.filter(|_| self.has_steps())?;
        Some(self.asked_at + valid_for)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schedule(steps: &serde_json::Value) -> Schedule {
        let response = json!({"algorithm": "fixed", "limit": 100, "window": 1, "validFor": 60, "schedule": steps});
        Schedule::new(Recommendation::read(&response).expect("it is good"), at(1_000.0), false)
    }

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_nanos((seconds * 1e9) as u64)
    }

    #[test]
    fn each_step_holds_until_the_next_and_the_end_ends_it() {
        let schedule = schedule(&json!([{"after": 11.75, "limit": 260}, {"after": 18.75, "limit": 100}]));
        for (now, due, next) in [
            (1_000.0, Due::Top, Some(1_011.75)),
            (1_011.7, Due::Top, Some(1_011.75)),
            (1_011.75, Due::Step(0), Some(1_018.75)),
            (1_018.8, Due::Step(1), Some(1_060.0)),
            (1_059.9, Due::Step(1), Some(1_060.0)),
            (1_060.0, Due::Over, None),
            (9_000.0, Due::Over, None),
        ] {
            assert_eq!((schedule.due(at(now)), schedule.next(at(now))), (due, next.map(at)), "{now}");
        }
        let late = schedule.shape(Due::Step(1)).expect("a step");
        assert!((late.rate_per_second - 100.0).abs() < 1e-9);
        assert_eq!(schedule.shape(Due::Over), None);
    }

    #[test]
    fn without_steps_nothing_returns() {
        let schedule = schedule(&json!([]));
        assert_eq!((schedule.due(at(9_000.0)), schedule.next(at(1_000.0))), (Due::Top, None));
    }
}
