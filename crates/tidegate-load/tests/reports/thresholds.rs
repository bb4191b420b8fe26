//! Thresholds, on every figure.

use serde_json::json;
use tidegate_load::{Cause, End, Ended, Missed, Report};

use crate::run::{Run, millis, plan, written};

fn holds(threshold: &str, make: impl FnOnce(&mut Run)) -> (Option<f64>, bool) {
    let mut run = Run::new(&plan(&json!({"thresholds": [threshold]})));
    make(&mut run);
    let report = run.report();
    let judged = report.thresholds();
    assert_eq!((judged.len(), judged[0].threshold.as_str()), (1, threshold));
    assert_eq!(Some(report.thresholds_hold()), judged[0].holds);
    let file = written(&report);
    assert_eq!(
        (&file["thresholdsHold"], &file["thresholds"][0]["holds"]),
        (&json!(judged[0].holds), &json!(judged[0].holds))
    );
    (judged[0].value, report.thresholds_hold())
}

/// 100 requests: 95 with a latency (one of them slow), one that failed without, and 4 that were never sent.
fn mixed(run: &mut Run) {
    run.add(90, End::Responded(200), millis(1));
    run.add(4, End::Responded(429), millis(1));
    run.add(1, End::Responded(500), millis(2));
    run.add(1, End::Failed(Cause::Closed), millis(1));
    run.miss(4, Missed::NoRoom);
}

#[test]
fn each_figure_can_be_bounded() {
    for (threshold, expected) in [
        ("success>89.9%", true),
        ("success>=90%", true),
        ("success>90%", false),
        ("rate_limited<4.1%", true),
        ("rate_limited<4%", false),
        ("errors<=2%", true),
        ("errors<2%", false),
        ("missed<=4%", true),
        ("missed<4%", false),
        ("rps>1.5", true),
        ("rps>1.6", false),
        ("rps<1.6", false),
        ("p50<1.1ms", true),
        ("p50<1ms", false),
        ("p94<1.1ms", true),
        // Of 99, as one failed without a latency: ⌈0.94 · 99⌉ = 94, ⌈0.95 · 99⌉ = 95, which is the slow one, ⌈0.99 ·
        // 99⌉ is not known.
        ("p95<1.1ms", false),
        ("p95<2.1ms", true),
        ("p99<10s", false),
        ("p99>1ms", true),
        ("p99>2.1ms", false),
        ("max<10s", false),
        ("max>1ms", true),
        ("avg<10s", false),
        ("avg>0.9ms", true),
        ("mean>5ms", false),
    ] {
        assert_eq!(holds(threshold, mixed).1, expected, "{threshold}: {:?}", holds(threshold, mixed).0);
    }
    let good = |run: &mut Run| run.add(100, End::Responded(204), millis(1));
    for threshold in [
        "avg<1.1ms",
        "max<1.1ms",
        "p99.99<1.1ms",
        "p100<1.1ms",
        "p0<1.1ms",
        "missed<=0%",
        "errors<=0%",
        "success>=100%",
    ] {
        assert!(holds(threshold, good).1, "{threshold}");
    }
}

#[test]
fn nothing_measured_is_nothing_kept() {
    for threshold in ["p99<1s", "avg<1s", "max>0s", "errors<1%", "missed<1%", "success>=0%"] {
        assert_eq!(holds(threshold, |_| {}), (None, false), "{threshold}");
    }
    assert_eq!(holds("rps<1", |_| {}), (Some(0.0), true));
}

/// It was neither a success nor an error.
#[test]
fn what_a_stop_left_unfinished_has_no_share() {
    let stopped = |run: &mut Run| {
        run.ended = Ended::Stopped;
        run.elapsed = millis(10_000);
        run.add(9, End::Responded(200), millis(1));
        run.add(1, End::Responded(500), millis(1));
        run.add(10, End::Unfinished, millis(1));
    };
    assert_eq!(holds("success>=90%", stopped), (Some(0.9), true));
    assert_eq!(holds("errors<=10%", stopped), (Some(0.1), true));
    assert_eq!(holds("rps>1.9", stopped), (Some(2.0), true), "in the ten seconds that it lasted");
}

#[test]
fn thresholds_are_judged_anew_for_all_together() {
    let part = |part: &str, time: u64| {
        let mut run = Run::new(&plan(&json!({"thresholds": ["p90<5ms"], "part": part})));
        run.add(if time > 5 { 10 } else { 100 }, End::Responded(200), millis(time));
        run.report()
    };
    let (good, bad) = (part("1/2", 1), part("2/2", 9));
    assert!(good.thresholds_hold() && !bad.thresholds_hold());
    let both = Report::merge([("a".to_owned(), good), ("b".to_owned(), bad)]).expect("one plan");
    assert!(both.thresholds_hold(), "a tenth of a few is less than a tenth of all");
}

/// `rps` of a third of the plan says nothing about the plan's.
#[test]
fn the_rate_of_a_part_is_not_judged() {
    let part = |part: &str| {
        let mut run = Run::new(&plan(&json!({"thresholds": ["rps>1.5", "errors<1%"], "part": part})));
        run.add(60, End::Responded(200), millis(1));
        run.report()
    };
    let one = part("1/2");
    let judged = one.thresholds();
    assert_eq!((judged[0].value, judged[0].holds, judged[1].holds), (Some(1.0), None, Some(true)));
    assert!(one.thresholds_hold());
    assert_eq!(written(&one)["thresholds"][0]["holds"], json!(null));
    let summary = one.summary(false);
    assert!(summary.contains("-  rps>1.5") && summary.contains("judged when all parts are merged"), "{summary}");
    let both = Report::merge([("a".to_owned(), one), ("b".to_owned(), part("2/2"))]).expect("one plan");
    assert_eq!((both.thresholds()[0].value, both.thresholds()[0].holds), (Some(2.0), Some(true)));
    let mut few = Run::new(&plan(&json!({"thresholds": ["rps>1.5"], "part": "1/1"})));
    few.add(60, End::Responded(200), millis(1));
    assert!(!few.report().thresholds_hold(), "one part of one is the plan");
}
