//! Requests of an operator: metrics, limits, endpoints.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::page::Page;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends one request over a connection of its own, and returns the response with its head.
pub(crate) fn exchange(port: u16, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// The gateway's metrics.
pub(crate) fn page(port: u16) -> io::Result<Page> {
    exchange(port, "GET", "/actuator/prometheus", "").map(Page)
}

/// The endpoints of an upstream, as the gateway shows them.
pub(crate) fn endpoints(port: u16, upstream: &str) -> io::Result<Vec<Value>> {
    let response = exchange(port, "GET", "/config/upstreams", "")?;
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let shown: Value = serde_json::from_str(body)?;
    Ok(shown["upstreams"][upstream]["endpoints"].as_array().cloned().unwrap_or_default())
}
