//! Whether a run can be believed.

use serde_json::{Value, json};
use tidegate_load::{Cause, End, Ended, Missed, Report};

use crate::run::{Run, millis, plan, written};

/// A run of ten good requests, and what else happened.
fn run(more: &Value, what: impl FnOnce(&mut Run)) -> Report {
    let mut run = Run::new(&plan(more));
    run.add(10, End::Responded(200), millis(5));
    what(&mut run);
    run.report()
}

fn stopped_at_once() -> Report {
    let mut run = Run::new(&plan(&json!({})));
    (run.ended, run.elapsed) = (Ended::Stopped, millis(0));
    run.report()
}

/// 100 % of failures: the instrument is not to blame, and a reader should know.
fn nobody_there() -> Report {
    let mut run = Run::new(&plan(&json!({})));
    run.add(100, End::Failed(Cause::NotConnected), millis(1));
    run.report()
}

/// A name, a report, why it is invalid, and what qualifies it.
type Case = (&'static str, Report, &'static [&'static str], &'static [&'static str]);

fn assert_verdict(name: &str, report: &Report, reasons: &[&str], qualifications: &[&str]) {
    let verdict = report.verdict();
    assert_eq!(verdict.reasons, reasons, "{name}");
    assert_eq!(verdict.qualifications, qualifications, "{name}");
    assert_eq!(verdict.is_valid(), reasons.is_empty(), "{name}");
    let file = written(report);
    assert_eq!((&file["valid"], &file["reasons"]), (&json!(reasons.is_empty()), &json!(reasons)), "{name}");
    assert_eq!(file["qualifications"], json!(qualifications), "{name}");
}

#[test]
fn a_run_whose_instrument_failed_is_invalid() {
    let tight = json!({"lagBudget": 0.01, "maxLag": 2, "concurrency": 7});
    let cases: [Case; 6] = [
        ("good", run(&tight, |_| {}), &[], &[]),
        ("nothing sent", Run::new(&plan(&tight)).report(), &["nothing was sent"], &[]),
        ("lag at the budget", run(&tight, |run| run.lag(90, millis(10))), &[], &[]),
        (
            "lag above it",
            run(&tight, |run| run.lag(90, millis(11))),
            &["requests were sent late: the lag's 99th percentile is 11.0 ms, its budget 10.0 ms"],
            &[],
        ),
        (
            "a hundredth above it",
            run(&tight, |run| {
                run.add(980, End::Responded(200), millis(5));
                run.lag(10, millis(500));
            }),
            &[],
            &[],
        ),
        (
            "more than a hundredth above it",
            run(&tight, |run| {
                run.add(979, End::Responded(200), millis(5));
                run.lag(11, millis(500));
            }),
            &["requests were sent late: the lag's 99th percentile is 500 ms, its budget 10.0 ms"],
            &[],
        ),
    ];
    for (name, report, reasons, qualifications) in cases {
        assert_verdict(name, &report, reasons, qualifications);
    }
}

#[test]
fn a_run_in_which_requests_were_not_sent_or_got_no_response_is_qualified() {
    let tight = json!({"lagBudget": 0.01, "maxLag": 2, "concurrency": 7});
    let cases: [Case; 9] = [
        (
            "too late",
            run(&tight, |run| run.miss(1_234, Missed::TooLate)),
            &["1,234 requests never sent: the generator was more than 2.00 s behind"],
            &["latencies from p50 on are bounds: p50 is at least 5.00 ms"],
        ),
        (
            "no room",
            run(&tight, |run| run.miss(2, Missed::NoRoom)),
            &[],
            &[
                "2 requests (16.7 %) never sent, with 7 in flight; counted as slower than all others",
                "latencies from p90 on are bounds: p90 is at least 5.00 ms",
            ],
        ),
        (
            "stopped",
            run(&tight, |run| (run.ended, run.elapsed) = (Ended::Stopped, millis(12_300))),
            &[],
            &["the run was stopped after 12.3 s of 60.0 s"],
        ),
        (
            "unfinished",
            run(&tight, |run| run.add(90, End::Unfinished, millis(1))),
            &[],
            &[
                "90 requests (90.0 %) without a response when the run was stopped; counted as slower than all others",
                "latencies from p50 on are bounds: p50 is at least 5.00 ms",
            ],
        ),
        (
            "timed out",
            run(&tight, |run| run.add(1, End::Failed(Cause::TimedOut), millis(10_000))),
            &[],
            &[
                "1 request (9.1 %) without a response within 10.0 s; counted with the time waited",
                "latencies from p95 on are bounds: p95 is at least 10.0 s",
            ],
        ),
        ("errors are the target's", run(&tight, |run| run.add(99, End::Failed(Cause::Closed), millis(0))), &[], &[]),
        (
            "stopped before its start",
            stopped_at_once(),
            &["nothing was sent"],
            &["the run was stopped before it began"],
        ),
        ("nobody there", nobody_there(), &[], &["no request got a response"]),
        ("no budget at all", run(&json!({"lagBudget": 0}), |_| {}), &[], &[]),
    ];
    for (name, report, reasons, qualifications) in cases {
        assert_verdict(name, &report, reasons, qualifications);
    }
}

/// Among a million good ones the lag of a bad instance would not be seen.
#[test]
fn one_invalid_run_makes_all_together_invalid() {
    let part = |part: &str, lag: u64| {
        let more = json!({"part": part, "lagBudget": 0.01});
        run(&more, |run| run.lag(if lag > 10 { 10 } else { 100_000 }, millis(lag)))
    };
    let both = Report::merge([("a".to_owned(), part("1/2", 1)), ("b".to_owned(), part("2/2", 50))]).expect("one plan");
    assert!(written(&both)["lagSeconds"]["p99"].as_f64().expect("a number") < 0.01);
    let reasons = both.verdict().reasons;
    assert_eq!(
        reasons,
        ["part 2/2: requests were sent late: the lag's 99th percentile is 50.0 ms, its budget 10.0 ms"]
    );
    let again = Report::read(&both.write()).expect("its own file");
    assert_eq!(again.verdict(), both.verdict());
}
