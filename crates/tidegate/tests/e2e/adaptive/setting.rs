//! Gateways that adapt, and what they say of it.

use serde_json::{Value, json};

use crate::adaptive::forecaster::Forecaster;
use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

/// A hundred requests a second.
pub(crate) const HUNDRED: &str = "{algorithm: fixed, limit: 100, window: 1}";

/// A gateway before this upstream, with this limit named `default` and more settings of adaptation.
pub(crate) fn gateway(upstream: &Upstream, forecaster: &Forecaster, limit: &str, more: &str) -> Gateway {
    Gateway::start(&config(upstream, forecaster, limit, more))
}

/// Its file.
pub(crate) fn config(upstream: &Upstream, forecaster: &Forecaster, limit: &str, more: &str) -> String {
    let section = forecaster.section(more);
    format!("upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {limit}}}\n{section}", upstream.address)
}

/// A recommendation of so many requests a second.
pub(crate) fn fixed(limit: u64) -> Value {
    json!({"algorithm": "fixed", "limit": limit, "window": 1, "predictedRps": limit, "validFor": 60})
}

/// The limit `default` as the gateway shows it.
pub(crate) fn limit(gateway: &Gateway) -> Value {
    gateway.get("/config/limits").json()["limits"]["default"].clone()
}

/// Waits until the limit is so high.
pub(crate) fn wait_for_limit(gateway: &Gateway, wanted: u64) {
    wait_until(&format!("the limit is {wanted}"), || limit(gateway)["limit"] == wanted);
}

/// What the gateway has recorded.
pub(crate) fn entries(gateway: &Gateway) -> Vec<Value> {
    let history = gateway.get("/config/history");
    assert_eq!(history.status, 200, "{}", history.text());
    history.json()["entries"].as_array().expect("a list").clone()
}

/// Waits for an entry of which this holds, and returns it.
pub(crate) fn wait_for_entry(gateway: &Gateway, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    wait_until(what, || {
        found = entries(gateway).into_iter().find(|entry| holds(entry));
        found.is_some()
    });
    found.expect("it was found")
}

pub(crate) fn wait_for_verdict(gateway: &Gateway, verdict: &str) -> Value {
    wait_for_entry(gateway, verdict, |entry| entry["verdict"] == verdict)
}

/// How often something was decided so.
pub(crate) fn updates(gateway: &Gateway, verdict: &str) -> f64 {
    let name = format!("tidegate_adaptive_updates_total{{verdict=\"{verdict}\"}}");
    gateway.metric(&name).expect("it is counted from the start")
}

/// How often asking came to this.
pub(crate) fn requests(gateway: &Gateway, result: &str) -> f64 {
    let name = format!("tidegate_adaptive_requests_total{{result=\"{result}\"}}");
    gateway.metric(&name).expect("it is counted from the start")
}

/// So many requests, one after the other; how many passed.
pub(crate) fn send(gateway: &Gateway, requests: usize) -> usize {
    let mut client = Client::connect(gateway.address);
    (0..requests).filter(|_| client.request("GET", "/", &[], b"").status == 200).count()
}
