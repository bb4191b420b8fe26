//! Policies around the attempts at an upstream: timeouts, retries, circuit breakers, bulkheads.

mod bad_input;
mod blame;
mod breaker;
mod breaker_settings;
mod bulkhead;
mod combined;
mod hedging;
mod leaving;
mod misbehaviour;
mod operator;
mod reloading;
mod retry;
mod retry_settings;
mod timeouts;
mod unsafe_requests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::Value;
use tidegate_testkit::{Gateway, Upstream};

/// A gateway before these endpoints, with this policy.
fn gateway(endpoints: &[SocketAddr], policy: &str) -> Gateway {
    gateway_with(endpoints, policy, "", "")
}

/// The same with other settings of the upstream, and of the file.
fn gateway_with(endpoints: &[SocketAddr], policy: &str, upstream: &str, more: &str) -> Gateway {
    Gateway::start(&config(endpoints, policy, upstream, more))
}

/// Endpoints are not ejected: what happens is the policy's doing.
fn config(endpoints: &[SocketAddr], policy: &str, upstream: &str, more: &str) -> String {
    let urls: Vec<String> = endpoints.iter().map(|endpoint| format!("\"http://{endpoint}\"")).collect();
    format!(
        "workers: 2\npolicies: {{p: {{{policy}}}}}\n\
         upstreams:\n  app: {{endpoints: [{}], policy: p, ejection: {{consecutive_failures: 0}}, {upstream}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n{more}",
        urls.join(", ")
    )
}

fn reload(gateway: &Gateway, config: &str) {
    std::fs::write(&gateway.config, config).expect("it can be written");
    assert_eq!(gateway.post("/reload", "").status, 200);
}

/// An upstream whose responses have a status that can be set.
fn settable(status: u16) -> (Upstream, Arc<AtomicU16>) {
    let shared = Arc::new(AtomicU16::new(status));
    let current = Arc::clone(&shared);
    (Upstream::responding(move |_| with_status(current.load(Ordering::Relaxed))), shared)
}

fn with_status(status: u16) -> Vec<u8> {
    let body = format!("status {status}");
    format!("HTTP/1.1 {status} Any\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn statuses(gateway: &Gateway, requests: usize) -> Vec<u16> {
    (0..requests).map(|_| gateway.get("/").status).collect()
}

/// What the admin API shows of the only breaker.
fn breaker(gateway: &Gateway) -> Value {
    gateway.get("/config/breakers").json()["breakers"][0].clone()
}

fn state(gateway: &Gateway) -> String {
    breaker(gateway)["state"].as_str().unwrap_or_default().to_owned()
}

/// A metric of the policy.
fn metric(gateway: &Gateway, name: &str, more: &str) -> u64 {
    let name = format!("{name}{{service=\"app\",policy=\"p\"{more}}}");
    gateway.metric(&name).unwrap_or_else(|| panic!("there is no {name}")) as u64
}
