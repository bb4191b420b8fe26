//! `tidegate lab run`: the same scenarios with real sockets.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::lab::simulate::{lab, report};
use tidegate_testkit::command::{Outcome, finish, finish_within};
use tidegate_testkit::timing::are_judged;
use tidegate_testkit::{Directory, signal, text, tidegate, wait_until};

/// Bursts over the edges of windows, as `boundary` has them, for some seconds.
const EDGES: &str = "
title: Edges
limit: {rate: 100, window: 1, burst: 20}
target: {service_time: 2ms, workers: 4, queue: 200}
load:
  lagBudget: 1
  phases:
    - {duration: 0.4, profile: {type: constant, params: {rps: 5}}}
    - {duration: 4, profile: {type: burst, params: {baseRps: 5, spikeRps: 400, spikeDuration: 0.8, spikePeriod: 2}}}
  clients: [{name: people, count: 10, weight: 3}, {name: bots, class: attacker, count: 2}]
expect:
  - {that: worst_window > 1.7, algorithms: [fixed]}
";

fn runs(report: &Value) -> Vec<&Value> {
    report["scenarios"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|it| it["runs"].as_array().into_iter().flatten())
        .collect()
}

/// Runs a scenario live: as long as its load takes, and a few seconds for each run.
fn live(file: &str, directory: &Directory) -> Outcome {
    finish_within(Duration::from_secs(180), live_command(file, directory))
}

fn live_command(file: &str, directory: &Directory) -> Command {
    let mut command = tidegate();
    command.args(["lab", "run", file, "--out", &text(&directory.0)]);
    command
}

/// Runs a scenario with limits in this store, which has faults; what happened in its only run. What is expected in time
/// is judged where times are.
fn with_store(store: &str, scenario: &str, timed: &str) -> String {
    let directory = Directory::new();
    let timed = if are_judged() { timed } else { "" };
    let file = text(&directory.file("away.yaml", &format!("store: {store}\n{scenario}{timed}")));
    let mut command = live_command(&file, &directory);
    if store == "stand_in" {
        // There is no other then.
        command.env("PATH", "/nonexistent");
    }
    let outcome = finish_within(Duration::from_secs(180), command);
    assert_eq!(outcome.code, 0, "{store}: {outcome:?}");
    let report = report(&directory.0);
    assert_eq!(report["scenarios"][0]["store"], store);
    runs(&report)[0]["events"].to_string()
}

/// What was admitted, run by run.
fn admitted(report: &Value) -> Vec<(String, f64)> {
    let of = |run: &&Value| {
        let id = run["id"].as_str().unwrap_or_default().to_owned();
        (id, run["totals"]["admitted"].as_f64().unwrap_or_else(|| panic!("no figures: {run}")))
    };
    runs(report).iter().map(of).collect()
}

/// A provider that dies for two seconds, and a shop beside it.
const DYING: &str = "
title: Dying
duration: 6
gateway:
  upstreams:
    shop: {url: 'http://shop'}
    provider: {url: 'http://provider', policy: provider, answer_timeout: 300ms}
  policies:
    provider: {timeout: 300ms, breaker: {window: 10, open: 500ms, probes: 1}}
  routes: [{prefix: /api/test/pay, upstream: provider}, {upstream: shop}]
variants: {bare: {upstreams: {provider: {policy: null}}}}
targets: {shop: {}, provider: {}}
load:
  lagBudget: 1
  profile: {type: constant, params: {rps: 100}}
  clients:
    - {name: shoppers}
    - {name: payers, path: /api/test/pay, retry: {retries: 1, base: 0.05, after: [5xx]}}
faults: [{at: 2, for: 2, what: freeze, target: provider}]
";

/// The same configuration, faults and clients; the gateway names what it rejects itself.
#[test]
fn policies_do_live_what_they_do_in_simulated_time() {
    let (directory, simulated) = (Directory::new(), Directory::new());
    let file = text(&directory.file("dying.yaml", DYING));
    let ran = live(&file, &directory);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(lab(&["simulate", &file, "--out", &text(&simulated.0)]).code, 0);
    let (live, simulated) = (report(&directory.0), report(&simulated.0));
    for (live, simulated) in runs(&live).into_iter().zip(runs(&simulated)) {
        let id = live["id"].as_str().unwrap_or_default();
        assert_eq!(live["id"], simulated["id"]);
        let events = live["events"].to_string();
        for words in ["provider frozen", "provider responds again"] {
            assert!(events.contains(words), "{id}: {events}");
        }
        let has_breaker = id == "dying/protected";
        for words in
            ["breaker of provider (policy provider) is open", "breaker of provider (policy provider) is closed"]
        {
            assert_eq!(events.contains(words), has_breaker, "{id}: {events}");
        }
        let rejected = |run: &Value| run["totals"]["refused"].as_u64().unwrap_or_default();
        assert_eq!((rejected(live) > 20, rejected(simulated) > 20), (has_breaker, has_breaker), "{id}");
        for figure in ["served", "amplification"] {
            let of = |run: &Value| run["scores"][figure].as_f64().unwrap_or_else(|| panic!("{figure}: {run}"));
            assert!((of(live) - of(simulated)).abs() < 0.1 || !are_judged(), "{id}: {figure}");
        }
        let names: Vec<&Value> = live["groups"].as_array().into_iter().flatten().map(|group| &group["name"]).collect();
        assert_eq!(names, ["shoppers", "payers"], "{id}");
    }
}

#[test]
fn what_is_admitted_live_is_what_is_admitted_in_simulated_time() {
    let (directory, simulated) = (Directory::new(), Directory::new());
    let file = text(&directory.file("edges.yaml", EDGES));
    let ran = live(&file, &directory);
    assert_eq!(ran.code, 0, "{ran:?}");
    let reported = report(&directory.0);
    assert_eq!(reported["kind"], "live");
    assert!(
        reported["createdAt"].is_string() && reported["environment"]["cpus"].as_u64() > Some(0),
        "{}",
        reported["environment"]
    );
    lab(&["simulate", &file, "--out", &text(&simulated.0)]);
    let (live, expected) = (admitted(&reported), admitted(&report(&simulated.0)));
    assert_eq!(live.len(), 7, "six algorithms and a run without any");
    for ((id, live), (_, expected)) in live.iter().zip(&expected) {
        assert!(*live > 0.0 && *expected > 0.0, "{id}");
        let is_close = (live - expected).abs() <= 0.02 * expected;
        assert!(is_close || !are_judged(), "{id}: {live} live, {expected} in simulated time");
    }
    for run in runs(&reported) {
        assert!(run["gateway"]["cpuSeconds"].is_number(), "{}", run["gateway"]);
        let busy = run["series"]["busy"].as_array().expect("a series");
        assert!(busy.iter().any(Value::is_number), "the target was looked at: {busy:?}");
    }
}

/// Each of three targets has a fault, one after the other; the others take its requests.
#[test]
fn targets_are_killed_frozen_and_slowed_and_requests_go_to_the_others() {
    let directory = Directory::new();
    let scenario = "
duration: 12
limit: {rate: 1000, window: 1, burst: 1000}
target: {service_time: 2ms, workers: 4, queue: 100}
targets: 3
upstream:
  answer_timeout: 500ms
  slow_start: 0s
  ejection: {consecutive_failures: 3, time: 500ms, max_time: 500ms}
  health_check: {path: /api/test, interval: 200ms, timeout: 200ms, unhealthy: 2}
baseline: false
algorithms: [fixed]
load: {lagBudget: 1, profile: {type: constant, params: {rps: 150}}}
faults:
  - {at: 1, for: 2, what: kill, target: 1}
  - {at: 5, for: 2, what: freeze, target: 2}
  - {at: 9, for: 1, what: slow, target: 3, factor: 50}
expect:
  - errors <= 0%
";
    let timed = "  - target_errors < 5%\n  - load_back < 2s\n  - spread > 90%\n";
    let timed = if are_judged() { timed } else { "" };
    let file = text(&directory.file("targets.yaml", &format!("{scenario}{timed}")));
    let outcome = live(&file, &directory);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let report = report(&directory.0);
    let run = runs(&report)[0];
    let events = run["events"].to_string();
    for event in ["target 1 killed", "target 1 started again", "target 2 frozen", "target 2 responds again"] {
        assert!(events.contains(event), "{event}: {events}");
    }
    assert!(events.contains("target 3 slow, times 50: begins"), "{events}");
    let targets = run["targets"].as_array().expect("a list");
    assert_eq!(targets.len(), 3);
    for target in targets {
        assert!(target["successes"].as_u64() > Some(100), "all of them are used: {targets:?}");
        assert_eq!(target["series"].as_array().map(Vec::len), Some(12), "{target}");
    }
    assert!(targets[0]["failures"].as_u64() > Some(0), "the dead one was tried: {targets:?}");
    let of_second = |target: &Value, second: usize| target["series"][second].as_u64();
    assert!(of_second(&targets[0], 2) == Some(0) || !are_judged(), "it was dead then: {targets:?}");
}

#[test]
fn a_store_is_killed_and_slowed_and_nobody_is_rejected() {
    for store in ["redis", "stand_in"] {
        let scenario = "
duration: 10
limit: {rate: 100, window: 1, burst: 20}
target: {service_time: 2ms, workers: 4, queue: 100}
baseline: false
algorithms: [fixed]
load: {lagBudget: 1, profile: {type: constant, params: {rps: 200}}}
faults:
  - {at: 2, for: 2, what: redis_killed}
  - {at: 6, for: 2, what: redis_slow, delay: 0.3}
expect:
  - refused > 10%
";
        let timed = "  - {that: target_errors <= 0%}\n  - refused_in_outage < 5%\n  - limiting_back < 5s\n";
        let events = with_store(store, scenario, timed);
        for event in [
            "Redis killed",
            "Redis connection lost",
            "Redis started again",
            "Redis reconnected",
            "Redis slow by 300 ms: begins",
        ] {
            assert!(events.contains(event), "{store}, {event}: {events}");
        }
    }
}

/// Connections stay and nobody responds: of a real Redis the line stands still, the stand-in hangs by itself.
#[test]
fn a_store_that_hangs_is_not_a_reason_to_reject_anybody() {
    for store in ["redis", "stand_in"] {
        let scenario = "
duration: 8
limit: {rate: 100, window: 1, burst: 20}
target: {service_time: 2ms, workers: 4, queue: 100}
baseline: false
algorithms: [fixed]
load: {lagBudget: 1, profile: {type: constant, params: {rps: 200}}}
faults:
  - {at: 2, for: 2, what: redis_hangs}
expect:
  - refused > 10%
";
        let timed = "  - {that: target_errors <= 0%}\n  - refused_in_outage < 5%\n  - limiting_back < 4s\n";
        let events = with_store(store, scenario, timed);
        for event in ["Redis hangs", "Redis connection lost", "Redis responds again", "Redis reconnected"] {
            assert!(events.contains(event), "{store}, {event}: {events}");
        }
    }
}

/// What a slow target is spared is lowered second by second, which the gateway reports only at its beginning and end.
#[test]
fn a_limit_that_is_lowered_step_by_step_is_reported_so() {
    let directory = Directory::new();
    let scenario = "
duration: 16
limit: {rate: 100, window: 1, burst: 20}
target: {service_time: 2ms, workers: 8, queue: 100}
adaptation: {interval: 1, ceiling: 200, alone: true}
baseline: false
algorithms: [token]
load: {lagBudget: 1, profile: {type: constant, params: {rps: 60}}}
faults:
  - {at: 5, for: 11, what: target, with: {delay: 0.3}}
";
    let file = text(&directory.file("slow.yaml", scenario));
    let outcome = live(&file, &directory);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let report = report(&directory.0);
    let run = runs(&report)[0];
    let limits: Vec<f64> = run["series"]["limit"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let is_untouched = limits[..5].iter().all(|limit| (limit - 100.0).abs() < 1e-9);
    assert!(is_untouched || !are_judged(), "nothing is slow yet: {limits:?}");
    let falls = limits.windows(2).filter(|pair| pair[1] < pair[0] - 0.5).count();
    assert!(falls >= 3, "{limits:?}: {}", run["events"]);
}

/// What there is until then is reported, and nothing is left running.
#[test]
fn ctrl_c_ends_it_and_still_writes_the_report() {
    let directory = Directory::new();
    let file = text(&directory.file("long.yaml", &EDGES.replace("duration: 4", "duration: 600")));
    let mut command = live_command(&file, &directory);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // Its threads are named by what they serve: the load is being sent.
    let tasks = format!("/proc/{}/task", child.id());
    wait_until("a run is under way", || {
        let tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
            .any(|name| name.trim() == "gateway")
    });
    signal(child.id(), "INT");
    let mut code = None;
    wait_until("it ends", || {
        code = child.try_wait().expect("it can be waited for");
        code.is_some()
    });
    assert_eq!(code.and_then(|code| code.code()), Some(130));
    let report = report(&directory.0);
    assert_eq!((&report["verdict"]["interrupted"], &report["verdict"]["passed"]), (&true.into(), &false.into()));
    assert_eq!(report["verdict"]["skippedRuns"], 6);
}

#[test]
fn a_missing_redis_is_reported_plainly() {
    let directory = Directory::new();
    let scenario = "duration: 1\nstore: redis\nalgorithms: [fixed]\nbaseline: false\nlimit: {rate: 10}\n\
                    target: {workers: 2}\n\
        load: {profile: {type: constant, params: {rps: 5}}}\n";
    let file = text(&directory.file("redis.yaml", scenario));
    let mut command = live_command(&file, &directory);
    command.env("PATH", "/nonexistent");
    let outcome = finish(command);
    assert_eq!(outcome.code, 99, "{outcome:?}");
    assert!(outcome.out.contains("SKIPPED") && outcome.out.contains("redis-server is not installed"), "{outcome:?}");
}
