//! `tidegate load run` as people and scripts use it.

use std::time::Duration;

use serde_json::json;

use tidegate_testkit::load_run::{Running, constant, run, with};
use tidegate_testkit::{Directory, Upstream, pause, request, tidegate, wait_until};

fn url(target: &Upstream) -> String {
    format!("http://{}/", target.address)
}

#[test]
fn thresholds_decide_the_exit_code() {
    let target = Upstream::start();
    let plan = constant(url(&target), 100, 0.3);
    let held = run(&with(plan.clone(), "thresholds", json!(["p99<20s", "errors<1%", "rate_limited<5%", "missed<1%"])));
    assert_eq!(held.code, 0, "{}{}", held.stdout, held.stderr);
    let broken = run(&with(plan.clone(), "thresholds", json!(["p50<0.001ms"])));
    assert_eq!(broken.code, 99, "{}", broken.stdout);
    assert!(broken.stdout.contains("p50<0.001ms"), "{}", broken.stdout);
    assert_eq!(broken.result["thresholdsHold"], json!(false));
    // The same from the command line, where it is added to the plan's.
    let added = Running::start(&with(plan, "thresholds", json!(["p99<20s"])), |command| {
        command.args(["--threshold", "errors<0.1%", "--threshold", "p50<0.001ms"]);
    });
    let added = added.ended();
    assert_eq!((added.code, added.result["thresholds"].as_array().map(Vec::len)), (99, Some(3)));
}

/// A gateway that rejected nearly everything passed `p50<300ms`, though what it let through took longer: rejections are
/// quick, and were counted like responses of the service.
#[test]
fn a_threshold_may_be_of_responses_of_one_class() {
    let served = std::sync::atomic::AtomicUsize::new(0);
    let target = Upstream::behaving(move |_, stream| {
        // One of ten is served, slowly.
        let is_served = served.fetch_add(1, std::sync::atomic::Ordering::Relaxed).is_multiple_of(10);
        if is_served {
            pause(Duration::from_millis(400));
        }
        let status = if is_served { "200 OK" } else { "429 Too Many Requests" };
        let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        std::io::Write::write_all(stream, response.as_bytes()).is_ok()
    });
    let plan = constant(url(&target), 50, 1.0);
    let ran = run(&with(plan, "thresholds", json!(["p50<20s", "p50{2xx}<300ms", "p50{rejected}<20s", "max{5xx}<20s"])));
    assert_eq!(ran.code, 99, "{}{}", ran.stdout, ran.stderr);
    let holds: Vec<_> = (0..4).map(|place| ran.result["thresholds"][place]["holds"].as_bool()).collect();
    assert_eq!(holds, [Some(true), Some(false), Some(true), Some(false)], "{}", ran.stdout);
    assert_eq!(ran.result["mostlyRejected"], true);
    let classes = &ran.result["latencyByStatusSeconds"];
    assert_eq!((&classes["2xx"]["count"], &classes["rejected"]["count"]), (&json!(5), &json!(45)), "{classes}");
    for reported in ["note  most responses are rejections: 45 of 50", "    of 2xx", "    of rejected"] {
        assert!(ran.stdout.contains(reported), "{reported}\n{}", ran.stdout);
    }
}

#[test]
fn a_bad_plan_is_exit_2_with_all_that_is_wrong() {
    let ran = run(
        &json!({ "limiterUrl": "ftp://a", "duration": -1, "profile": { "type": "burst", "params": { "baseRps": 1 } } }),
    );
    assert_eq!(ran.code, 2);
    for piece in [
        "limiterUrl: ",
        "duration: must be seconds from 0.001 to 604800, got -1",
        "profile.params.spikeRps: is missing",
        "profile.params.spikePeriod: is missing",
    ] {
        assert!(ran.stderr.contains(piece), "{piece} in {}", ran.stderr);
    }
    let none = tidegate().args(["load", "run", "/no/such/plan.json"]).output().expect("it runs");
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("/no/such/plan.json"));
    let none = tidegate().args(["load", "run"]).output().expect("it runs");
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("CONFIG_FILE"));
}

#[test]
fn a_host_that_nobody_knows_is_reported_before_anything_is_sent() {
    let ran = run(&constant("http://tidegate-no-such-host.invalid/", 10, 0.1));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("limiterUrl: the host \"tidegate-no-such-host.invalid\" can't be found"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_environment_may_name_the_plan_and_flags_win_over_it() {
    let (target, directory) = (Upstream::start(), Directory::new());
    let plan = directory.file("plan.json", &constant("http://127.0.0.1:9/", 100, 60.0).to_string());
    let done = tidegate()
        .args(["load", "run", "--quiet", "--url", &url(&target), "--duration", "0.2", "--rate", "50"])
        .env("CONFIG_FILE", &plan)
        .output()
        .expect("it runs");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(target.count(), 10);
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn progress_goes_to_standard_error_and_the_summary_to_standard_output() {
    let target = Upstream::start();
    let ran = Running::start(&constant(url(&target), 100, 6.0), |_| {}).ended();
    assert!(ran.stderr.contains("profile=constant") && ran.stderr.contains("p99 "), "{}", ran.stderr);
    assert!(ran.stdout.contains("600") && ran.stdout.contains("p99"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}'), "no colours where nobody sees them: {:?}", ran.stdout);
}

/// Ctrl-C ends the run; what ran until then is reported.
#[test]
fn who_stops_a_run_still_gets_its_report() {
    let target = Upstream::start();
    let running = Running::start(&constant(url(&target), 100, 600.0), |_| {});
    wait_until("it sends", || target.count() > 20);
    running.signal("INT");
    let ran = running.ended();
    assert_eq!((ran.code, &ran.result["ended"]), (130, &json!("stopped")));
    assert!(ran.requests("sent") > 20 && ran.stdout.contains("stopped"), "{}", ran.stdout);
}

/// What has not got a response when a run is stopped is neither good nor bad.
#[test]
fn requests_under_way_at_a_stop_are_unfinished() {
    let silent = Upstream::behaving(|_, _| {
        pause(Duration::from_secs(30));
        false
    });
    let running = Running::start(&constant(url(&silent), 100, 600.0), |_| {});
    wait_until("it sends", || silent.count() > 20);
    running.signal("TERM");
    let ran = running.ended();
    assert_eq!(
        (ran.requests("unfinished"), ran.requests("errors")),
        (ran.requests("sent"), 0),
        "{}",
        ran.result["requests"]
    );
}

#[test]
fn metrics_can_be_scraped_during_a_run_and_once_more_after_it() {
    let target = Upstream::start();
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let running = Running::start(&constant(url(&target), 100, 0.5), |command| {
        command.args(["--metrics", &port.to_string(), "--linger", "60"]);
    });
    let page = || {
        std::net::TcpStream::connect(port).ok()?;
        Some(request(port, "GET", "/actuator/prometheus", &[], b"").text())
    };
    wait_until("all is counted", || {
        page().is_some_and(|page| page.contains("loadgen_requests_total{status=\"success\"} 50\n"))
    });
    wait_until("it is over", || page().is_some_and(|page| page.contains("loadgen_test_running 0\n")));
    running.signal("TERM");
    let ran = running.ended();
    assert_eq!((ran.code, ran.requests("success")), (0, 50), "the run was over");
}

/// Nobody waits for a last scrape that is not wanted.
#[test]
fn metrics_linger_for_as_long_as_they_are_set_to() {
    let target = Upstream::start();
    let run = |linger: &str, patience: Duration| {
        let started = std::time::Instant::now();
        let running = Running::start(&constant(url(&target), 50, 0.2), |command| {
            command.args(["--metrics", "127.0.0.1:0", "--linger", linger]);
        });
        assert_eq!(running.ended_within(patience).code, 0);
        started.elapsed()
    };
    // It would be 15 s if nobody had said otherwise: it must have ended before.
    let patience = Duration::from_secs(12);
    assert!(run("1", patience) >= Duration::from_secs(1));
    run("0", patience);
}

#[test]
fn another_seed_sends_otherwise() {
    let target = Upstream::start();
    let mut plan = constant(url(&target), 100, 0.3);
    plan["clients"] = json!([{ "count": 1_000_000, "headers": { "X-Client": "{n}" } }]);
    let sent = |seed: &[&str]| {
        let before = target.count();
        let ran = Running::start(&plan, |command| {
            command.args(seed);
        });
        assert_eq!(ran.ended().code, 0);
        let mut clients: Vec<String> = target.received()[before..]
            .iter()
            .map(|request| request.header("x-client").expect("one").to_owned())
            .collect();
        clients.sort_unstable();
        clients
    };
    let usual = sent(&[]);
    assert_eq!(sent(&["--seed", "1"]), usual);
    assert_ne!(sent(&["--seed", "2"]), usual);
}

#[test]
fn what_happens_can_be_written_to_a_file() {
    let (target, directory) = (Upstream::start(), Directory::new());
    let file = directory.0.join("run.log");
    let ran = Running::start(&constant(url(&target), 50, 0.2), |command| {
        command.arg("--log-file").arg(&file).args(["--log-format", "json"]);
    });
    assert_eq!(ran.ended().code, 0);
    let text = std::fs::read_to_string(&file).expect("a file");
    let messages: Vec<String> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["message"].as_str().expect("text").to_owned()
        })
        .collect();
    assert!(
        messages[0].starts_with("Starting load test ")
            && messages[1].starts_with("Test completed: 10 requests sent, 0 errors"),
        "{messages:#?}"
    );
}

#[test]
fn a_result_that_can_not_be_written_is_reported_before_the_run() {
    let target = Upstream::start();
    let directory = Directory::new();
    let plan = directory.file("plan.json", &constant(url(&target), 50, 0.2).to_string());
    let done = tidegate()
        .args(["load", "run"])
        .arg(&plan)
        .args(["--json", "/no/such/directory/out.json"])
        .output()
        .expect("it runs");
    assert_eq!((done.status.code(), target.count()), (Some(1), 0));
    assert!(String::from_utf8_lossy(&done.stderr).contains("/no/such/directory/out.json"));
}

/// An hour of load is not lost because the disk is full.
#[test]
fn a_result_that_can_not_be_written_in_the_end_is_printed_all_the_same() {
    let (target, directory) = (Upstream::start(), Directory::new());
    let plan = directory.file("plan.json", &constant(url(&target), 50, 0.2).to_string());
    let done = tidegate().args(["load", "run"]).arg(&plan).args(["--json", "/dev/full"]).output().expect("it runs");
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stdout).contains("success"), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("can't write /dev/full"), "{done:?}");
}

#[test]
fn a_result_replaces_neither_a_plan_nor_another_result() {
    let (target, directory) = (Upstream::start(), Directory::new());
    let text = constant(url(&target), 50, 0.2).to_string();
    let plan = directory.file("plan.json", &text);
    let done = tidegate().args(["load", "run"]).arg(&plan).arg("--json").arg(&plan).output().expect("it runs");
    assert_eq!((done.status.code(), std::fs::read_to_string(&plan).expect("it is there")), (Some(2), text));
    let out = directory.0.join("result.json");
    assert!(
        tidegate().args(["load", "run", "-q"]).arg(&plan).arg("--json").arg(&out).status().expect("it runs").success()
    );
    let before = std::fs::read(&out).expect("a result");
    let done = tidegate().args(["load", "merge"]).arg(&out).arg("--json").arg(&out).output().expect("it runs");
    assert_eq!((done.status.code(), std::fs::read(&out).expect("it is there")), (Some(2), before));
}

#[test]
fn invalid_numbers_are_rejected() {
    let plan = Directory::new();
    let plan_file = plan.file("plan.json", "{}");
    for arguments in [["--start-at", "nan"], ["--rate", "inf"], ["--duration", "x"], ["--metrics", "here"]] {
        let done = tidegate().args(["load", "run"]).arg(&plan_file).args(arguments).output().expect("it runs");
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains("must be "), "{done:?}");
    }
}

/// A wait for an agreed time is reported.
#[test]
fn a_run_that_waits_for_its_start_says_so() {
    let target = Upstream::start();
    let start = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64() + 7.0;
    let ran = Running::start(&constant(url(&target), 50, 0.2), |command| {
        command.args(["--start-at", &start.to_string()]);
    });
    let ran = ran.ended();
    assert!(ran.stderr.contains("waiting for the start, in "), "{}", ran.stderr);
    assert_eq!(ran.requests("success"), 10);
}
