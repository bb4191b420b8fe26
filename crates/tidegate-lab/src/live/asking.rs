//! A question to one of our services.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const PATIENCE: Duration = Duration::from_millis(900);
/// The longest answer.
const LONGEST: u64 = 64 << 20;

/// What it answers to a `GET`; none if it does not, or not in time.
pub(super) fn get(address: SocketAddr, path: &str) -> Option<String> {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

/// The same as JSON.
pub(super) fn get_json(address: SocketAddr, path: &str) -> Option<Value> {
    serde_json::from_str(&get(address, path)?).ok()
}

/// Posts JSON; whether it was taken.
pub(super) fn post(address: SocketAddr, path: &str, body: &str) -> bool {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    ask(address, &format!("{head}{body}")).is_some()
}

fn ask(address: SocketAddr, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// The value of a metric on a page.
pub(super) fn metric(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))?;
    line.rsplit_once(' ')?.1.parse().ok()
}
