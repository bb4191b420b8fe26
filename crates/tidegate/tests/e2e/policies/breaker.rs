//! The circuit breaker on its way from closed over open and half-open to closed.

use std::sync::atomic::Ordering;

use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

use super::{breaker, gateway, gateway_with, metric, settable, state, statuses};

const QUICK: &str = "breaker: {window: 4, minimum: 4, open: 200ms, probes: 2}";

fn calls(gateway: &Gateway, kind: &str) -> u64 {
    metric(gateway, "tidegate_breaker_calls_total", &format!(",kind=\"{kind}\""))
}

fn transitions(gateway: &Gateway, to: &str) -> u64 {
    metric(gateway, "tidegate_breaker_transitions_total", &format!(",to=\"{to}\""))
}

/// All requests come over connections of their own, so both workers see them: the breaker is that of the process.
#[test]
fn it_opens_rejects_probes_and_closes_and_everybody_can_see_it() {
    let (upstream, status) = settable(500);
    let gateway = gateway(&[upstream.address], QUICK);
    assert_eq!((state(&gateway).as_str(), metric(&gateway, "circuit_breaker_state", "")), ("closed", 0));
    assert_eq!(statuses(&gateway, 4), [500; 4]);
    assert_eq!((state(&gateway).as_str(), metric(&gateway, "circuit_breaker_state", "")), ("open", 1));
    let line = gateway.wait_for_line("breaker of `app` (policy `p`) is open for 0.2 s");
    assert!(line.contains("4 of 4 attempts failed") && line.contains("WARN"), "{line}");

    let rejected = gateway.get("/");
    let problem = rejected.json();
    assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("1")));
    assert_eq!(problem["error"], "breaker_open");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.starts_with("the circuit breaker is open for another ") && detail.ends_with("(upstream `app`)"));
    assert_eq!(upstream.count(), 4, "a rejected request was sent");
    assert_eq!(calls(&gateway, "rejected"), 1);
    assert_eq!(gateway.metric("tidegate_responses_total{source=\"breaker\"}"), Some(1.0));
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"rejected\"}"), Some(0.0));

    status.store(200, Ordering::Relaxed);
    wait_until("a probe passes", || gateway.get("/").status == 200);
    wait_until("it closes", || gateway.get("/").status == 200 && state(&gateway) == "closed");
    gateway.wait_for_line("is half-open: it was open for long enough");
    gateway.wait_for_line("is closed: all probes succeeded");
    assert_eq!(["closed", "open", "half_open"].map(|to| transitions(&gateway, to)), [1, 1, 1]);
    assert_eq!((calls(&gateway, "failure"), calls(&gateway, "late")), (4, 0));
    assert_eq!(calls(&gateway, "success"), upstream.count() as u64 - 4);
}

#[test]
fn a_probe_that_fails_opens_it_again() {
    let (upstream, _) = settable(503);
    let gateway = gateway(&[upstream.address], QUICK);
    statuses(&gateway, 4);
    wait_until("a probe is sent", || {
        gateway.get("/");
        upstream.count() == 5
    });
    assert_eq!((state(&gateway).as_str(), transitions(&gateway, "open")), ("open", 2));
    gateway.wait_for_line("is open for 0.2 s: a probe failed");
}

#[test]
fn what_clients_and_the_gateway_cause_does_not_count() {
    let (upstream, _) = settable(404);
    let gateway = gateway_with(
        &[upstream.address],
        "breaker: {window: 4, minimum: 1}, bulkhead: {limit: 1}",
        "max_connections: 1",
        "",
    );
    assert_eq!(statuses(&gateway, 8), [404; 8]);
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n");
    assert_eq!(client.response().status, 400);
    assert_eq!((state(&gateway).as_str(), calls(&gateway, "failure")), ("closed", 0));
    assert_eq!(calls(&gateway, "success"), 8);
}

/// Requests that an open breaker rejects must not make its endpoint look bad: it would be ejected, and adaptation would
/// lower limits.
#[test]
fn its_own_rejections_are_not_the_upstreams_failures() {
    let (upstream, _) = settable(500);
    let gateway = gateway(&[upstream.address], "breaker: {window: 4, minimum: 4, open: 1h}");
    statuses(&gateway, 4);
    let shown = |field: &str| gateway.get("/config/upstreams/app").json()["endpoints"][0][field].clone();
    let before = (shown("successes"), shown("failures"));
    assert_eq!(statuses(&gateway, 10), [503; 10]);
    assert_eq!((shown("successes"), shown("failures")), before);
    let failed = |reason: &str| {
        gateway.metric(&format!("tidegate_upstream_failures_total{{service=\"app\",reason=\"{reason}\"}}"))
    };
    assert_eq!((failed("upstream_full"), failed("closed_early")), (Some(0.0), Some(0.0)));
    assert_eq!(gateway.metric("tidegate_upstream_errors_total{service=\"app\",status=\"503\"}"), Some(0.0));
}

#[test]
fn rejected_requests_get_back_what_they_took_at_limits() {
    let (upstream, _) = settable(500);
    let gateway = Gateway::start(&format!(
        "workers: 2\npolicies: {{p: {{breaker: {{window: 4, minimum: 4, open: 1h}}}}}}\n\
         upstreams: {{app: {{url: \"http://{}\", policy: p, limits: [of_app]}}}}\n\
         limits:\n  default: {{algorithm: fixed, limit: 6, window: 1h}}\n  \
         of_app: {{algorithm: fixed, limit: 6, window: 1h}}\n",
        upstream.address
    ));
    assert_eq!(statuses(&gateway, 20), [vec![500; 4], vec![503; 16]].concat(), "no 429 among them");
}

/// The head came in time, the body did not: nobody would otherwise notice an upstream that breaks off all its bodies.
#[test]
fn a_body_that_breaks_off_is_one_more_failure() {
    let upstream = Upstream::behaving(|_, stream| {
        let _sent = std::io::Write::write_all(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhello");
        false
    });
    let gateway = gateway(&[upstream.address], "breaker: {window: 100, minimum: 2, consecutive: 3, open: 1h}");
    for _ in 0..3 {
        let mut client = Client::connect(gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let bytes = client.read_to_end();
        assert!(bytes.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&bytes));
    }
    wait_until("broken bodies are counted", || breaker(&gateway)["failures"].as_u64() >= Some(3));
}
