//! Clients that hold something open: a stream, a window, a connection.

use std::time::Duration;

use super::{Siege, gateway, honest, open, request, still, streams};
use crate::protocols::depot::Depot;
use crate::protocols::footprint::Footprint;
use tidegate_testkit::frames::{DATA, Frame, GOAWAY, INITIAL_WINDOW_SIZE, RST_STREAM, Wire};
use tidegate_testkit::{Upstream, pause};

/// A client that asks for much and takes nothing.
#[test]
fn readers_without_a_window_are_cut_off_in_time() {
    let depot = Depot::start();
    let gateway = gateway(
        &depot.address.to_string(),
        "connections: {write_timeout: 500ms, body_timeout: 500ms}",
        "{algorithm: concurrency, limit: 200}",
    );
    honest(&gateway);
    let before = Footprint::of(&gateway);
    for length in ["10", "1000000000"] {
        let mut wire = Wire::connect_with(gateway.address, &[(INITIAL_WINDOW_SIZE, 0)]);
        let path = format!("/download/length/{length}");
        for stream in streams().take(50) {
            wire.send(&[Frame::request(stream, &request(&[(":path", path.as_bytes())]))]);
        }
        // It may say that it is there as often as it likes.
        assert!(wire.settle());
        let mut reset = 0;
        while reset < 50 {
            reset += u32::from(wire.read().expect("the connection goes on").kind == RST_STREAM);
        }
    }
    still(&gateway, &before);
    honest(&gateway);
}

/// Heads without an end, on many connections: each ends in time.
#[test]
fn requests_that_are_never_finished_end_in_time() {
    let siege =
        Siege::with("connections: {idle_timeout: 500ms, body_timeout: 500ms}", "{algorithm: concurrency, limit: 200}");
    let mut wires = Vec::new();
    for _ in 0..50 {
        let mut wire = siege.wire();
        wire.send(&[Frame { flags: 0, ..Frame::request(1, &request(&[])) }]);
        wires.push(wire);
        let mut wire = siege.wire();
        wire.send(&[open(1, &[]), open(3, &[("content-length", b"5")])]);
        wires.push(wire);
    }
    wires.iter_mut().for_each(Wire::wait_for_end);
    siege.holds();
}

/// Who does not read one response may still read the others.
#[test]
fn a_stream_that_is_not_read_ends_without_the_others() {
    let depot = Depot::start();
    let gateway =
        gateway(&depot.address.to_string(), "connections: {write_timeout: 2s}", "{algorithm: concurrency, limit: 200}");
    let mut wire = Wire::connect_with(gateway.address, &[(INITIAL_WINDOW_SIZE, 0)]);
    wire.send(&[open(1, &[(":path", b"/download/length/1000")]), open(3, &[(":path", b"/download/length/1000")])]);
    let mut read = 0;
    let mut is_reset = false;
    // The second gets a byte of its window now and then, the first none.
    while read < 30 || !is_reset {
        wire.send(&[Frame::window_update(3, 1)]);
        let frame = wire.read().expect("the connection goes on");
        match (frame.kind, frame.stream) {
            (DATA, 3) => read += frame.payload.len(),
            (RST_STREAM, 1) => is_reset = true,
            (RST_STREAM | GOAWAY, _) => panic!("{frame:?}"),
            _ => {}
        }
        pause(Duration::from_millis(20));
    }
    honest(&gateway);
}

/// RFC 9113 §6.8: whoever ends a connection says how far it has come.
#[test]
fn an_idle_connection_ends_with_goaway() {
    let upstream = Upstream::start();
    let gateway = gateway(
        &upstream.address.to_string(),
        "connections: {idle_timeout: 300ms}",
        "{algorithm: concurrency, limit: 200}",
    );
    let mut wire = Wire::connect(gateway.address);
    wire.send(&[Frame::request(1, &request(&[(":path", b"/honest")]))]);
    assert!(wire.read_until(GOAWAY).is_some());
    wire.wait_for_end();
}
