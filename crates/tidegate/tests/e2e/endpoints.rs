//! Upstreams with several endpoints: which of them gets a request, what happens to those that fail, and who can see and
//! change it.

mod bad_input;
mod client_faults;
mod crowd;
mod ejection;
mod forced_up;
mod health;
mod metrics;
mod misbehaviour;
mod names;
mod operator;
mod outage;
mod removal;
mod slow_start;
mod spreading;
mod success_rate;
mod switched;
mod weights;

use std::net::{SocketAddr, TcpListener};

use serde_json::Value;
use tidegate_testkit::{Gateway, Upstream};

/// A gateway before these endpoints, with these settings of their upstream.
fn gateway(endpoints: &[SocketAddr], settings: &str) -> Gateway {
    let urls: Vec<String> = endpoints.iter().map(|endpoint| format!("\"http://{endpoint}\"")).collect();
    with_upstream(&format!("endpoints: [{}], {settings}", urls.join(", ")), "")
}

/// A gateway with this upstream and these other settings.
fn with_upstream(upstream: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nupstreams: {{app: {{{upstream}}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n{more}"
    ))
}

/// Responds with its own name.
fn named(name: &'static str) -> Upstream {
    named_at(name, TcpListener::bind("127.0.0.1:0").expect("a free port"))
}

/// The same on a socket that is there already.
fn named_at(name: &'static str, listener: TcpListener) -> Upstream {
    Upstream::listening(listener, move |_, stream| {
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
        std::io::Write::write_all(stream, response.as_bytes()).is_ok()
    })
}

/// Endpoints as the admin API shows them.
fn endpoints(gateway: &Gateway) -> Vec<Value> {
    let shown = gateway.get("/config/upstreams").json();
    shown["upstreams"]["app"]["endpoints"].as_array().expect("a list of endpoints").clone()
}

/// What the admin API shows of one endpoint.
fn shown(gateway: &Gateway, endpoint: SocketAddr) -> Value {
    let name = endpoint.to_string();
    endpoints(gateway).into_iter().find(|shown| shown["endpoint"] == name.as_str()).unwrap_or_default()
}

fn state(gateway: &Gateway, endpoint: SocketAddr) -> String {
    shown(gateway, endpoint)["state"].as_str().unwrap_or_default().to_owned()
}

/// How many of so many requests each of these gets.
fn shares(gateway: &Gateway, requests: usize, upstreams: &[&Upstream]) -> Vec<usize> {
    let before: Vec<usize> = upstreams.iter().map(|upstream| upstream.count()).collect();
    for _ in 0..requests {
        assert_eq!(gateway.get("/").status, 200);
    }
    upstreams.iter().zip(before).map(|(upstream, before)| upstream.count() - before).collect()
}
