//! Percentiles, and when they are bounds: by exact arithmetic.

use serde_json::{Value, json};
use tidegate_load::{Cause, End, Ended, Missed};

use crate::run::{Run, millis, plan, written};

/// Times that a histogram holds exactly, in its microseconds: below 2,048.
fn run_of_a_thousand() -> Run {
    let mut run = Run::new(&plan(&json!({"requestOptions": {"timeout": 1}})));
    for number in 1..=1_000 {
        run.add(1, End::Responded(200), std::time::Duration::from_micros(number));
    }
    run
}

fn latency(run: Run) -> Value {
    written(&run.report())["latencySeconds"].clone()
}

/// 1 to 1,000 µs, once each: a percentile is its rank.
#[test]
fn with_everything_known_a_percentile_is_a_rank() {
    let reported = latency(run_of_a_thousand());
    let expected = json!({
        "count": 1_000, "mean": 0.000_501, "p50": 0.000_5, "p90": 0.000_9, "p95": 0.000_95, "p99": 0.000_99,
            "p99.9": 0.000_999,
        "max": 0.001, "atLeast": [],
    });
    assert_eq!(reported, expected);
}

/// U of A + U are slower than all that are known: percentile p is at rank ⌈p(A + U)⌉ of the known ones, or beyond them.
#[test]
fn what_was_never_sent_counts_as_slower_than_all() {
    for (missed, p50, p90, p99, bounds) in [
        // ⌈0.5 · 1,001⌉ = 501, ⌈0.9 · 1,001⌉ = 901, ⌈0.99 · 1,001⌉ = 991, ⌈0.999 · 1,001⌉ = 1,000: the last that is
        // known.
        (1, 501, 901, 991, &["mean", "max"][..]),
        // ⌈0.999 · 1,002⌉ = 1,001: not known.
        (2, 501, 902, 992, &["mean", "p99.9", "max"]),
        // ⌈0.99 · 1,010⌉ = 1,000; one more is 1,001.
        (10, 505, 909, 1_000, &["mean", "p99.9", "max"]),
        (11, 506, 910, 1_000, &["mean", "p99", "p99.9", "max"]),
        (111, 556, 1_000, 1_000, &["mean", "p95", "p99", "p99.9", "max"]),
        (112, 556, 1_000, 1_000, &["mean", "p90", "p95", "p99", "p99.9", "max"]),
        (1_000, 1_000, 1_000, 1_000, &["mean", "p90", "p95", "p99", "p99.9", "max"]),
        (1_001, 1_000, 1_000, 1_000, &["mean", "p50", "p90", "p95", "p99", "p99.9", "max"]),
    ] {
        let mut run = run_of_a_thousand();
        run.miss(missed, Missed::NoRoom);
        let reported = latency(run);
        let micros = |name: &str| (reported[name].as_f64().expect("a number") * 1e6).round();
        assert_eq!(
            [micros("p50"), micros("p90"), micros("p99")],
            [p50, p90, p99].map(f64::from),
            "{missed}: {reported}"
        );
        assert_eq!(reported["atLeast"], json!(bounds), "{missed}: {reported}");
        let mut stopped = run_of_a_thousand();
        stopped.ended = Ended::Stopped;
        stopped.add(u64::from(missed > 0) * missed, End::Unfinished, millis(1));
        assert_eq!(
            latency(stopped),
            reported,
            "the latency of a request that a stop left without a response is not known either"
        );
    }
}

/// The service time is that of what was sent; only what is unfinished of that is unknown.
#[test]
fn what_was_never_sent_has_no_service_time() {
    let mut run = run_of_a_thousand();
    run.miss(500, Missed::NoRoom);
    let reported = written(&run.report())["serviceSeconds"].clone();
    assert_eq!((&reported["p99"], &reported["atLeast"]), (&json!(0.000_99), &json!([])));
    let mut run = run_of_a_thousand();
    run.add(500, End::Unfinished, millis(1));
    let reported = written(&run.report())["serviceSeconds"].clone();
    assert_eq!((&reported["p50"], &reported["p90"]), (&json!(0.000_75), &json!(0.001)));
    assert_eq!(reported["atLeast"], json!(["mean", "p90", "p95", "p99", "p99.9", "max"]));
}

/// A request that timed out would have waited longer: what is not below the timeout is a bound.
#[test]
fn timeouts_are_bounds() {
    let mut run = run_of_a_thousand();
    run.add(20, End::Failed(Cause::TimedOut), millis(1_000));
    let reported = latency(run);
    // ⌈0.99 · 1,020⌉ = 1,010: the tenth of those that timed out. ⌈0.95 · 1,020⌉ = 969.
    assert_eq!((&reported["p95"], &reported["count"]), (&json!(0.000_969), &json!(1_020)));
    let p99 = reported["p99"].as_f64().expect("a number");
    assert!((1.0..1.001).contains(&p99), "{p99}");
    assert_eq!(reported["atLeast"], json!(["mean", "p99", "p99.9", "max"]));
}

#[test]
fn other_failures_are_no_latencies() {
    let mut run = run_of_a_thousand();
    run.add(9_000, End::Failed(Cause::NotConnected), millis(0));
    assert_eq!(latency(run), latency(run_of_a_thousand()), "however quick, and however many");
}

#[test]
fn where_nothing_is_known_nothing_is_reported() {
    let mut run = Run::new(&plan(&json!({})));
    run.miss(5, Missed::NoRoom);
    run.add(5, End::Failed(Cause::Closed), millis(5));
    let reported = latency(run);
    assert_eq!((&reported["p50"], &reported["mean"], &reported["max"]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!((&reported["count"], &reported["atLeast"]), (&json!(0), &json!([])));
}
