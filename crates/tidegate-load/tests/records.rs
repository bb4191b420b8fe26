//! What is recorded, and that several records together are as good as one.

use std::time::Duration;

use tidegate_load::{Cause, Class, End, Missed, NotAlike, Record, Sample};

const CLASSES: [Class; 3] = [Class::Honest, Class::Attacker, Class::Honest];

fn sample(number: u64) -> Sample {
    let intended = Duration::from_millis(number * 7);
    let sent = intended + Duration::from_micros(number % 13);
    let finished = sent + Duration::from_micros(200 + number * number % 900_001);
    let end = match number % 10 {
        0 => End::Failed(Cause::TimedOut),
        1 | 2 => End::Responded(429),
        3 => End::Responded(503),
        4 => End::Unfinished,
        5 => End::Failed(Cause::Closed),
        _ => End::Responded(200),
    };
    Sample { group: (number % 3) as usize, intended, sent, finished, end }
}

fn record(numbers: impl Iterator<Item = u64>) -> Record {
    let mut record = Record::new(Duration::from_secs(60), &CLASSES);
    for number in numbers {
        match number % 17 {
            0 => record.miss(0, sample(number).intended, Missed::NoRoom),
            1 => record.miss(1, sample(number).intended, Missed::TooLate),
            2 => record.add_retry(&sample(number)),
            3 => record.give_up(2),
            _ => record.add(&sample(number)),
        }
    }
    record
}

#[test]
fn records_of_several_instances_merge_exactly() {
    let whole = record(0..8_000);
    let mut merged = record((0..8_000).filter(|number| number % 3 == 1));
    for rest in [2, 0] {
        merged.merge(&record((0..8_000).filter(|number| number % 3 == rest))).expect("the same plan");
    }
    assert_eq!(merged, whole);
    for (length, classes) in [(60, &CLASSES[..2]), (60, &[Class::Honest; 3]), (86_400, &CLASSES)] {
        let other = Record::new(Duration::from_secs(length), classes);
        assert_eq!(record(0..10).merge(&other), Err(NotAlike::Shape));
    }
}

#[test]
fn requests_are_counted_by_how_they_ended() {
    let whole = record(0..17_000);
    let all = whole.all().counts;
    assert_eq!((all.too_late, all.no_room, all.missed()), (1_000, 1_000, 2_000));
    let retried = whole.all_retries().counts;
    assert_eq!((all.sent(), retried.sent(), retried.given_up), (13_000, 1_000, 1_000));
    assert_eq!(all.success() + all.rate_limited() + all.errors() + all.unfinished, all.sent());
    assert_eq!((all.due(), all.unfinished), (15_000, 1_300));
    let tallies = whole.steps.iter().flat_map(|step| [&step.honest, &step.attacker]);
    assert_eq!(tallies.map(|tally| tally.counts.sent()).sum::<u64>(), all.sent());
    assert_eq!(all.statuses().map(|(status, _)| status).collect::<Vec<_>>(), [200, 429, 503]);
    assert_eq!(all.failures().collect::<Vec<_>>(), [(Cause::Closed, 1_300), (Cause::TimedOut, 1_300)]);
    let of = |class| whole.class(class).expect("it is there").counts.sent();
    assert_eq!(of(Class::Honest) + of(Class::Attacker), all.sent());
    assert_eq!(of(Class::Attacker), whole.groups[1].counts.sent());
    assert_eq!(Record::new(Duration::from_secs(1), &[Class::Honest]).class(Class::Attacker), None);
}

/// Times are from the intended time, whether the generator or the target was late.
#[test]
fn latency_counts_from_the_intended_time_and_service_from_sending() {
    let mut record = Record::new(Duration::from_secs(10), &[Class::Honest]);
    let (intended, sent, finished) =
        (Duration::from_secs(1), Duration::from_millis(1_400), Duration::from_millis(1_500));
    record.add(&Sample { group: 0, intended, sent, finished, end: End::Responded(200) });
    let tally = &record.groups[0];
    let near = |value: u64, expected: u64| value.abs_diff(expected) * 1_000 <= expected;
    assert!(
        near(tally.latency.max(), 500_000) && near(tally.service.max(), 100_000) && near(record.lag.max(), 400_000)
    );
    assert_eq!(record.steps.len(), 2);
    assert_eq!(record.steps[1].honest.counts.success(), 1, "in the second it was due in");
    assert_eq!(record.steps[1].honest.latency.len(), 1);
}

/// A client whose request timed out has waited; one that was rejected at once has not.
#[test]
fn timeouts_stand_among_the_latencies_and_other_failures_do_not() {
    for (end, has_waited) in [
        (End::Responded(200), true),
        (End::Responded(503), true),
        (End::Failed(Cause::TimedOut), true),
        (End::Failed(Cause::NotConnected), false),
        (End::Failed(Cause::Tls), false),
        (End::Failed(Cause::Closed), false),
        (End::Failed(Cause::NotHttp), false),
        (End::Unfinished, false),
    ] {
        let mut record = Record::new(Duration::from_secs(10), &[Class::Attacker]);
        let (due, finished) = (Duration::ZERO, Duration::from_secs(5));
        let sample = Sample { group: 0, intended: due, sent: due, finished, end };
        record.add(&sample);
        record.add_retry(&sample);
        let expected = u64::from(has_waited);
        for tally in [&record.groups[0], &record.retries[0]] {
            assert_eq!(
                (tally.latency.len(), tally.service.len(), tally.counts.sent()),
                (expected, expected, 1),
                "{end:?}"
            );
        }
        assert_eq!((record.steps[0].attacker.latency.len(), record.lag.len()), (expected, 1), "{end:?}");
    }
}

/// A long run has longer steps, not more of them, and groups add none.
#[test]
fn what_is_kept_is_bounded() {
    for length in [1.0, 3_599.5, 3_600.0, 3_600.5, 7_200.0, 604_800.0] {
        let mut record = Record::new(Duration::from_secs_f64(length), &[Class::Honest; 100]);
        for part in 0..10_000 {
            let time = Duration::from_secs_f64(length * f64::from(part) / 10_000.0);
            record.add(&Sample { group: 0, intended: time, sent: time, finished: time * 2, end: End::Responded(200) });
        }
        assert!(record.steps.len() <= 3_600, "{length}: {}", record.steps.len());
        assert!(length > 3_600.0 || record.step == Duration::from_secs(1), "{length}: {:?}", record.step);
        assert_eq!(record.groups[0].latency.len(), 10_000);
    }
}
