//! Every algorithm from the outside: how much it lets through, what it says, and whether what it says is true.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::control::gate::Gate;
use crate::control::limit_headers::{limit_headers, number};
use crate::control::setting::{PLENTY, before, once};
use tidegate_testkit::{Client, Gateway, Response, Upstream, pause, wait_until};

/// What a rejection by the limit `name` must be (RFC 9457).
fn assert_rejected(response: &Response, name: &str, algorithm: &str, quota: u64) {
    assert_eq!(response.status, 429, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert_eq!(response.header("x-tidegate-refused-by"), Some(name));
    let (body, retry_after) = (response.json(), number(response, "retry-after"));
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!((&body["status"], &body["title"]), (&429.into(), &"Too Many Requests".into()));
    assert_eq!(body["error"], "Too Many Requests");
    assert_eq!(body["retry_after"], retry_after, "body and header say the same");
    assert!(retry_after >= 1);
    assert_eq!(body["violated-policies"], Value::from(vec![name]));
    assert_eq!((&body["limit"]["name"], &body["limit"]["algorithm"]), (&name.into(), &algorithm.into()));
    assert_eq!(body["limit"]["quota"], quota);
    assert!(body["detail"].as_str().is_some_and(|detail| detail.contains(name)), "{body}");
    assert_eq!(body["request_id"].as_str(), response.header("x-request-id"));
    let headers = limit_headers(response);
    assert_eq!((headers.limit, headers.remaining), (quota, 0));
    let state = headers.states.iter().find(|state| state.name == name).expect("the refusing limit");
    assert_eq!(state.integer("r"), Some(0));
}

/// From unused, exactly `quota` requests pass; every response says how many are left.
fn lets_its_quota_through(algorithm: &str, numbers: &str, quota: u64, window_seconds: i64) {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, &format!("{{algorithm: {algorithm}, {numbers}}}"));
    for place in 1..=quota {
        let response = gateway.get("/");
        assert_eq!(response.status, 200, "request {place}: {}", response.text());
        let headers = limit_headers(&response);
        assert_eq!((headers.limit, headers.remaining), (quota, quota - place));
        assert_eq!((headers.states.len(), headers.policies.len()), (1, 1));
        assert_eq!(headers.states[0].name, "default");
        assert_eq!(headers.states[0].integer("r"), i64::try_from(quota - place).ok());
        let policy = &headers.policies[0];
        assert_eq!((policy.integer("q"), policy.integer("w")), (i64::try_from(quota).ok(), Some(window_seconds)));
        // Twice: what a sliding counter counts stays within reach for a second window.
        assert!(headers.reset_in <= 2 * window_seconds as u64 + 1, "it resets in {} s", headers.reset_in);
        assert!(headers.reset_in + 60 >= window_seconds as u64 / 1_000, "it resets in {} s", headers.reset_in);
    }
    for _ in 0..3 {
        assert_rejected(&gateway.get("/"), "default", algorithm, quota);
    }
    assert_eq!(upstream.count() as u64, quota, "what is refused does not reach the upstream");
}

#[test]
fn a_fixed_window_lets_its_limit_through() {
    lets_its_quota_through("fixed", "limit: 4, window: 30d", 4, 2_592_000);
}

#[test]
fn a_sliding_window_lets_its_limit_through() {
    lets_its_quota_through("sliding", "limit: 4, window: 30d", 4, 2_592_000);
}

#[test]
fn a_sliding_log_lets_its_limit_through() {
    lets_its_quota_through("sliding_log", "limit: 4, window: 30d", 4, 2_592_000);
}

#[test]
fn a_token_bucket_lets_its_capacity_through() {
    lets_its_quota_through("token", "capacity: 4, fill_rate: 0.001", 4, 4_000);
}

#[test]
fn gcra_lets_its_burst_through() {
    lets_its_quota_through("gcra", "capacity: 4, fill_rate: 0.001", 4, 4_000);
}

#[test]
fn a_leaky_bucket_delays_and_then_rejects_what_finds_its_queue_full() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: leaky, capacity: 1, fill_rate: 0.5}");
    let admitted = || gateway.metric("tidegate_limit_requests_total{limit=\"default\",decision=\"admitted\"}");
    let started = Instant::now();
    assert_eq!(gateway.get("/").status, 200);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| gateway.get("/"));
        wait_until("the second waits", || admitted() == Some(2.0));
        assert_rejected(&gateway.get("/"), "default", "leaky", 1);
        assert_eq!(upstream.count(), 1, "the second has not been sent on");
        assert_eq!(waiting.join().expect("no panic").status, 200);
    });
    assert!(started.elapsed() >= Duration::from_secs(2), "they leave 2 s apart");
    assert_eq!(upstream.count(), 2);
}

#[test]
fn a_concurrency_limit_counts_those_in_flight_and_lets_others_in_when_they_are_done() {
    let gate = Gate::closed();
    let gateway = Gateway::before(gate.upstream.address, "{algorithm: concurrency, limit: 2}");
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..2).map(|_| scope.spawn(|| gateway.get("/"))).collect();
        gate.wait_for(2);
        let rejected = gateway.get("/");
        assert_rejected(&rejected, "default", "concurrency", 2);
        let headers = limit_headers(&rejected);
        assert_eq!(headers.policies[0].text("qu"), Some("concurrent-requests"));
        assert_eq!(headers.policies[0].integer("w"), None, "places have no window");
        assert!(headers.reset_in <= 10, "a place may come back any moment, not after `hold`: {}", headers.reset_in);
        gate.open();
        for held in held {
            assert_eq!(held.join().expect("no panic").status, 200);
        }
    });
    wait_until("a place is free", || gateway.get("/").status == 200);
    let mut client = Client::connect(gateway.address);
    for _ in 0..10 {
        assert_eq!(client.request("GET", "/", &[], b"").status, 200, "one after the other is one at a time");
    }
}

/// Sends until it is rejected, waits as long as `Retry-After` says, and is admitted.
fn is_admitted_after_retry_after(numbers: &str, longest: u64) {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, numbers);
    let mut client = Client::connect(gateway.address);
    let rejected = (0..1_000).map(|_| client.request("GET", "/", &[], b"")).find(|response| response.status == 429);
    let retry_after = number(&rejected.expect("it is refused at last"), "retry-after");
    assert!((1..=longest).contains(&retry_after), "{retry_after} s");
    pause(Duration::from_secs(retry_after));
    assert_eq!(client.request("GET", "/", &[], b"").status, 200, "after {retry_after} s");
}

#[test]
fn a_fixed_window_admits_after_its_retry_after() {
    is_admitted_after_retry_after("{algorithm: fixed, limit: 3, window: 1}", 1);
}

#[test]
fn a_sliding_window_admits_after_its_retry_after() {
    is_admitted_after_retry_after("{algorithm: sliding, limit: 3, window: 1}", 2);
}

#[test]
fn a_sliding_log_admits_after_its_retry_after() {
    is_admitted_after_retry_after("{algorithm: sliding_log, limit: 3, window: 1}", 1);
}

#[test]
fn a_token_bucket_admits_after_its_retry_after() {
    is_admitted_after_retry_after("{algorithm: token, capacity: 3, fill_rate: 0.8}", 2);
}

#[test]
fn gcra_admits_after_its_retry_after() {
    is_admitted_after_retry_after("{algorithm: gcra, capacity: 3, fill_rate: 0.8}", 2);
}

#[test]
fn a_leaky_bucket_admits_after_its_retry_after() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: leaky, capacity: 1, fill_rate: 1}");
    std::thread::scope(|scope| {
        let sent: Vec<_> = (0..6).map(|_| scope.spawn(|| gateway.get("/"))).collect();
        let responses: Vec<Response> = sent.into_iter().map(|sent| sent.join().expect("no panic")).collect();
        let rejected = responses.iter().find(|response| response.status == 429).expect("the queue has one place");
        let retry_after = number(rejected, "retry-after");
        assert_eq!(retry_after, 1);
        pause(Duration::from_secs(retry_after));
        assert_eq!(gateway.get("/").status, 200);
    });
}

/// draft-ietf-httpapi-ratelimit-headers: `Retry-After` must not be earlier than `t`. A bucket that is full again in an
/// hour lets the next one in after a second: then `t` must be that second, or the two contradict each other.
#[test]
fn retry_after_is_not_earlier_than_the_t_of_the_limit_that_rejects() {
    let upstream = Upstream::start();
    let mut early = Vec::new();
    for numbers in [
        "{algorithm: fixed, limit: 3, window: 30d}",
        "{algorithm: sliding, limit: 3, window: 30d}",
        "{algorithm: sliding_log, limit: 3, window: 30d}",
        "{algorithm: token, capacity: 3, fill_rate: 0.01}",
        "{algorithm: gcra, capacity: 3, fill_rate: 0.01}",
    ] {
        let gateway = Gateway::before(upstream.address, numbers);
        let rejected = (0..4).map(|_| gateway.get("/")).find(|response| response.status == 429).expect("a refusal");
        let (retry_after, headers) = (number(&rejected, "retry-after"), limit_headers(&rejected));
        let reset = headers.states[0].integer("t").unwrap_or(0);
        if i64::try_from(retry_after).expect("it is small") < reset {
            early.push(format!("{numbers}: Retry-After {retry_after}, t {reset}"));
        }
    }
    let gate = Gate::closed();
    let gateway = Gateway::before(gate.upstream.address, "{algorithm: concurrency, limit: 1}");
    std::thread::scope(|scope| {
        scope.spawn(|| gateway.get("/"));
        gate.wait_for(1);
        let rejected = gateway.get("/");
        let reset = limit_headers(&rejected).states[0].integer("t").unwrap_or(0);
        if i64::try_from(number(&rejected, "retry-after")).expect("it is small") < reset {
            early.push(format!("concurrency: t {reset}, of which nobody knows"));
        }
        gate.open();
    });
    assert!(early.is_empty(), "{early:#?}");
}

#[test]
fn all_limits_are_in_the_headers_and_the_old_ones_have_the_tightest() {
    let upstream = Upstream::start();
    let rest = format!(
        "limits: {{wide: {}, tight: {}, odd: {{algorithm: token, capacity: 5, fill_rate: 0.4}}}}\n\
         common_limits: [wide, tight, odd]",
        once(9),
        once(2)
    );
    let gateway = Gateway::start(&before(&upstream, &rest));
    let first = limit_headers(&gateway.get("/"));
    assert_eq!((first.limit, first.remaining), (2, 1));
    let mut states: Vec<_> = first.states.iter().map(|state| (state.name.as_str(), state.integer("r"))).collect();
    states.sort_unstable();
    assert_eq!(states, [("odd", Some(4)), ("tight", Some(1)), ("wide", Some(8))]);
    let odd = first.policies.iter().find(|policy| policy.name == "odd").expect("it is reported");
    assert_eq!((odd.integer("q"), odd.integer("w")), (Some(5), Some(13)), "12.5 s, rounded up");
    assert_eq!(gateway.get("/").status, 200);
    assert_rejected(&gateway.get("/"), "tight", "fixed", 2);
}

#[test]
fn a_response_that_no_limit_concerns_has_no_such_headers() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, "limits: {}"));
    let response = gateway.get("/");
    assert_eq!(response.status, 200);
    for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit", "ratelimit-policy"] {
        assert_eq!(response.header(name), None);
    }
}

#[test]
fn responses_of_every_kind_report_how_the_limit_stands() {
    let upstream = Upstream::responding(|received| match received.line.split(' ').nth(1).unwrap_or_default() {
        "/nothing" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        "/same" => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
        "/wrong" => b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    for (path, status, left) in
        [("/nothing", 204, 999_999), ("/same", 304, 999_998), ("/wrong", 500, 999_997), ("/", 404, 999_996)]
    {
        let response = gateway.get(path);
        assert_eq!(response.status, status);
        assert_eq!(limit_headers(&response).remaining, left);
    }
    let head = tidegate_testkit::request(gateway.address, "HEAD", "/nothing", &[], b"");
    assert_eq!(limit_headers(&head).remaining, 999_995);
}
