//! The timeouts of a policy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{Client, Upstream, pause, wait_until};

use super::{gateway, gateway_with, metric, with_status};

/// The first attempts get no response.
fn silent_at_first(silent: usize) -> Upstream {
    let turn = AtomicUsize::new(0);
    Upstream::behaving(move |_, stream| {
        if turn.fetch_add(1, Ordering::Relaxed) < silent {
            pause(Duration::from_secs(3));
            return false;
        }
        std::io::Write::write_all(stream, &with_status(200)).is_ok()
    })
}

/// Without them the request would wait for the upstream's own timeout, a minute.
#[test]
fn each_bounds_the_wait_for_a_response() {
    let upstream = silent_at_first(usize::MAX);
    for policy in ["timeout: 150ms", "attempt_timeout: 150ms", "timeout: 150ms, retry: {base: 1ms}"] {
        let gateway = gateway(&[upstream.address], policy);
        let began = Instant::now();
        let response = gateway.get("/");
        assert_eq!((response.status, &response.json()["error"]), (504, &"answer_timeout".into()), "{policy}");
        assert!(began.elapsed() >= Duration::from_millis(150), "{policy}");
        // The connection is of no use any more.
        wait_until("it is closed", || gateway.metric("tidegate_upstream_connections{service=\"app\"}") == Some(0.0));
    }
}

#[test]
fn an_attempt_that_takes_too_long_is_repeated_within_the_whole_time() {
    let upstream = silent_at_first(2);
    let gateway = gateway(&[upstream.address], "timeout: 20s, attempt_timeout: 100ms, retry: {base: 1ms}");
    let response = gateway.get("/");
    assert_eq!((response.status, response.header("x-tidegate-attempts")), (200, Some("3")));
    let upstream = silent_at_first(usize::MAX);
    let gateway = super::gateway(
        &[upstream.address],
        "timeout: 500ms, attempt_timeout: 200ms, retry: {attempts: 9, base: 1ms, max: 1ms}",
    );
    let response = gateway.get("/");
    let attempts: u64 = response.header("x-tidegate-attempts").and_then(|text| text.parse().ok()).expect("a number");
    assert!(response.status == 504 && (1..=3).contains(&attempts), "{attempts} attempts of 200 ms in 500 ms");
}

/// A timeout counts at the breaker, and against the endpoint.
#[test]
fn an_attempt_that_takes_too_long_is_the_upstreams_failure() {
    let upstream = silent_at_first(usize::MAX);
    let gateway = gateway(&[upstream.address], "attempt_timeout: 50ms, breaker: {consecutive: 2, open: 1h}");
    assert_eq!(super::statuses(&gateway, 3), [504, 504, 503]);
    assert_eq!(metric(&gateway, "tidegate_breaker_calls_total", ",kind=\"failure\""), 2);
    let endpoint = &gateway.get("/config/upstreams/app").json()["endpoints"][0];
    assert_eq!(endpoint["failures"], 2);
}

/// How long its upload takes is the client's doing: neither it nor the upstream is to blame.
#[test]
fn a_long_upload_is_not_bound() {
    let upstream = Upstream::start();
    let policy = "timeout: 100ms, attempt_timeout: 100ms, breaker: {consecutive: 1, open: 1h}";
    let gateway = gateway_with(&[upstream.address], policy, "request_buffer_bytes: 10", "");
    let mut client = Client::connect(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    for _ in 0..10 {
        client.send("x".repeat(10));
        pause(Duration::from_millis(40));
    }
    assert_eq!(client.response().status, 200);
    assert_eq!(super::state(&gateway), "closed");
}

/// From then on the upstream is waited for.
#[test]
fn a_long_upload_is_bound_when_it_has_ended() {
    let upstream = silent_at_first(usize::MAX);
    let policy = "attempt_timeout: 100ms, breaker: {consecutive: 1, open: 1h}";
    let gateway = gateway_with(&[upstream.address], policy, "request_buffer_bytes: 10", "");
    for framing in ["Content-Length: 100\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n64\r\n"] {
        let mut client = Client::connect(gateway.address);
        client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\n{framing}"));
        for _ in 0..5 {
            client.send("x".repeat(20));
            pause(Duration::from_millis(40));
        }
        if framing.starts_with('T') {
            client.send("\r\n0\r\n\r\n");
        }
        assert_eq!(client.response().status, 504);
        gateway.post("/config/breakers/p/app", r#"{"state": "disabled"}"#);
        gateway.post("/config/breakers/p/app", r#"{"state": "auto"}"#);
    }
    assert_eq!(metric(&gateway, "tidegate_breaker_calls_total", ",kind=\"failure\""), 2);
}

/// The gateway's own queue has taken most of the time: that the upstream does not respond in the rest says nothing.
#[test]
fn an_attempt_with_too_little_time_is_not_held_against_the_upstream() {
    let upstream = silent_at_first(usize::MAX);
    let gateway = tidegate_testkit::Gateway::start(&format!(
        "policies: {{p: {{timeout: 1s, breaker: {{consecutive: 1, open: 1h}}}}}}\n\
         upstreams: {{app: {{url: \"http://{}\", policy: p, limits: [queue]}}}}\n\
         limits: {{queue: {{algorithm: leaky, capacity: 5, fillRate: 1.2}}, \
         default: {{algorithm: fixed, limit: 99, window: 60}}}}\n",
        upstream.address
    ));
    let mut first = Client::connect(gateway.address);
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is sent", || upstream.count() == 1);
    first.close();
    // It waits for most of a second, and has the rest.
    let late = gateway.get("/");
    assert_eq!((late.status, upstream.count()), (504, 2));
    assert_eq!(super::state(&gateway), "closed");
    let endpoint = &gateway.get("/config/upstreams/app").json()["endpoints"][0];
    assert_eq!(endpoint["failures"], 0);
}

/// The time in a shaper's queue counts: a client that has waited for so long has given up.
#[test]
fn the_whole_time_includes_waits_before_the_attempt() {
    let upstream = Upstream::start();
    let gateway = tidegate_testkit::Gateway::start(&format!(
        "policies: {{p: {{timeout: 200ms}}}}\n\
         upstreams: {{app: {{url: \"http://{}\", policy: p, limits: [queue]}}}}\n\
         limits: {{queue: {{algorithm: leaky, capacity: 5, fillRate: 1}}, \
         default: {{algorithm: fixed, limit: 99, window: 60}}}}\n",
        upstream.address
    ));
    assert_eq!(gateway.get("/").status, 200);
    let late = gateway.get("/");
    assert_eq!((late.status, &late.json()["error"]), (504, &"timeout".into()));
    assert_eq!(late.header("x-tidegate-refused-by"), Some("gateway"));
    assert_eq!(upstream.count(), 1);
}
