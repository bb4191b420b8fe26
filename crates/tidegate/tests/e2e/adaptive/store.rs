//! Limits in Redis that are adapted: what happens when it is away, and when others change them there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use crate::adaptive::forecaster::{Behaviour, Forecaster};
use crate::adaptive::load::Load;
use crate::adaptive::setting::{HUNDRED, fixed, limit, send, wait_for_entry, wait_for_limit, wait_for_verdict};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Gateway, Upstream, wait_until};

/// A gateway whose limit is in this Redis, with or without adaptation.
pub(crate) fn gateway(upstream: &Upstream, server: &Server, adaptive: &str) -> Gateway {
    Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nredis: {{url: \"{}\", budget: 500ms}}\n\
         limits: {{default: {HUNDRED}}}\n{adaptive}",
        upstream.address,
        server.url()
    ))
}

#[test]
fn while_redis_is_away_recommendations_wait_and_the_newest_is_applied_when_it_is_back() {
    let (mut server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &server, &forecaster.section(""));
    wait_for_limit(&gateway, 120);
    server.kill();
    wait_until("requests pass unlimited", || {
        send(&gateway, 1);
        gateway.metric("ratelimiter_mode{type=\"failopen\"}") == Some(1.0)
    });
    forecaster.now_responses(fixed(130));
    let deferred = |limit: u64| {
        wait_for_entry(&gateway, "it waits", |entry| {
            entry["verdict"] == "deferred" && entry["recommendation"]["limit"] == limit
        })
    };
    deferred(130);
    forecaster.now_responses(fixed(140));
    deferred(140);
    assert_eq!(limit(&gateway)["limit"], 120);
    gateway.wait_for_line("AI update waits: Redis is away");
    assert!(send(&gateway, 300) == 300, "nobody is limited");
    forecaster.now(Behaviour::Closes);
    server.restart();
    wait_for_limit(&gateway, 140);
    let applied = wait_for_entry(&gateway, "it is applied", |entry| entry["to"]["limit"] == 140);
    assert_eq!((&applied["verdict"], &applied["from"]["limit"]), (&json!("applied"), &json!(120)));
}

#[test]
fn adapted_numbers_are_never_written_to_redis() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &server, &forecaster.section(""));
    wait_for_limit(&gateway, 120);
    let stored: Option<String> =
        redis::cmd("GET").arg("ratelimiter:config").query(&mut server.connection()).expect("an answer");
    assert_eq!(stored, None);
    assert_eq!(
        gateway.post("/config/limits/default", r#"{"algorithm": "fixed", "limit": 90, "window": 1}"#).status,
        200
    );
    wait_for_limit(&gateway, 120);
    let stored: String = redis::cmd("GET").arg("ratelimiter:config").query(&mut server.connection()).expect("a text");
    let mut stored: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&stored).expect("a document");
    assert!(stored.remove("version").is_some(), "{stored:?}");
    assert_eq!(serde_json::Value::from(stored), json!({"algorithm": "fixed", "limit": 90, "window": 1}));
}

#[test]
fn what_another_gateway_sets_ends_what_was_adapted() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let adapting = gateway(&upstream, &server, &forecaster.section(""));
    let other = gateway(&upstream, &server, "");
    wait_for_limit(&adapting, 120);
    assert_eq!(limit(&other)["limit"], 100);
    forecaster.now(Behaviour::Closes);
    forecaster.wait_for_more(2);
    assert_eq!(other.post("/config/limits", r#"{"algorithm": "fixed", "limit": 80, "window": 1}"#).status, 200);
    wait_until("it follows", || limit(&adapting)["limit"] == 80);
    assert_eq!(limit(&adapting)["set_by"], "api");
    let _rejected = wait_for_entry(&adapting, "it is recorded", |entry| entry["event"] == "rebased");
}

/// Each limits in its memory then, and the upstream is as overloaded by all of them together as it was before.
#[test]
fn while_redis_is_away_each_gateway_lowers_its_limit_in_memory_by_what_it_measures() {
    let (mut server, forecaster) = (Server::start(), Forecaster::responding(fixed(100)));
    let (upstream, state) = crate::adaptive::measured::upstream();
    let config = format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nredis: {{url: \"{}\", budget: 500ms, on_failure: local}}\n\
         limits: {{default: {HUNDRED}}}\n{}",
        upstream.address,
        server.url(),
        forecaster.section("errors: 0.2, floor: 60")
    );
    let gateways = [Gateway::start(&config), Gateway::start(&config)];
    let is_holder = |gateway: &&Gateway| gateway.metric("tidegate_adaptive_holder") == Some(1.0);
    wait_until("one of them adapts", || gateways.iter().filter(is_holder).count() == 1);
    let _loads = gateways.each_ref().map(|gateway| Load::start(gateway, 2, Duration::from_millis(20)));
    server.kill();
    for gateway in &gateways {
        gateway.wait_for_line("Redis connection lost");
    }
    state.store(crate::adaptive::measured::FAILING, Ordering::Relaxed);
    for gateway in &gateways {
        wait_for_limit(gateway, 60);
        gateway.wait_for_line("WARN AdaptiveController - Upstream overloaded, lowering the limit");
    }
    state.store(crate::adaptive::measured::FINE, Ordering::Relaxed);
    for gateway in &gateways {
        wait_until("the operator's limit is back", || limit(gateway)["set_by"] == "file");
    }
}

#[test]
fn a_closed_gateway_does_not_take_silence_for_rest() {
    let (mut server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(100)));
    let config = format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nredis: {{url: \"{}\", budget: 500ms, on_failure: closed}}\n\
         limits: {{default: {HUNDRED}}}\n{}",
        upstream.address,
        server.url(),
        forecaster.section("")
    );
    let gateway = Gateway::start(&config);
    wait_for_verdict(&gateway, "unchanged");
    server.kill();
    wait_until("requests are refused", || {
        tidegate_testkit::request(gateway.address, "GET", "/", &[], b"").status == 503
    });
    wait_until("what nobody knows is told so", || {
        let offered = forecaster.last()["series"]["offered"].clone();
        offered.as_array().is_some_and(|offered| offered.iter().all(serde_json::Value::is_null))
    });
}
