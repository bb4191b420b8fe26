//! Retries: what is repeated, and how that is seen.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{Upstream, request};

use super::{gateway, gateway_with, metric, settable, statuses, with_status};

const QUICK: &str = "retry: {base: 1ms}";

/// Responds with these, in turn, to all requests of all connections; nothing closes the connection.
fn in_turn(responses: &[&'static [u8]]) -> Upstream {
    let (responses, next) = (responses.to_vec(), AtomicUsize::new(0));
    Upstream::behaving(move |_, stream| {
        let response = responses[next.fetch_add(1, Ordering::Relaxed) % responses.len()];
        !response.is_empty() && std::io::Write::write_all(stream, response).is_ok()
    })
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nsorry";

#[test]
fn a_failed_attempt_is_repeated_and_everybody_can_see_it() {
    let upstream = in_turn(&[UNAVAILABLE, OK]);
    let gateway = gateway_with(&[upstream.address], QUICK, "", "access_log: {format: json}\n");
    let response = gateway.get("/a?b=c");
    assert_eq!((response.status, response.header("x-tidegate-attempts")), (200, Some("2")));
    let received = upstream.received();
    assert_eq!(received.iter().map(|request| request.line.as_str()).collect::<Vec<_>>(), ["GET /a?b=c HTTP/1.1"; 2]);
    let ids: Vec<_> = received.iter().map(|request| request.header("x-request-id").map(str::to_owned)).collect();
    assert_eq!((ids[0].as_deref(), &ids[0]), (response.header("x-request-id"), &ids[1]), "it is one request");
    let line = gateway.wait_for_line("\"path\":\"/a?b=c\"");
    assert!(line.contains("\"attempts\":2") && line.contains("\"source\":\"upstream\""), "{line}");
    let count = |attempt: &str| {
        let name = format!("request_latency_seconds_count{{service=\"app\",attempt=\"{attempt}\"}}");
        gateway.metric(&name)
    };
    assert_eq!((count("1"), count("2"), count("3")), (Some(1.0), Some(1.0), None));
    assert_eq!((metric(&gateway, "tidegate_retries_total", ""), metric(&gateway, "tidegate_resent_total", "")), (1, 0));
}

#[test]
fn without_failures_a_response_says_that_it_took_one_attempt() {
    let upstream = in_turn(&[b"HTTP/1.1 200 OK\r\nX-Tidegate-Attempts: 7\r\nContent-Length: 0\r\n\r\n"]);
    let gateway = gateway(&[upstream.address], QUICK);
    let response = gateway.get("/");
    let all: Vec<&str> = response
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-tidegate-attempts"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(all, ["1"], "the upstream's own is replaced");
    let plain = super::gateway(&[upstream.address], "timeout: 5s");
    assert_eq!(plain.get("/").header("x-tidegate-attempts"), Some("7"), "without retries it is passed on");
}

/// The client gets what the upstream said last, not a message of ours.
#[test]
fn when_all_attempts_fail_the_last_response_is_passed_on() {
    let (upstream, _) = settable(500);
    let gateway = gateway(&[upstream.address], "retry: {attempts: 4, base: 1ms}");
    let response = gateway.get("/");
    assert_eq!((response.status, response.text().as_str()), (500, "status 500"));
    assert_eq!((response.header("x-tidegate-attempts"), upstream.count()), (Some("4"), 4));
    assert_eq!(metric(&gateway, "tidegate_retries_denied_total", ",reason=\"attempts\""), 1);
    let latencies = |attempt: &str| {
        gateway.metric(&format!("request_latency_seconds_count{{service=\"app\",attempt=\"{attempt}\"}}"))
    };
    assert_eq!(["1", "2", "3", "4"].map(latencies), [Some(1.0); 4]);
}

#[test]
fn each_way_to_fail_is_repeated_if_it_is_listed() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let closing = Upstream::behaving(|_, _| false);
    let silent = Upstream::behaving(|_, _| {
        tidegate_testkit::pause(Duration::from_secs(2));
        false
    });
    let garbage = Upstream::responding(|_| b"SSH-2.0-OpenSSH\r\n\r\n".to_vec());
    let (unavailable, _) = settable(503);
    let (missing, _) = settable(404);
    let (many, _) = settable(429);
    for (word, other, address, status) in [
        ("connect", "reset, timeout, 5xx", free, 502),
        ("reset", "connect, timeout, 5xx", closing.address, 502),
        ("reset", "connect, timeout, 5xx", garbage.address, 502),
        ("timeout", "connect, reset, 5xx", silent.address, 504),
        ("5xx", "connect, reset, 502", unavailable.address, 503),
        ("503", "connect, reset, 502", unavailable.address, 503),
        ("4xx", "5xx", missing.address, 404),
        ("429", "5xx", many.address, 429),
    ] {
        for (on, attempts) in [(word, "2"), (other, "1")] {
            let policy = format!("attempt_timeout: 60ms, retry: {{attempts: 2, base: 1ms, on: [{on}]}}");
            let gateway = gateway(&[address], &policy);
            let response = gateway.get("/");
            assert_eq!((response.status, response.header("x-tidegate-attempts")), (status, Some(attempts)), "{on}");
        }
    }
}

/// The breaker is asked for each attempt, and counts each.
#[test]
fn each_attempt_asks_the_breaker() {
    let (upstream, _) = settable(500);
    let policy = "retry: {attempts: 5, base: 1ms}, breaker: {consecutive: 3, open: 1h}";
    let gateway = gateway(&[upstream.address], policy);
    let response = gateway.get("/");
    assert_eq!((response.status, upstream.count()), (500, 3), "the third failure opens it, and ends the attempts");
    assert_eq!(response.header("x-tidegate-attempts"), Some("3"));
    assert_eq!(gateway.get("/").status, 503);
}

#[test]
fn another_attempt_goes_to_another_endpoint() {
    let (bad, _) = settable(503);
    let (good, _) = settable(200);
    let policy = "retry: {attempts: 2, base: 1ms, budget: {share: 1}}";
    let gateway = gateway_with(&[bad.address, good.address], policy, "balance: round_robin", "");
    assert_eq!(statuses(&gateway, 20), [200; 20]);
    assert_eq!((bad.count(), good.count()), (10, 20));
}

/// It would otherwise wait for the pause, although nothing is wrong with the service.
#[test]
fn what_could_not_be_sent_goes_elsewhere_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let (good, _) = settable(200);
    let policy = "retry: {attempts: 2, base: 1h, max: 1h, jitter: none}, breaker: {window: 100, minimum: 100}";
    let gateway = gateway_with(&[free, good.address], policy, "balance: round_robin", "");
    assert_eq!(statuses(&gateway, 6), [200; 6]);
    assert_eq!(metric(&gateway, "tidegate_retries_total", ""), 0, "that takes nothing of the budget");
    let failures = metric(&gateway, "tidegate_breaker_calls_total", ",kind=\"failure\"");
    let successes = metric(&gateway, "tidegate_breaker_calls_total", ",kind=\"success\"");
    assert_eq!((failures, successes), (3, 6), "the breaker counts each attempt");
}

/// An endpoint that responds with errors is better than one that is known not to work.
#[test]
fn another_attempt_does_not_go_to_an_endpoint_that_is_out() {
    let moody = in_turn(&[UNAVAILABLE, OK]);
    let drained = Upstream::start();
    let policy = "retry: {attempts: 2, base: 1ms, budget: {share: 1}}";
    let gateway = gateway(&[moody.address, drained.address], policy);
    gateway.post(&format!("/config/upstreams/app/{}", drained.address), r#"{"state": "drain"}"#);
    assert_eq!(statuses(&gateway, 5), [200; 5]);
    assert_eq!((moody.count(), drained.count()), (10, 0));
}

/// Its client could otherwise make it look as if the upstream knew the key.
#[test]
fn a_key_that_is_not_passed_on_makes_nothing_safe() {
    let (upstream, _) = settable(503);
    let gateway = gateway(&[upstream.address], "retry: {base: 1ms, idempotency_key: Idempotency-Key}");
    let headers = [("Idempotency-Key", "7"), ("Connection", "idempotency-key")];
    assert_eq!(request(gateway.address, "POST", "/", &headers, b"pay").status, 503);
    assert_eq!((upstream.count(), upstream.last().header("idempotency-key")), (1, None));
}

/// It would only make the client wait, and give it less.
#[test]
fn a_failure_that_opens_the_breaker_is_passed_on_at_once() {
    let large: &[u8] = b"HTTP/1.1 503 Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n0\r\n\r\n";
    let upstream = in_turn(&[large]);
    let policy = "retry: {base: 1h, max: 1h, jitter: none}, breaker: {consecutive: 1, open: 1h}";
    let gateway = gateway(&[upstream.address], policy);
    let response = gateway.get("/");
    assert_eq!((response.status, response.text().as_str(), upstream.count()), (503, "sorry", 1));
    assert_eq!(metric(&gateway, "tidegate_retries_denied_total", ",reason=\"breaker\""), 1);
    assert_eq!(metric(&gateway, "tidegate_retries_total", ""), 0);
}

/// What a retry repairs can be seen all the same.
#[test]
fn attempts_without_a_response_are_counted_when_they_are_repeated() {
    let upstream = in_turn(&[b"", OK]);
    let gateway = gateway(&[upstream.address], QUICK);
    assert_eq!(gateway.get("/").status, 200);
    let count = |family: &str| gateway.metric(&format!("{family}{{service=\"app\",reason=\"closed_early\"}}"));
    assert_eq!(
        (count("tidegate_upstream_repeated_total"), count("tidegate_upstream_failures_total")),
        (Some(1.0), Some(0.0))
    );
}

/// The upstream's limits protect it from retries too.
#[test]
fn each_attempt_takes_from_the_upstreams_limits() {
    let (upstream, _) = settable(500);
    let gateway = tidegate_testkit::Gateway::start(&format!(
        "policies: {{p: {{retry: {{attempts: 5, base: 1ms}}}}}}\n\
         upstreams: {{app: {{url: \"http://{}\", policy: p, limits: [few]}}}}\n\
         limits:\n  few: {{algorithm: fixed, limit: 3, window: 1h}}\n  \
         default: {{algorithm: fixed, limit: 99, window: 60}}\n",
        upstream.address
    ));
    let response = gateway.get("/");
    assert_eq!((response.status, response.text().as_str()), (500, "status 500"), "the last response is still there");
    assert_eq!((upstream.count(), response.header("x-tidegate-attempts")), (3, Some("3")));
    assert_eq!(gateway.get("/").status, 503);
}

#[test]
fn a_retry_after_is_honoured_within_the_time() {
    let many: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    let upstream = in_turn(&[many, OK]);
    let policy = |timeout: &str| format!("timeout: {timeout}, retry: {{attempts: 2, base: 1ms}}");
    let gateway = gateway(&[upstream.address], &policy("9s"));
    let began = Instant::now();
    assert_eq!(gateway.get("/").status, 200);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    let gateway = super::gateway(&[upstream.address], &policy("900ms"));
    let response = gateway.get("/");
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    assert_eq!(metric(&gateway, "tidegate_retries_denied_total", ",reason=\"time\""), 1);
}

/// Without a timeout, an upstream could make requests wait for as long as it likes.
#[test]
fn without_a_timeout_a_long_retry_after_ends_the_attempts() {
    let upstream = Upstream::responding(|_| {
        b"HTTP/1.1 503 Unavailable\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let gateway = gateway(&[upstream.address], "retry: {attempts: 2, base: 1ms}");
    let response = gateway.get("/");
    assert_eq!((response.status, response.header("x-tidegate-attempts")), (503, Some("1")));
}

/// A large response that is dropped for another attempt closes its connection; the client sees nothing of it.
#[test]
fn a_response_with_a_large_body_can_be_repeated_too() {
    let turn = Arc::new(AtomicUsize::new(0));
    let upstream = Upstream::behaving(move |_, stream| {
        if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            let _sent =
                std::io::Write::write_all(stream, b"HTTP/1.1 503 Unavailable\r\nContent-Length: 9999999\r\n\r\nx");
            return true;
        }
        std::io::Write::write_all(stream, OK).is_ok()
    });
    let gateway = gateway(&[upstream.address], QUICK);
    for _ in 0..5 {
        let response = gateway.get("/");
        assert_eq!((response.status, response.text().as_str()), (200, "OK"));
    }
    tidegate_testkit::wait_until("connections are closed", || {
        // Each worker may keep one.
        gateway.metric("tidegate_upstream_connections{service=\"app\"}") <= Some(2.0)
    });
}

#[test]
fn bodies_are_sent_again_whole() {
    let turn = AtomicUsize::new(0);
    let upstream = Upstream::responding(move |_| {
        with_status(if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { 503 } else { 200 })
    });
    let gateway = gateway(&[upstream.address], QUICK);
    let large = "x".repeat(60_000);
    for body in ["hello", large.as_str()] {
        assert_eq!(request(gateway.address, "PUT", "/", &[], body.as_bytes()).status, 200);
        let received = upstream.received();
        let [.., first, second] = received.as_slice() else { panic!("two attempts") };
        assert!(first.body == body.as_bytes() && second.body == body.as_bytes(), "{} bytes", body.len());
    }
    let mut client = tidegate_testkit::Client::connect(gateway.address);
    client.send(
        "PUT / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n6\r\n world\r\n0\r\nX-End: yes\r\n\r\n",
    );
    assert_eq!(client.response().status, 200);
    let bytes = upstream.bytes().concat();
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("hello world").count() + text.matches("5\r\nhello\r\n6\r\n world").count(), 2, "{text}");
    wait_for_no_memory(&gateway);
}

fn wait_for_no_memory(gateway: &tidegate_testkit::Gateway) {
    tidegate_testkit::wait_until("no body is in memory", || gateway.metric("tidegate_buffered_bytes") == Some(0.0));
}
