//! Our gateway.

use std::ffi::OsString;

use crate::SUBJECT_CORE;
use crate::process::{Process, free_port};
use crate::redis::Redis;
use crate::rounds::Subject;
use crate::scratch::Scratch;

/// Never reached, so that everything is proxied.
pub(crate) const OPEN: &str = "algorithm: fixed, limit: 1000000000, window: 60";
/// Reached by the first request.
pub(crate) const TIGHT: &str = "algorithm: fixed, limit: 1, window: 3600";

/// Limits kept in memory.
pub(crate) fn in_memory(scratch: &Scratch, upstream: u16, name: &'static str, limit: &str) -> Subject {
    start(scratch, upstream, name, limit, None, "")
}

/// The same with a line in a file for each request.
pub(crate) fn logging(scratch: &Scratch, upstream: u16, name: &'static str, limit: &str) -> Subject {
    let log = scratch.join("tidegate.access.log");
    let line = format!("access_log: {{file: {:?}}}\n", log.display().to_string());
    Subject { logs: vec![log], ..start(scratch, upstream, name, limit, None, &line) }
}

/// An open limit kept in Redis; `state` is `exact` or `leased`.
pub(crate) fn in_redis(scratch: &Scratch, upstream: u16, state: &'static str, redis: &Redis) -> Subject {
    start(scratch, upstream, state, &format!("{OPEN}, state: {state}"), Some(redis.port), "")
}

fn start(scratch: &Scratch, upstream: u16, name: &'static str, limit: &str, redis: Option<u16>, more: &str) -> Subject {
    let port = free_port();
    let server = serve(scratch, name, &config(port, upstream, name, limit, redis, more), port);
    Subject { name, server, port, logs: Vec::new(), redis }
}

/// A gateway with one worker and one limit.
pub(crate) fn config(port: u16, upstream: u16, name: &str, limit: &str, redis: Option<u16>, more: &str) -> String {
    // Without Redis nothing passes, so a gateway that does not ask it cannot look fast.
    let redis_line = redis.map(|redis| {
        format!("redis: {{url: \"redis://127.0.0.1:{redis}\", namespace: {name}, on_failure: closed, budget: 1s}}\n")
    });
    format!(
        r#"listeners: [{{address: "127.0.0.1:{port}"}}]
workers: 1
upstreams: {{app: {{url: "http://127.0.0.1:{upstream}"}}}}
limits: {{default: {{{limit}}}}}
{more}{}"#,
        redis_line.unwrap_or_default()
    )
}

/// Our gateway with this configuration, once it takes connections at `port`.
pub(crate) fn serve(scratch: &Scratch, name: &str, config: &str, port: u16) -> Process {
    let mut server = Process::start(scratch, name, SUBJECT_CORE, command(scratch, name, config));
    server.wait_for(port);
    server
}

/// The same on any core.
pub(crate) fn serve_unpinned(scratch: &Scratch, name: &str, config: &str, port: u16) -> Process {
    let mut server = Process::start_unpinned(scratch, name, command(scratch, name, config));
    server.wait_for(port);
    server
}

/// How our gateway is started with this configuration.
pub(crate) fn command(scratch: &Scratch, name: &str, config: &str) -> Vec<OsString> {
    let config = scratch.write(&format!("{name}.yaml"), config);
    vec![program(), "gateway".into(), "--config".into(), config.into()]
}

/// The binary to measure.
pub(crate) fn program() -> OsString {
    std::env::var_os("BENCH_TIDEGATE").unwrap_or_else(|| env!("CARGO_BIN_EXE_tidegate").into())
}
