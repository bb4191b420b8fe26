//! Changes while requests are under way: not one of them fails.

use std::net::SocketAddr;

use serde_json::json;

use crate::shared::crowd::{Crowd, Tally};
use crate::shared::holding::Holding;
use crate::shared::setup::{FORWARDED, REJECTED, STRICT, counted};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Gateway, Upstream, wait_until};

const ALGORITHMS: [&str; 7] = ["sliding", "token", "concurrency", "leaky", "gcra", "sliding_log", "fixed"];

/// More than the crowd can send, by any algorithm.
const LARGE: &str = "{algorithm: fixed, limit: 10000, window: 100ms, capacity: 100000, fill_rate: 1000000}";

fn file(upstream: SocketAddr, redis: &str) -> String {
    format!("upstreams: {{app: {{url: \"http://{upstream}\"}}}}\n{redis}limits: {{default: {LARGE}}}\n")
}

fn reloads(gateway: &Gateway) -> f64 {
    gateway.metric("tidegate_reloads_total{result=\"applied\"}").expect("it is counted")
}

/// Everything that can be changed, once, with requests in between.
fn change_everything(gateway: &Gateway, crowd: &Crowd, round: usize) {
    for algorithm in ALGORITHMS {
        let path = format!("/config/algorithm?algorithm={algorithm}");
        let response = gateway.post(&path, "");
        assert_eq!((response.status, &response.json()["algorithm"]), (200, &json!(algorithm)), "{response:?}");
        crowd.wait_for(40);
    }
    for algorithm in ALGORITHMS {
        let numbers = json!({ "algorithm": algorithm, "limit": 10_000 - round, "window": 0.1,
            "capacity": 100_000 - round, "fillRate": 1_000_000 });
        let response = gateway.post("/config/limits", &numbers.to_string());
        assert_eq!((response.status, &response.json()["algorithm"]), (200, &json!(algorithm)), "{response:?}");
        crowd.wait_for(40);
    }
    assert_eq!(gateway.post("/reload", "").status, 200);
    crowd.wait_for(40);
    let before = reloads(gateway);
    gateway.signal("HUP");
    wait_until("it is reloaded", || reloads(gateway) > before);
    crowd.wait_for(40);
}

fn all_passed(tally: &Tally, upstream: &Upstream) {
    assert_eq!(tally.broken, 0, "{tally:?}");
    assert_eq!(tally.responses.keys().collect::<Vec<_>>(), [&200], "{tally:?}");
    assert_eq!(upstream.count(), tally.of(200), "each was sent on once");
}

#[test]
fn no_request_fails_while_limits_in_memory_are_changed_and_reloaded() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&file(upstream.address, ""));
    let crowd = Crowd::start(&[gateway.address], 4);
    for round in 0..4 {
        change_everything(&gateway, &crowd, round);
    }
    all_passed(&crowd.stop(), &upstream);
}

#[test]
fn no_request_fails_while_limits_in_redis_are_changed_and_reloaded() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = file(upstream.address, &format!("redis: {{url: \"{}\", {STRICT}}}\n", server.url()));
    let gateways = [Gateway::start(&text), Gateway::start(&text)];
    let crowd = Crowd::start(&gateways.each_ref().map(|gateway| gateway.address), 2);
    for round in 0..2 {
        change_everything(&gateways[round % 2], &crowd, round);
    }
    all_passed(&crowd.stop(), &upstream);
}

/// Several hands on the same limit at the same time.
#[test]
fn no_request_fails_while_several_change_and_reload_at_once() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&file(upstream.address, ""));
    let crowd = Crowd::start(&[gateway.address], 2);
    std::thread::scope(|scope| {
        let changing = |path: &'static str, body: &'static str| {
            let (gateway, crowd) = (&gateway, &crowd);
            scope.spawn(move || {
                for _ in 0..40 {
                    let response = gateway.post(path, body);
                    assert_eq!(response.status, 200, "{path}: {response:?}");
                    crowd.wait_for(10);
                }
            });
        };
        changing("/config/algorithm?algorithm=gcra", "");
        changing("/config/limits", r#"{"algorithm": "concurrency", "limit": 5000}"#);
        changing("/reload", "");
    });
    all_passed(&crowd.stop(), &upstream);
}

/// A change counts from one request to the next: what is rejected is rejected because somebody said so, and by nothing
/// else.
#[test]
fn a_small_limit_rejects_under_load_and_a_large_one_admits_again() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&file(upstream.address, ""));
    let crowd = Crowd::start(&[gateway.address], 4);
    let count = |name: &str| counted(std::slice::from_ref(&gateway), name);
    for _ in 0..3 {
        let small = r#"{"algorithm": "fixed", "limit": 1, "window": 2592000}"#;
        assert_eq!(gateway.post("/config/limits", small).status, 200);
        let rejected = count(REJECTED);
        wait_until("many are refused", || count(REJECTED) >= rejected + 200);
        let large = r#"{"algorithm": "fixed", "limit": 1000000000, "window": 2592000}"#;
        assert_eq!(gateway.post("/config/limits", large).status, 200);
        // Requests under way end by the old numbers; then not one is rejected.
        crowd.wait_for(20);
        let (rejected, passed) = (count(REJECTED), count(FORWARDED));
        wait_until("many pass", || count(FORWARDED) >= passed + 200);
        assert_eq!(count(REJECTED), rejected);
    }
    let tally = crowd.stop();
    assert_eq!(tally.broken, 0, "{tally:?}");
    assert_eq!(tally.responses.keys().collect::<Vec<_>>(), [&200, &429], "{tally:?}");
    assert_eq!(upstream.count(), tally.of(200));
}

/// A request that was judged while the algorithm changed must not keep a slot that it never returns.
#[test]
fn places_in_flight_are_all_free_after_changes_under_load() {
    const PLACES: usize = 64;
    let upstream = Holding::start();
    let gateway = Gateway::start(&file(upstream.address(), ""));
    for round in 0..15 {
        let crowd = Crowd::start(&[gateway.address], 8);
        crowd.wait_for(50);
        for algorithm in ["fixed", "concurrency"] {
            let numbers = json!({ "algorithm": algorithm, "limit": PLACES, "window": 0.001 });
            assert_eq!(gateway.post("/config/limits", &numbers.to_string()).status, 200);
            crowd.wait_for(50);
        }
        let tally = crowd.stop();
        assert_eq!(tally.broken, 0, "{tally:?}");
        // Not more than a moment: the last responses have ended before the clients stopped.
        let left = || gateway.get("/").header("x-ratelimit-remaining").and_then(|left| left.parse::<usize>().ok());
        let mut seen = left();
        for _ in 0..50 {
            if seen == Some(PLACES - 1) {
                break;
            }
            seen = left();
        }
        assert_eq!(seen, Some(PLACES - 1), "round {round}: places are taken, and nobody holds them");
    }
}
