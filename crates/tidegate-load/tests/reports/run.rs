//! Runs that never were, made of whatever a test needs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate_load::{Cause, Class, End, Ended, Missed, Plan, Record, Report, Sample};

/// A plan of 60 seconds with three groups, and whatever else.
pub(crate) fn plan(more: &Value) -> Value {
    let mut plan = json!({
        "limiterUrl": "http://127.0.0.1:8082/api/test", "duration": 60,
        "profile": {"type": "constant", "params": {"rps": 100}},
        "clients": [{"name": "web"}, {"name": "bots", "class": "attacker"}, {"name": "phones"}],
    });
    for (field, value) in more.as_object().expect("an object") {
        plan[field] = value.clone();
    }
    plan
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A run to be reported.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) record: Record,
    pub(crate) ended: Ended,
    pub(crate) elapsed: Duration,
    pub(crate) started: SystemTime,
    pub(crate) id: &'static str,
}

impl Run {
    pub(crate) fn new(plan: &Value) -> Self {
        let plan = Plan::read(plan.to_string().as_bytes()).expect("a good plan");
        let classes: Vec<Class> = plan.clients.iter().map(|group| group.class).collect();
        let record = Record::new(plan.duration, &classes);
        let (started, elapsed) = (UNIX_EPOCH + Duration::from_millis(1_768_840_205_125), plan.duration);
        Self { record, plan, ended: Ended::Completed, elapsed, started, id: "a1" }
    }

    /// So many requests of the first group, due at the start and sent at once, with this end after this time.
    pub(crate) fn add(&mut self, count: u64, end: End, after: Duration) {
        let due = Duration::ZERO;
        (0..count).for_each(|_| self.record.add(&Sample { group: 0, intended: due, sent: due, finished: after, end }));
    }

    /// So many that were sent this late, and got a response at once.
    pub(crate) fn lag(&mut self, count: u64, lag: Duration) {
        let sample = Sample { group: 0, intended: Duration::ZERO, sent: lag, finished: lag, end: End::Responded(200) };
        (0..count).for_each(|_| self.record.add(&sample));
    }

    pub(crate) fn miss(&mut self, count: u64, missed: Missed) {
        (0..count).for_each(|_| self.record.miss(0, Duration::ZERO, missed));
    }

    pub(crate) fn report(self) -> Report {
        Report::new(&self.plan, self.record, self.ended, self.started, self.elapsed, self.id)
    }
}

/// The file that a report is.
pub(crate) fn written(report: &Report) -> Value {
    serde_json::from_slice(&report.write()).expect("JSON")
}

/// A request of every kind, or one that was missed, retried or given up: its number alone decides.
pub(crate) fn note(record: &mut Record, number: u64) {
    let intended = millis(number * 3);
    let group = (number % 3) as usize;
    let sent = intended + Duration::from_micros(number % 900);
    let finished = sent + Duration::from_micros(number * number % 700_001);
    let end = match number % 10 {
        0 => End::Failed(Cause::TimedOut),
        1 | 2 => End::Responded(429),
        3 => End::Responded(503),
        4 => End::Failed(Cause::NotConnected),
        _ => End::Responded(200),
    };
    let sample = Sample { group, intended, sent, finished, end };
    match number % 17 {
        0 => record.miss(group, intended, Missed::NoRoom),
        1 => record.add_retry(&sample),
        2 => record.give_up(group),
        _ => record.add(&sample),
    }
}

/// What an instance with this part of the plan, if not all of it, recorded of these requests.
pub(crate) fn report_of(part: Option<&str>, numbers: impl Iterator<Item = u64>) -> Report {
    let mut run = Run::new(&plan(&json!({"part": part, "thresholds": ["p99<50ms"]})));
    numbers.for_each(|number| note(&mut run.record, number));
    run.report()
}
