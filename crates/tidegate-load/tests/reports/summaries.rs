//! A report as a person reads it.

use serde_json::{Value, json};
use tidegate_load::{End, Missed, Plan};

use crate::run::{Run, millis, note, plan, report_of};

#[test]
fn a_summary_reports_what_matters() {
    let summary = report_of(None, 0..15_000).summary(false);
    for reported in [
        "note  883 requests (6.7 %) never sent, with 1,024 in flight",
        "http://127.0.0.1:8082/api/test",
        "constant · 60.0 s · 2026-01-19T16:30:05Z",
        "Requests",
        "13,234",
        "success",
        "rate limited",
        "503 × 1,236",
        "not connected × 1,235",
        "timed out × 1,235",
        "no room × 883",
        "retries",
        "given up",
        "from when due",
        "from when sent",
        "lag of sending",
        "p99.9",
        "web",
        "bots (attacker)",
        "all honest",
        "Over time",
        "█",
        "✗  p99<50ms",
    ] {
        assert!(summary.contains(reported), "{reported}\n{summary}");
    }
    assert!(!summary.contains("INVALID") && !summary.contains('\x1b'), "{summary}");
}

#[test]
fn an_invalid_run_says_so_first() {
    let mut run = Run::new(&plan(&json!({})));
    run.lag(10, millis(200));
    run.miss(3, Missed::TooLate);
    let report = run.report();
    let (plain, coloured) = (report.summary(false), report.summary(true));
    assert!(plain.starts_with("INVALID  requests were sent late"), "{plain}");
    assert!(plain.lines().nth(1).is_some_and(|line| line.starts_with("INVALID  3 requests")), "{plain}");
    assert!(coloured.starts_with("\x1b[1;31mINVALID\x1b[0m"), "{coloured}");
    let without: String =
        coloured.split("\x1b[").map(|part| part.split_once('m').map_or(part, |(_, text)| text)).collect();
    assert_eq!(without.len(), plain.len(), "the same but for the colours");
}

/// Many groups with long names, a long address, huge numbers, long thresholds: nothing is wider than a terminal.
#[test]
fn no_line_is_too_wide() {
    let groups: Vec<Value> =
        (0..100).map(|number| json!({"name": format!("{number}{}", "ü".repeat(57)), "class": "attacker"})).collect();
    let mut many =
        plan(&json!({"clients": groups, "limiterUrl": format!("http://a/{}", "b".repeat(500)), "part": "999/1000"}));
    many["thresholds"] =
        json!([format!("p99.{}9 < 0.0000000000000000000000000000000000000000000000001s", "9".repeat(40))]);
    let mut run = Run::new(&many);
    for number in 0..30_000 {
        note(&mut run.record, number);
    }
    run.lag(700, millis(3_599_999));
    run.miss(900, Missed::TooLate);
    let long = run.report();
    let empty = Run::new(&plan(&json!({}))).report();
    let mut short = Run::new(&plan(&json!({"clients": null})));
    short.add(1, End::Responded(200), millis(1));
    for report in [long, empty, short.report(), report_of(None, 0..15_000)] {
        let summary = report.summary(false);
        for line in summary.lines() {
            assert!(line.chars().count() <= 100, "{}: {line}", line.chars().count());
            assert_eq!(line.trim_end(), line);
        }
        assert!(summary.ends_with('\n') && !summary.contains("\n\n\n"), "{summary}");
    }
    assert!(Plan::read(many.to_string().as_bytes()).is_ok());
}
