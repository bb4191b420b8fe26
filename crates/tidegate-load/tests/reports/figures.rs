//! The figures of a file, for scripts.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_load::{Cause, End, Missed, Sample};

use crate::run::{Run, millis, plan, report_of, written};

#[test]
fn a_file_reports_everything_by_name() {
    let mut run =
        Run::new(&plan(&json!({"thresholds": ["errors<50%"], "requestOptions": {"auth": {"token": "hunter2"}}})));
    run.add(5, End::Responded(200), Duration::from_micros(1_000));
    run.add(2, End::Responded(429), Duration::from_micros(500));
    run.add(1, End::Failed(Cause::Tls), millis(1));
    run.miss(1, Missed::NoRoom);
    let due = Duration::from_secs(2);
    let attack = Sample { group: 1, intended: due, sent: due, finished: due + millis(2), end: End::Responded(503) };
    run.record.add(&attack);
    run.record.add_retry(&Sample { group: 2, ..attack });
    run.record.give_up(2);
    let file = written(&run.report());
    for (pointer, expected) in [
        ("/format", json!("tidegate-load-result/2")),
        ("/version", json!(env!("CARGO_PKG_VERSION"))),
        ("/valid", json!(true)),
        ("/testId", json!("a1")),
        ("/ended", json!("completed")),
        ("/startedAt", json!("2026-01-19T16:30:05.125Z")),
        ("/elapsedSeconds", json!(60.0)),
        ("/durationSeconds", json!(60.0)),
        ("/target", json!("http://127.0.0.1:8082/api/test")),
        ("/profile", json!("constant")),
        (
            "/requests",
            json!({"planned": 10, "sent": 9, "success": 5, "rateLimited": 2, "errors": 2, "unfinished": 0,
                   "missed": {"tooLate": 0, "noRoom": 1}, "statuses": {"200": 5, "429": 2, "503": 1},
               "failures": {"tls": 1}}),
        ),
        ("/offeredPerSecond", json!(10.0 / 60.0)),
        ("/achievedPerSecond", json!(9.0 / 60.0)),
        ("/lagSeconds", json!({"p50": 0.000_001, "p99": 0.000_001, "max": 0.000_001})),
        ("/retries/sent", json!(1)),
        ("/retries/errors", json!(1)),
        ("/retries/givenUp", json!(1)),
        ("/classes/honest/requests/sent", json!(8)),
        ("/classes/attacker/requests/statuses", json!({"503": 1})),
        ("/groups/0/name", json!("web")),
        ("/groups/0/requests/rateLimited", json!(2)),
        ("/groups/1/class", json!("attacker")),
        ("/groups/2/retries/statuses", json!({"503": 1})),
        ("/stepSeconds", json!(1)),
        ("/series/0/second", json!(0)),
        (
            "/series/0/honest",
            json!({"sent": 8, "success": 5, "rateLimited": 2, "errors": 1, "missed": 1,
               "p50Seconds": 0.001, "p99Seconds": 0.001,
                   "atLeast": ["p99Seconds"]}),
        ),
        ("/series/2/attacker/errors", json!(1)),
        ("/series/1/honest/p99Seconds", Value::Null),
        (
            "/thresholds/0",
            json!({"threshold": "errors<50%", "value": 0.2, "unit": "share", "atLeast": false, "holds": true}),
        ),
        ("/thresholdsHold", json!(true)),
        ("/instances/0/sent", json!(9)),
        ("/plan/duration", json!(60)),
        ("/plan/requestOptions/auth", json!("***")),
    ] {
        assert_eq!(file.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert_eq!(file["series"].as_array().map(Vec::len), Some(3));
}

/// The coarse histograms of seconds round up, and a p99 above the highest latency makes a reader mistrust all figures.
#[test]
fn no_percentile_of_a_second_is_above_the_highest_latency() {
    let mut run = Run::new(&plan(&json!({})));
    for second in 0..4 {
        let due = Duration::from_secs(second);
        let finished = due + millis(220);
        run.record.add(&Sample { group: 0, intended: due, sent: due, finished, end: End::Responded(200) });
    }
    let report = run.report();
    let file = written(&report);
    assert_eq!(file["series"][3]["honest"]["p99Seconds"], file["latencySeconds"]["max"]);
    assert_eq!(file["series"][3]["honest"]["atLeast"], json!([]));
    let summary = report.summary(false);
    assert!(summary.contains("up to 220 ms"), "{summary}");
    assert!(!summary.contains("p99 attacker"), "nothing was measured there: {summary}");
}

/// What is only known not to be below is reported as that, by second too.
#[test]
fn percentiles_of_a_second_may_be_bounds() {
    let mut run = Run::new(&plan(&json!({"requestOptions": {"timeout": 1}})));
    let add = |run: &mut Run, second: u64, end: End| {
        let due = Duration::from_secs(second);
        run.record.add(&Sample { group: 0, intended: due, sent: due, finished: due + millis(1_000), end });
    };
    add(&mut run, 0, End::Responded(200));
    (0..2).for_each(|_| run.record.miss(0, Duration::ZERO, Missed::NoRoom));
    add(&mut run, 1, End::Responded(200));
    add(&mut run, 1, End::Unfinished);
    add(&mut run, 2, End::Failed(Cause::TimedOut));
    add(&mut run, 3, End::Responded(200));
    let report = run.report();
    let file = written(&report);
    let bounds = |second: usize| file["series"][second]["honest"]["atLeast"].clone();
    assert_eq!(bounds(0), json!(["p50Seconds", "p99Seconds"]));
    assert_eq!(bounds(1), json!(["p99Seconds"]));
    assert_eq!(bounds(2), json!(["p50Seconds", "p99Seconds"]));
    assert_eq!(bounds(3), json!([]));
    assert!(report.summary(false).contains("up to ≥ 1.00 s"), "{}", report.summary(false));
}

/// Verdict first, and the long record last, on one line.
#[test]
fn a_file_can_be_looked_at() {
    let text = String::from_utf8(report_of(None, 0..1_000).write()).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].contains("format") && lines[3].contains("valid"), "{}", lines[..5].join("\n"));
    assert!(lines[lines.len() - 2].starts_with("  \"record\": {"), "{}", lines[lines.len() - 2]);
}
