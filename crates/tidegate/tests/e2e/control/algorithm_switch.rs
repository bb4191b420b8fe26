//! `POST /config/algorithm`: another algorithm, by JSON or by query, with the numbers set before or the closest to
//! them.

use serde_json::{Value, json};

use crate::control::setting::{PLENTY, before, once};
use tidegate_testkit::{Gateway, Upstream};

fn active(config: &Value) -> Value {
    let fields = ["algorithm", "limit", "window", "capacity", "fillRate"];
    let present = fields.iter().filter_map(|field| Some(((*field).to_owned(), config.get(*field)?.clone())));
    Value::Object(present.collect())
}

#[test]
fn it_takes_json_or_a_query_and_responds_with_what_is_in_force() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 100, window: 60}");
    let by_json = gateway.post("/config/algorithm", r#"{"algorithm": "sliding"}"#);
    assert_eq!(by_json.status, 200, "{}", by_json.text());
    assert_eq!(active(&by_json.json()), json!({"algorithm": "sliding", "limit": 100, "window": 60}));
    assert_eq!(gateway.get("/config/limits").json(), by_json.json());
    let by_query = gateway.post("/config/algorithm?algorithm=sliding_log", "");
    assert_eq!(by_query.status, 200, "{}", by_query.text());
    assert_eq!(active(&by_query.json()), json!({"algorithm": "sliding_log", "limit": 100, "window": 60}));
    gateway.wait_for_line("Switched rate-limiting algorithm from fixed to sliding");
    gateway.wait_for_line("Switched rate-limiting algorithm from sliding to sliding_log");
}

#[test]
fn a_query_may_be_percent_encoded() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 100, window: 60}");
    let response = gateway.post("/config/algorithm?algorithm=%73liding%5Flog&name=d%65fault", "");
    assert_eq!((response.status, &response.json()["algorithm"]), (200, &json!("sliding_log")), "{}", response.text());
}

#[test]
fn it_keeps_the_numbers_that_were_set_before() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 100, window: 60}");
    gateway.post("/config/limits", r#"{"algorithm": "token", "capacity": 50, "fillRate": 5}"#);
    let fixed = gateway.post("/config/algorithm", r#"{"algorithm": "fixed"}"#).json();
    assert_eq!(active(&fixed), json!({"algorithm": "fixed", "limit": 100, "window": 60}), "those of the file");
    let token = gateway.post("/config/algorithm?algorithm=token", "").json();
    assert_eq!(token["capacity"], 50, "those of the POST: {token}");
    assert_eq!(token["fillRate"].as_f64(), Some(5.0));
    gateway.post("/config/limits", r#"{"algorithm": "sliding", "limit": 7, "window": 3}"#);
    gateway.post("/config/algorithm?algorithm=token", "");
    let sliding = gateway.post("/config/algorithm?algorithm=sliding", "").json();
    assert_eq!(active(&sliding), json!({"algorithm": "sliding", "limit": 7, "window": 3}));
}

#[test]
fn numbers_may_come_with_it() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 100, window: 60}");
    let token = gateway.post("/config/algorithm", r#"{"algorithm": "token", "capacity": 9, "fillRate": 0.5}"#).json();
    assert_eq!(active(&token), json!({"algorithm": "token", "capacity": 9, "fillRate": 0.5}));
}

#[test]
fn numbers_that_were_never_set_are_the_closest_to_those_in_force() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 120, window: 60}");
    let token = gateway.post("/config/algorithm?algorithm=token", "").json();
    assert_eq!((&token["capacity"], token["fillRate"].as_f64()), (&json!(120), Some(2.0)));
    let other = Gateway::before(upstream.address, "{algorithm: token, capacity: 30, fill_rate: 0.5}");
    let fixed = other.post("/config/algorithm?algorithm=fixed", "").json();
    assert_eq!(active(&fixed), json!({"algorithm": "fixed", "limit": 30, "window": 60}), "30 at 0.5 a second");
}

/// Three an hour are 0.000833 a second: rounded to 0.001 they would be 3.6 an hour, and one a day would be 86.
#[test]
fn a_slow_limit_stays_as_slow() {
    let upstream = Upstream::start();
    for (limit, window) in [(3, 3_600), (1, 3_600), (1, 86_400)] {
        let gateway =
            Gateway::before(upstream.address, &format!("{{algorithm: fixed, limit: {limit}, window: {window}}}"));
        let token = gateway.post("/config/algorithm?algorithm=token", "").json();
        let (wanted, got) = (f64::from(limit) / f64::from(window), token["fillRate"].as_f64().unwrap_or_default());
        assert!((got / wanted - 1.0).abs() < 0.05, "{limit} in {window} s are {wanted} a second, not {got}");
    }
}

/// A rate with many decimals can't be counted exactly beside a large capacity; one with fewer can.
#[test]
fn a_large_limit_can_be_switched_too() {
    let upstream = Upstream::start();
    for (limit, window) in [(1_000_000, 2_592_000), (1_000_000, 60), (4_000_000_000_u32, 7), (100_000, 31_536_000)] {
        let file = format!("{{algorithm: fixed, limit: {limit}, window: {window}}}");
        for algorithm in ["token", "gcra", "leaky"] {
            let gateway = Gateway::before(upstream.address, &file);
            let response = gateway.post(&format!("/config/algorithm?algorithm={algorithm}"), "");
            assert_eq!(response.status, 200, "{algorithm} from {file}: {}", response.text());
            let (wanted, got) = (f64::from(limit) / f64::from(window), response.json()["fillRate"].as_f64());
            assert!(
                (got.unwrap_or_default() / wanted - 1.0).abs() < 0.05,
                "{algorithm} from {file}: {got:?} for {wanted}"
            );
        }
    }
}

#[test]
fn the_new_algorithm_starts_unused() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, &once(1));
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
    assert_eq!(gateway.post("/config/algorithm?algorithm=sliding_log", "").status, 200);
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
}

#[test]
fn a_named_limit_is_switched_and_the_others_are_not() {
    let upstream = Upstream::start();
    let limits = format!("limits: {{default: {PLENTY}, search: {}}}\nroutes: [{{limits: [search]}}]", once(10));
    let gateway = Gateway::start(&before(&upstream, &limits));
    for (path, body, algorithm) in [
        ("/config/algorithm?algorithm=sliding&name=search", "", "sliding"),
        ("/config/algorithm", r#"{"algorithm": "gcra", "name": "search"}"#, "gcra"),
    ] {
        let response = gateway.post(path, body);
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!((&response.json()["name"], &response.json()["algorithm"]), (&json!("search"), &json!(algorithm)));
        let config = gateway.get("/config/limits").json();
        assert_eq!(
            (&config["algorithm"], &config["limits"]["search"]["algorithm"]),
            (&json!("fixed"), &json!(algorithm))
        );
    }
}

/// It was a panic: a rate of nothing never refills, and no window is as long as that. Whoever needs a rate rejects it,
/// others drop it.
#[test]
fn a_rate_that_makes_no_sense_is_rejected_by_name_or_dropped() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: token, capacity: 5, fill_rate: 1}");
    for rate in ["0", "-1", "1e-300"] {
        let body = format!(r#"{{"algorithm": "gcra", "fillRate": {rate}}}"#);
        let response = gateway.post("/config/algorithm", &body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.text().contains("fillRate"), "{}", response.text());
        assert_eq!(gateway.get("/config/limits").json()["algorithm"], "token");
        let body = format!(r#"{{"algorithm": "fixed", "fillRate": {rate}}}"#);
        let fixed = gateway.post("/config/algorithm", &body).json();
        assert_eq!(active(&fixed), json!({"algorithm": "fixed", "limit": 5, "window": 5}), "{body}");
        let back = gateway.post("/config/algorithm?algorithm=token", "").json();
        assert_eq!(back["fillRate"].as_f64(), Some(1.0), "{back}");
    }
}

/// A queue of nothing is one for `leaky` alone.
#[test]
fn numbers_that_come_with_it_are_judged_by_the_new_algorithm() {
    let upstream = Upstream::start();
    for body in [r#"{"algorithm": "leaky", "capacity": 0, "fillRate": 5}"#, r#"{"algorithm": "leaky", "capacity": 0}"#]
    {
        let gateway = Gateway::before(upstream.address, "{algorithm: token, capacity: 9, fill_rate: 1}");
        let response = gateway.post("/config/algorithm", body);
        assert_eq!((response.status, &response.json()["capacity"]), (200, &json!(0)), "{body}: {}", response.text());
    }
}
