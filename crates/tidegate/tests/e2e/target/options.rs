//! Every option does what it says. Times have lower bounds only: those hold on any machine.

use std::time::{Duration, Instant};

use tidegate_lab::target::ServiceTime;

use crate::target::setting::{asking, faults, switch, target, wait_for_standing};
use tidegate_testkit::{Gateway, tidegate};

/// How long a request took; it went well.
fn took(target: &Gateway) -> Duration {
    let began = Instant::now();
    let response = target.get("/api/test");
    assert_eq!((response.status, response.text().as_str()), (200, "OK"));
    began.elapsed()
}

#[test]
fn a_request_is_served_for_the_service_time() {
    assert!(took(&target(&[])) >= Duration::from_millis(5), "by default");
    assert!(took(&target(&["--service-time", "150ms"])) >= Duration::from_millis(150));
    took(&target(&["--service-time", "0"]));
}

#[test]
fn random_service_times_come_from_the_seed() {
    for text in ["exponential:20ms", "lognormal:20ms:1"] {
        let target = target(&["--service-time", text, "--seed", "7"]);
        let (time, mut random) = (text.parse::<ServiceTime>().expect("a time"), fastrand::Rng::with_seed(7));
        for _ in 0..20 {
            let expected = time.draw(&mut random);
            let took = took(&target);
            assert!(took >= expected, "{took:?} for {expected:?}");
        }
    }
}

#[test]
fn workers_and_queue_are_as_many_as_said() {
    let target = target(&["--workers", "2", "--queue", "3"]);
    switch(&target, r#"{"hang": true}"#);
    let _asking: Vec<_> = (0..6).map(|_| asking(&target)).collect();
    wait_for_standing(&target, 2.0, 3.0);
    tidegate_testkit::wait_until("one too many", || target.metric("target_refused_requests_total") == Some(1.0));
    assert_eq!(target.metric("executor_pool_max_threads{name=\"target\"}"), Some(2.0));
    assert_eq!(target.metric("executor_queue_remaining_tasks{name=\"target\"}"), Some(0.0));
    assert_eq!(target.metric("target_queue_limit"), Some(3.0));
}

#[test]
fn contention_makes_it_slower_under_load() {
    let target = target(&["--service-time", "20ms", "--workers", "1", "--contention", "9"]);
    assert!(took(&target) >= Duration::from_millis(200), "all workers are busy: ten times as long");
}

#[test]
fn the_seed_decides_which_requests_fail() {
    let statuses = |seed: &str| -> Vec<u16> {
        let target = target(&["--service-time", "0", "--seed", seed]);
        switch(&target, r#"{"errors": 0.5}"#);
        (0..64).map(|_| target.get("/api/test").status).collect()
    };
    let first = statuses("1");
    assert_eq!(first, statuses("1"));
    assert_ne!(first, statuses("2"));
    assert!(first.contains(&200) && first.contains(&500));
}

#[test]
fn cpu_work_uses_the_cpu_and_leaves_health_alone() {
    let target = target(&["--work", "cpu", "--service-time", "300ms", "--workers", "2"]);
    let used = || target.metric("process_cpu_seconds_total").expect("a number");
    let before = used();
    let mut busy = [asking(&target), asking(&target)];
    wait_for_standing(&target, 2.0, 0.0);
    assert_eq!(target.get("/actuator/health").status, 200);
    for client in &mut busy {
        assert_eq!(client.response().status, 200);
    }
    let used = used() - before;
    assert!(used >= 0.58, "{used}: the system counts hundredths");
    wait_for_standing(&target, 0.0, 0.0);
}

#[test]
fn slowness_in_cpu_work_is_cpu_time_too() {
    let target = target(&["--work", "cpu", "--service-time", "10ms"]);
    switch(&target, r#"{"slowness": {"factor": 20}}"#);
    assert!(took(&target) >= Duration::from_millis(200));
    assert_eq!(faults(&target, "DELETE", "").status, 200);
    took(&target);
}

#[test]
fn bad_options_are_rejected_with_what_is_expected() {
    for (arguments, reported) in [
        (&["--service-time", "5"][..], "with a unit (us, ms or s), got \"5\""),
        (
            &["--service-time", "gauss:5ms"],
            "must be a time such as 5ms, exponential:5ms or lognormal:5ms:0.5, got \"gauss:5ms\"",
        ),
        (&["--service-time", "2h"], "with a unit (us, ms or s), got \"2h\""),
        (&["--service-time", "61s"], "must be at most 60s, got 61s"),
        (&["--work", "dream"], "[possible values: sleep, cpu]"),
        (&["--workers", "0"], "0 is not in 1..=1000"),
        (&["--workers", "1001"], "1..=1000"),
        (&["--queue", "-1"], "-1 is not in 0..=100000"),
        (&["--queue", "100001"], "0..=100000"),
        (&["--contention", "-1"], "must be a number from 0 to 1000"),
        (&["--contention", "nan"], "must be a number from 0 to 1000"),
        (&["--seed", "-1"], "--seed <N>"),
        (&["--listen", "localhost"], "such as 127.0.0.1:8081 or [::]:8081"),
        (&["--log-format", "xml"], "[possible values: text, json]"),
        (&["--colour"], "--colour"),
    ] {
        let output = tidegate().arg("target").args(arguments).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(reported), "{arguments:?}: {stderr}");
    }
}
