//! HTTP/2 as nobody honest speaks it. After each: honest requests get a response, memory and descriptors are as before,
//! no request is left under way, and the upstream has seen no line that was smuggled.

mod requests;
mod slowness;

use http::StatusCode;

use crate::protocols::depot::Depot;
use crate::protocols::footprint::Footprint;
use crate::protocols::session::{ask, get, h2c, run};
use tidegate_testkit::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, Frame, HEADERS,
    INITIAL_WINDOW_SIZE, Outcome, PING, PRIORITY, PROTOCOL_ERROR, SETTINGS, Wire, block, integer,
};
use tidegate_testkit::{Gateway, Upstream, wait_until};

/// What every attack tries to get past the gateway.
const SMUGGLED: &str = "smuggled";

/// A gateway under attack.
pub(super) struct Siege {
    pub(super) upstream: Upstream,
    pub(super) gateway: Gateway,
    before: Footprint,
}

impl Siege {
    pub(super) fn begin() -> Self {
        Self::with(
            "connections: {write_timeout: 500ms, max_untaken_streams: 128}",
            "{algorithm: concurrency, limit: 200}",
        )
    }

    fn with(connections: &str, limit: &str) -> Self {
        let upstream = Upstream::start();
        let gateway = gateway(&upstream.address.to_string(), connections, limit);
        honest(&gateway);
        let before = Footprint::of(&gateway);
        Self { upstream, gateway, before }
    }

    pub(super) fn wire(&self) -> Wire {
        Wire::connect(self.gateway.address)
    }

    /// Sends one request over a connection of its own, and says what becomes of it.
    pub(super) fn attempt(&self, fields: &[(&str, &[u8])]) -> Outcome {
        let mut wire = self.wire();
        wire.send(&[Frame::request(1, fields)]);
        wire.outcome(1)
    }

    /// Each of these requests must be rejected, and nothing of it may reach the upstream.
    pub(super) fn rejects(&self, requests: &[Vec<(&str, &[u8])>]) {
        let mut passed = Vec::new();
        for fields in requests {
            let seen = self.upstream.count();
            let outcome = self.attempt(fields);
            let arrived = self.upstream.received().split_off(seen);
            if !outcome.is_rejection() || !arrived.is_empty() {
                let field = |(name, value): &(&str, &[u8])| format!("{name}: {}", value.escape_ascii());
                let fields: Vec<String> = fields.iter().map(field).collect();
                passed.push((fields, outcome, arrived.into_iter().map(|received| received.line).collect::<Vec<_>>()));
            }
        }
        assert!(passed.is_empty(), "these have passed: {passed:#?}");
    }

    /// What must be true after any attack.
    pub(super) fn holds(self) {
        honest(&self.gateway);
        still(&self.gateway, &self.before);
        for received in self.upstream.received() {
            let path = received.line.strip_prefix("GET ").or_else(|| received.line.strip_prefix("POST "));
            let is_known = path.is_some_and(|path| path.starts_with("/honest") || path.starts_with("/attack"));
            assert!(is_known, "the upstream got {received:#?}");
            assert!(!received.headers.iter().any(|(name, _)| name.starts_with(SMUGGLED)), "{received:#?}");
        }
        for bytes in self.upstream.bytes() {
            let lines = bytes.split(|byte| matches!(byte, b'\r' | b'\n' | 0));
            let smuggled: Vec<_> = lines.filter(|line| line.starts_with(SMUGGLED.as_bytes())).collect();
            assert!(smuggled.is_empty(), "{}", bytes.escape_ascii());
        }
    }
}

pub(super) fn gateway(upstream: &str, connections: &str, limit: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nworkers: 1\n\
         upstreams: {{app: {{url: \"http://{upstream}\", max_idle: 1}}}}\nlimits: {{default: {limit}}}\n{connections}\n"
    ))
}

/// Honest clients of both versions get a response.
pub(super) fn honest(gateway: &Gateway) {
    assert!(matches!(gateway.get("/honest").status, 200 | 404));
    let response = run(async { ask(&mut h2c(gateway.address).await, get("/honest")).await });
    assert!(matches!(response.status, StatusCode::OK | StatusCode::NOT_FOUND), "{response:?}");
}

/// Nothing is left behind.
fn still(gateway: &Gateway, before: &Footprint) {
    before.assert_growth_below(30);
    // The request that asks is one itself.
    wait_until("no request is left under way", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    wait_until("no connection is left", || gateway.metric("tidegate_connections") == Some(1.0));
    before.wait_for_descriptors(1);
}

/// A request that is right but for what is put in place of its fields, or added.
pub(super) fn request<'a>(changes: &[(&'a str, &'a [u8])]) -> Vec<(&'a str, &'a [u8])> {
    let mut fields: Vec<(&str, &[u8])> =
        vec![(":method", b"GET"), (":scheme", b"http"), (":authority", b"test.example"), (":path", b"/attack")];
    for (name, value) in changes {
        match fields.iter_mut().find(|(other, _)| other == name) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
    }
    fields
}

pub(super) fn without(name: &str) -> Vec<(&'static str, &'static [u8])> {
    request(&[]).into_iter().filter(|(other, _)| *other != name).collect()
}

/// The head of a request whose body follows.
pub(super) fn open(stream: u32, changes: &[(&str, &[u8])]) -> Frame {
    let mut changes = changes.to_vec();
    changes.push((":method", b"POST"));
    Frame::new(HEADERS, END_HEADERS, stream, block(&request(&changes)))
}

/// The streams a client opens.
pub(super) fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2)
}

/// CVE-2023-44487.
#[test]
fn rapid_resets_end_the_connection() {
    let siege = Siege::begin();
    for _ in 0..3 {
        let mut wire = siege.wire();
        let mut bytes = Vec::new();
        for stream in streams().take(10_000) {
            Frame::request(stream, &request(&[])).write(&mut bytes);
            Frame::reset(stream).write(&mut bytes);
        }
        wire.send_bytes(&bytes);
        let outcome = wire.outcome(0);
        assert!(matches!(outcome, Outcome::GoneAway(ENHANCE_YOUR_CALM) | Outcome::Closed), "{outcome:?}");
        wire.wait_for_end();
    }
    siege.holds();
}

/// The same, slowly enough that every request begins: what each takes must come back.
#[test]
fn requests_that_are_reset_one_by_one_give_back_what_they_took() {
    let siege = Siege::begin();
    let mut wire = siege.wire();
    for stream in streams().take(1_000) {
        assert!(wire.send(&[Frame::request(stream, &request(&[]))]));
        assert!(wire.settle(), "it ends after stream {stream}");
        assert!(wire.send(&[Frame::reset(stream)]));
    }
    drop(wire);
    siege.holds();
}

/// Requests that are reset by the gateway because of the client (CVE-2025-8671): no more of them at once than allowed.
#[test]
fn requests_that_make_the_gateway_reset_them_end_the_connection() {
    let siege = Siege::begin();
    let mut wire = siege.wire();
    let mut bytes = Vec::new();
    for stream in streams().take(5_000) {
        Frame::request(stream, &request(&[])).write(&mut bytes);
        // A window must not grow by nothing (RFC 9113 §6.9).
        Frame::window_update(stream, 0).write(&mut bytes);
    }
    wire.send_bytes(&bytes);
    let outcome = wire.outcome(0);
    assert!(matches!(outcome, Outcome::GoneAway(_) | Outcome::Closed), "{outcome:?}");
    wire.wait_for_end();
    siege.holds();
}

/// CVE-2024-27316 and its kin.
#[test]
fn a_flood_of_continuations_ends_the_connection() {
    let siege = Siege::begin();
    let field = block(&[("x-flood", &[b'x'; 16_000])]);
    for (name, fragment, count) in
        [("empty", &[][..], 100_000), ("full", &field, 4_000), ("one byte", &field[..1], 100_000)]
    {
        let mut wire = siege.wire();
        wire.send(&[Frame::new(HEADERS, END_STREAM, 1, block(&request(&[])))]);
        let more = Frame::new(CONTINUATION, 0, 1, fragment);
        let many = vec![more; 100];
        let mut sent = 0;
        while sent < count && wire.send(&many) {
            sent += 100;
        }
        let outcome = wire.outcome(1);
        assert!(matches!(outcome, Outcome::GoneAway(_) | Outcome::Closed), "{name}: {outcome:?} after {sent}");
        wire.wait_for_end();
    }
    siege.holds();
}

#[test]
fn header_lists_that_are_too_large_are_rejected() {
    let siege = Siege::begin();
    // One large field, in one frame more than `max_head_bytes` allows.
    let value = vec![b'x'; 12_000];
    let fields: Vec<(&str, &[u8])> = request(&[("x-a", &value), ("x-b", &value), ("x-c", &value)]);
    let bytes = block(&fields);
    let mut wire = siege.wire();
    let (first, rest) = bytes.split_at(16_000);
    let mut frames = vec![Frame::new(HEADERS, END_STREAM, 1, first)];
    frames.extend(rest.chunks(16_000).map(|piece| Frame::new(CONTINUATION, 0, 1, piece)));
    frames.last_mut().expect("one").flags |= END_HEADERS;
    wire.send(&frames);
    let outcome = wire.outcome(1);
    assert!(outcome.is_rejection(), "{outcome:?}");
    // Many small ones: they count with what it takes to hold them (RFC 9113 §6.5.2), and `max_headers` bounds them too.
    for count in [101, 1_000, 5_000] {
        let names: Vec<String> = (0..count).map(|number| format!("x-{number}")).collect();
        let mut fields = request(&[]);
        fields.extend(names.iter().map(|name| (name.as_str(), &b""[..])));
        let bytes = block(&fields);
        let mut wire = siege.wire();
        let mut pieces = bytes.chunks(16_000);
        let mut frames = vec![Frame::new(HEADERS, END_STREAM, 1, pieces.next().expect("one"))];
        frames.extend(pieces.map(|piece| Frame::new(CONTINUATION, 0, 1, piece)));
        frames.last_mut().expect("one").flags |= END_HEADERS;
        wire.send(&frames);
        let outcome = wire.outcome(1);
        assert!(outcome.is_rejection(), "{count}: {outcome:?}");
    }
    drop(wire);
    siege.holds();
}

/// A small block that becomes a large list: a field in the table, named again and again, a byte each.
#[test]
fn a_header_bomb_is_rejected() {
    let siege = Siege::begin();
    let mut bytes = block(&request(&[]));
    bytes.push(0x40);
    integer(&mut bytes, 7, 0, 6);
    bytes.extend_from_slice(b"x-bomb");
    integer(&mut bytes, 7, 0, 4_000);
    bytes.extend_from_slice(&[b'x'; 4_000]);
    bytes.extend(std::iter::repeat_n(0x80 | 0x3e, 10_000));
    let mut wire = siege.wire();
    for stream in streams().take(50) {
        if !wire.send(&[Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, bytes.clone())]) {
            break;
        }
    }
    let outcome = wire.outcome(1);
    assert!(outcome.is_rejection(), "{outcome:?}");
    drop(wire);
    siege.holds();
}

/// Frames that want a response, from a client that reads none: it ends when it has taken nothing for `write_timeout`.
#[test]
fn a_flood_of_pings_or_settings_is_cut_off_in_time() {
    let siege = Siege::begin();
    for frame in [Frame::new(PING, 0, 0, *b"12345678"), Frame::settings(&[(INITIAL_WINDOW_SIZE, 65_535)])] {
        let mut wire = siege.wire();
        let many = vec![frame; 10_000];
        let mut sent = 0;
        while sent < 5_000_000 && wire.send(&many) {
            sent += many.len();
        }
        assert!(sent < 5_000_000, "all of them are taken");
    }
    siege.holds();
}

/// Frames that want nothing.
#[test]
fn floods_of_frames_that_mean_nothing_leave_nothing_behind() {
    let siege = Siege::begin();
    for frame in [
        Frame::new(PRIORITY, 0, 3, [0, 0, 0, 1, 16]),
        Frame::new(0xbe, 0, 0, [0; 8]),
        Frame::new(PING, ACK, 0, *b"12345678"),
        Frame::new(SETTINGS, ACK, 0, []),
        Frame::window_update(0, 1),
        Frame::reset(1),
    ] {
        let mut wire = siege.wire();
        let many = vec![frame; 10_000];
        for _ in 0..10 {
            wire.send(&many);
        }
    }
    siege.holds();
}

#[test]
fn windows_that_overflow_are_errors() {
    let siege = Siege::begin();
    let outcome = |frames: &[Frame], stream| {
        let mut wire = siege.wire();
        wire.send(frames);
        wire.outcome(stream)
    };
    // RFC 9113 §6.9.1, §6.5.2.
    let overflow = Frame::window_update(1, 0x7fff_ffff);
    assert_eq!(outcome(&[open(1, &[]), overflow], 1), Outcome::Reset(FLOW_CONTROL_ERROR));
    let overflow = Frame::window_update(0, 0x7fff_ffff);
    assert_eq!(outcome(&[overflow], 0), Outcome::GoneAway(FLOW_CONTROL_ERROR));
    let overflow = Frame::settings(&[(INITIAL_WINDOW_SIZE, 0x8000_0000)]);
    assert!(matches!(outcome(&[overflow], 0), Outcome::GoneAway(_)));
    // More data than the window allows, while it is not read.
    let depot = Depot::start();
    let gateway = gateway(&depot.address.to_string(), "", "{algorithm: concurrency, limit: 200}");
    honest(&gateway);
    let before = Footprint::of(&gateway);
    let mut wire = Wire::connect(gateway.address);
    wire.send(&[open(1, &[(":path", b"/hold")])]);
    let much = vec![Frame::new(DATA, 0, 1, [b'x'; 16_384]); 100];
    let mut sent = 0;
    while sent < 10_000 && wire.send(&much) {
        sent += much.len();
    }
    assert!(wire.outcome(1).is_rejection(), "all of {sent} frames are taken");
    drop(wire);
    still(&gateway, &before);
    siege.holds();
}

/// A client that opens its window a little and reads nothing from its socket.
#[test]
fn readers_that_do_not_read_are_cut_off_in_time() {
    let depot = Depot::start();
    let gateway = gateway(
        &depot.address.to_string(),
        "connections: {write_timeout: 500ms, max_untaken_streams: 128}",
        "{algorithm: concurrency, limit: 200}",
    );
    honest(&gateway);
    let before = Footprint::of(&gateway);
    let mut wire = Wire::connect_with(gateway.address, &[(INITIAL_WINDOW_SIZE, 0x7fff_ffff)]);
    wire.send(&[Frame::window_update(0, 0x7fff_0000)]);
    // As many streams as one connection may have by default. At once: when it is cut off, it has read all of them.
    let head = request(&[(":path", b"/download/chunked/1000000000")]);
    let requests: Vec<Frame> = streams().take(128).map(|stream| Frame::request(stream, &head)).collect();
    wire.send(&requests);
    wait_until("it has been cut off", || {
        let metric = gateway.metric("tidegate_connections");
        depot.requests() >= 128 && metric == Some(1.0)
    });
    still(&gateway, &before);
    honest(&gateway);
}

/// DATA frames without data, or of a byte each, while the upstream reads nothing: flow control does not count what it
/// takes to hold them.
#[test]
fn floods_of_small_data_frames_take_little_memory() {
    let depot = Depot::start();
    let gateway =
        gateway(&depot.address.to_string(), "connections: {body_timeout: 2s}", "{algorithm: concurrency, limit: 200}");
    honest(&gateway);
    let before = Footprint::of(&gateway);
    for data in [&b""[..], b"x"] {
        let mut wire = Wire::connect(gateway.address);
        wire.send(&[open(1, &[(":path", b"/hold")])]);
        let many = vec![Frame::new(DATA, 0, 1, data); 10_000];
        let mut sent = 0;
        while sent < 1_000_000 && wire.send(&many) {
            sent += many.len();
        }
        before.assert_growth_below(30);
    }
    depot.release();
    still(&gateway, &before);
    honest(&gateway);
}

/// Padding is counted by flow control, and is no data.
#[test]
fn padding_is_no_data() {
    let siege = Siege::begin();
    let mut wire = siege.wire();
    let padding = [&[255][..], &[0; 255]].concat();
    let mut frames = vec![open(1, &[])];
    frames.extend(std::iter::repeat_n(Frame::new(DATA, 8, 1, padding), 50));
    frames.push(Frame::new(DATA, END_STREAM, 1, *b"end"));
    wire.send(&frames);
    let outcome = wire.outcome(1);
    if outcome == Outcome::Status(200) {
        assert_eq!(siege.upstream.last().body, b"end");
    } else {
        assert!(outcome.is_rejection(), "{outcome:?}");
    }
    drop(wire);
    siege.holds();
}

/// More streams than are allowed: rejected one by one, or the connection ends; never served.
#[test]
fn more_streams_than_allowed_are_not_served() {
    let siege = Siege::with("connections: {max_streams: 10, body_timeout: 1s}", "{algorithm: concurrency, limit: 200}");
    let mut wire = siege.wire();
    let frames: Vec<Frame> = streams().take(1_000).map(|stream| open(stream, &[])).collect();
    wire.send(&frames);
    let outcome = wire.outcome(1_999);
    assert!(outcome.is_rejection() && outcome != Outcome::Reset(PROTOCOL_ERROR), "{outcome:?}");
    let under_way = siege.gateway.metric("tidegate_requests_in_flight").expect("it is counted");
    assert!(under_way <= 11.0, "{under_way} requests are under way");
    drop(wire);
    siege.holds();
}
