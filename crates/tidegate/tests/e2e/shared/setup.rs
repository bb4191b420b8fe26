//! Gateways before one upstream, with limits in Redis.

use std::net::SocketAddr;

use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway};

/// Redis' settings for tests that count exactly: a slow machine must not look like an outage, and an outage must not
/// pass unseen.
pub(crate) const STRICT: &str = "budget: 10s, on_failure: closed";

/// Five requests in a window that no test outlives.
pub(crate) const FIVE: &str = "{algorithm: fixed, limit: 5, window: 30d}";

/// How many requests were rejected by a limit, as a metric.
pub(crate) const REJECTED: &str = "ratelimiter_requests_total{decision=\"rejected\"}";
/// How many were not.
pub(crate) const FORWARDED: &str = "ratelimiter_requests_total{decision=\"forwarded\"}";

/// More than any test sends.
pub(crate) const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 30d}";

/// A file with one upstream and the limit `default`. `redis` is what its section says besides the address.
pub(crate) fn config(upstream: SocketAddr, redis_url: &str, redis: &str, limit: &str) -> String {
    format!("{}limits: {{default: {limit}}}\n", without_limits(upstream, redis_url, redis))
}

/// The same, for limits of the test's own.
pub(crate) fn without_limits(upstream: SocketAddr, redis_url: &str, redis: &str) -> String {
    format!("upstreams: {{app: {{url: \"http://{upstream}\"}}}}\nredis: {{url: \"{redis_url}\", {redis}}}\n")
}

/// How many of so many requests, one after the other, are admitted. The others must have been rejected by a limit.
pub(crate) fn admitted(gateway: &Gateway, path: &str, requests: usize) -> usize {
    let mut client = Client::connect(gateway.address);
    let mut is_admitted = || match client.request("GET", path, &[], b"") {
        response if response.status == 200 => true,
        response if response.status == 429 => false,
        response => panic!("{response:?}"),
    };
    (0..requests).filter(|_| is_admitted()).count()
}

/// Limits by name, each alone on the path of its name.
pub(crate) fn one_path_each(limits: &[(&str, String)]) -> String {
    let joined = |texts: Vec<String>| texts.join(", ");
    let all = joined(limits.iter().map(|(name, limit)| format!("{name}: {limit}")).collect());
    let routes = joined(limits.iter().map(|(name, _)| format!("{{prefix: /{name}, limits: [{name}]}}")).collect());
    format!("limits: {{{all}}}\nroutes: [{routes}]\n")
}

/// What all these gateways together have counted under this name.
pub(crate) fn counted(gateways: &[Gateway], name: &str) -> usize {
    gateways.iter().map(|gateway| gateway.metric(name).expect("it is counted") as usize).sum()
}

/// How many slots are taken, by Redis' own books: asking for one would take it.
pub(crate) fn places_taken(server: &Server) -> usize {
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*:concurrency:*:log").query(&mut connection).expect("keys");
    let count = |key: &String| redis::cmd("ZCARD").arg(key).query::<usize>(&mut connection).expect("a count");
    keys.iter().map(count).sum()
}
