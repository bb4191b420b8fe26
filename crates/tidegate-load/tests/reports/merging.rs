//! Several reports together are exactly what one would have been.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_load::{End, Report};

use crate::run::{Run, millis, plan, report_of, written};

fn merged(reports: &[Report]) -> Result<Report, String> {
    let named = reports.iter().enumerate().map(|(index, report)| (format!("{index}.json"), report.clone()));
    Report::merge(named).map_err(|error| error.to_string())
}

/// A report's file, without what identifies its runs.
fn figures(report: &Report) -> Value {
    let mut file = written(report);
    for (holder, field) in [("", "instances"), ("", "testId"), ("/record", "instances"), ("/plan", "part")] {
        file.pointer_mut(holder).and_then(Value::as_object_mut).expect("an object").remove(field);
    }
    file
}

#[test]
fn any_split_of_the_requests_merges_to_the_same_file() {
    let whole = figures(&report_of(None, 0..5_000));
    for parts in [2_u64, 3, 7] {
        let of = |part| report_of(Some(&format!("{}/{parts}", part + 1)), (0..5_000).filter(|n| n % parts == part));
        let mut reports: Vec<Report> = (0..parts).map(of).collect();
        assert_eq!(figures(&merged(&reports).expect("one plan")), whole, "{parts}");
        reports.reverse();
        assert_eq!(figures(&merged(&reports).expect("one plan")), whole, "{parts}, in another order");
        let rest = merged(&reports[1..]).expect("one plan");
        let rest = Report::read(&rest.write()).expect("its own file");
        assert_eq!(figures(&merged(&[rest, reports[0].clone()]).expect("one plan")), whole, "{parts}, in two steps");
    }
}

#[test]
fn one_report_alone_stays_what_it_is() {
    let report = report_of(Some("1/2"), 0..100);
    assert_eq!(merged(std::slice::from_ref(&report)).expect("one"), report);
    assert!(merged(&[]).expect_err("none").contains("nothing to merge"));
}

#[test]
fn the_same_plan_run_by_several_is_more_load() {
    let run = |id: &'static str, later: u64| {
        let mut run = Run::new(&plan(&json!({})));
        run.add(600, End::Responded(200), millis(5));
        run.started += Duration::from_secs(later);
        Run { id, ..run }.report()
    };
    let both = written(&merged(&[run("late", 9), run("early", 2)]).expect("one plan"));
    assert_eq!((&both["requests"]["sent"], &both["offeredPerSecond"]), (&json!(1_200), &json!(20.0)));
    assert_eq!((&both["testId"], &both["startedAt"]), (&json!("early"), &json!("2026-01-19T16:30:07.125Z")));
    assert_eq!(both["instances"].as_array().map(Vec::len), Some(2));
    let twice = merged(&[run("a", 0), run("a", 0)]).expect_err("the same file");
    assert_eq!(twice, "1.json: is of the same run as 0.json");
}

#[test]
fn what_does_not_belong_together_is_rejected_by_name() {
    let of = |part: Option<&str>| report_of(part, 0..10);
    let other = |more: Value| Run::new(&plan(&more)).report();
    for (one, two, reason) in [
        (of(Some("1/3")), of(Some("1/3")), "1.json: is of part 1/3, and so is 0.json"),
        (of(Some("1/3")), of(Some("2/4")), "1.json: is of part 2/4, which has requests of part 1/3 too, as in 0.json"),
        (of(Some("1/3")), of(None), "1.json: is of the whole plan, but 0.json is of part 1/3"),
        (of(None), of(Some("1/3")), "1.json: is of part 1/3, but 0.json is of the whole plan"),
        (of(None), other(json!({"arrivals": "poisson"})), "1.json: is of another plan than 0.json: in `arrivals`"),
        (
            other(json!({})),
            other(json!({"seed": 5, "maxLag": 2})),
            "1.json: is of another plan than 0.json: in `seed`, `maxLag`",
        ),
        (other(json!({})), other(json!({"duration": 61})), "1.json: is of another plan than 0.json: in `duration`"),
    ] {
        assert_eq!(merged(&[one, two]).expect_err(reason), reason);
    }
    let parts = merged(&[of(Some("1/2")), of(Some("2/4")), of(Some("4/4"))]).expect("all of it, once");
    assert!(parts.verdict().qualifications.iter().any(|reported| reported.contains("divisions that differ")));
    let third = merged(&[of(Some("1/2")), of(Some("2/4")), of(Some("2/8"))]).expect_err("twice");
    assert!(third.starts_with("2.json: ") && third.ends_with("as in 1.json"), "{third}");
}

/// What was asked of one of them is asked of all; when each began is its own affair.
#[test]
fn thresholds_and_starts_may_differ() {
    let of = |part: &str, more: Value| {
        let mut all = plan(&more);
        all["part"] = json!(part);
        Run::new(&all).report()
    };
    let both = merged(&[
        of("1/2", json!({"thresholds": ["p99<1s"], "startAt": 1_800_000_000})),
        of("2/2", json!({"thresholds": ["p99<1s", "errors<1%"], "startAt": 1_800_000_001, "seed": 1})),
    ]);
    let file = written(&both.expect("one plan"));
    assert_eq!(file["record"]["thresholds"], json!(["p99<1s", "errors<1%"]));
    assert_eq!((&file["plan"]["thresholds"], file["plan"].get("startAt")), (&json!(["p99<1s", "errors<1%"]), None));
    let many = |from: u32| (from..from + 60).map(|number| format!("p99<{number}s")).collect::<Vec<_>>();
    let [one, two] = [("1/2", 1), ("2/2", 101)].map(|(part, from)| of(part, json!({"thresholds": many(from)})));
    assert!(merged(&[one, two]).expect_err("too many").contains("more than 100 together"));
}

/// Another password does not make another plan, and a digest of it would help an attacker who guesses it.
#[test]
fn secrets_do_not_make_another_plan() {
    let with = |password: &str, part: &str| {
        let auth = json!({"auth": {"user": "ann", "password": password}});
        Run::new(&plan(&json!({"requestOptions": auth, "part": part}))).report()
    };
    let both = merged(&[with("hunter2", "1/2"), with("hunter3", "2/2")]).expect("one plan");
    assert!(!String::from_utf8(both.write()).expect("text").contains("hunter"));
}

#[test]
fn missing_parts_are_reported() {
    let of = |part: &str| report_of(Some(part), 0..10);
    let missing = |reports: &[Report]| {
        let reported = merged(reports).expect("one plan").verdict().qualifications;
        reported.into_iter().find(|reported| reported.contains("parts"))
    };
    assert_eq!(missing(&[of("1/2"), of("2/2")]), None);
    let reported = missing(&[of("1/3"), of("3/3")]).expect("one is missing");
    assert!(reported.starts_with("1 of the plan's 3 parts is not here"), "{reported}");
    assert!(missing(&[of("1/3")]).expect("two are").starts_with("2 of the plan's 3"));
}
