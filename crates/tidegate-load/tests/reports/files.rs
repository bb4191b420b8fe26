//! Files: what was written is read again, and nothing else is believed.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate_load::{Ended, Report};

use crate::run::{Run, plan, report_of, written};

#[test]
fn what_was_written_is_read_again() {
    let mut odd = Run::new(&plan(&json!({"duration": 7_201.25, "lagBudget": 0.123_456_7, "seed": u64::MAX})));
    odd.ended = Ended::Stopped;
    odd.started = UNIX_EPOCH - Duration::from_secs(5);
    odd.elapsed = Duration::from_nanos(1_234_567_891);
    let all = [report_of(None, 0..5_000), report_of(Some("2/3"), 0..10), report_of(None, 0..0), odd.report()];
    for report in all {
        let bytes = report.write();
        let again = Report::read(&bytes).expect("its own file");
        assert_eq!(again, report);
        assert_eq!(again.write(), bytes);
    }
}

fn reason(file: &Value) -> String {
    Report::read(file.to_string().as_bytes()).expect_err("it is not a report").to_string()
}

/// The error for a result in which one value is replaced.
fn assert_rejected(good: &Value, pointer: &str, value: Value, expected: &str) {
    let mut bad = good.clone();
    let (holder, field) = pointer.rsplit_once('/').expect("a path");
    let holder = bad.pointer_mut(holder).unwrap_or_else(|| panic!("{pointer} is not there"));
    match field.parse::<usize>() {
        Ok(index) if holder.is_array() => holder[index] = value,
        _ => holder[field] = value,
    }
    let error = reason(&bad);
    assert!(error.contains(expected), "{pointer}: {error}");
    assert!(!error.contains('\u{1b}') && error.len() < 500, "{error}");
}

#[test]
fn a_file_that_is_not_a_result_is_rejected_with_a_reason() {
    for text in ["", "{", "[]", "null", "5", "{}", "{\"format\": 5}", "\u{feff}{}", &"[".repeat(100_000)] {
        let error = Report::read(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with("is not a result of tidegate load: ") && error.len() < 400, "{error}");
    }
    let good = written(&report_of(None, 0..1_000));
    assert!(Report::read(good.to_string().as_bytes()).is_ok(), "however it is laid out");
    for (pointer, value, expected) in [
        ("/format", json!("tidegate-load-result/3"), "its format is \"tidegate-load-result/3\""),
        ("/plan", json!([]), "`plan` must be an object"),
        ("/plan", json!(vec![0; 40_000]), "`plan` has too many values"),
        ("/record", json!(null), "invalid type: null"),
        ("/record/lag", json!(vec![[1, 1]; 30_001]), "a list has more than 30000 entries"),
        ("/record/planDigest", json!("xyz"), "`planDigest`"),
        ("/record/target", json!("a\u{1b}[31m"), "can't be printed"),
        ("/record/target", json!("a".repeat(10_000)), "too long"),
        ("/record/profile", json!("\n"), "can't be printed"),
        ("/record/durationMicros", json!(0), "`durationMicros`"),
        ("/record/durationMicros", json!(u64::MAX), "`durationMicros`"),
        ("/record/durationMicros", json!(-1), "invalid value"),
        ("/record/timeoutMicros", json!(u64::MAX), "`timeoutMicros`"),
        ("/record/thresholds", json!(["p99"]), "got \"p99\""),
        ("/record/thresholds", json!(vec!["p99<1s"; 101]), "a list has more than 100 entries"),
        ("/record/groups", json!([]), "`groups` is empty"),
    ] {
        assert_rejected(&good, pointer, value, expected);
    }
    let mut unknown = good.clone();
    unknown["record"]["extra"] = json!(1);
    assert!(reason(&unknown).contains("unknown field `extra`"));
}

#[test]
fn groups_that_make_no_sense_are_rejected() {
    let good = written(&report_of(None, 0..1_000));
    for (pointer, value, expected) in [
        ("/record/groups/0/name", json!(""), "an invalid name"),
        ("/record/groups/0/name", json!("a\u{7}"), "an invalid name"),
        ("/record/groups/0/isAttacker", json!(true), "its steps and of its groups differ"),
        ("/record/groups/0/requests/counts/statuses/0/1", json!(1), "`groups[0].requests` has more or fewer times"),
        ("/record/groups/0/requests/counts/statuses/0/1", json!(u64::MAX), "more requests than can be counted"),
        ("/record/groups/0/requests/counts/statuses/0/0", json!(99), "an invalid status"),
        ("/record/groups/0/requests/counts/statuses/0/0", json!(1_000), "an invalid status"),
        ("/record/groups/0/requests/counts/statuses/0/0", json!(70_000), "expected u16"),
        ("/record/groups/0/requests/counts/failures/0/0", json!("bad luck"), "unknown cause"),
        ("/record/groups/0/requests/counts/noRoom", json!(999), "its steps and of its groups differ"),
        ("/record/groups/0/requests/latencies/0/times/0/0", json!(0), "not in ascending order"),
        ("/record/groups/0/requests/latencies/0/times/0/0", json!(5_000_000_000_u64), "more than an hour"),
        ("/record/groups/0/requests/latencies/0/times/0/1", json!(0), "never occurred"),
        ("/record/groups/0/requests/latencies/0/times/0/1", json!(u64::MAX), "more or fewer times"),
        ("/record/groups/0/requests/latencies/0/times", json!([[5, 1], [4, 1]]), "not in ascending order"),
        ("/record/groups/0/requests/latencies/0/of", json!("5xx"), "more or fewer times"),
        ("/record/groups/0/requests/latencies/0/of", json!("9xx"), "unknown status class"),
        ("/record/groups/0/requests/latencies", json!([]), "more or fewer times"),
        (
            "/record/groups/0/requests/latencies",
            json!(vec![json!({"of": "2xx", "times": []}); 8]),
            "more than 7 entries",
        ),
        ("/record/groups/0/requests/latency", json!([[5, 1]]), "more or fewer times"),
        ("/record/groups/0/requests/latency", json!([[5, u64::MAX]]), "more or fewer times"),
        ("/record/groups/0/requests/service", json!([]), "more or fewer times"),
        (
            "/record/groups/0/retries/counts/givenUp",
            json!(1_000_000_000_000_001_u64),
            "more requests than can be counted",
        ),
    ] {
        assert_rejected(&good, pointer, value, expected);
    }
}

#[test]
fn steps_lags_and_instances_that_make_no_sense_are_rejected() {
    let good = written(&report_of(None, 0..1_000));
    for (pointer, value, expected) in [
        ("/record/steps", json!(vec![json!({}); 3_601]), "a list has more than 3600 entries"),
        ("/record/steps", json!([]), "its steps and of its groups differ"),
        ("/record/steps/0/honest/latency/0/1", json!(5_000_000_000_u64), "expected u32"),
        ("/record/steps/0/honest/counts/unfinished", json!(5), "its steps and of its groups differ"),
        ("/record/lag", json!([]), "the requests of its lags"),
        ("/record/lag", json!([[0, 5]]), "`lag` has times"),
        ("/record/instances", json!([]), "`instances` is empty"),
        ("/record/instances/0/testId", json!("\u{1b}]0;x"), "`testId`"),
        ("/record/instances/0/notes", json!(["a\u{1b}[31m"]), "`notes` has one"),
        ("/record/instances/0/notes", json!(["a".repeat(201)]), "`notes` has one"),
        ("/record/instances/0/notes", json!(vec!["a"; 21]), "a list has more than 20 entries"),
        ("/record/instances/0/part", json!("3/2"), "`part` must be such as `2/3`"),
        ("/record/instances/0/sent", json!(u64::MAX), "beyond what is possible"),
        ("/record/instances/0/sent", json!(1), "the requests of its lags"),
        ("/record/instances/0/startedMillis", json!(u64::MAX), "beyond what is possible"),
        ("/record/instances/0/elapsedMicros", json!(u64::MAX), "beyond what is possible"),
    ] {
        assert_rejected(&good, pointer, value, expected);
    }
}

/// A file may be long; what it makes us keep is not.
#[test]
fn thousands_of_groups_and_instances_are_rejected() {
    let good = written(&report_of(None, 0..10));
    for (field, most) in [("groups", 100), ("instances", 1_000), ("steps", 3_600)] {
        let mut bad = good.clone();
        let one = bad["record"][field][0].clone();
        bad["record"][field] = json!(vec![one; 50_000]);
        assert!(reason(&bad).contains(&format!("more than {most}")), "{}", reason(&bad));
    }
}

/// Each piece of a file away, or turned into something else: an error or a report, never a panic.
#[test]
fn damaged_files_are_errors() {
    let bytes = report_of(None, 0..60).write();
    for end in (0..bytes.len()).step_by(7) {
        assert!(Report::read(&bytes[..end]).is_err() || end + 2 >= bytes.len(), "{end}");
    }
    let mut rng = 1_u64;
    for _ in 0..3_000 {
        let mut damaged = bytes.clone();
        for _ in 0..3 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = (rng >> 33) as usize % damaged.len();
            damaged[index] = b"0123456789,[]{}\"-.eE x"[(rng >> 20) as usize % 22];
        }
        if let Ok(report) = Report::read(&damaged) {
            assert!(!report.summary(true).is_empty() && !report.write().is_empty());
            let _either = Report::merge([("a".to_owned(), report.clone()), ("b".to_owned(), report)]);
        }
    }
}
