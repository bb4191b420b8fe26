//! Limits, looked at and changed while the gateway runs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::control::limit_headers::left;
use crate::control::setting::{PLENTY, before, once};
use tidegate_testkit::{Client, Gateway, Upstream, request, wait_until};

/// `fields`, as far as `response` has to have them.
fn assert_has(response: &Value, fields: &Value) {
    for (field, value) in fields.as_object().expect("an object") {
        assert_eq!(&response[field], value, "{field} of {response}");
    }
}

fn delete(gateway: &Gateway, path: &str) -> tidegate_testkit::Response {
    request(gateway.address, "DELETE", path, &[], b"")
}

#[test]
fn a_new_gateway_tells_the_limits_of_its_file() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 100, window: 60}");
    let response = gateway.get("/config/limits");
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let config = response.json();
    assert_has(&config, &json!({"algorithm": "fixed", "limit": 100, "window": 60}));
    assert!(config.get("capacity").is_none() && config.get("fillRate").is_none(), "only what counts: {config}");
    assert_has(
        &config["limits"]["default"],
        &json!({"algorithm": "fixed", "limit": 100, "window": 60, "key": "global"}),
    );
    assert_eq!(upstream.count(), 0, "it is no upstream's business");
}

#[test]
fn every_algorithm_can_be_posted_and_the_response_has_what_is_in_force() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    for posted in [
        json!({"algorithm": "fixed", "limit": 100, "window": 60}),
        json!({"algorithm": "sliding", "limit": 500, "window": 60}),
        json!({"algorithm": "sliding_log", "limit": 7, "window": 2}),
        json!({"algorithm": "token", "capacity": 50, "fillRate": 5}),
        json!({"algorithm": "token", "capacity": 50, "fillRate": 0.5}),
        json!({"algorithm": "leaky", "capacity": 10, "fillRate": 2.25}),
        json!({"algorithm": "gcra", "capacity": 3, "fillRate": 100}),
        json!({"algorithm": "concurrency", "limit": 4, "hold": 30}),
        json!({"algorithm": "fixed", "limit": 4_294_967_295_u32, "window": 0.5}),
    ] {
        let response = gateway.post("/config/limits", &posted.to_string());
        assert_eq!(response.status, 200, "{posted}: {}", response.text());
        let (responded, config) = (response.json(), gateway.get("/config/limits").json());
        assert_eq!(responded, config, "the answer is the active config");
        for (field, value) in posted.as_object().expect("an object") {
            let (reported, set) = (&config[field], value);
            let same = reported == set || reported.as_f64().is_some() && reported.as_f64() == set.as_f64();
            assert!(same, "{field}: {reported} is not {set}");
        }
        assert_eq!(config["limits"]["default"]["set_by"], "api");
    }
}

#[test]
fn a_change_is_in_force_when_its_response_comes() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(
        gateway.post("/config/limits", r#"{"algorithm": "token", "capacity": 2, "fillRate": 0.001}"#).status,
        200
    );
    let statuses: Vec<u16> = (0..4).map(|_| gateway.get("/").status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 1, "window": 2592000}"#).status, 200);
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
}

#[test]
fn burst_is_another_word_for_capacity() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    for body in [
        r#"{"algorithm": "token", "burst": 20, "fillRate": 5}"#,
        r#"{"algorithm": "token", "burst": 20, "capacity": 20, "fillRate": 5}"#,
    ] {
        let response = gateway.post("/config/limits", body);
        assert_eq!(response.status, 200, "{}", response.text());
        assert_has(&response.json(), &json!({"algorithm": "token", "capacity": 20}));
    }
}

#[test]
fn numbers_of_other_algorithms_may_be_present() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let all = |algorithm: &str| json!({"algorithm": algorithm, "limit": 9, "window": 60, "capacity": 8, "fillRate": 7});
    let fixed = gateway.post("/config/limits", &all("fixed").to_string());
    assert_eq!(fixed.status, 200, "{}", fixed.text());
    assert_has(&fixed.json(), &json!({"algorithm": "fixed", "limit": 9, "window": 60}));
    assert!(fixed.json().get("capacity").is_none(), "only what counts is told");
    let token = gateway.post("/config/limits", &all("token").to_string());
    assert_eq!(token.status, 200, "{}", token.text());
    assert_has(&token.json(), &json!({"algorithm": "token", "capacity": 8}));
    assert!(token.json().get("limit").is_none(), "only what counts is told");
}

/// A client that sends one form for all algorithms leaves zeros in it. They are not kept for a later switch.
#[test]
fn numbers_of_other_algorithms_that_make_no_sense_are_ignored() {
    let upstream = Upstream::start();
    for (body, switch) in [
        (r#"{"algorithm": "fixed", "limit": 120, "window": 60, "capacity": 0, "fillRate": 0}"#, "token"),
        (r#"{"algorithm": "fixed", "limit": 120, "window": 60, "capacity": 120, "fillRate": -5, "hold": 0}"#, "gcra"),
        (r#"{"algorithm": "token", "capacity": 120, "fillRate": 2, "limit": 0, "window": 0}"#, "fixed"),
        (r#"{"algorithm": "sliding", "limit": 120, "window": 60, "capacity": 0}"#, "leaky"),
    ] {
        let gateway = Gateway::before(upstream.address, "{algorithm: concurrency, limit: 5}");
        let posted = gateway.post("/config/limits", body);
        assert_eq!(posted.status, 200, "{body}: {}", posted.text());
        let switched = gateway.post(&format!("/config/algorithm?algorithm={switch}"), "");
        assert_eq!(switched.status, 200, "{body}, then {switch}: {}", switched.text());
        let quota = if switch == "fixed" { "limit" } else { "capacity" };
        // What was set before, of which the limit is the file's.
        let expected = if switch == "fixed" { 5 } else { 120 };
        assert_eq!(switched.json()[quota], expected, "{body}, then {switch}: {}", switched.text());
    }
}

#[test]
fn a_change_of_numbers_keeps_what_was_used_and_another_algorithm_starts_anew() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, &once(10));
    for _ in 0..3 {
        assert_eq!(gateway.get("/").status, 200);
    }
    gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 5, "window": 2592000}"#);
    assert_eq!(left(&gateway.get("/"), "default"), 1, "three were used of what are five now, and this one");
    gateway.post("/config/limits", r#"{"algorithm": "sliding_log", "limit": 5, "window": 2592000}"#);
    assert_eq!(left(&gateway.get("/"), "default"), 4);
}

#[test]
fn a_limit_is_read_changed_and_reset_by_its_name() {
    let upstream = Upstream::start();
    let limits = format!("limits: {{default: {PLENTY}, search: {}}}\nroutes: [{{limits: [search]}}]", once(10));
    let gateway = Gateway::start(&before(&upstream, &limits));
    let search = gateway.get("/config/limits/search");
    assert_eq!(search.status, 200);
    let file =
        json!({"name": "search", "algorithm": "fixed", "limit": 10, "set_by": "file", "key": "global", "status": 429});
    assert_has(&search.json(), &file);

    let posted = gateway.post("/config/limits/search", r#"{"algorithm": "gcra", "capacity": 1, "fillRate": 0.001}"#);
    assert_eq!(posted.status, 200, "{}", posted.text());
    let expected = json!({"name": "search", "algorithm": "gcra", "capacity": 1, "fillRate": 0.001, "set_by": "api"});
    assert_has(&posted.json(), &expected);
    assert_eq!(gateway.get("/config/limits/search").json(), posted.json());
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
    assert_has(&gateway.get("/config/limits").json(), &json!({"algorithm": "fixed", "limit": 1_000_000}));

    let deleted = delete(&gateway, "/config/limits/search");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_has(&deleted.json(), &file);
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn what_is_not_there_is_404_and_a_wrong_method_405_with_those_allowed() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let good = r#"{"algorithm": "fixed", "limit": 1, "window": 60}"#;
    for (method, path) in [
        ("GET", "/config/limits/nothing"),
        ("POST", "/config/limits/nothing"),
        ("DELETE", "/config/limits/nothing"),
        ("GET", "/config/limits/"),
        ("GET", "/config/limits/default/more"),
        ("GET", "/config/nothing"),
        ("GET", "/config/"),
        ("POST", "/config/algorithm?algorithm=token&name=nothing"),
    ] {
        let body = if method == "POST" && !path.contains('?') { good } else { "" };
        let response = request(gateway.address, method, path, &[], body.as_bytes());
        assert_eq!(response.status, 404, "{method} {path}: {}", response.text());
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
        assert!(response.json()["detail"].is_string());
    }
    for (method, path, allowed) in [
        ("PUT", "/config/limits", &["GET", "POST"][..]),
        ("DELETE", "/config/limits", &["GET", "POST"]),
        ("PATCH", "/config/limits/default", &["GET", "POST", "DELETE"]),
        ("GET", "/config/algorithm", &["POST"]),
        ("GET", "/reload", &["POST"]),
        ("POST", "/actuator/health", &["GET"]),
        ("DELETE", "/actuator/prometheus", &["GET"]),
    ] {
        let response = request(gateway.address, method, path, &[], b"");
        assert_eq!(response.status, 405, "{method} {path}: {}", response.text());
        let allow = response.header("allow").unwrap_or_else(|| panic!("{method} {path}: no Allow"));
        let methods: Vec<&str> = allow.split(',').map(str::trim).filter(|method| *method != "HEAD").collect();
        assert_eq!(methods, allowed, "{method} {path}");
    }
    assert_eq!(upstream.count(), 0);
}

#[test]
fn the_log_tells_of_changes_in_the_words_of_the_seed() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 100, window: 60}");
    gateway.post("/config/limits", r#"{"algorithm": "sliding", "limit": 500, "window": 60}"#);
    gateway.post("/config/limits", r#"{"algorithm": "token", "capacity": 50, "fillRate": 2.5}"#);
    for message in [
        "INFO ConfigController - Applied new config: algorithm=sliding, limit=500, window=60",
        "INFO RateLimiter - Switched rate-limiting algorithm from fixed to sliding",
        "INFO ConfigController - Applied new config: algorithm=token, capacity=50, fillRate=2.5",
        "INFO RateLimiter - Switched rate-limiting algorithm from sliding to token",
    ] {
        let line = gateway.wait_for_line(message);
        assert!(line.ends_with(message), "{line}");
    }
}

#[test]
fn the_gauges_follow_a_change() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 100, window: 60}");
    let gauges = || {
        ["current_limit", "window_seconds", "bucket_capacity", "token_fill_rate"]
            .map(|name| gateway.metric(&format!("ratelimiter_{name}")).unwrap_or(f64::NAN))
    };
    let algorithm = |name: &str| gateway.metric(&format!("rate_limit_algorithm{{algorithm=\"{name}\"}}"));
    assert_eq!(gauges(), [100.0, 60.0, 0.0, 0.0]);
    assert_eq!((algorithm("fixed"), gateway.metric("rate_limit_current_limit")), (Some(1.0), Some(100.0)));
    gateway.post("/config/limits", r#"{"algorithm": "token", "capacity": 50, "fillRate": 2.5}"#);
    assert_eq!(gauges(), [2.5, 0.0, 50.0, 2.5], "for token buckets the limit is the fill rate, the window 0");
    assert_eq!((algorithm("token"), gateway.metric("rate_limit_current_limit")), (Some(1.0), Some(2.5)));
    assert!(algorithm("fixed").is_none_or(|value| value == 0.0), "one algorithm is in force");
    gateway.post("/config/limits", r#"{"algorithm": "sliding", "limit": 500, "window": 30}"#);
    assert_eq!(gauges(), [500.0, 30.0, 0.0, 0.0]);
}

#[test]
fn no_request_is_lost_while_limits_change() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let (stop, served) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = Client::connect(gateway.address);
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(client.request("GET", "/", &[], b"").status, 200);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..20_u32 {
            let algorithm = ["fixed", "sliding", "token", "gcra"][round as usize % 4];
            let before = served.load(Ordering::Relaxed);
            let (limit, rate) = (1_000_000 + round, 100_000);
            let body = json!({
                "algorithm": algorithm, "limit": limit, "window": 60, "capacity": limit, "fillRate": rate
            });
            assert_eq!(gateway.post("/config/limits", &body.to_string()).status, 200);
            assert_eq!(gateway.post("/reload", "").status, 200);
            wait_until("requests go on", || served.load(Ordering::Relaxed) > before);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"rejected\"}"), Some(0.0));
}

#[test]
fn what_was_read_can_be_sent_back() {
    let upstream = Upstream::start();
    let limits = format!("limits: {{default: {PLENTY}, search: {}}}\nroutes: [{{limits: [search]}}]", once(10));
    let gateway = Gateway::start(&before(&upstream, &limits));
    for path in ["/config/limits", "/config/limits/search", "/config/limits/default"] {
        let read = gateway.get(path).json();
        let posted = gateway.post(path, &read.to_string());
        assert_eq!(posted.status, 200, "{path}: {}", posted.text());
        assert_eq!((&posted.json()["limit"], &posted.json()["window"]), (&read["limit"], &read["window"]), "{path}");
    }
    let mut read = gateway.get("/config/limits").json();
    read["limit"] = json!(5);
    assert_eq!(gateway.post("/config/limits", &read.to_string()).json()["limit"], 5, "with another number");
}
