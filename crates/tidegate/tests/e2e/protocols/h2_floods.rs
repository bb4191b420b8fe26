//! Clients over HTTP/2 that send much of what brings no request forward. hyper responds to most of it for as long as it
//! comes; on two connections 46 million PINGs took five seconds of a core in six.

use tidegate_testkit::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frame, HEADERS, INITIAL_WINDOW_SIZE, Outcome, PING,
    PRIORITY, PROTOCOL_ERROR, RST_STREAM, SETTINGS, Wire, block, integer,
};
use tidegate_testkit::{Gateway, Upstream, wait_until};

use crate::protocols::depot::Depot;
use crate::protocols::h2_attacks::{Siege, gateway, honest, open, request, streams};

fn floods(gateway: &Gateway, cause: &str) -> Option<f64> {
    gateway.metric(&format!("tidegate_http2_floods_total{{cause=\"{cause}\"}}"))
}

/// The client learns why before the connection ends, and so does the operator.
#[test]
fn a_flood_of_frames_ends_with_enhance_your_calm() {
    let siege = Siege::begin();
    for (frame, cause) in [
        (Frame::new(PING, 0, 0, *b"12345678"), "ping"),
        (Frame::new(PING, ACK, 0, *b"12345678"), "ping"),
        (Frame::settings(&[(INITIAL_WINDOW_SIZE, 65_535)]), "settings"),
        (Frame::settings(&[]), "settings"),
        (Frame::new(SETTINGS, ACK, 0, []), "settings"),
        (Frame::window_update(0, 1), "window_update"),
        (Frame::new(PRIORITY, 0, 3, [0, 0, 0, 1, 16]), "priority"),
        (Frame::new(0x10, 0, 0, [0, 0, 0, 1, b'u', b'=', b'1']), "priority"),
        (Frame::new(0xbe, 0, 0, [0; 8]), "unknown_frames"),
        (Frame::new(0xbe, 0, 7, [0; 30]), "unknown_frames"),
    ] {
        let before = floods(&siege.gateway, cause).unwrap_or(0.0);
        let mut wire = siege.wire();
        wire.send(&vec![frame.clone(); 5_000]);
        assert_eq!(wire.outcome(0), Outcome::GoneAway(ENHANCE_YOUR_CALM), "{frame:?}");
        wire.wait_for_end();
        assert_eq!(floods(&siege.gateway, cause), Some(before + 1.0), "{frame:?}");
    }
    siege.gateway.wait_for_line("Closed an HTTP/2 connection from 127.0.0.1: too many PING frames");
    siege.holds();
}

/// Resets of requests that had begun were not bounded: each may cost the gateway a request, and the client nothing.
#[test]
fn a_flood_of_resets_ends_with_enhance_your_calm() {
    let siege = Siege::begin();
    let mut wire = siege.wire();
    wire.send(&[Frame::request(1, &request(&[]))]);
    assert_eq!(wire.outcome(1), Outcome::Status(200));
    wire.send(&vec![Frame::reset(1); 5_000]);
    assert_eq!(wire.outcome(0), Outcome::GoneAway(ENHANCE_YOUR_CALM));
    wire.wait_for_end();
    assert_eq!(floods(&siege.gateway, "resets"), Some(1.0));
    siege.holds();
}

/// A connection with a stream that the gateway has reset: what comes on it later is ignored.
fn with_reset_stream(siege: &Siege) -> Wire {
    let mut wire = siege.wire();
    wire.send(&[open(1, &[("connection", b"close")])]);
    assert_eq!(wire.outcome(1), Outcome::Reset(PROTOCOL_ERROR));
    wire
}

/// DATA frames that end a stream were free: on a stream that was reset they were read for as long as they came.
#[test]
fn a_flood_of_data_on_a_reset_stream_ends_with_enhance_your_calm() {
    let siege = Siege::begin();
    for (count, flags, data) in [(1.0, END_STREAM, &b""[..]), (2.0, END_STREAM, b"x"), (3.0, 0, b"x")] {
        let mut wire = with_reset_stream(&siege);
        wire.send(&vec![Frame::new(DATA, flags, 1, data); 5_000]);
        assert_eq!(wire.outcome(0), Outcome::GoneAway(ENHANCE_YOUR_CALM), "{flags} {data:?}");
        wire.wait_for_end();
        assert_eq!(floods(&siege.gateway, "empty_data"), Some(count), "{flags} {data:?}");
    }
    siege.holds();
}

/// A block that names a large header of the table again and again, and becomes a list between one and four times as
/// large as allowed. hyper rejects each by itself, and ended the connection after a thousand of them.
fn bombs(count: usize) -> Vec<Frame> {
    let mut first = block(&request(&[]));
    first.push(0x40);
    integer(&mut first, 7, 0, 6);
    first.extend_from_slice(b"x-bomb");
    integer(&mut first, 7, 0, 3_000);
    first.extend_from_slice(&[b'x'; 3_000]);
    let mut others = block(&request(&[]));
    for bytes in [&mut first, &mut others] {
        bytes.extend(std::iter::repeat_n(0xbe, 20));
    }
    let blocks = std::iter::once(first).chain(std::iter::repeat(others));
    let bomb = |(stream, block)| Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, block);
    streams().zip(blocks).take(count).map(bomb).collect()
}

#[test]
fn a_flood_of_header_lists_that_are_too_large_ends_with_enhance_your_calm() {
    let siege = Siege::begin();
    let mut wire = siege.wire();
    wire.send(&bombs(900));
    assert_eq!(wire.outcome(0), Outcome::GoneAway(ENHANCE_YOUR_CALM));
    wire.wait_for_end();
    assert_eq!(floods(&siege.gateway, "malformed_requests"), Some(1.0));
    // A client with too large a cookie gets that response, request by request.
    let mut wire = siege.wire();
    let mut rejected = 0;
    wire.send(&bombs(40));
    while rejected < 40 {
        rejected += u32::from(wire.read().expect("the connection goes on").kind == HEADERS);
    }
    assert!(wire.settle());
    drop(wire);
    siege.holds();
}

/// hyper decodes what comes on a stream that it has reset, and drops it without counting it.
#[test]
fn a_flood_of_header_blocks_on_a_reset_stream_ends_with_enhance_your_calm() {
    let siege = Siege::begin();
    let bombs: Vec<Frame> = bombs(900).into_iter().map(|bomb| Frame { stream: 1, ..bomb }).collect();
    let trailers = vec![Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(&[("x-trailer", b"1")])); 900];
    for (count, frames) in [(1.0, bombs), (2.0, trailers)] {
        let mut wire = with_reset_stream(&siege);
        wire.send(&frames);
        assert_eq!(wire.outcome(0), Outcome::GoneAway(ENHANCE_YOUR_CALM));
        wire.wait_for_end();
        assert_eq!(floods(&siege.gateway, "malformed_requests"), Some(count));
    }
    siege.holds();
}

/// Small blocks that become hundreds of headers each: every request gets its response, 431, and there was no end to
/// them.
#[test]
fn a_flood_of_requests_that_are_rejected_ends_with_enhance_your_calm() {
    const AT_ONCE: usize = 50;
    let siege = Siege::begin();
    let mut wire = siege.wire();
    let head = [block(&request(&[])), b"\x40\x01x\x00".to_vec(), vec![0xbe; 700]].concat();
    let requests = streams().map(|stream| Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, head.clone()));
    let requests: Vec<Frame> = requests.take(1_000).collect();
    let is_closed = requests.chunks(AT_ONCE).any(|requests| {
        wire.send(requests);
        let mut ended = 0;
        while ended < AT_ONCE {
            let Some(frame) = wire.read() else { return true };
            ended += usize::from(matches!(frame.kind, HEADERS | RST_STREAM));
        }
        false
    });
    assert!(is_closed, "all of them are answered");
    wire.wait_for_end();
    assert_eq!(floods(&siege.gateway, "malformed_requests"), Some(1.0));
    siege.holds();
}

/// It ended because of the flood, however long its client stays, and for no other reason.
#[test]
fn a_flood_is_counted_as_nothing_else() {
    let upstream = Upstream::start();
    let gateway = gateway(
        &upstream.address.to_string(),
        "connections: {idle_timeout: 100ms}",
        "{algorithm: concurrency, limit: 200}",
    );
    let mut wire = Wire::connect(gateway.address);
    wire.send(&vec![Frame::new(PING, 0, 0, *b"12345678"); 5_000]);
    assert_eq!(wire.outcome(0), Outcome::GoneAway(ENHANCE_YOUR_CALM));
    wait_until("it is gone", || gateway.metric("tidegate_connections") == Some(1.0));
    assert_eq!(floods(&gateway, "ping"), Some(1.0));
    let closed = |reason| gateway.metric(&format!("tidegate_connections_closed_total{{reason=\"{reason}\"}}"));
    for reason in ["evicted", "head_timeout", "idle_timeout", "write_timeout"] {
        assert_eq!(closed(reason), Some(0.0), "{reason}");
    }
    drop(wire);
}

/// What hyper bounds by itself is reported to the operator, too.
#[test]
fn floods_that_hyper_ends_are_counted() {
    let siege = Siege::begin();
    let mut wire = siege.wire();
    let mut frames = Vec::new();
    for stream in streams().take(1_000) {
        frames.extend([Frame::request(stream, &request(&[])), Frame::reset(stream)]);
    }
    wire.send(&frames);
    assert_eq!(wire.outcome(0), Outcome::GoneAway(ENHANCE_YOUR_CALM));
    wire.wait_for_end();
    assert_eq!(floods(&siege.gateway, "other"), Some(1.0));
    siege.holds();
}

/// A client that goes on: it is not read for ever.
#[test]
fn a_flood_without_an_end_is_not_read_to_its_end() {
    let siege = Siege::begin();
    let mut wire = siege.wire();
    let many = vec![Frame::new(PRIORITY, 0, 3, [0, 0, 0, 1, 16]); 10_000];
    let mut sent = 0;
    while sent < 10_000_000 && wire.send(&many) {
        sent += many.len();
    }
    assert!(sent < 10_000_000, "all of them are taken");
    wait_until("the connection is gone", || siege.gateway.metric("tidegate_connections") == Some(1.0));
    siege.holds();
}

/// Fast downloads and busy browsers send thousands of such frames a second.
#[test]
fn honest_clients_never_meet_a_bound() {
    const LENGTH: usize = 50_000_000;
    let depot = Depot::start();
    let gateway = gateway(&depot.address.to_string(), "", "{algorithm: concurrency, limit: 200}");
    honest(&gateway);
    // Two windows and a ping for each DATA frame, in a download of thousands of them.
    let mut wire = Wire::connect(gateway.address);
    let path = format!("/download/length/{LENGTH}");
    wire.send(&[Frame::request(1, &request(&[(":path", path.as_bytes())]))]);
    let (mut length, mut frames) = (0, 0);
    while length < LENGTH {
        let frame = wire.read().expect("the connection goes on");
        if frame.kind == DATA && !frame.payload.is_empty() {
            let size = u32::try_from(frame.payload.len()).expect("a frame is short");
            let ping = Frame::new(PING, 0, 0, *b"how fast");
            wire.send(&[Frame::window_update(1, size), Frame::window_update(0, size), ping]);
            length += frame.payload.len();
            frames += 1;
        }
    }
    assert!(frames > 2_000, "{frames} frames show nothing");
    // A burst of pings, as if a client had been frozen, and the priorities of a browser.
    for _ in 0..500 {
        wire.send(&[Frame::new(PING, 0, 0, *b"are you?"), Frame::new(PRIORITY, 0, 3, [0, 0, 0, 0, 16])]);
    }
    assert!(wire.settle());
    for cause in
        ["ping", "settings", "window_update", "priority", "empty_data", "resets", "malformed_requests", "other"]
    {
        assert_eq!(floods(&gateway, cause), Some(0.0), "{cause}");
    }
}

/// A client with a small window gets small frames, and opens both its windows for each.
#[test]
fn a_large_download_through_a_small_window_never_meets_a_bound() {
    const LENGTH: usize = 500_000;
    let depot = Depot::start();
    let gateway = gateway(&depot.address.to_string(), "", "{algorithm: concurrency, limit: 200}");
    let mut wire = Wire::connect_with(gateway.address, &[(INITIAL_WINDOW_SIZE, 100)]);
    let path = format!("/download/length/{LENGTH}");
    wire.send(&[Frame::request(1, &request(&[(":path", path.as_bytes())]))]);
    let mut length = 0;
    while length < LENGTH {
        let frame = wire.read().expect("the connection goes on");
        if frame.kind == DATA && !frame.payload.is_empty() {
            let size = u32::try_from(frame.payload.len()).expect("a frame is short");
            wire.send(&[Frame::window_update(1, size), Frame::window_update(0, size)]);
            length += frame.payload.len();
        }
    }
    assert!(wire.settle());
    assert_eq!(floods(&gateway, "window_update"), Some(0.0));
}
