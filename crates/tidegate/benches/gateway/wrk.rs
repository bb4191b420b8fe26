//! The load generator: as many requests as the connections can carry, one after the other on each.

use std::time::Duration;

use crate::LOAD_CORE;
use crate::process::Process;
use crate::scratch::Scratch;

/// What `wrk` saw.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    /// Responses with a status that is neither 2xx nor 3xx.
    pub(crate) rejected: u64,
    /// Connections that failed, and requests without a response.
    pub(crate) errors: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Loads the server at `port`; `near_the_end` is called while all connections are open and busy.
pub(crate) fn load<T>(
    scratch: &Scratch,
    port: u16,
    connections: usize,
    seconds: u64,
    near_the_end: impl FnOnce() -> T,
) -> (Load, T) {
    let (connections, duration) = (connections.to_string(), format!("{seconds}s"));
    let url = format!("http://127.0.0.1:{port}/");
    let command = ["wrk", "--latency", "-t", "1", "-c", &connections, "-d", &duration, &url];
    let wrk = Process::start(scratch, "wrk", LOAD_CORE, command);
    std::thread::sleep(Duration::from_secs(seconds).mul_f64(0.8));
    let seen = near_the_end();
    let text = wrk.finish();
    let load = parse(&text).unwrap_or_else(|| panic!("wrk's output is not what it used to be:\n{text}"));
    (load, seen)
}

fn parse(text: &str) -> Option<Load> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "))?.0;
    // Absent when there are none. "Socket errors: connect 0, read 0, write 0, timeout 0"
    let errors = after("Socket errors:").map_or(Some(0), |kinds| {
        kinds.split(',').map(|kind| kind.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<Option<u64>>()
    })?;
    Some(Load {
        requests: requests.parse().ok()?,
        per_second: after("Requests/sec:")?.parse().ok()?,
        rejected: after("Non-2xx or 3xx responses:").map_or(Some(0), |count| count.parse().ok())?,
        errors,
        p50_ms: millis(after("50%")?)?,
        p99_ms: millis(after("99%")?)?,
    })
}

/// Reads a time as `wrk` writes it: `870.00us`, `1.42ms`, `1.10s`, `1.00m`.
fn millis(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(char::is_alphabetic)?);
    let scale = match unit {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}
