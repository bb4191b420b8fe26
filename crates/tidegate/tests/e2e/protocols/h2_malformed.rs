//! Requests over HTTP/2 that are malformed (RFC 9113 §8) though they can be read: none of them goes on, and their
//! neighbours do.

use http::StatusCode;
use tidegate_testkit::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, Outcome, PROTOCOL_ERROR, SETTINGS, Wire, block,
};
use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

use crate::protocols::h2_attacks::{Siege, open, request, without};
use crate::protocols::session::{ask, get, h2c, run};

/// RFC 9113 §8.2.1. They were passed on, where HTTP/1 takes the whitespace away: two readers saw two values.
#[test]
fn values_with_whitespace_around_them_are_rejected() {
    let siege = Siege::begin();
    siege.rejects(&[
        request(&[("x-value", b" 1")]),
        request(&[("x-value", b"1 ")]),
        request(&[("x-value", b"\t1")]),
        request(&[("x-value", b"1\t")]),
        request(&[("x-value", b" ")]),
        request(&[("x-before", b"1"), ("x-value", b" 1")]),
        request(&[("content-length", b" 0")]),
    ]);
    for value in [&b""[..], b"1", b"1 2", b"1\t2"] {
        assert_eq!(siege.attempt(&request(&[("x-value", value)])), Outcome::Status(200), "{}", value.escape_ascii());
    }
    // In trailers, too.
    assert!(siege_trailers(&siege, &block(&[("x-trailer", b" 1")])).is_rejection());
    assert_eq!(siege_trailers(&siege, &block(&[("x-trailer", b"1 2")])), Outcome::Status(200));
    siege.holds();
}

/// What becomes of a request whose trailers are this block. The upstream must see all of it or not take it for whole.
fn siege_trailers(siege: &Siege, trailers: &[u8]) -> Outcome {
    let seen = siege.upstream.count();
    let mut wire = siege.wire();
    let end = Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, trailers);
    wire.send(&[open(1, &[]), Frame::new(DATA, 0, 1, *b"body"), end]);
    let outcome = wire.outcome(1);
    assert_eq!(siege.upstream.count() - seen, usize::from(!outcome.is_rejection()), "{}", trailers.escape_ascii());
    outcome
}

/// RFC 9113 §8.1. They were dropped, and the request went on as if it were right.
#[test]
fn trailers_with_a_pseudo_header_make_a_request_malformed() {
    let siege = Siege::begin();
    // By their numbers in the static table, with and without a value, and by name.
    for trailers in
        [&b"\x82"[..], b"\x84", b"\x88", b"\x04\x02/a", b"\x41\x01a", b"\x00\x05:path\x02/a", b"\x00\x02:x\x00"]
    {
        let outcome = siege_trailers(&siege, trailers);
        assert!(outcome.is_rejection(), "{}: {outcome:?}", trailers.escape_ascii());
    }
    assert!(siege_trailers(&siege, &block(&[("x-trailer", b"1"), (":path", b"/attack")])).is_rejection());
    assert_eq!(siege_trailers(&siege, &block(&[("x-trailer", b"1")])), Outcome::Status(200));
    assert_eq!(siege_trailers(&siege, b""), Outcome::Status(200));
    siege.holds();
}

/// RFC 9113 §8.3.1. The fragment was cut off, and the request went on.
#[test]
fn a_path_with_a_fragment_is_rejected() {
    let siege = Siege::begin();
    siege.rejects(&[
        request(&[(":path", b"/attack#smuggled")]),
        request(&[(":path", b"/attack#")]),
        request(&[(":path", b"/#/attack")]),
        request(&[(":path", b"/attack?a=b#c")]),
    ]);
    assert_eq!(siege.attempt(&request(&[(":path", b"/attack%23a?b=%23")])), Outcome::Status(200));
    assert_eq!(siege.attempt(&request(&[("x-value", b"/a#b")])), Outcome::Status(200), "it is no path");
    // Other requests over the same connection are not touched, and the table of headers is as the client thinks it is.
    let mut wire = siege.wire();
    let head = [&b"\x82\x86\x41\x0ctest.example"[..], b"\x44\x83\x63\xfe\xbf"].concat();
    wire.send(&[Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, head)]);
    assert_eq!(wire.outcome(1), Outcome::Reset(PROTOCOL_ERROR), "`/#` in Huffman's code");
    let head = [&b"\x82\x86\xbf"[..], b"\x04\x07/attack"].concat();
    wire.send(&[Frame::new(HEADERS, END_HEADERS | END_STREAM, 3, head)]);
    assert_eq!(wire.outcome(3), Outcome::Status(200));
    assert_eq!(siege.upstream.last().header("x-forwarded-host"), Some("test.example"));
    drop(wire);
    siege.holds();
}

/// A head whose path has a fragment and whose length is written with more bytes than it needs.
fn long_head() -> Vec<u8> {
    let path = [&b"/attack#"[..], &[b'a'; 119]].concat();
    [&b"\x82\x86\x41\x0ctest.example\x04\x7f\x80\x80\x80\x00"[..], &path].concat()
}

/// Malformed heads were found only in a HEADERS frame that was whole in one read, and written out in the simplest way.
#[test]
fn a_malformed_head_is_rejected_however_it_comes() {
    let siege = Siege::begin();
    let head = block(&request(&[(":path", b"/attack#smuggled")]));
    let flags = END_HEADERS | END_STREAM;
    let seen = siege.upstream.count();
    // Byte by byte.
    let (mut wire, mut bytes) = (siege.wire(), Vec::new());
    Frame::new(HEADERS, flags, 1, head.clone()).write(&mut bytes);
    for byte in bytes {
        wire.send_bytes(&[byte]);
    }
    assert_eq!(wire.outcome(1), Outcome::Reset(PROTOCOL_ERROR));
    drop(wire);
    // In several frames, cut anywhere.
    for cut in 0..=head.len() {
        let (first, rest) = head.split_at(cut);
        let mut wire = siege.wire();
        wire.send(&[Frame::new(HEADERS, END_STREAM, 1, first), Frame::new(CONTINUATION, END_HEADERS, 1, rest)]);
        assert_eq!(wire.outcome(1), Outcome::Reset(PROTOCOL_ERROR), "cut at {cut}");
    }
    let mut wire = siege.wire();
    wire.send(&[Frame::new(HEADERS, flags, 1, long_head())]);
    assert_eq!(wire.outcome(1), Outcome::Reset(PROTOCOL_ERROR));
    drop(wire);
    // From the dynamic table, where the first request has put it.
    let mut wire = siege.wire();
    let entered = [&b"\x82\x86\x41\x0ctest.example"[..], b"\x44\x09/attack#a"].concat();
    wire.send(&[Frame::new(HEADERS, flags, 1, entered), Frame::new(HEADERS, flags, 3, *b"\x82\x86\xbf\xbe")]);
    assert_eq!(wire.outcome(3), Outcome::Reset(PROTOCOL_ERROR));
    // The connection goes on, and both sides have the same table.
    wire.send(&[Frame::new(HEADERS, flags, 5, *b"\x82\x86\xbf\x04\x07/attack")]);
    assert_eq!(wire.outcome(5), Outcome::Status(200));
    assert_eq!(siege.upstream.count(), seen + 1);
    assert_eq!(siege.upstream.last().header("x-forwarded-host"), Some("test.example"));
    drop(wire);
    siege.holds();
}

/// The same for trailers.
#[test]
fn malformed_trailers_are_rejected_however_they_come() {
    let siege = Siege::begin();
    let seen = siege.upstream.count();
    for cut in 0..=5 {
        let (first, rest) = b"\x04\x02/a\x90".split_at(cut);
        let mut wire = siege.wire();
        let trailers = [Frame::new(HEADERS, END_STREAM, 1, first), Frame::new(CONTINUATION, END_HEADERS, 1, rest)];
        wire.send(&[&[open(1, &[]), Frame::new(DATA, 0, 1, *b"body")], &trailers[..]].concat());
        assert!(wire.outcome(1).is_rejection(), "cut at {cut}");
    }
    // A path that the head has put in the dynamic table.
    let mut wire = siege.wire();
    let head = [&b"\x83\x86\x41\x0ctest.example"[..], b"\x44\x07/attack"].concat();
    wire.send(&[
        Frame::new(HEADERS, END_HEADERS, 1, head),
        Frame::new(DATA, 0, 1, *b"body"),
        Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, *b"\xbe"),
    ]);
    assert!(wire.outcome(1).is_rejection());
    assert_eq!(siege.upstream.count(), seen);
    drop(wire);
    siege.holds();
}

/// Heads in several frames, with padding and priorities, are as good as others.
#[test]
fn a_head_in_several_frames_arrives_whole() {
    let siege = Siege::begin();
    let head = block(&request(&[("x-value", &[b'v'; 3_000])]));
    for piece in [1_000, 100, 3] {
        let mut wire = siege.wire();
        let mut pieces = head.chunks(piece).take(4);
        let first = [&[2, 0, 0, 0, 0, 16][..], pieces.next().expect("one"), &[0, 0]].concat();
        let mut frames = vec![Frame::new(HEADERS, END_STREAM | 0x8 | 0x20, 1, first)];
        frames.extend(pieces.map(|piece| Frame::new(CONTINUATION, 0, 1, piece)));
        let rest = head.get(4 * piece..).unwrap_or_default();
        frames.push(Frame::new(CONTINUATION, END_HEADERS, 1, rest));
        wire.send(&frames);
        assert_eq!(wire.outcome(1), Outcome::Status(200), "in pieces of {piece}");
        assert_eq!(siege.upstream.last().header("x-value"), Some(&*"v".repeat(3_000)));
    }
    siege.holds();
}

/// All that may stand in a path and a query, as clients compress it.
#[test]
fn a_path_of_odd_characters_arrives_as_it_is() {
    let upstream = Upstream::start();
    let gateway = clear(&upstream, "limits: {default: {algorithm: fixed, limit: 1000000, window: 60}}\n");
    let letters: String = ('0'..='9').chain('a'..='z').chain('A'..='Z').collect();
    let path = format!("/attack/!$%26'()*+,-.:;=@[]^_~{{}}|\"{letters}?!$&'()*+,-./:;=?@[]^_`{{|}}~\\{letters}");
    run(async {
        let mut session = h2c(gateway.address).await;
        for start in 0..path.len() - 1 {
            let path = format!("/{}", &path[start..]);
            let Ok(_) = path.parse::<http::Uri>() else { continue };
            assert_eq!(ask(&mut session, get(&path)).await.status, StatusCode::OK, "{path}");
            assert_eq!(upstream.last().line, format!("GET {path} HTTP/1.1"));
        }
    });
    assert!(upstream.count() > 100);
}

/// Headers that fill the dynamic table again and again: the gateway follows it entry by entry, as the client does.
#[test]
fn headers_from_the_dynamic_table_arrive_as_they_are() {
    let upstream = Upstream::start();
    let gateway = clear(&upstream, "limits: {default: {algorithm: fixed, limit: 1000000, window: 60}}\n");
    run(async {
        let mut session = h2c(gateway.address).await;
        for _ in 0..500 {
            let mut request = get("/attack");
            let mut sent = Vec::new();
            for _ in 0..fastrand::usize(..10) {
                let name = format!("x-{}", fastrand::u8(..20));
                let value = ["a", "Z", "#", "~"][fastrand::usize(..4)].repeat(fastrand::usize(..300));
                sent.push((name.clone(), value.clone()));
                request
                    .headers_mut()
                    .append(http::HeaderName::try_from(name).expect("a name"), value.try_into().expect("a value"));
            }
            assert_eq!(ask(&mut session, request).await.status, StatusCode::OK);
            let arrived = upstream.last();
            for (name, value) in sent {
                assert!(arrived.headers.contains(&(name, value)), "{arrived:?}");
            }
        }
    });
}

fn clear(upstream: &Upstream, more: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nupstreams: {{app: {{url: \"http://{}\"}}}}\n{more}",
        upstream.address
    ))
}

/// RFC 9113 §8.3.1. It went on with a host that nobody had asked for.
#[test]
fn a_request_without_an_authority_and_a_host_is_rejected() {
    let siege = Siege::begin();
    siege.rejects(&[without(":authority")]);
    let mut with_host = without(":authority");
    with_host.push(("host", b"test.example"));
    assert_eq!(siege.attempt(&with_host), Outcome::Status(200));
    siege.holds();
}

/// RFC 9110 §7.4: an https resource is not served in clear text, unless a trusted proxy has ended the TLS; other
/// schemes are not served.
#[test]
fn a_scheme_must_fit_the_connection() {
    let siege = Siege::begin();
    assert_eq!(siege.attempt(&request(&[(":scheme", b"https")])), Outcome::Status(421));
    assert_eq!(siege.attempt(&request(&[(":scheme", b"ftp")])), Outcome::Status(400));
    assert_eq!(siege.attempt(&request(&[(":scheme", b"http")])), Outcome::Status(200));
    siege.holds();
    let upstream = Upstream::start();
    let gateway = clear(&upstream, "trusted_proxies: [127.0.0.1]\n");
    for (scheme, status) in [("https", 200), ("http", 200), ("ftp", 400)] {
        let mut wire = Wire::connect(gateway.address);
        wire.send(&[Frame::request(1, &request(&[(":scheme", scheme.as_bytes())]))]);
        assert_eq!(wire.outcome(1), Outcome::Status(status), "{scheme}");
        if status == 200 {
            assert_eq!(upstream.last().header("x-forwarded-proto"), Some(scheme));
        }
    }
    // With a Host alone hyper forgets the scheme.
    let mut fields = without(":authority");
    fields.push(("host", b"test.example"));
    for (scheme, is_served) in [(&b"https"[..], true), (b"http", true), (b"ftp", false)] {
        fields[1] = (":scheme", scheme);
        let mut wire = Wire::connect(gateway.address);
        wire.send(&[Frame::request(1, &fields)]);
        let expected = if is_served { Outcome::Status(200) } else { Outcome::Reset(PROTOCOL_ERROR) };
        assert_eq!(wire.outcome(1), expected, "{}", scheme.escape_ascii());
    }
    // What it says of its client counts more than what it speaks itself.
    let mut wire = Wire::connect(gateway.address);
    wire.send(&[Frame::request(1, &request(&[(":scheme", b"https"), ("x-forwarded-proto", b"http")]))]);
    assert_eq!(wire.outcome(1), Outcome::Status(200));
    assert_eq!(upstream.last().header("x-forwarded-proto"), Some("http"));
}

/// Headers that can't be decoded are errors of the connection. They were counted nowhere.
#[test]
fn a_connection_that_ends_because_of_invalid_http_is_counted() {
    let siege = Siege::begin();
    let counted = || siege.gateway.metric("tidegate_bad_requests_total");
    let invalid = [
        request(&[("X-Upper", b"1")]),
        request(&[("x-value", b"1\r\nsmuggled: 2")]),
        request(&[("x-value", b"1\0smuggled")]),
        request(&[(":unknown", b"1")]),
    ];
    for (before, fields) in (0_u8..).zip(&invalid) {
        assert_eq!(counted(), Some(f64::from(before)));
        assert_eq!(siege.attempt(fields), Outcome::GoneAway(PROTOCOL_ERROR), "{fields:?}");
        wait_until("it has been counted", || counted() == Some(f64::from(before + 1)));
    }
    // A request that is only reset is not such an end.
    assert_eq!(siege.attempt(&request(&[("connection", b"close")])), Outcome::Reset(PROTOCOL_ERROR));
    let mut wire = siege.wire();
    wire.send(&[Frame::new(DATA, 0, 1, *b"on an idle stream")]);
    wire.wait_for_end();
    wait_until("it has been counted", || counted() == Some(5.0));
    drop(wire);
    siege.holds();
}

/// The frames in these bytes: their kinds, and the code of a GOAWAY.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Option<u32>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        let (payload, rest) = rest.split_at_checked(length).expect("a whole frame");
        let code = payload.get(4..8).filter(|_| head[3] == GOAWAY);
        frames.push((head[3], code.map(|code| u32::from_be_bytes(code.try_into().expect("four bytes")))));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "no frame: {}", bytes.escape_ascii());
    frames
}

/// RFC 9113 §3.4. A preface that begins rightly and goes on in another way got an HTTP/1.1 response.
#[test]
fn a_wrong_preface_is_responded_in_http_2() {
    let upstream = Upstream::start();
    let gateway = clear(&upstream, "");
    let wrong = [
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\rX",
        "PRI * HTTP/2.0\r\nHost: test.example\r\n\r\n",
        "PRI * HTTP/2.0 and so on",
    ];
    for preface in wrong {
        let mut client = Client::connect(gateway.address);
        client.send(preface);
        let response = client.read_to_end();
        assert_eq!(frames(&response), [(SETTINGS, None), (GOAWAY, Some(PROTOCOL_ERROR))], "{preface:?}");
    }
    wait_until("all have been counted", || gateway.metric("tidegate_bad_requests_total") == Some(4.0));
    // What is HTTP/1 gets a response as such, however much of it is like the preface.
    for (line, status) in [("PRI * HTTP/1.1", 400), ("PRI /a HTTP/1.1", 200), ("PRI * HTTP/2.1", 505)] {
        let mut client = Client::connect(gateway.address);
        client.send(format!("{line}\r\nHost: test.example\r\n\r\n"));
        assert_eq!(client.response().status, status, "{line}");
    }
}
