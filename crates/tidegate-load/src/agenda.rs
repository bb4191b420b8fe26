//! What one sender sends, and when it is due.

use std::sync::Arc;
use std::time::Duration;

use crate::plan::{Plan, Times};
use crate::profile::Profile;
use crate::schedule::Schedule;

/// Every `stride`-th request of a plan, in the order in which they are due.
pub(crate) struct Agenda {
    source: Source,
    /// The number of the next request, among all of the plan.
    number: u64,
    /// From one request to the next.
    stride: u64,
    /// How late a request may still be sent.
    max_lag: Duration,
    /// When the next request is due.
    due: Option<Duration>,
}

enum Source {
    Rate(Box<Schedule>),
    Recorded(Arc<[Duration]>),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This request is due.
    Send { number: u64, intended: Duration },
    /// This one was, too long ago.
    TooLate { number: u64, intended: Duration },
    /// Nothing before this time.
    Wait(Duration),
    /// Nothing any more.
    Over,
}

impl Agenda {
    /// Of the requests of a plan those whose number leaves `first` when divided by `stride`.
    pub(crate) fn new(plan: &Plan, first: u64, stride: u64) -> Self {
        let source = match &plan.times {
            Times::Rate(profile, arrivals) => {
                let mut schedule = Schedule::new(profile.clone(), arrivals);
                schedule.advance(first);
                Source::Rate(Box::new(schedule))
            }
            Times::Recorded(times) => Source::Recorded(Arc::clone(times)),
        };
        let mut agenda = Self { source, number: first, stride, max_lag: plan.max_lag, due: None };
        agenda.due = agenda.look_up();
        agenda
    }

    /// What is to be done at `now`. A request is given once.
    pub(crate) fn turn(&mut self, now: Duration) -> Turn {
        let Some(intended) = self.due else { return Turn::Over };
        if intended > now {
            return Turn::Wait(intended);
        }
        let number = self.number;
        self.number += self.stride;
        if let Source::Rate(schedule) = &mut self.source {
            schedule.advance(self.stride);
        }
        self.due = self.look_up();
        if now.saturating_sub(intended) > self.max_lag {
            Turn::TooLate { number, intended }
        } else {
            Turn::Send { number, intended }
        }
    }

    /// Follows another profile from here on.
    pub(crate) fn change(&mut self, profile: &Profile) {
        if let Source::Rate(schedule) = &mut self.source {
            schedule.change(profile.clone());
        }
        self.due = self.look_up();
    }

    fn look_up(&self) -> Option<Duration> {
        match &self.source {
            Source::Rate(schedule) => schedule.due(),
            Source::Recorded(times) => times.get(usize::try_from(self.number).ok()?).copied(),
        }
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
mod tests {
    use super::*;
    use crate::profile::Shape;

    fn plan(profile: &str) -> Plan {
        let text = format!(r#"{{"limiterUrl": "http://a", "duration": 10, "maxLag": 1, "profile": {profile}}}"#);
        Plan::read(text.as_bytes()).expect("a good plan")
    }

    const EVEN: &str = r#"{"type": "constant", "params": {"rps": 10}}"#;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// All that is due until `end`, asked for often enough that nothing is late.
    fn all(agenda: &mut Agenda, end: f64) -> Vec<(u64, Duration)> {
        let mut sent = Vec::new();
        let mut now = Duration::ZERO;
        loop {
            match agenda.turn(now) {
                Turn::Send { number, intended } => sent.push((number, intended)),
                Turn::Wait(due) if due <= seconds(end) => now = due,
                Turn::Wait(_) | Turn::Over => return sent,
                Turn::TooLate { .. } => panic!("nothing is late"),
            }
        }
    }

    #[test]
    fn each_request_is_given_once_when_it_is_due_and_never_before() {
        let mut agenda = Agenda::new(&plan(EVEN), 0, 1);
        assert_eq!(agenda.turn(Duration::ZERO), Turn::Send { number: 0, intended: Duration::ZERO });
        assert_eq!(agenda.turn(Duration::ZERO), Turn::Wait(seconds(0.1)));
        assert_eq!(agenda.turn(seconds(0.099)), Turn::Wait(seconds(0.1)));
        assert_eq!(agenda.turn(seconds(0.25)), Turn::Send { number: 1, intended: seconds(0.1) });
        assert_eq!(agenda.turn(seconds(0.25)), Turn::Send { number: 2, intended: seconds(0.2) });
        assert_eq!(agenda.turn(seconds(0.25)), Turn::Wait(seconds(0.3)));
    }

    #[test]
    fn what_is_later_than_allowed_is_reported_as_such() {
        let mut agenda = Agenda::new(&plan(EVEN), 0, 1);
        assert_eq!(agenda.turn(seconds(1.05)), Turn::TooLate { number: 0, intended: Duration::ZERO });
        assert_eq!(
            agenda.turn(seconds(1.1)),
            Turn::Send { number: 1, intended: seconds(0.1) },
            "exactly as late as allowed"
        );
    }

    /// However many send, and whatever the profile: each request is sent by one of them, when the plan wants it.
    #[test]
    fn several_senders_send_the_plan_together() {
        for profile in [
            EVEN,
            r#"{"type": "burst", "params": {"baseRps": 5, "spikeRps": 50, "spikeDuration": 1, "spikePeriod": 3}}"#,
            r#"{"type": "trace", "params": {"timestamps": [0, 0, 0.5, 1, 1, 2.5, 9]}}"#,
            r#"{"type": "poisson", "params": {"averageRps": 20}}"#,
        ] {
            let plan = plan(profile);
            let whole = all(&mut Agenda::new(&plan, 0, 1), 10.0);
            let mut together: Vec<_> = (0..3).flat_map(|first| all(&mut Agenda::new(&plan, first, 3), 10.0)).collect();
            together.sort_unstable();
            assert_eq!(together, whole);
        }
    }

    /// A new rate counts from its time on: nothing is lost, nothing sent twice, and the numbers go on.
    #[test]
    fn another_rate_goes_on_where_the_first_one_was() {
        let plan = plan(EVEN);
        let Times::Rate(profile, _) = &plan.times else { panic!("a rate") };
        let changed = profile.changed(seconds(5.0), Shape::Constant { rate: 100.0 });
        let mut all_sent = Vec::new();
        for first in 0..2 {
            let mut agenda = Agenda::new(&plan, first, 2);
            let mut sent = all(&mut agenda, 4.95);
            agenda.change(&changed);
            sent.extend(all(&mut agenda, 10.0));
            all_sent.extend(sent);
        }
        all_sent.sort_unstable();
        assert_eq!(all_sent.len(), 50 + 500);
        assert!(all_sent.iter().enumerate().all(|(index, (number, _))| *number == index as u64));
        let before = all_sent.iter().filter(|(_, intended)| *intended < seconds(5.0)).count();
        assert_eq!(before, 50);
        let again = changed.changed(seconds(7.5), Shape::Constant { rate: 2.0 });
        assert!((again.expected(seconds(10.0)) - (50.0 + 250.0 + 5.0)).abs() < 1e-9);
    }

    /// Before the first change has begun there may be a second one, or a third: none of them ends the load.
    #[test]
    fn changes_close_together_lose_nothing() {
        let plan = plan(EVEN);
        let Times::Rate(profile, _) = &plan.times else { panic!("a rate") };
        for second in [5.0, 5.001, 5.02] {
            let mut agenda = Agenda::new(&plan, 0, 1);
            let mut sent = all(&mut agenda, 4.95);
            let first = profile.changed(seconds(5.0), Shape::Constant { rate: 300.0 });
            agenda.change(&first);
            agenda.change(&first.changed(seconds(second), Shape::Constant { rate: 100.0 }));
            sent.extend(all(&mut agenda, 10.0));
            let expected = 50.0 + (second - 5.0) * 300.0 + (10.0 - second) * 100.0;
            assert!((sent.len() as f64 - expected).abs() <= 1.0, "{} for {expected}, second at {second}", sent.len());
        }
        let mut often = profile.clone();
        for change in 0..10_000 {
            often = often.changed(seconds(f64::from(change) * 0.001), Shape::Constant { rate: 10.0 });
        }
        assert!((often.expected(seconds(10.0)) - 100.0).abs() < 1e-6);
    }
}
