//! `tidegate lab simulate` and `tidegate lab scenarios`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use tidegate_testkit::command::{Outcome, finish};
use tidegate_testkit::{Directory, text, tidegate};

pub(crate) fn lab(arguments: &[&str]) -> Outcome {
    let mut command = tidegate();
    command.arg("lab").args(arguments);
    finish(command)
}

pub(crate) fn report(directory: &Path) -> Value {
    let text = fs::read(directory.join("report.json")).expect("a report");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn all_scenarios_are_reported_as_tables_as_json_and_as_a_page() {
    let directory = Directory::new();
    let outcome = lab(&["simulate", "--out", &text(&directory.0)]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{}", outcome.out);
    assert!(outcome.out.contains("\nboundary: Bursts around the edge of a window\n"), "{}", outcome.out);
    assert!(outcome.out.contains("runs, all as expected\n"), "{}", outcome.out);
    let report = report(&directory.0);
    assert_eq!((&report["format"], &report["kind"]), (&"tidegate-lab-report/1".into(), &"simulated".into()));
    let names: Vec<&str> =
        report["scenarios"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    let expected = ["normal", "spikes", "attack", "attack-by-client", "boundary", "outage", "forecaster"];
    let of_endpoints = ["endpoint-killed", "endpoint-frozen", "endpoint-slow"];
    let of_policies = ["dead-provider", "slow-provider", "retry-storm", "metastable", "slow-tail"];
    assert_eq!(names, [&expected[..], &of_endpoints, &of_policies].concat());
    assert!(report["createdAt"].is_null() && report["environment"].is_null(), "nothing of here and now");
    let page = fs::read_to_string(directory.0.join("report.html")).expect("a page");
    assert!(page.contains("tidegate-lab-report/1") && !page.contains("TIDEGATE_REPORT"));
    let again = Directory::new();
    lab(&["simulate", "--out", &text(&again.0)]);
    let json = |directory: &Directory| fs::read(directory.0.join("report.json")).expect("a report");
    assert!(json(&directory) == json(&again), "the same seed, the same report");
}

/// While Redis is away and the gateway is set to let everything pass, more is admitted than the limit says, and
/// nothing is over-admitted: which seconds that concerns is reported wherever the figures are.
#[test]
fn seconds_that_are_not_scored_are_reported() {
    let directory = Directory::new();
    let outcome = lab(&["simulate", "outage", "--algorithm", "token", "--out", &text(&directory.0)]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let reported = "    Not scored: 6.0 s to 10.5 s. Redis was unavailable and on_failure is open, so no limit was \
                enforced; 1,800 requests were admitted then.";
    assert!(outcome.out.lines().any(|line| line == reported), "{}", outcome.out);
    let report = report(&directory.0);
    let run = &report["scenarios"][0]["runs"][0];
    let spans: Vec<(f64, f64)> = run["exempt"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|exempt| Some((exempt["from"].as_f64()?, exempt["until"].as_f64()?)))
        .collect();
    assert_eq!(spans, [(6.0, 10.5), (15.02, 19.5)]);
    assert_eq!(run["notes"].as_array().map(Vec::len), Some(2));
    assert!(
        run["series"]["limit"][7].is_null()
            && run["series"]["limit"][10].is_null()
            && run["series"]["limit"][11].is_number(),
        "{}",
        run["series"]["limit"]
    );
}

#[test]
fn names_seeds_and_algorithms_choose() {
    let directory = Directory::new();
    let out = text(&directory.0);
    let outcome = lab(&["simulate", "boundary", "--algorithm", "fixed", "--seed", "5", "--out", &out]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let report = report(&directory.0);
    assert_eq!((&report["seed"], report["scenarios"].as_array().map(Vec::len)), (&5.into(), Some(1)));
    let runs = report["scenarios"][0]["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().filter_map(|run| run["id"].as_str()).collect::<Vec<_>>(), ["boundary/fixed/off"]);
    assert!(runs[0]["scores"]["worstWindow"].as_f64() > Some(1.8), "{}", runs[0]["scores"]);
}

/// Of all scenarios those are run that have the algorithm.
#[test]
fn an_algorithm_chooses_among_all_scenarios() {
    let outcome = lab(&["simulate", "--algorithm", "gcra"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.out.contains("\nboundary: ") && !outcome.out.contains("\nforecaster: "), "{}", outcome.out);
}

/// What was foreseen holds for as long as it reaches, and no longer.
#[test]
fn without_its_forecaster_a_limit_returns_to_the_operator_s() {
    let directory = Directory::new();
    assert_eq!(lab(&["simulate", "forecaster", "--out", &text(&directory.0)]).code, 0);
    let report = report(&directory.0);
    for run in report["scenarios"][0]["runs"].as_array().expect("runs").iter().filter(|run| run["adaptation"] == true) {
        let limits: Vec<f64> =
            run["series"]["limit"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        assert_eq!(limits.len(), 48);
        assert!(limits[26..34].iter().all(|limit| *limit > 550.0), "a spike is foreseen: {limits:?}");
        assert!(
            limits[36..].iter().all(|limit| (limit - 200.0).abs() < 1e-9),
            "ten seconds later nothing is: {limits:?}"
        );
    }
}

#[test]
fn a_scenario_can_be_printed_changed_and_run() {
    let listed = lab(&["scenarios"]);
    assert!(listed.code == 0 && listed.out.contains("spikes") && listed.out.contains("13 runs"), "{listed:?}");
    let printed = lab(&["scenarios", "normal"]);
    assert_eq!(printed.code, 0);
    let directory = Directory::new();
    let mine = directory.file("mine.yaml", &printed.out.replace("refused < 1%", "refused > 50%"));
    let outcome = lab(&["simulate", &text(&mine), "--algorithm", "token"]);
    assert_eq!(outcome.code, 99, "{outcome:?}");
    assert!(outcome.out.contains("expected refused > 50 %, came 0 %") && outcome.out.contains("FAILED"), "{outcome:?}");
}

#[test]
fn what_can_not_be_used_is_reported() {
    let directory = Directory::new();
    let bad = directory.file("bad.yaml", "duration: 5\nlimit: {rate: 0}\n");
    let two = "duration: 5\nlimit: {rate: 10}\ntarget: {}\nalgorithms: [fixed, token]\n\
        load: {profile: {type: constant, params: {rps: 5}}}\n";
    let file = |name: &str, content: String| text(&directory.file(name, &content));
    let unsaid = file("unsaid.yaml", format!("{two}expect: [{{that: refused < 1%, algorithms: [gcra]}}]\n"));
    let unknown = file("unknown.yaml", format!("{two}duraton: 5\n"));
    let number = file("number.yaml", two.replace("target: {}", "target: {service_time: 10}"));
    let empty = file("empty.yaml", String::new());
    let two = file("two.yaml", two.to_owned());
    let blocked = directory.file("file", "");
    for (arguments, code, reason) in [
        (&["simulate", "nothing"][..], 2, "neither a file nor a scenario; there are: normal, spikes"),
        (
            &["simulate", &text(&bad)],
            2,
            "bad.yaml: limit.rate: must be requests a second from 0.001 to 10000000, got 0",
        ),
        (&["simulate", "normal", "--algorithm", "magic"], 2, "unknown algorithm \"magic\"; known algorithms: fixed"),
        (&["simulate", "normal", "--seed", "x"], 2, "--seed"),
        (&["simulate", "normal", "--out", &text(&blocked.join("x"))], 1, "file/x"),
        (&["simulate", "forecaster", "--algorithm", "gcra"], 2, "forecaster: there is nothing to run"),
        (&["simulate", &two, "--algorithm", "gcra"], 2, "two: there is nothing to run"),
        (
            &["simulate", &unsaid],
            2,
            "expect[0]: matches no run; runs are: unsaid/baseline, unsaid/fixed/off, unsaid/token/off",
        ),
        (
            &["simulate", &unknown],
            2,
            "duraton: is unknown; known fields: title, about, seed, duration, gateway, variants, limit, target, \
             targets, upstream, load, store, on_failure, algorithms, adaptation, baseline,",
        ),
        (&["simulate", &number], 2, "target.service_time: must be a text with a unit, such as 10ms, got 10"),
        (&["simulate", &empty], 2, "empty.yaml: is empty; must have `limit`, `target` and `load`"),
        (&["scenarios", "nothing"], 2, "there are: normal"),
        (&["run", "nothing"], 2, "there are: normal"),
    ] {
        let outcome = lab(arguments);
        assert_eq!(outcome.code, code, "{arguments:?}: {outcome:?}");
        assert!(outcome.err.contains(reason), "{arguments:?}: {}", outcome.err);
    }
}

/// What can't be written is reported before there is something to lose, and what stands there stays.
#[test]
fn where_a_report_can_not_be_written_is_reported_at_once() {
    let directory = Directory::new();
    let log = text(&directory.file("access.csv", "1700000000\n"));
    let config = text(&directory.file("gateway.yaml", "upstreams: {a: {url: \"http://127.0.0.1:1\"}}\n"));
    directory.file("report.html", "of yesterday");
    fs::create_dir(directory.0.join("report.json")).expect("a directory");
    let out = text(&directory.0);
    for arguments in [
        &["simulate", "normal", "--out", &out][..],
        &["run", "normal", "--out", &out],
        &["replay", &log, "--config", &config, "--out", &out],
    ] {
        let outcome = lab(arguments);
        assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
        assert!(outcome.err.contains("report.json: Is a directory"), "{outcome:?}");
        assert_eq!(fs::read_to_string(directory.0.join("report.html")).expect("a file"), "of yesterday");
    }
    fs::remove_dir(directory.0.join("report.json")).expect("it is empty");
    assert_eq!(lab(&["simulate", "normal", "--out", &out]).code, 0);
    assert_eq!(report(&directory.0)["kind"], "simulated");
}
