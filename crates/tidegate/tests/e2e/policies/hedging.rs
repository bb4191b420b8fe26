//! A second attempt beside a first one that has had no response for long.

mod combined;
mod leaving;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tidegate_testkit::{Client, Gateway, Upstream, request, wait_until};

use super::{breaker, config, metric, statuses, with_status};

const HEDGE: &str = "retry: {attempts: 2, base: 1ms, idempotency_key: x-key, budget: {share: 1, floor: 100}, \
                     hedge: {quantile: 0.9, min_delay: 1ms}}";

/// An upstream that holds its responses back on command.
struct Holding {
    upstream: Upstream,
    control: Arc<(Mutex<bool>, Condvar)>,
    status: Arc<AtomicU16>,
    /// Whether it closes the connection instead of responding, once it is released.
    breaks: Arc<AtomicBool>,
}

impl Holding {
    fn new() -> Self {
        let control = Arc::new((Mutex::new(false), Condvar::new()));
        let (status, breaks) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicBool::new(false)));
        let (held, current, broken) = (Arc::clone(&control), Arc::clone(&status), Arc::clone(&breaks));
        let upstream = Upstream::behaving(move |_, stream| {
            let (is_held, changed) = &*held;
            drop(changed.wait_while(is_held.lock().expect("no panic"), |held| *held));
            !broken.load(Ordering::Relaxed) && stream.write_all(&with_status(current.load(Ordering::Relaxed))).is_ok()
        });
        Self { upstream, control, status, breaks }
    }

    fn address(&self) -> SocketAddr {
        self.upstream.address
    }

    fn hold(&self, is_held: bool) {
        *self.control.0.lock().expect("no panic") = is_held;
        self.control.1.notify_all();
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.hold(false);
    }
}

/// A gateway that knows how long responses take.
fn warm(endpoints: &[SocketAddr], policy: &str, more: &str) -> Gateway {
    let gateway = Gateway::start(&config(endpoints, policy, "balance: round_robin", more));
    assert_eq!(statuses(&gateway, 60), [200; 60]);
    gateway
}

fn hedges(gateway: &Gateway) -> (u64, u64) {
    (metric(gateway, "tidegate_hedges_total", ""), metric(gateway, "tidegate_hedges_won_total", ""))
}

fn assert_all_free(gateway: &Gateway) {
    // The request that asks is one of them.
    wait_until("no request is under way", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    let endpoints = gateway.get("/config/upstreams/app").json()["endpoints"].clone();
    for endpoint in endpoints.as_array().expect("a list") {
        assert_eq!(endpoint["inFlight"], 0, "{endpoint}");
    }
    wait_until("no body is in memory", || gateway.metric("tidegate_buffered_bytes") == Some(0.0));
}

#[test]
fn a_request_without_a_response_gets_a_second_attempt_elsewhere() {
    let (quick, slow) = (Holding::new(), Holding::new());
    let policy = format!("{HEDGE}, breaker: {{consecutive: 1, open: 1h}}");
    let gateway = warm(&[quick.address(), slow.address()], &policy, "access_log: {format: json}\n");
    slow.hold(true);
    let before = (quick.upstream.count(), slow.upstream.count(), hedges(&gateway));
    let mut attempts = Vec::new();
    for _ in 0..20 {
        let response = gateway.get("/hedged");
        assert_eq!(response.status, 200);
        attempts.push(response.header("x-tidegate-attempts").map(str::to_owned));
    }
    let twice = attempts.iter().filter(|attempts| attempts.as_deref() == Some("2")).count();
    // Every second request goes there first; of the others one that is slow by chance may get its second attempt there.
    assert!(slow.upstream.count() - before.1 >= 10);
    assert!(twice >= 10, "{attempts:?}");
    let (all, won) = hedges(&gateway);
    assert!(won - before.2.1 >= 10 && all - before.2.0 >= won - before.2.1, "{all}, {won}");
    assert!(gateway.wait_for_line("\"attempts\":2").contains("/hedged"));
    // The slow one was left, which says nothing about it.
    assert_eq!((&breaker(&gateway)["state"], &breaker(&gateway)["failures"]), (&"closed".into(), &0.into()));
    assert!(gateway.metric("tidegate_hedge_delay_seconds{service=\"app\",policy=\"p\"}") >= Some(0.001));
    assert_all_free(&gateway);
}

/// Nobody knows whether the first one has arrived.
#[test]
fn only_requests_that_may_come_twice_get_one() {
    let (quick, slow) = (Holding::new(), Holding::new());
    let policy = format!("attempt_timeout: 300ms, {HEDGE}");
    let gateway = warm(&[quick.address(), slow.address()], &policy, "");
    slow.hold(true);
    let (mut before, body) = (hedges(&gateway).0, b"pay".as_slice());
    let mut is_hedged = |method: &str, headers: &[(&str, &str)]| {
        // One of two goes to the slow one first.
        let statuses = [(); 2].map(|()| request(gateway.address, method, "/", headers, body).status);
        let now = hedges(&gateway).0;
        let is_hedged = now > std::mem::replace(&mut before, now);
        assert_eq!(statuses.contains(&504), !is_hedged, "{method} {headers:?}: {statuses:?}");
        is_hedged
    };
    assert!(!is_hedged("POST", &[]));
    assert!(is_hedged("POST", &[("x-key", "1")]) && is_hedged("PUT", &[]) && is_hedged("DELETE", &[]));
    assert!(!is_hedged("PATCH", &[]), "not idempotent");
    let received = quick.upstream.received();
    let posts: Vec<_> = received.iter().filter(|request| request.line.starts_with("POST")).collect();
    assert!(posts.iter().all(|request| request.body == b"pay"), "each attempt has the whole body");
}

/// A body that is not in memory can't be sent twice, and what is said on a WebSocket is no exchange.
#[test]
fn long_bodies_and_upgrades_get_none() {
    let (quick, slow) = (Holding::new(), Holding::new());
    let policy = format!("attempt_timeout: 200ms, {}", HEDGE.replace("attempts: 2", "attempts: 2, on: [connect]"));
    let gateway = warm(&[quick.address(), slow.address()], &policy, "");
    quick.hold(true);
    slow.hold(true);
    let before = hedges(&gateway).0;
    let long = vec![b'x'; 200_000];
    assert_eq!(request(gateway.address, "PUT", "/", &[], &long).status, 504);
    let upgrade = [("Connection", "upgrade"), ("Upgrade", "websocket")];
    assert_eq!(request(gateway.address, "GET", "/", &upgrade, b"").status, 504);
    assert_eq!(hedges(&gateway).0, before);
    assert_eq!(gateway.get("/").status, 504);
    assert_eq!(hedges(&gateway).0, before + 1, "others get one");
}

#[test]
fn the_budget_bounds_them() {
    let (quick, slow) = (Holding::new(), Holding::new());
    let policy = HEDGE.replace("share: 1, floor: 100", "share: 0.001, floor: 0.2");
    let gateway = warm(&[quick.address(), slow.address()], &format!("attempt_timeout: 200ms, {policy}"), "");
    let used = hedges(&gateway).0;
    assert!(used <= 2, "two in ten seconds: {used}");
    slow.hold(true);
    let all = statuses(&gateway, 12);
    let failed = all.iter().filter(|status| **status == 504).count();
    assert!(failed >= 4 && hedges(&gateway).0 <= 2, "{all:?}");
}

/// It is for requests that have nothing yet.
#[test]
fn a_full_bulkhead_and_a_breaker_that_is_not_closed_have_none() {
    let (one, other) = (Holding::new(), Holding::new());
    let policy = format!(
        "attempt_timeout: 200ms, bulkhead: {{limit: 1, queue: 1, wait: 1s}}, {}",
        HEDGE.replace("attempts: 2", "attempts: 2, on: [connect]")
    );
    let gateway = warm(&[one.address(), other.address()], &policy, "");
    let before = hedges(&gateway).0;
    one.hold(true);
    other.hold(true);
    let budget = metric(&gateway, "tidegate_retry_budget_left", "") + 1; // one for the next request
    assert_eq!(gateway.get("/").status, 504);
    assert_eq!(hedges(&gateway).0, before);
    assert_eq!(metric(&gateway, "tidegate_bulkhead_rejected_total", ",reason=\"full\""), 0, "it was not needed");
    assert_eq!(metric(&gateway, "tidegate_retry_budget_left", ""), budget, "what is not sent takes nothing of it");
    assert_all_free(&gateway);

    one.hold(false);
    other.hold(false);
    let policy = format!(
        "attempt_timeout: 200ms, breaker: {{consecutive: 1, open: 10ms, probes: 2}}, {}",
        HEDGE.replace("attempts: 2", "attempts: 2, on: [connect]")
    );
    let gateway = warm(&[one.address(), other.address()], &policy, "");
    one.hold(true);
    other.hold(true);
    assert_eq!(gateway.get("/").status, 504);
    assert_eq!(super::state(&gateway), "open");
    let before = hedges(&gateway).0;
    wait_until("a probe was sent", || gateway.get("/").status == 504);
    assert_eq!(hedges(&gateway).0, before, "a probe is one request");
    assert_all_free(&gateway);
}

#[test]
fn each_takes_from_the_upstreams_limits_and_holds_its_own_slot() {
    let (quick, slow) = (Holding::new(), Holding::new());
    let text = config(&[quick.address(), slow.address()], HEDGE, "balance: round_robin, limits: [few]", "")
        .replace("limits: {default", "limits: {few: {algorithm: concurrency, limit: 2, key: global}, default");
    let gateway = Gateway::start(&text);
    assert_eq!(statuses(&gateway, 60), [200; 60]);
    slow.hold(true);
    let before = hedges(&gateway).1;
    assert_eq!(statuses(&gateway, 10), [200; 10]);
    assert!(hedges(&gateway).1 >= before + 5);
    assert_all_free(&gateway);
    quick.hold(true);
    let count = || quick.upstream.count() + slow.upstream.count();
    let before = count();
    let clients: Vec<Client> = (0..2).map(|_| send(&gateway, "/")).collect();
    wait_until("both are sent", || count() == before + 2);
    assert_eq!(gateway.get("/").status, 503, "both slots are taken");
    clients.into_iter().for_each(Client::close);
    quick.hold(false);
    slow.hold(false);
    wait_until("all slots are free", || gateway.get("/").status == 200);
    assert_eq!(statuses(&gateway, 10), [200; 10]);
}

fn send(gateway: &Gateway, path: &str) -> Client {
    let mut client = Client::connect(gateway.address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

/// The first to respond wins, also if that is the first attempt.
#[test]
fn the_first_attempt_may_still_win() {
    let (one, other) = (Holding::new(), Holding::new());
    // Long enough to see which of the two is the first.
    let gateway = warm(&[one.address(), other.address()], &HEDGE.replace("min_delay: 1ms", "min_delay: 100ms"), "");
    for does_first_win in [true, false, true, false] {
        one.hold(true);
        other.hold(true);
        let (before, won) = ((one.upstream.count(), other.upstream.count()), hedges(&gateway).1);
        let mut client = send(&gateway, "/");
        wait_until("it is sent", || one.upstream.count() > before.0 || other.upstream.count() > before.1);
        let is_one_first = other.upstream.count() == before.1;
        wait_until("both have it", || one.upstream.count() > before.0 && other.upstream.count() > before.1);
        let (winner, loser) = if is_one_first == does_first_win { (&one, &other) } else { (&other, &one) };
        winner.hold(false);
        let response = client.response();
        assert_eq!((response.status, response.header("x-tidegate-attempts")), (200, Some("2")));
        assert_eq!(hedges(&gateway).1 - won, u64::from(!does_first_win));
        loser.hold(false);
        assert_all_free(&gateway);
    }
}

/// A failure does not end the wait for the other attempt. If both fail, a response is better than none.
#[test]
fn a_failed_attempt_leaves_the_decision_to_the_other() {
    let (one, other) = (Holding::new(), Holding::new());
    let gateway = warm(&[one.address(), other.address()], HEDGE, "");
    let set = |holding: &Holding, end: &str| {
        holding.breaks.store(end == "breaks", Ordering::Relaxed);
        holding.status.store(end.parse().unwrap_or(200), Ordering::Relaxed);
    };
    let mut seen_repeated = 0;
    for (earlier, later) in [(&one, &other), (&other, &one)] {
        for (first, second, expected) in [
            ("breaks", "200", 200),
            ("503", "200", 200),
            ("breaks", "502", 502),
            ("503", "502", 502),
            ("503", "breaks", 503),
            ("breaks", "breaks", 502),
        ] {
            one.hold(true);
            other.hold(true);
            let before = one.upstream.count() + other.upstream.count();
            let mut client = send(&gateway, "/");
            wait_until("both have it", || one.upstream.count() + other.upstream.count() == before + 2);
            set(earlier, first);
            set(later, second);
            let failures = failures_seen(&gateway);
            earlier.hold(false);
            wait_until("the failure has been seen", || failures_seen(&gateway) > failures);
            later.hold(false);
            let response = client.response();
            let seen = (response.status, response.header("x-tidegate-attempts"));
            assert_eq!(seen, (expected, Some("2")), "{first}, {second}");
            set(&one, "200");
            set(&other, "200");
            // A failure without a response can be seen, whether or not the other attempt has made up for it.
            let is_hidden = first == "breaks" || second == "breaks" && first == "503";
            seen_repeated += u64::from(is_hidden);
            assert_eq!(repeated(&gateway), seen_repeated, "{first}, {second}");
            assert_all_free(&gateway);
        }
    }
}

/// Attempts without a response that another one has made up for.
fn repeated(gateway: &Gateway) -> u64 {
    let count = gateway.metric("tidegate_upstream_repeated_total{service=\"app\",reason=\"closed_early\"}");
    count.unwrap_or_default() as u64
}

/// Failures of all endpoints.
fn failures_seen(gateway: &Gateway) -> u64 {
    let endpoints = gateway.get("/config/upstreams/app").json()["endpoints"].clone();
    let failed = |endpoint: &serde_json::Value| endpoint["failures"].as_u64().expect("a number");
    endpoints.as_array().expect("a list").iter().map(failed).sum()
}

/// If both attempts have failed, what is left of `attempts` follows.
#[test]
fn when_both_fail_retries_go_on() {
    let (one, other) = (Holding::new(), Holding::new());
    let policy = HEDGE.replace("attempts: 2", "attempts: 3");
    let gateway = warm(&[one.address(), other.address()], &policy, "");
    one.hold(true);
    other.hold(true);
    let before = one.upstream.count() + other.upstream.count();
    let mut client = send(&gateway, "/");
    wait_until("both have it", || one.upstream.count() + other.upstream.count() == before + 2);
    for holding in [&one, &other] {
        holding.status.store(503, Ordering::Relaxed);
        holding.hold(false);
    }
    let response = client.response();
    assert_eq!((response.status, response.header("x-tidegate-attempts")), (503, Some("3")));
    assert_eq!(one.upstream.count() + other.upstream.count(), before + 3);
}
