//! HTTP/2 as nobody honest speaks it. After each: honest requests are answered, memory and descriptors are as before,
//! no request is left under way, and the upstream has seen no line that was smuggled.

use std::time::Duration;

use http::StatusCode;

use crate::protocols::depot::Depot;
use crate::protocols::footprint::Footprint;
use crate::protocols::session::{ask, get, h2c, run};
use tidegate_testkit::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, Frame, GOAWAY, HEADERS,
    INITIAL_WINDOW_SIZE, Outcome, PING, PRIORITY, PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, Wire, block,
    integer,
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
        Self::with("connections: {write_timeout: 500ms}", "{algorithm: concurrency, limit: 200}")
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

    /// Each of these requests must be refused, and nothing of it may reach the upstream.
    pub(super) fn refuses(&self, requests: &[Vec<(&str, &[u8])>]) {
        let mut passed = Vec::new();
        for fields in requests {
            let seen = self.upstream.count();
            let outcome = self.attempt(fields);
            let arrived = self.upstream.received().split_off(seen);
            if !outcome.is_refusal() || !arrived.is_empty() {
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

/// Honest clients of both versions are answered.
pub(super) fn honest(gateway: &Gateway) {
    assert!(matches!(gateway.get("/honest").status, 200 | 404));
    let answer = run(async { ask(&mut h2c(gateway.address).await, get("/honest")).await });
    assert!(matches!(answer.status, StatusCode::OK | StatusCode::NOT_FOUND), "{answer:?}");
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
fn header_lists_that_are_too_large_are_refused() {
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
    assert!(outcome.is_refusal(), "{outcome:?}");
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
        assert!(outcome.is_refusal(), "{count}: {outcome:?}");
    }
    drop(wire);
    siege.holds();
}

/// A small block that becomes a large list: a field in the table, named again and again, a byte each.
#[test]
fn a_header_bomb_is_refused() {
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
    assert!(outcome.is_refusal(), "{outcome:?}");
    drop(wire);
    siege.holds();
}

/// Frames that want an answer, from a client that reads none: it ends when it has taken nothing for `write_timeout`.
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
    assert!(wire.outcome(1).is_refusal(), "all of {sent} frames are taken");
    drop(wire);
    still(&gateway, &before);
    siege.holds();
}

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

/// A client that opens its window a little and reads nothing from its socket.
#[test]
fn readers_that_do_not_read_are_cut_off_in_time() {
    let depot = Depot::start();
    let gateway = gateway(
        &depot.address.to_string(),
        "connections: {write_timeout: 500ms}",
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

/// RFC 9113 §8.1.1: a request whose `content-length` is not the sum of its DATA is malformed. It must never look whole
/// to the upstream.
#[test]
fn lengths_that_do_not_match_never_look_whole() {
    let siege = Siege::begin();
    let body = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    for (length, data, end) in [
        (&b"5"[..], &body[..], true),
        (b"0", body, true),
        (b"100", body, true),
        (b"5", body, false),
        (b"100", b"", true),
        (b"-1", body, true),
        (b"+5", b"12345", true),
        (b"5, 5", b"12345", true),
        (b"0x5", b"12345", true),
        (b"99999999999999999999999", body, true),
        (b"", body, true),
    ] {
        let seen = siege.upstream.count();
        let mut wire = siege.wire();
        let flags = if end { END_STREAM } else { 0 };
        wire.send(&[open(1, &[("content-length", length)]), Frame::new(DATA, flags, 1, data)]);
        let outcome = wire.outcome(1);
        let name = format!("{} before {} bytes", length.escape_ascii(), data.len());
        assert!(outcome.is_refusal(), "{name}: {outcome:?}");
        assert_eq!(siege.upstream.count(), seen, "{name}: the upstream took it for whole: {:?}", siege.upstream.last());
    }
    // Two that differ, two that are the same, and one on a request that ends with its head.
    for lengths in [[&b"5"[..], b"6"], [b"5", b"5"]] {
        let seen = siege.upstream.count();
        let mut wire = siege.wire();
        let mut fields = request(&[(":method", b"POST")]);
        fields.extend(lengths.map(|length| ("content-length", length)));
        let head = Frame::new(HEADERS, END_HEADERS, 1, block(&fields));
        wire.send(&[head, Frame::new(DATA, END_STREAM, 1, *b"12345")]);
        let outcome = wire.outcome(1);
        if lengths[0] == lengths[1] && outcome == Outcome::Status(200) {
            // RFC 9110 §8.6 allows it, if it is then sent once.
            let received = siege.upstream.last();
            let told = received.headers.iter().filter(|(name, _)| name == "content-length").count();
            assert_eq!((told, &received.body[..]), (1, &b"12345"[..]));
        } else {
            assert!(outcome.is_refusal(), "{lengths:?}: {outcome:?}");
            assert_eq!(siege.upstream.count(), seen);
        }
    }
    siege.refuses(&[request(&[("content-length", b"5")])]);
    siege.holds();
}

/// RFC 9113 §8.2.2: headers of an HTTP/1.1 connection make a request malformed.
#[test]
fn headers_that_belong_to_http_1_are_refused() {
    let siege = Siege::begin();
    siege.refuses(&[
        request(&[("connection", b"close")]),
        request(&[("connection", b"x-forwarded-for")]),
        request(&[("transfer-encoding", b"chunked")]),
        request(&[("transfer-encoding", b"identity")]),
        request(&[("upgrade", b"websocket")]),
        request(&[("keep-alive", b"timeout=5")]),
        request(&[("proxy-connection", b"keep-alive")]),
        request(&[("te", b"gzip")]),
    ]);
    assert_eq!(siege.attempt(&request(&[("te", b"trailers")])), Outcome::Status(200), "the one that is allowed");
    // A body that would be two requests to whoever believes the header.
    let mut wire = siege.wire();
    let body = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    wire.send(&[open(1, &[("transfer-encoding", b"chunked")]), Frame::new(DATA, END_STREAM, 1, *body)]);
    assert!(wire.outcome(1).is_refusal());
    drop(wire);
    siege.holds();
}

/// RFC 9113 §8.3.
#[test]
fn pseudo_headers_that_are_missing_doubled_or_misplaced_are_refused() {
    let siege = Siege::begin();
    let mut requests: Vec<Vec<(&str, &[u8])>> = vec![without(":method"), without(":scheme"), without(":path")];
    for name in [":method", ":scheme", ":authority", ":path"] {
        let mut doubled = request(&[]);
        let field = doubled.iter().find(|(other, _)| *other == name).copied().expect("it is there");
        doubled.push(field);
        requests.push(doubled);
        // Behind a header it has no place.
        let mut late = without(name);
        late.extend([("x-before", &b"1"[..]), field]);
        requests.push(late);
    }
    requests.push(request(&[(":status", b"200")]));
    requests.push(request(&[(":unknown", b"1")]));
    requests.push(request(&[(":protocol", b"websocket")]));
    requests.push(request(&[(":method", b"")]));
    requests.push(request(&[(":path", b"")]));
    // (Without a path *and* an authority, but with a Host, h2 makes it `/`: nobody behind it can tell.)
    siege.refuses(&requests);
    siege.holds();
}

/// RFC 9113 §8.3.1: a Host that is not the `:authority` makes two readers see two sites.
#[test]
fn authorities_that_differ_from_the_host_are_refused() {
    let siege = Siege::begin();
    siege.refuses(&[
        request(&[("host", b"other.example")]),
        request(&[("host", b"test.example:8080")]),
        request(&[("host", b"test.example"), ("Host", b"other.example")]),
        request(&[("host", b"test.example, other.example")]),
        request(&[("host", b"")]),
        without(":authority").into_iter().chain([("host", &b""[..])]).collect(),
        request(&[(":authority", b"")]),
        request(&[(":authority", b"user@test.example")]),
        request(&[(":authority", b"test.example/smuggled")]),
        request(&[(":authority", b"test.example\r\nsmuggled: 1")]),
        request(&[(":authority", b"test example")]),
        request(&[(":authority", b"test.example:port")]),
    ]);
    let mut two = request(&[("host", b"test.example")]);
    two.push(("host", b"other.example"));
    siege.refuses(&[two]);
    assert_eq!(siege.attempt(&request(&[("host", b"test.example")])), Outcome::Status(200));
    let mut host_alone = without(":authority");
    host_alone.push(("host", b"alone.example"));
    assert_eq!(siege.attempt(&host_alone), Outcome::Status(200), "RFC 9113 §8.3.1: it may stand alone");
    assert_eq!(siege.upstream.last().header("x-forwarded-host"), Some("alone.example"));
    siege.holds();
}

/// RFC 9113 §8.2.1.
#[test]
fn names_and_values_that_are_none_are_refused() {
    let siege = Siege::begin();
    siege.refuses(&[
        request(&[("X-Upper", b"1")]),
        request(&[("Content-Length", b"5")]),
        request(&[("", b"1")]),
        request(&[("x y", b"1")]),
        request(&[("x:y", b"1")]),
        request(&[("x\r\nsmuggled", b"1")]),
        request(&[("x\nsmuggled", b"1")]),
        request(&[("x\0", b"1")]),
        request(&[("x-\u{e4}", b"1")]),
        request(&[("x-value", b"1\r\nsmuggled: 2")]),
        request(&[("x-value", b"1\nsmuggled: 2")]),
        request(&[("x-value", b"1\rsmuggled: 2")]),
        request(&[("x-value", b"1\0smuggled")]),
        request(&[("x-value", b"1\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")]),
        request(&[("cookie", b"a=1\r\nsmuggled: 2")]),
        request(&[("x-value", b"\x7f")]),
        request(&[("x-value", b"\x01")]),
    ]);
    siege.holds();
}

#[test]
fn methods_and_paths_that_are_none_are_refused() {
    let siege = Siege::begin();
    siege.refuses(&[
        request(&[(":path", b"/attack smuggled")]),
        request(&[(":path", b"/attack HTTP/1.1\r\nsmuggled: 1\r\n\r\n")]),
        request(&[(":path", b"/attack\r\nsmuggled: 1")]),
        request(&[(":path", b"/attack\nsmuggled")]),
        request(&[(":path", b"/attack\tsmuggled")]),
        request(&[(":path", b"/attack\0")]),
        request(&[(":path", b"attack")]),
        request(&[(":path", b"@smuggled.example/")]),
        request(&[(":path", b".smuggled.example/")]),
        request(&[(":path", b":80/")]),
        request(&[(":path", b"http://smuggled.example/")]),
        request(&[(":path", b"?attack=1")]),
        request(&[(":path", b"*")]),
        request(&[(":method", b"GET /smuggled HTTP/1.1\r\n\r\nGET")]),
        request(&[(":method", b"G T")]),
        request(&[(":method", b"GET\r\n")]),
        request(&[(":method", b"CONNECT")]),
        vec![(":method", b"CONNECT"), (":authority", b"smuggled.example:443")],
    ]);
    siege.holds();
}

/// RFC 9110 §7.4: what is not http is not served without TLS.
#[test]
fn other_schemes_are_refused() {
    let siege = Siege::begin();
    let with_host_alone = |scheme: &'static [u8]| {
        vec![(":method", &b"GET"[..]), (":scheme", scheme), (":path", b"/attack"), ("host", b"test.example")]
    };
    siege.refuses(&[
        request(&[(":scheme", b"http://smuggled")]),
        request(&[(":scheme", b"http\r\nsmuggled: 1")]),
        request(&[(":scheme", b"ht tp")]),
        request(&[(":scheme", &[b'a'; 100])]),
        request(&[(":scheme", b"https")]),
        request(&[(":scheme", b"ftp")]),
        request(&[(":scheme", b"javascript")]),
        request(&[(":scheme", b"")]),
        // Without an authority hyper forgets the scheme.
        with_host_alone(b"https"),
        with_host_alone(b"ftp"),
        with_host_alone(b"javascript"),
        with_host_alone(b""),
    ]);
    assert_eq!(siege.attempt(&with_host_alone(b"http")), Outcome::Status(200));
    siege.holds();
}

/// RFC 9113 §4.2, §5.1, §6: connection errors.
#[test]
fn frames_that_break_the_rules_end_the_connection() {
    let siege = Siege::begin();
    let head = || Frame::request(1, &request(&[]));
    for (name, frames) in [
        ("DATA on no stream", vec![Frame::new(DATA, 0, 0, *b"x")]),
        ("DATA on an idle stream", vec![Frame::new(DATA, 0, 1, *b"x")]),
        ("HEADERS on no stream", vec![Frame { stream: 0, ..head() }]),
        ("HEADERS on the server's stream", vec![Frame { stream: 2, ..head() }]),
        ("a stream behind the last", vec![Frame { stream: 9, ..head() }, Frame { stream: 5, ..head() }]),
        ("another frame within a header block", vec![Frame { flags: 0, ..head() }, Frame::new(PING, 0, 0, [0; 8])]),
        ("another stream's CONTINUATION", vec![Frame { flags: 0, ..head() }, Frame::new(CONTINUATION, 4, 3, [])]),
        ("CONTINUATION of nothing", vec![Frame::new(CONTINUATION, END_HEADERS, 1, [])]),
        ("a frame that is too large", vec![Frame::new(DATA, 0, 1, vec![0; 16_385])]),
        ("a PING of seven bytes", vec![Frame::new(PING, 0, 0, [0; 7])]),
        ("a WINDOW_UPDATE of three bytes", vec![Frame::new(WINDOW_UPDATE, 0, 0, [0; 3])]),
        ("SETTINGS on a stream", vec![Frame::new(SETTINGS, 0, 1, [])]),
        ("half a setting", vec![Frame::new(SETTINGS, 0, 0, [0; 5])]),
        ("an acknowledgement with settings", vec![Frame::new(SETTINGS, ACK, 0, [0; 6])]),
        ("a header block that is none", vec![Frame::new(HEADERS, 5, 1, [0xff; 20])]),
        ("a push by a client", vec![Frame::new(5, 4, 1, [0, 0, 0, 2])]),
        // hyper took its headers into the dynamic table, and went on.
        ("a malformed push", vec![head(), Frame::new(5, 4, 1, *b"\0\0\0\x02\x44\x02/#\x00\x0aconnection\x01x")]),
        ("padding longer than its frame", vec![Frame::new(HEADERS, 5 | 8, 1, [200, 0, 0])]),
    ] {
        let mut wire = siege.wire();
        wire.send(&frames);
        let outcome = wire.outcome(u32::MAX);
        assert!(matches!(outcome, Outcome::GoneAway(_) | Outcome::Closed), "{name}: {outcome:?}");
        wire.wait_for_end();
    }
    // The preface with something else behind it.
    let mut wire = siege.wire();
    wire.send_bytes(b"GET /smuggled HTTP/1.1\r\nHost: test.example\r\n\r\n");
    wire.wait_for_end();
    siege.holds();
}

/// A body's trailers can not bring what its head could not.
#[test]
fn trailers_that_are_none_never_arrive() {
    let siege = Siege::begin();
    let attempt = |trailers: &[(&str, &[u8])]| {
        let mut wire = siege.wire();
        let end = Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(trailers));
        wire.send(&[open(1, &[]), Frame::new(DATA, 0, 1, *b"body"), end]);
        wire.outcome(1)
    };
    for trailers in [
        &[("x-trailer", &b"1\r\nsmuggled: 2"[..])][..],
        &[("x-trailer", b"1\nsmuggled: 2")],
        &[("X-Upper", b"1")],
        &[("x\r\nsmuggled", b"1")],
        &[(":path", b"/smuggled")],
    ] {
        let seen = siege.upstream.count();
        let outcome = attempt(trailers);
        assert!(outcome.is_refusal(), "{trailers:?}: {outcome:?}");
        assert_eq!(siege.upstream.count(), seen, "{trailers:?}: {:?}", siege.upstream.last());
    }
    // What has no place in trailers (RFC 9110 §6.5.1) is refused or left out.
    let outcome = attempt(&[("content-length", b"9"), ("host", b"smuggled")]);
    if outcome == Outcome::Status(200) {
        let all = siege.upstream.bytes();
        let bytes = all.iter().find(|bytes| bytes.ends_with(b"4\r\nbody\r\n0\r\n\r\n"));
        assert!(bytes.is_some(), "{:?}", all.last().map(|bytes| bytes.escape_ascii().to_string()));
    } else {
        assert!(outcome.is_refusal(), "{outcome:?}");
    }
    siege.holds();
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
        assert!(outcome.is_refusal(), "{outcome:?}");
    }
    drop(wire);
    siege.holds();
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

/// More streams than are allowed: refused one by one, or the connection ends; never served.
#[test]
fn more_streams_than_allowed_are_not_served() {
    let siege = Siege::with("connections: {max_streams: 10, body_timeout: 1s}", "{algorithm: concurrency, limit: 200}");
    let mut wire = siege.wire();
    let frames: Vec<Frame> = streams().take(1_000).map(|stream| open(stream, &[])).collect();
    wire.send(&frames);
    let outcome = wire.outcome(1_999);
    assert!(outcome.is_refusal() && outcome != Outcome::Reset(PROTOCOL_ERROR), "{outcome:?}");
    let under_way = siege.gateway.metric("tidegate_requests_in_flight").expect("it is counted");
    assert!(under_way <= 11.0, "{under_way} requests are under way");
    drop(wire);
    siege.holds();
}

/// Who does not read one answer may still read the others.
#[test]
fn a_stream_that_is_not_read_ends_without_the_others() {
    let depot = Depot::start();
    let gateway = gateway(
        &depot.address.to_string(),
        "connections: {write_timeout: 500ms}",
        "{algorithm: concurrency, limit: 200}",
    );
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
        std::thread::sleep(Duration::from_millis(20));
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
