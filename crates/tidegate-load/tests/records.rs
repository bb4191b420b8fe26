//! What is recorded, and that several records together are as good as one.

use std::time::Duration;

use tidegate_load::{Cause, End, Missed, NotAlike, Record, Sample};

fn sample(number: u64) -> Sample {
    let intended = Duration::from_millis(number * 7);
    let sent = intended + Duration::from_micros(number % 13);
    let finished = sent + Duration::from_micros(200 + number * number % 900_001);
    let end = match number % 10 {
        0 => End::Failed(Cause::TimedOut),
        1 | 2 => End::Answered(429),
        3 => End::Answered(503),
        _ => End::Answered(200),
    };
    Sample { group: (number % 3) as usize, intended, sent, finished, end }
}

fn record(numbers: impl Iterator<Item = u64>) -> Record {
    let mut record = Record::new(Duration::from_secs(60), 3);
    for number in numbers {
        match number % 17 {
            0 => record.miss(0, sample(number).intended, Missed::NoRoom),
            1 => record.miss(1, sample(number).intended, Missed::TooLate),
            2 => record.add_retry(&sample(number)),
            _ => record.add(&sample(number)),
        }
    }
    record
}

/// Everything in a record, to compare by.
fn told(record: &Record) -> String {
    let tallies = record.groups.iter().chain(&record.retries);
    let tallies: Vec<String> = tallies
        .map(|tally| {
            let of = |histogram: &hdrhistogram::Histogram<u64>| {
                histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).collect::<Vec<_>>()
            };
            format!("{:?} {:?} {:?}", tally.counts, of(&tally.latency), of(&tally.service))
        })
        .collect();
    let steps = record.steps.iter().flat_map(|step| &step.groups).map(|tally| {
        let latency = tally.latency.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value()));
        format!("{:?} {:?}", tally.counts, latency.collect::<Vec<_>>())
    });
    format!("{tallies:#?} {:#?} {:?}", steps.collect::<Vec<_>>(), record.lag.len())
}

#[test]
fn records_of_several_instances_merge_exactly() {
    let whole = record(0..8_000);
    let mut merged = record((0..8_000).filter(|number| number % 3 == 1));
    for rest in [2, 0] {
        merged.merge(&record((0..8_000).filter(|number| number % 3 == rest))).expect("the same plan");
    }
    assert_eq!(told(&merged), told(&whole));
    assert_eq!(record(0..10).merge(&Record::new(Duration::from_secs(60), 2)), Err(NotAlike));
    assert_eq!(record(0..10).merge(&Record::new(Duration::from_secs(86_400), 3)), Err(NotAlike));
}

#[test]
fn requests_are_counted_by_how_they_ended() {
    let whole = record(0..17_000);
    let all = whole.all().counts;
    assert_eq!((all.too_late, all.no_room, all.missed()), (1_000, 1_000, 2_000));
    let retried: u64 = whole.retries.iter().map(|tally| tally.counts.sent()).sum();
    assert_eq!((all.sent(), retried), (14_000, 1_000));
    assert_eq!(all.success() + all.rate_limited() + all.errors(), all.sent());
    let by_step: u64 = whole.steps.iter().flat_map(|step| &step.groups).map(|tally| tally.counts.sent()).sum();
    assert_eq!(by_step, all.sent());
    assert_eq!(all.statuses.keys().copied().collect::<Vec<_>>(), [200, 429, 503]);
    assert_eq!(all.failures.keys().copied().collect::<Vec<_>>(), [Cause::TimedOut]);
}

/// Times are from the intended time, whoever was late.
#[test]
fn latency_counts_from_the_intended_time_and_service_from_sending() {
    let mut record = Record::new(Duration::from_secs(10), 1);
    let (intended, sent, finished) =
        (Duration::from_secs(1), Duration::from_millis(1_400), Duration::from_millis(1_500));
    record.add(&Sample { group: 0, intended, sent, finished, end: End::Answered(200) });
    let tally = &record.groups[0];
    let near = |value: u64, expected: u64| value.abs_diff(expected) * 1_000 <= expected;
    assert!(
        near(tally.latency.max(), 500_000) && near(tally.service.max(), 100_000) && near(record.lag.max(), 400_000)
    );
    assert_eq!(record.steps.len(), 2);
    assert_eq!(record.steps[1].groups[0].counts.success(), 1, "in the second it was due in");
}

/// A long run has longer steps, not more of them.
#[test]
fn what_is_kept_is_bounded() {
    let mut record = Record::new(Duration::from_secs(604_800), 1);
    for minute in 0..10_080 {
        let time = Duration::from_secs(minute * 60);
        record.add(&Sample { group: 0, intended: time, sent: time, finished: time * 2, end: End::Answered(200) });
    }
    assert!(record.steps.len() <= 7_200, "{}", record.steps.len());
    assert_eq!(record.groups[0].latency.len(), 10_080);
}
