//! Scenarios with several targets: how requests are spread, what faults of one target do, what can be wrong with them.
#![allow(clippy::float_cmp, reason = "shares of whole numbers")]

use serde_json::Value;
use tidegate_lab::report::{Kind, Run};
use tidegate_lab::{Outcome, Report, Scenario, Scores, Variant, simulate};
use tidegate_policy::Algorithm;

const SMALL: &str = "
duration: 6
limit: {rate: 1000, window: 1, burst: 1000}
load: {profile: {type: constant, params: {rps: 200}}}
";

const LIMITED: Variant = Variant { algorithm: Some(Algorithm::TokenBucket), adaptation: false, gateway: None };

fn read(more: &str) -> Scenario {
    Scenario::read("pool", &format!("{SMALL}{more}")).unwrap_or_else(|error| panic!("{error}"))
}

fn run(more: &str) -> (Scenario, Outcome) {
    let scenario = read(more);
    let outcome = simulate(&scenario, LIMITED);
    (scenario, outcome)
}

/// The run's JSON for each target.
fn targets(scenario: &Scenario, outcome: &Outcome) -> Vec<Value> {
    let mut report = Report::new(Kind::Simulated, None, None);
    report.push(scenario.clone(), vec![Run::of(scenario, LIMITED, outcome, Kind::Simulated, None)]);
    let report = report.to_json();
    report["scenarios"][0]["runs"][0]["targets"].as_array().cloned().unwrap_or_default()
}

fn requests(scenario: &Scenario, outcome: &Outcome) -> Vec<u64> {
    targets(scenario, outcome).iter().filter_map(|target| target["requests"].as_u64()).collect()
}

#[test]
fn a_pool_of_one_target_is_like_one_target() {
    let (one, pool) = (run("target: {service_time: 15ms}\n").1, run("target: {service_time: 15ms}\ntargets: 1\n").1);
    assert_eq!(one.observation.total().all(), pool.observation.total().all());
    assert_eq!(one.levels.busy, pool.levels.busy);
    assert!(one.targets.is_none() && pool.targets.is_some());
}

#[test]
fn requests_are_spread_by_weight() {
    let (scenario, outcome) = run("targets: [{}, {weight: 2}, {weight: 5}, {weight: 0}]\n\
         upstream: {balance: round_robin}\n");
    // Nearly all of the 1,200 have ended by the end of the last second.
    let requests = requests(&scenario, &outcome);
    assert!(requests.iter().zip([150, 300, 750, 0]).all(|(found, share)| found.abs_diff(share) <= 2), "{requests:?}");
    let scores = Scores::of(&scenario, &outcome);
    assert!(scores.spread.is_some_and(|spread| spread > 0.9999), "{scores:?}");
    let (scenario, outcome) = run("targets: 3\nupstream: {balance: hash}\n");
    assert_eq!(requests_of_used(&scenario, &outcome), 1, "all requests come from one client");
}

fn requests_of_used(scenario: &Scenario, outcome: &Outcome) -> usize {
    requests(scenario, outcome).iter().filter(|count| **count > 0).count()
}

#[test]
fn a_request_that_can_t_connect_goes_to_another_target() {
    let kill = |number: usize| format!("{{at: 2, for: 2, what: kill, target: {number}}}");
    let off = "upstream: {balance: round_robin, slow_start: 0s, ejection: {consecutive_failures: 0}}\n";
    let (scenario, outcome) = run(&format!("targets: 4\n{off}faults: [{}]\n", kill(1)));
    let all = outcome.observation.total().all();
    // At 200 a second, one may be in flight when the target dies.
    assert!(all.target_errors <= 1 && all.errors == 0, "{all:?}");
    let failures = targets(&scenario, &outcome)[0]["failures"].as_u64();
    assert!(failures.is_some_and(|failures| (100..200).contains(&failures)), "it is tried in vain: {failures:?}");
    assert_eq!(Scores::of(&scenario, &outcome).load_back, Some(0.0));
    // A request is sent to three at the most. Three of four begin with a dead one, and a third of these do not get to
    // the one that is left.
    let three = format!("targets: 4\n{off}faults: [{}, {}, {}]\n", kill(1), kill(2), kill(3));
    let (_, outcome) = run(&three);
    let errors = outcome.observation.rows[2].all().target_errors;
    assert!((40..=60).contains(&errors), "a quarter of that second's 200 requests: {errors}");
    let (scenario, outcome) = run(&format!("targets: 2\n{off}faults: [{}, {}]\n", kill(1), kill(2)));
    let errors: Vec<u64> = outcome.observation.rows.iter().map(|row| row.all().target_errors).collect();
    assert!(errors[2..4] == [200, 200] && errors[0] == 0 && errors[5] == 0, "none is left: {errors:?}");
    let failures: Vec<_> = targets(&scenario, &outcome).iter().map(|target| target["failures"].as_u64()).collect();
    let is_once = |failures: &Option<u64>| failures.is_some_and(|failures| failures.abs_diff(400) <= 1);
    assert!(failures.iter().all(is_once), "a request goes to each of them once: {failures:?}");
}

/// The checks have not noticed yet that the first target is back, nor that the second is dead.
#[test]
fn a_request_that_can_t_connect_goes_to_a_target_that_is_out_before_it_fails() {
    let (scenario, outcome) = run("targets: 2\n\
         upstream: {balance: round_robin, slow_start: 0s, ejection: {consecutive_failures: 0}, \
         health_check: {interval: 2s, timeout: 100ms, unhealthy: 1, healthy: 2}}\n\
         faults: [{at: 1.5, for: 1, what: kill, target: 1}, {at: 2.5, for: 1, what: kill, target: 2}]\n");
    let events: Vec<&str> = outcome.events.iter().map(|event| event.text.as_str()).collect();
    assert!(events.contains(&"target 1: unhealthy, was up") && !events.contains(&"target 2: unhealthy, was up"));
    let errors: Vec<u64> = outcome.observation.rows.iter().map(|row| row.all().target_errors).collect();
    // One may be in flight when a target dies.
    assert!(errors.iter().sum::<u64>() <= 2, "{errors:?}");
    let failures = targets(&scenario, &outcome)[1]["failures"].as_u64();
    assert!(failures.is_some_and(|failures| (190..=202).contains(&failures)), "one attempt a request: {failures:?}");
}

#[test]
fn a_killed_target_loses_what_it_has_and_comes_back_empty() {
    let slow = "targets: [{service_time: 500ms, workers: 2, queue: 9}, {}]\nupstream: {balance: round_robin}\n\
        faults: [{at: 1, for: 2, what: kill, target: 1}]\n";
    let (scenario, outcome) = run(slow);
    let all = outcome.observation.total().all();
    assert_eq!(all.offered, all.good + all.target_errors + all.errors, "each request ends once");
    assert_eq!(outcome.levels.busy[1], Some(1), "only the other one works: {:?}", outcome.levels.busy);
    assert_eq!(outcome.levels.queue[1], Some(0), "{:?}", outcome.levels.queue);
    let failures = targets(&scenario, &outcome)[0]["failures"].as_u64();
    assert!(failures >= Some(11), "both workers and the whole queue: {failures:?}");
}

#[test]
fn a_frozen_target_responds_at_the_end_or_times_out() {
    let frozen = |timeout: &str| {
        run(&format!(
            "targets: 2\nupstream: {{answer_timeout: {timeout}, balance: round_robin}}\n\
             faults: [{{at: 2, for: 0.5, what: freeze, target: 2}}]\n"
        ))
    };
    let (scenario, outcome) = frozen("5s");
    let scores = Scores::of(&scenario, &outcome);
    assert_eq!((scores.target_errors, scores.errors), (0.0, 0.0), "all have time");
    let longest = scores.latency.expect("there are responses").max;
    assert!((0.45..0.6).contains(&longest), "{longest}");
    let (_, outcome) = frozen("100ms");
    let errors: Vec<u64> = outcome.observation.rows.iter().map(|row| row.all().target_errors).collect();
    // A hundred a second go there, until five in a row have failed; those in flight then fail too. One was in flight
    // when it froze.
    assert!((5..=40).contains(&errors[2]) && errors.iter().sum::<u64>() <= errors[2] + 1, "{errors:?}");
}

/// A frozen target still accepts connections, so only a check with a request notices.
#[test]
fn checks_notice_what_they_look_at() {
    let events = |fault: &str, check: &str| {
        let (_, outcome) = run(&format!(
            "targets: 3\nupstream: {{ejection: {{consecutive_failures: 0}}, health_check: {check}}}\n\
             faults: [{{at: 1, for: 3, what: {fault}, target: 3}}]\n"
        ));
        outcome.events.iter().any(|event| event.text == "target 3: unhealthy, was up")
    };
    let (connects, requests) = ("{interval: 500ms, timeout: 200ms}", "{interval: 500ms, timeout: 200ms, path: /}");
    assert!(events("kill", connects) && events("kill", requests));
    assert!(!events("freeze", connects) && events("freeze", requests));
    assert!(!events("slow, factor: 2", requests) && events("slow, factor: 100", requests));
}

#[test]
fn the_baseline_may_have_a_pool_of_its_own() {
    let scenario = read("targets: 2\nbaseline: {upstream: {balance: round_robin}}\n");
    assert_eq!(Variant::all(&scenario).first().map(|variant| variant.algorithm), Some(None));
    let baseline = simulate(&scenario, Variant { algorithm: None, adaptation: false, gateway: None });
    let requests = requests(&scenario, &baseline);
    assert!(requests[0].abs_diff(requests[1]) <= 1, "in turn: {requests:?}");
}

#[test]
fn what_is_wrong_with_several_targets_is_reported_with_its_path() {
    for (more, path, reason) in [
        ("targets: 0", "targets", "1 to 100, got 0"),
        ("targets: 2.5", "targets", "1 to 100, got 2.5"),
        ("targets: four", "targets", "a number of targets or a list of them, got \"four\""),
        ("targets: []", "targets", "between 1 and 100 targets, got 0"),
        ("targets: [7]", "targets[0]", "must be an object"),
        ("targets: [{}, {weight: 2000000}]", "targets[1].weight", "1000000"),
        ("targets: [{}, {speed: 2}]", "targets[1].speed", "unknown"),
        ("targets: [{}]\ntarget: {}", "target", "left out with a list"),
        ("targets: 2\ntarget: {weight: 2}", "target.weight", "unknown"),
        ("target: {}\nupstream: {}", "upstream", "needs `targets`"),
        ("target: {}\nbaseline: {upstream: {}}", "baseline.upstream", "needs `targets`"),
        ("targets: 2\nupstream: 7", "upstream", "settings of the gateway's upstream, got 7"),
        ("targets: 2\nupstream: {url: 'http://a'}", "upstream.url", "the lab's"),
        ("targets: 2\nupstream: {balance: magic}", "upstream.balance", "least_requests"),
        ("targets: 2\nupstream: {speed: 2}", "upstream.speed", "unknown"),
        ("targets: 2\nupstream: {ejection: {max_share: 3}}", "upstream.ejection.max_share", "got 3"),
        ("targets: 2\nupstream: {health_check: {path: x}}", "upstream.health_check.path", "must begin with `/`"),
        ("targets: 2\nbaseline: {upstream: {balance: magic}}", "baseline.upstream.balance", "least_requests"),
        ("targets: 2\nbaseline: {limit: 5}", "baseline.limit", "unknown"),
        ("target: {}\nfaults: [{at: 1, for: 1, what: kill, target: 1}]", "faults[0].what", "needs `targets`"),
        ("targets: 2\nfaults: [{at: 1, for: 1, what: kill}]", "faults[0].target", "missing; must be the number"),
        ("targets: 2\nfaults: [{at: 1, for: 1, what: freeze, target: 3}]", "faults[0].target", "from 1 to 2, got 3"),
        ("targets: 2\nfaults: [{at: 1, for: 1, what: slow, target: 1}]", "faults[0].factor", "missing"),
        ("targets: 2\nfaults: [{at: 1, for: 1, what: kill, target: 1, factor: 2}]", "faults[0].factor", "unknown"),
        (
            "targets: 2\nfaults: [{at: 1, for: 2, what: kill, target: 1}, {at: 2, for: 1, what: freeze, target: 1}]",
            "faults[1]",
            "the end of faults[0]",
        ),
        (
            "targets: 2\nfaults: [{at: 1, for: 2, what: target, with: {hang: true}}, \
             {at: 2, for: 1, what: slow, target: 1, factor: 2}]",
            "faults[1]",
            "the end of faults[0]",
        ),
    ] {
        let error = Scenario::read("bad", &format!("{SMALL}{more}\n")).expect_err(more);
        let is_it = |problem: &String| problem.starts_with(&format!("{path}: ")) && problem.contains(reason);
        assert!(error.problems.iter().any(is_it), "{more}: {error}");
    }
    read("targets: 2\nfaults: [{at: 1, for: 2, what: kill, target: 1}, {at: 2, for: 1, what: kill, target: 2}]\n");
}
