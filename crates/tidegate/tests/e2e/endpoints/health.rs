//! Checks of endpoints, and endpoints that fail requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{gateway, named, shares, state};
use tidegate_testkit::{Upstream, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// Health checks get 200 or 503 as the switch says, all other requests 200.
fn switched() -> (Upstream, Arc<AtomicBool>) {
    let is_healthy = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_healthy);
    let upstream = Upstream::responding(move |received| {
        let is_sick = received.line.contains("/health") && !is_healthy.load(Ordering::Relaxed);
        if is_sick { UNAVAILABLE } else { OK }.to_vec()
    });
    (upstream, switch)
}

fn requests(upstream: &Upstream) -> usize {
    upstream.received().iter().filter(|received| !received.line.contains("/health")).count()
}

#[test]
fn an_endpoint_that_fails_its_checks_gets_no_requests_until_it_passes_them_again() {
    let (sick, is_healthy) = switched();
    let healthy = named("healthy");
    let check = "health_check: {path: /health?deep=1, interval: 100ms, healthy: 2, unhealthy: 2}, slow_start: 0";
    let gateway = gateway(&[sick.address, healthy.address], check);
    wait_until("it is checked", || sick.received().iter().any(|received| received.line.contains("/health?deep=1")));
    let seen = sick.last();
    assert_eq!(seen.header("user-agent"), Some("tidegate-health-check"));
    is_healthy.store(false, Ordering::Relaxed);
    wait_until("it is out", || state(&gateway, sick.address) == "unhealthy");
    gateway.wait_for_line("fails its health checks");
    let before = requests(&sick);
    for _ in 0..30 {
        assert_eq!(gateway.get("/").text(), "healthy");
    }
    assert_eq!(requests(&sick), before);
    is_healthy.store(true, Ordering::Relaxed);
    wait_until("it is back", || state(&gateway, sick.address) == "up");
    wait_until("it gets requests", || gateway.get("/").text() == "OK");
}

#[test]
fn a_check_may_want_another_method_and_other_statuses() {
    let upstream = Upstream::responding(|received| {
        let is_check = received.line.starts_with("HEAD /alive");
        if is_check { b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec() } else { OK.to_vec() }
    });
    let other = named("other");
    for (statuses, expected) in [("statuses: [404]", "up"), ("statuses: [200]", "unhealthy")] {
        let check = format!("health_check: {{path: /alive, method: HEAD, interval: 100ms, {statuses}}}");
        let gateway = gateway(&[upstream.address, other.address], &check);
        wait_until("the first check has decided", || {
            let shown = super::shown(&gateway, upstream.address);
            shown["health"] != "unknown" && shown["state"] == expected
        });
    }
}

/// Without a path a check only connects.
#[test]
fn a_check_without_a_path_only_connects() {
    let (dead, alive) = (crate::framing::origin::Rejecting::new(), named("alive"));
    let gateway = gateway(&[dead.address, alive.address], "health_check: {interval: 100ms}");
    wait_until("the first check has decided", || state(&gateway, dead.address) == "unhealthy");
    assert_eq!(shares(&gateway, 20, &[&alive]), [20]);
    assert_eq!(alive.count(), 20, "a check sends no request");
}

/// It accepts and never responds.
#[test]
fn an_endpoint_that_does_not_respond_to_its_check_in_time_is_out() {
    let stuck = Upstream::behaving(|_, _| {
        wait_until("it never is", || false);
        false
    });
    let alive = named("alive");
    let check = "health_check: {path: /health, interval: 100ms, timeout: 50ms}";
    let gateway = gateway(&[stuck.address, alive.address], check);
    wait_until("the first check has decided", || state(&gateway, stuck.address) == "unhealthy");
    assert!((0..20).all(|_| gateway.get("/").text() == "alive"));
}

/// It passes its checks and fails requests.
#[test]
fn an_endpoint_that_fails_requests_is_ejected_though_its_checks_pass() {
    let failing =
        Upstream::responding(
            |received| {
                if received.line.contains("/health") { OK.to_vec() } else { UNAVAILABLE.to_vec() }
            },
        );
    let good = named("good");
    let settings = "health_check: {path: /health, interval: 100ms}, \
                    ejection: {consecutive_failures: 5, time: 1h, max_time: 1h}";
    let gateway = gateway(&[failing.address, good.address], settings);
    let mut failed = 0;
    wait_until("it is ejected", || {
        failed += usize::from(gateway.get("/").status == 503);
        state(&gateway, failing.address) == "ejected"
    });
    assert_eq!(failed, 5);
    assert!((0..30).all(|_| gateway.get("/").text() == "good"));
    let shown = super::shown(&gateway, failing.address);
    assert_eq!((&shown["ejected"]["reason"], &shown["health"]), (&"consecutive_failures".into(), &"healthy".into()));
    let ejections = format!("tidegate_endpoint_ejections_total{{service=\"app\",endpoint=\"{}\"}}", failing.address);
    assert_eq!(gateway.metric(&ejections), Some(1.0));
}

#[test]
fn an_ejected_endpoint_returns_when_its_time_is_up() {
    let is_failing = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_failing);
    let sometimes =
        Upstream::responding(move |_| if switch.load(Ordering::Relaxed) { UNAVAILABLE } else { OK }.to_vec());
    let good = named("good");
    let settings = "ejection: {consecutive_failures: 2, time: 300ms, max_time: 300ms}, slow_start: 0";
    let gateway = gateway(&[sometimes.address, good.address], settings);
    wait_until("it is ejected", || {
        gateway.get("/");
        state(&gateway, sometimes.address) == "ejected"
    });
    is_failing.store(false, Ordering::Relaxed);
    wait_until("it gets requests again", || gateway.get("/").text() == "OK");
    gateway.wait_for_line("returns from its ejection");
}

/// Only the statuses that are named count.
#[test]
fn which_statuses_count_is_configured() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let upstream = Upstream::responding(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let good = named("good");
    for (statuses, expected) in [("[502, 503, 504]", "up"), ("[500]", "ejected")] {
        let settings = format!("ejection: {{consecutive_failures: 2, statuses: {statuses}}}");
        let gateway = gateway(&[upstream.address, good.address], &settings);
        let before = count.load(Ordering::Relaxed);
        wait_until("it has failed often enough", || {
            gateway.get("/");
            count.load(Ordering::Relaxed) >= before + 2
        });
        assert_eq!(state(&gateway, upstream.address), expected, "{statuses}");
    }
}
