//! `tidegate load merge`: results of several instances together.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate_load::{Class, End, Ended, Plan, Record, Report, Sample};

use tidegate_testkit::command::{Outcome, finish, run};
use tidegate_testkit::{Directory, tidegate};

/// What an instance would have written: so many requests, each with this lag and a response after 2 ms.
fn result(part: Option<&str>, count: u64, lag: Duration, status: u16) -> String {
    let plan = json!({
        "limiterUrl": "http://127.0.0.1:8082/api/test", "duration": 10, "part": part,
        "profile": {"type": "constant", "params": {"rps": 100}}, "thresholds": ["p99<50ms", "errors<10%"],
    });
    let plan = Plan::read(plan.to_string().as_bytes()).expect("a good plan");
    let mut record = Record::new(plan.duration, &[Class::Honest]);
    for number in 0..count {
        let intended = Duration::from_millis(number * 5);
        let (sent, finished) = (intended + lag, intended + lag + Duration::from_millis(2));
        record.add(&Sample { group: 0, intended, sent, finished, end: End::Responded(status) });
    }
    let started = UNIX_EPOCH + Duration::from_secs(1_768_840_205);
    let report = Report::new(&plan, record, Ended::Completed, started, plan.duration, "a1");
    String::from_utf8(report.write()).expect("text")
}

fn good(part: &str) -> String {
    result(Some(part), 500, Duration::from_micros(50), 200)
}

/// Merges files of these texts; the first is `0.json`.
fn merge(directory: &Directory, texts: &[String], more: &[&str]) -> Outcome {
    let files = texts.iter().enumerate().map(|(place, text)| directory.file(&format!("{place}.json"), text));
    let mut command = tidegate();
    command.args(["load", "merge"]).args(files).args(more);
    finish(command)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

/// What an earlier version wrote is merged as ever. What it did not keep, latencies by status, is said to be unknown.
#[test]
fn a_result_of_an_earlier_version_can_be_merged() {
    let directory = Directory::new();
    let out = directory.0.join("all.json");
    let earlier = include_str!("../../../../tidegate-load/tests/reports/of-version-1.json");
    let outcome = merge(&directory, &[earlier.to_owned()], &["--json", out.to_str().expect("text")]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    assert!(outcome.out.contains("note  latencies by status are unknown: 20 requests"), "{}", outcome.out);
    let (before, after): (Value, Value) = (serde_json::from_str(earlier).expect("JSON"), read(&out));
    assert_eq!(after["latencySeconds"], before["latencySeconds"]);
    assert!(after["latencyByStatusSeconds"].is_null() && after["mostlyRejected"] == true, "{after}");
}

#[test]
fn results_are_reported_together_and_written_if_asked() {
    let directory = Directory::new();
    let out = directory.0.join("all.json");
    let texts = [good("1/2"), good("2/2")];
    let outcome = merge(&directory, &texts, &["--json", out.to_str().expect("text")]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    for reported in
        ["http://127.0.0.1:8082/api/test", "2 runs together", "1,000", "100.0 %", "✓  p99<50ms", "✓  errors<10%"]
    {
        assert!(outcome.out.contains(reported), "{reported}: {}", outcome.out);
    }
    assert!(!outcome.out.contains('\x1b'), "no colours into a file");
    let all = read(&out);
    assert_eq!(
        (&all["requests"]["sent"], &all["valid"], &all["thresholdsHold"]),
        (&json!(1_000), &json!(true), &json!(true))
    );
    let again = run(&["load", "merge", out.to_str().expect("text")], &[]);
    assert_eq!((again.code, again.out), (0, outcome.out), "what was merged is a result as any other");
}

/// 99 is for thresholds, 98 for runs that prove nothing, about thresholds neither.
#[test]
fn the_exit_code_tells_how_it_went() {
    let directory = Directory::new();
    let failed = result(Some("2/2"), 500, Duration::from_micros(50), 500);
    let outcome = merge(&directory, &[good("1/2"), failed], &[]);
    assert_eq!(outcome.code, 99, "{outcome:?}");
    assert!(outcome.out.contains("✗  errors<10%") && outcome.out.contains("✓  p99<50ms"), "{}", outcome.out);
    let late = result(Some("2/2"), 500, Duration::from_millis(200), 500);
    let outcome = merge(&directory, &[good("1/2"), late], &[]);
    assert_eq!(outcome.code, 98, "{outcome:?}");
    assert!(outcome.out.starts_with("INVALID  part 2/2: requests were sent late"), "{}", outcome.out);
}

#[test]
fn what_can_not_be_merged_is_reported_by_file() {
    let directory = Directory::new();
    let other = result(None, 10, Duration::ZERO, 200);
    for (texts, expected) in [
        (vec!["no JSON".to_owned()], "0.json: is not a result of tidegate load: "),
        (vec![good("1/2"), "{}".to_owned()], "1.json: is not a result of tidegate load: missing field `format`"),
        (vec![good("1/2"), good("1/2")], "1.json: is of part 1/2, and so is "),
        (vec![good("1/2"), other], "1.json: is of the whole plan, but "),
    ] {
        let outcome = merge(&directory, &texts, &[]);
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
        assert!(outcome.err.contains(expected) && outcome.err.lines().count() == 1, "{}", outcome.err);
    }
    let missing = run(&["load", "merge", "/nowhere/a.json"], &[]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("/nowhere/a.json: can't be read: "), "{}", missing.err);
    assert_eq!(run(&["load", "merge"], &[]).code, 2);
    let unwritable = merge(&directory, &[good("1/1")], &["--json", "/nowhere/out.json"]);
    assert!(unwritable.code == 1 && unwritable.err.contains("can't write /nowhere/out.json"), "{unwritable:?}");
    assert!(unwritable.out.contains("success"), "the summary is there all the same: {unwritable:?}");
}

#[test]
fn help_tells_the_exit_codes() {
    let help = run(&["load", "merge", "--help"], &[]).out;
    for reported in ["--json", "98", "99", "--part"] {
        assert!(help.contains(reported), "{reported}: {help}");
    }
}
