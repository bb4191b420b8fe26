//! A recommendation on its way through time: which of its steps is due.

use tidegate_policy::Timestamp;

use super::recommendation::Recommendation;
use crate::config::rates::Shape;

/// A recommendation, and the moment that its times count from.
pub(crate) struct Course {
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
    /// The step in this place.
    Step(usize),
    /// Its time is over: the numbers before it return.
    Over,
}

impl Course {
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
            Due::Step(place) => self.recommendation.steps.get(place).map(|step| &step.shape),
            Due::Over => None,
        }
    }

    /// Why, in the forecaster's words: a step's own, or those of all of it.
    pub(crate) fn reason(&self, due: Due) -> &str {
        let own = match due {
            Due::Step(place) => self.recommendation.steps.get(place).and_then(|step| step.reason.as_deref()),
            Due::Top | Due::Over => None,
        };
        own.unwrap_or(&self.recommendation.reason)
    }

    pub(crate) fn has_schedule(&self) -> bool {
        !self.recommendation.steps.is_empty()
    }

    /// With a schedule the numbers before return in the end; without one nothing does.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        let valid_for = self.recommendation.valid_for.filter(|_| self.has_schedule())?;
        Some(self.asked_at + valid_for)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn course(schedule: &serde_json::Value) -> Course {
        let answer = json!({"algorithm": "fixed", "limit": 100, "window": 1, "validFor": 60, "schedule": schedule});
        Course::new(Recommendation::read(&answer).expect("it is good"), at(1_000.0), false)
    }

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_nanos((seconds * 1e9) as u64)
    }

    #[test]
    fn each_step_holds_until_the_next_and_the_end_ends_it() {
        let course = course(&json!([{"after": 11.75, "limit": 260}, {"after": 18.75, "limit": 100}]));
        for (now, due, next) in [
            (1_000.0, Due::Top, Some(1_011.75)),
            (1_011.7, Due::Top, Some(1_011.75)),
            (1_011.75, Due::Step(0), Some(1_018.75)),
            (1_018.8, Due::Step(1), Some(1_060.0)),
            (1_059.9, Due::Step(1), Some(1_060.0)),
            (1_060.0, Due::Over, None),
            (9_000.0, Due::Over, None),
        ] {
            assert_eq!((course.due(at(now)), course.next(at(now))), (due, next.map(at)), "{now}");
        }
        let late = course.shape(Due::Step(1)).expect("a step");
        assert!((late.rate_per_second - 100.0).abs() < 1e-9);
        assert_eq!(course.shape(Due::Over), None);
    }

    #[test]
    fn without_a_schedule_nothing_returns() {
        let course = course(&json!([]));
        assert_eq!((course.due(at(9_000.0)), course.next(at(1_000.0))), (Due::Top, None));
    }
}
