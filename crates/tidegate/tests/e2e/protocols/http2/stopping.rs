//! What happens to connections when the gateway stops.

use std::net::SocketAddr;

use http::StatusCode;

use super::{GET, PLENTY, Secured, clear, gated};
use crate::protocols::session::{self, ask, for_http1, get, run};
use tidegate_testkit::frames::{Frame, GOAWAY, Outcome, Wire};
use tidegate_testkit::{Client, Upstream, wait_until, wait_until_async};

#[test]
fn requests_under_way_end_and_no_more_are_taken_when_it_stops() {
    let (upstream, gate) = gated();
    let mut gateway = clear(upstream.address, PLENTY, "");
    let mut wire = Wire::connect(gateway.address);
    assert!(wire.send(&[Frame::request(1, &GET)]));
    wait_until("the request is under way", || upstream.count() == 1);
    gateway.signal("TERM");
    let goodbye = wire.read_until(GOAWAY).expect("it says that it goes");
    assert_eq!(&goodbye.payload[4..8], &[0; 4], "without an error");
    assert!(wire.settle());
    gate.open();
    assert_eq!(wire.outcome(1), Outcome::Status(200), "what was under way ends well");
    wire.wait_for_end();
    assert!(gateway.wait_for_end());
    assert_eq!(upstream.count(), 1);
}

/// Prefaces and handshakes that are there when the order comes are gone through with, and so are the requests behind
/// them.
#[test]
fn who_has_begun_to_speak_when_it_stops_is_still_heard() {
    let upstream = Upstream::start();
    let mut gateway = clear(upstream.address, PLENTY, "");
    gateway.signal("STOP");
    let mut wires: Vec<Wire> = (0..20).map(|_| Wire::connect(gateway.address)).collect();
    for wire in &mut wires {
        assert!(wire.send(&[Frame::request(1, &GET)]));
    }
    gateway.signal("TERM");
    gateway.signal("CONT");
    for wire in &mut wires {
        assert_eq!(wire.outcome(1), Outcome::Status(200));
    }
    assert!(gateway.wait_for_end());

    let mut secured = Secured::before(upstream.address, PLENTY, "");
    secured.gateway.signal("STOP");
    run(async {
        // On HTTP/2 it would get GOAWAY before it asks, which costs it nothing.
        let (address, config) = (secured.gateway.address, secured.authority.client(&["http/1.1"]));
        let mut shaking = Box::pin(session::try_tls(address, config));
        // As soon as it is connected it says hello, and waits.
        let hello = wait_until_async("it says hello", async || unread(address) > 0);
        tokio::select! {
            _ = &mut shaking => panic!("it stands still"),
            () = hello => {}
        }
        secured.gateway.signal("TERM");
        secured.gateway.signal("CONT");
        let mut session = session::http1(shaking.await.expect("a handshake")).await;
        let response = session.send_request(for_http1(get("/"))).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
    });
    assert!(secured.gateway.wait_for_end());
}

/// Bytes that lie at this address and have not been read, by the kernel.
fn unread(address: SocketAddr) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel tells");
    let port = format!(":{:04X}", address.port());
    let queued = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let of_port = fields.get(1).is_some_and(|local| local.ends_with(&port));
        let queue = fields.get(4).and_then(|queues| queues.split_once(':')).filter(|_| of_port && fields[3] == "01");
        queue.and_then(|(_, received)| u64::from_str_radix(received, 16).ok()).unwrap_or(0)
    };
    table.lines().skip(1).map(queued).sum()
}

#[test]
fn idle_connections_do_not_keep_it_from_stopping() {
    let upstream = Upstream::start();
    let mut secured = Secured::before(upstream.address, PLENTY, "");
    let mut gateway = clear(upstream.address, PLENTY, "");
    run(async {
        let (mut over_tls, mut in_clear) = (secured.http2().await, session::h2c(gateway.address).await);
        assert_eq!(ask(&mut over_tls, get("/")).await.status, StatusCode::OK);
        assert_eq!(ask(&mut in_clear, get("/")).await.status, StatusCode::OK);
        secured.gateway.signal("TERM");
        gateway.signal("TERM");
        // Nobody waits here for as long as the half minute that they may drain.
        assert!(secured.gateway.wait_for_end() && gateway.wait_for_end());
        assert!(over_tls.ready().await.is_err() && in_clear.ready().await.is_err());
    });
}

/// Who has connected and asked for nothing has no request under way, whatever the listener waits for: a preface, a
/// handshake, leave.
#[test]
fn silent_connections_do_not_keep_it_from_stopping() {
    const PATIENT: &str = "connections: {head_timeout: 1h, idle_timeout: 1h}\n";
    let upstream = Upstream::start();
    let mut secured = Secured::before(upstream.address, PLENTY, PATIENT);
    let mut gateway = clear(upstream.address, PLENTY, PATIENT);
    let silent = [Client::connect(gateway.address), Client::connect(secured.gateway.address)];
    assert_eq!(gateway.get("/").status, 200, "those before it have been accepted");
    let mut deaf = Wire::connect(gateway.address);
    assert!(deaf.settle());
    run(async {
        assert_eq!(ask(&mut secured.http2().await, get("/")).await.status, StatusCode::OK);
        let _mute = session::tls(secured.gateway.address, secured.authority.client(&["h2"])).await;
        gateway.signal("TERM");
        secured.gateway.signal("TERM");
        assert!(gateway.wait_for_end() && secured.gateway.wait_for_end());
    });
    for mut client in silent {
        assert!(client.is_closed());
    }
}
