//! `make count`: instructions per request, ours beside nginx with `limit_req`, as callgrind counts them in user space.
//!
//! Each server gets the same requests over one kept connection, once few and once many. The difference of the two
//! counts, divided by the difference in requests, is what one request takes: start and end are the same in both, and
//! cancel out. Unlike time, it does not swing with what else the machine does.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::beside_nginx::Response;
use crate::nginx::Logs;
use crate::process::{Process, free_port};
use crate::scratch::Scratch;
use crate::{SUBJECT_CORE, nginx, tidegate, write};

/// How many requests the short and the long run have.
const LENGTHS: [u32; 2] = [1_000, 5_000];
/// Longer than any response takes, also in callgrind.
const PATIENCE: Duration = Duration::from_secs(30);
/// As a browser's script sends it.
const REQUEST: &[u8] = b"GET /api/orders/1042?fields=id,total&page=2 HTTP/1.1\r\nHost: shop.example\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nAccept: application/json\r\n\
Accept-Language: en-GB,en;q=0.7\r\nAccept-Encoding: gzip, deflate, br\r\nReferer: http://shop.example/orders\r\n\
Cookie: session=4f0d1c9b7a; theme=dark\r\nConnection: keep-alive\r\n\r\n";

pub(crate) fn run(scratch: &Scratch, upstream: u16) {
    println!("\n{:<12} {:>10} {:>10} {:>16}", "instructions", "tidegate", "nginx", "tidegate / nginx");
    let mut report = Map::from_iter([("requests".to_owned(), json!(LENGTHS))]);
    for (name, response, limit) in
        [("proxied", Response::Proxied, tidegate::OPEN), ("rejected", Response::Rejected, tidegate::TIGHT)]
    {
        let ours = per_request(scratch, response, |port| {
            tidegate::command(scratch, "tidegate", &tidegate::config(port, upstream, "tidegate", limit, None, ""))
        });
        let theirs = per_request(scratch, response, |port| {
            // In one process: callgrind would count only the one that starts the worker.
            nginx::command(
                scratch,
                "nginx",
                "master_process off;",
                &nginx::proxying(port, upstream, response, Logs::Off),
            )
            .0
        });
        let ratio = ours / theirs;
        println!("{name:<12} {ours:>10.0} {theirs:>10.0} {ratio:>16.3}");
        report.insert(name.to_owned(), json!({ "tidegate": ours, "nginx": theirs, "ratio": ratio }));
    }
    for (name, key, endpoints, settings, policy) in VARIANTS {
        let count = per_request(scratch, Response::Proxied, |port| {
            let config = tidegate::config(port, upstream, "tidegate", tidegate::OPEN, None, policy);
            tidegate::command(scratch, "tidegate", &with_endpoints(&config, upstream, endpoints, settings))
        });
        println!("{name:<42} {count:>10.0}");
        report.insert(key.to_owned(), json!({ "tidegate": count }));
    }
    write("count.json", &Value::Object(report));
}

/// What else is counted, proxied: its name, that in the report, the number of endpoints, settings of the upstream, and
/// policies.
const VARIANTS: [(&str, &str, u8, &str, &str); 5] = [
    ("four endpoints and checks", "fourEndpoints", 4, "health_check: {path: /, interval: 1h}", ""),
    ("two endpoints", "twoEndpoints", 2, "balance: least_requests", ""),
    (
        "two endpoints, breaker, bulkhead, retry",
        "policy",
        2,
        "policy: p",
        "policies: {p: {breaker: {}, \
     bulkhead: {limit: 64, queue: 64}, retry: {}}}\n",
    ),
    (
        "the same with timeouts",
        "policyWithTimeouts",
        2,
        "policy: p",
        "policies: {p: {breaker: {}, \
     bulkhead: {limit: 64, queue: 64}, retry: {}, timeout: 7s, attempt_timeout: 2s}}\n",
    ),
    (
        "two endpoints, retry with second attempts",
        "policyWithHedging",
        2,
        "policy: p",
        "policies: {p: {retry: {hedge: {min_delay: 1h}}}}\n",
    ),
];

/// The same configuration with so many endpoints and these settings of the upstream.
fn with_endpoints(config: &str, upstream: u16, endpoints: u8, settings: &str) -> String {
    let urls: Vec<String> = (1..=endpoints).map(|last| format!("\"http://127.0.0.{last}:{upstream}\"")).collect();
    let pool = format!("endpoints: [{}], {settings}", urls.join(", "));
    config.replace(&format!("url: \"http://127.0.0.1:{upstream}\""), &pool)
}

/// What one request takes of a server that `command` starts on a port.
fn per_request(scratch: &Scratch, response: Response, command: impl Fn(u16) -> Vec<OsString>) -> f64 {
    let [few, many] = LENGTHS.map(|requests| {
        let port = free_port();
        count(scratch, port, command(port), requests, response) as f64
    });
    (many - few) / f64::from(LENGTHS[1] - LENGTHS[0])
}

/// All instructions of a server from its start to its end, with so many requests in between.
fn count(scratch: &Scratch, port: u16, command: Vec<OsString>, requests: u32, response: Response) -> u64 {
    let counts = scratch.join(&format!("callgrind.{port}"));
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(&counts);
    let callgrind = ["valgrind".into(), "--tool=callgrind".into(), "--quiet".into(), file];
    let mut server =
        Process::start(scratch, &format!("callgrind.{port}.log"), SUBJECT_CORE, callgrind.into_iter().chain(command));
    server.wait_for(port);
    send(port, requests, response);
    server.signal("TERM");
    server.finish();
    total(&counts)
}

/// Sends requests one after the other over one connection.
fn send(port: u16, requests: u32, response: Response) {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nodelay(true).expect("a TCP socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout that is not zero");
    let mut stream = BufReader::new(stream);
    for number in 0..requests {
        stream.get_mut().write_all(REQUEST).expect("it reads");
        let status = read_response(&mut stream);
        let expected = match response {
            Response::Rejected if number > 0 => 429,
            Response::Rejected | Response::Proxied => 200,
        };
        // nginx counts time in milliseconds and may already reject the first.
        assert!(status == expected || number == 0, "response {number} is a {status}");
    }
}

/// Reads a response with a known length, and returns its status.
fn read_response(stream: &mut impl BufRead) -> u16 {
    let (mut status, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a response");
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().expect("a length");
            }
            Some(_) => {}
            None => status = line.split(' ').nth(1).and_then(|status| status.parse().ok()),
        }
    }
    stream.read_exact(&mut vec![0; length]).expect("a body");
    status.expect("a status line")
}

/// The sum of a file that callgrind has written.
fn total(counts: &Path) -> u64 {
    let text = std::fs::read_to_string(counts).expect("callgrind writes its counts when the server ends");
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    totals.and_then(|totals| totals.trim().parse().ok()).expect("callgrind's file has a line of totals")
}
