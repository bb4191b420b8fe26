//! Requests that break the rules of HTTP/2, or would break those of HTTP/1 towards the upstream.

use super::{Siege, open, request, without};
use tidegate_testkit::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, Outcome, PING, SETTINGS, WINDOW_UPDATE, block,
};

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
        assert!(outcome.is_rejection(), "{name}: {outcome:?}");
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
            let reported = received.headers.iter().filter(|(name, _)| name == "content-length").count();
            assert_eq!((reported, &received.body[..]), (1, &b"12345"[..]));
        } else {
            assert!(outcome.is_rejection(), "{lengths:?}: {outcome:?}");
            assert_eq!(siege.upstream.count(), seen);
        }
    }
    siege.rejects(&[request(&[("content-length", b"5")])]);
    siege.holds();
}

/// RFC 9113 §8.2.2: headers of an HTTP/1.1 connection make a request malformed.
#[test]
fn headers_that_belong_to_http_1_are_rejected() {
    let siege = Siege::begin();
    siege.rejects(&[
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
    assert!(wire.outcome(1).is_rejection());
    drop(wire);
    siege.holds();
}

/// RFC 9113 §8.3.
#[test]
fn pseudo_headers_that_are_missing_doubled_or_misplaced_are_rejected() {
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
    // (Without a path *and* an authority, but with a Host, h2 makes it `/`: nobody behind it can know.)
    siege.rejects(&requests);
    siege.holds();
}

/// RFC 9113 §8.3.1: a Host that is not the `:authority` makes two readers see two sites.
#[test]
fn authorities_that_differ_from_the_host_are_rejected() {
    let siege = Siege::begin();
    siege.rejects(&[
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
    siege.rejects(&[two]);
    assert_eq!(siege.attempt(&request(&[("host", b"test.example")])), Outcome::Status(200));
    let mut host_alone = without(":authority");
    host_alone.push(("host", b"alone.example"));
    assert_eq!(siege.attempt(&host_alone), Outcome::Status(200), "RFC 9113 §8.3.1: it may stand alone");
    assert_eq!(siege.upstream.last().header("x-forwarded-host"), Some("alone.example"));
    siege.holds();
}

/// RFC 9113 §8.2.1.
#[test]
fn invalid_names_and_values_are_rejected() {
    let siege = Siege::begin();
    siege.rejects(&[
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
fn invalid_methods_and_paths_are_rejected() {
    let siege = Siege::begin();
    siege.rejects(&[
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
fn other_schemes_are_rejected() {
    let siege = Siege::begin();
    let with_host_alone = |scheme: &'static [u8]| {
        vec![(":method", &b"GET"[..]), (":scheme", scheme), (":path", b"/attack"), ("host", b"test.example")]
    };
    siege.rejects(&[
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
        assert!(outcome.is_rejection(), "{trailers:?}: {outcome:?}");
        assert_eq!(siege.upstream.count(), seen, "{trailers:?}: {:?}", siege.upstream.last());
    }
    // What has no place in trailers (RFC 9110 §6.5.1) is rejected or left out.
    let outcome = attempt(&[("content-length", b"9"), ("host", b"smuggled")]);
    if outcome == Outcome::Status(200) {
        let all = siege.upstream.bytes();
        let bytes = all.iter().find(|bytes| bytes.ends_with(b"4\r\nbody\r\n0\r\n\r\n"));
        assert!(bytes.is_some(), "{:?}", all.last().map(|bytes| bytes.escape_ascii().to_string()));
    } else {
        assert!(outcome.is_rejection(), "{outcome:?}");
    }
    siege.holds();
}
