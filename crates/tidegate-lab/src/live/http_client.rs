//! Requests to our own services, as little of HTTP as they need.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const TIMEOUT: Duration = Duration::from_millis(900);
/// The longest response.
const LONGEST: u64 = 64 << 20;

/// The body of the response to a `GET`; none without a response of 200 in time.
pub(super) fn get(address: SocketAddr, path: &str) -> Option<String> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

/// The same as JSON.
pub(super) fn get_json(address: SocketAddr, path: &str) -> Option<Value> {
    serde_json::from_str(&get(address, path)?).ok()
}

/// Posts JSON. Whether the response is 200.
pub(super) fn post(address: SocketAddr, path: &str, body: &str) -> bool {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    exchange(address, &format!("{head}{body}")).is_some()
}

fn exchange(address: SocketAddr, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = Vec::new();
    stream.take(LONGEST).read_to_end(&mut response).ok()?;
    let response = String::from_utf8(response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// The value of a metric on a page.
pub(super) fn metric(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// The sum of all series of a metric that have this label.
pub(super) fn total(page: &str, name: &str, label: &str) -> f64 {
    let series = page.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']) && rest.contains(label))
    });
    series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}
