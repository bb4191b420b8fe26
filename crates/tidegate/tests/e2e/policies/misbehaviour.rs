//! Upstreams that misbehave, each in its own way: its own bound is hit, others are untouched, the client gets a reason,
//! and nothing leaks.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use tidegate_testkit::{Client, Gateway, Upstream, pause, wait_until};

/// One that never ends, as long as somebody reads.
fn for_ever(stream: &mut TcpStream, piece: &[u8]) -> bool {
    while stream.write_all(piece).is_ok() {
        pause(Duration::from_millis(2));
    }
    false
}

/// A gateway before a good upstream and a sick one, each with a policy of its own.
fn gateway(sick: &Upstream, good: &Upstream) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\n\
         policies:\n  sick: {{timeout: 2s, attempt_timeout: 150ms, retry: {{attempts: 2, base: 1ms}}, \
         breaker: {{window: 1000, minimum: 1000}}, bulkhead: {{limit: 4}}}}\n  good: {{bulkhead: {{limit: 4}}}}\n\
         upstreams:\n  sick: {{url: \"http://{}\", policy: sick, body_timeout: 200ms}}\n  \
         good: {{url: \"http://{}\", policy: good}}\n\
         limits: {{default: {{algorithm: fixed, limit: 9999, window: 60}}}}\n\
         routes: [{{prefix: /sick, upstream: sick}}, {{prefix: /, upstream: good}}]\n",
        sick.address, good.address
    ))
}

/// Sends this, and whether the connection stays.
fn send(stream: &mut TcpStream, bytes: &[u8], stays: bool) -> bool {
    stream.write_all(bytes).is_ok() && stays
}

fn hangs(_: &mut TcpStream) -> bool {
    pause(Duration::from_secs(2));
    false
}

fn closes(_: &mut TcpStream) -> bool {
    false
}

fn closes_within_its_head(stream: &mut TcpStream) -> bool {
    send(stream, b"HTTP/1.1 200 OK\r\nConte", false)
}

fn trickles(stream: &mut TcpStream) -> bool {
    for_ever(stream, b"H")
}

fn is_no_http(stream: &mut TcpStream) -> bool {
    send(stream, b"SSH-2.0-OpenSSH_9\r\n\r\n", true)
}

fn lies_about_lengths(stream: &mut TcpStream) -> bool {
    send(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", true)
}

fn sends_interim_responses_for_ever(stream: &mut TcpStream) -> bool {
    for_ever(stream, b"HTTP/1.1 103 Early Hints\r\n\r\n")
}

fn upgrades_unasked(stream: &mut TcpStream) -> bool {
    send(stream, b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", true)
}

fn sends_a_head_without_end(stream: &mut TcpStream) -> bool {
    send(stream, b"HTTP/1.1 200 OK\r\n", true) && for_ever(stream, b"X-Filler: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")
}

type Behaviour = fn(&mut TcpStream) -> bool;

/// The responses that a client may get: the status, and the word in `error`.
type Reasons = &'static [(u16, &'static str)];

const BEHAVIOURS: [(&str, Behaviour, Reasons); 9] = [
    ("hangs", hangs, &[(504, "answer_timeout")]),
    ("closes", closes, &[(502, "closed_early"), (502, "connection_broken")]),
    ("closes within its head", closes_within_its_head, &[(502, "bad_answer")]),
    ("trickles its head", trickles, &[(502, "bad_answer"), (504, "answer_timeout")]),
    ("is no HTTP", is_no_http, &[(502, "bad_answer")]),
    ("lies about lengths", lies_about_lengths, &[(502, "bad_answer")]),
    (
        "sends interim responses for ever",
        sends_interim_responses_for_ever,
        &[(502, "bad_answer"), (504, "answer_timeout")],
    ),
    ("upgrades unasked", upgrades_unasked, &[(502, "bad_answer")]),
    ("sends a head without end", sends_a_head_without_end, &[(502, "bad_answer"), (504, "answer_timeout")]),
];

#[test]
fn each_gets_502_or_504_with_its_reason_and_leaves_nothing() {
    for (what, behaviour, expected) in BEHAVIOURS {
        let sick = Upstream::behaving(move |_, stream| behaviour(stream));
        let good = Upstream::start();
        let gateway = gateway(&sick, &good);
        for _ in 0..3 {
            let mut client = Client::connect(gateway.address);
            client.send("GET /sick HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut response = client.response();
            while response.status < 200 {
                response = client.response();
            }
            let error = response.json()["error"].as_str().unwrap_or_default().to_owned();
            assert!(expected.contains(&(response.status, error.as_str())), "{what}: {} {error}", response.status);
            assert_eq!(response.header("x-tidegate-attempts"), Some("2"), "{what}");
            assert_eq!(gateway.get("/").status, 200);
        }
        assert_nothing_left(&gateway, what);
    }
}

fn assert_nothing_left(gateway: &Gateway, what: &str) {
    wait_until(&format!("nothing is left: {what}"), || {
        let none = |name: &str| gateway.metric(name) == Some(0.0);
        none("tidegate_bulkhead_in_flight{service=\"sick\",policy=\"sick\"}")
            && none("tidegate_upstream_connections{service=\"sick\"}")
            && none("tidegate_buffered_bytes")
    });
}

/// The head has come: the client gets it, and a body that ends early.
#[test]
fn bodies_that_stall_or_break_free_what_they_hold() {
    for (what, ends) in [("stalls", false), ("closes after the head", true)] {
        let sick = Upstream::behaving(move |_, stream| {
            let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello");
            if !ends {
                pause(Duration::from_secs(2));
            }
            false
        });
        let good = Upstream::start();
        let gateway = gateway(&sick, &good);
        for _ in 0..6 {
            let mut client = Client::connect(gateway.address);
            client.send("GET /sick HTTP/1.1\r\nHost: a\r\n\r\n");
            let bytes = client.read_to_end();
            assert!(bytes.starts_with(b"HTTP/1.1 200 ") && bytes.ends_with(b"hello"), "{what}");
            assert_eq!(gateway.get("/").status, 200);
        }
        assert_nothing_left(&gateway, what);
    }
}
