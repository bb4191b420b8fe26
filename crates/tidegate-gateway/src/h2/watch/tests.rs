use super::super::frames::{END_HEADERS, END_STREAM, HEADERS, goaway};
use super::*;

const TERMS: Terms = Terms { max_head_bytes: 32_768, max_streams: 128, may_be_https: false };
/// `GET /`, without a host.
const REQUEST: &[u8] = &[0x82, 0x84, 0x86];

fn frame(length: u8, kind: u8, flags: u8, stream: u32) -> Vec<u8> {
    let [a, b, c, d] = stream.to_be_bytes();
    [&[0, 0, length, kind, flags, a, b, c, d][..], &vec![0; length.into()]].concat()
}

fn received(watch: &mut Watch, bytes: &[u8], now_millis: u64) -> Result<bool, Fault> {
    watch.received(bytes, now_millis, &mut Vec::new())
}

/// A HEADERS frame.
fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    let mut frame = frame(u8::try_from(block.len()).expect("a short block"), HEADERS, flags, stream);
    let start = frame.len() - block.len();
    frame[start..].copy_from_slice(block);
    frame
}

fn request(stream: u32) -> Vec<u8> {
    headers(END_HEADERS | END_STREAM, stream, REQUEST)
}

/// A connection that has begun.
fn watch() -> Watch {
    let mut watch = Watch::new(TERMS, 0);
    assert_eq!(received(&mut watch, PREFACE, 0), Ok(false));
    watch
}

/// How many frames are accepted at this time, up to a bound.
fn accepted(watch: &mut Watch, frame: &[u8], now_millis: u64) -> (u32, Option<Flood>) {
    for count in 0..100_000 {
        match received(watch, frame, now_millis) {
            Ok(_) => {}
            Err(Fault::Flood(flood)) => return (count, Some(flood)),
            Err(Fault::Preface) => panic!("it has begun"),
        }
    }
    (100_000, None)
}

fn ping() -> Vec<u8> {
    frame(8, PING, 0, 0)
}

fn window_update() -> Vec<u8> {
    frame(4, WINDOW_UPDATE, 0, 0)
}

#[test]
fn frames_that_serve_no_request_are_bounded_at_once_and_a_second() {
    for (frame, flood, at_once, per_second) in [
        (ping(), Flood::Ping, 2_000, 1_000),
        (frame(8, PING, 1, 0), Flood::Ping, 2_000, 1_000),
        (window_update(), Flood::WindowUpdate, 2_000, 1_000),
        (frame(5, PRIORITY, 0, 3), Flood::Priority, 2_000, 1_000),
        (frame(5, PRIORITY_UPDATE, 0, 0), Flood::Priority, 2_000, 1_000),
        (frame(0, DATA, 0, 1), Flood::EmptyData, 2_000, 1_000),
        (frame(0, DATA, END_STREAM, 1), Flood::EmptyData, 2_000, 1_000),
        (frame(1, DATA, END_STREAM, 1), Flood::EmptyData, 2_000, 1_000),
        (frame(1, DATA, 0, 1), Flood::EmptyData, 2_000, 1_000),
        (frame(9, 0xbe, 0, 1), Flood::Unknown, 2_000, 1_000),
        (frame(0, SETTINGS, 0, 0), Flood::Settings, 200, 100),
        (frame(4, RST_STREAM, 0, 1), Flood::Resets, 2_000, 1_000),
    ] {
        let mut watch = watch();
        assert_eq!(accepted(&mut watch, &frame, 0), (at_once, Some(flood)));
        assert_eq!(accepted(&mut watch, &frame, 1_000), (per_second, Some(flood)));
        assert_eq!(accepted(&mut watch, &frame, 1_500), (per_second / 2, Some(flood)));
        assert_eq!(accepted(&mut watch, &frame, 1_000_000), (at_once, Some(flood)), "no more is saved up");
        assert_eq!(accepted(&mut watch, &frame, 999_000), (0, Some(flood)), "a clock that goes back brings nothing");
    }
    // The same in one read.
    assert_eq!(received(&mut watch(), &ping().repeat(2_000), 0), Ok(false));
    assert_eq!(received(&mut watch(), &ping().repeat(2_001), 0), Err(Fault::Flood(Flood::Ping)));
}

#[test]
fn requests_and_bodies_are_not_bounded() {
    let mut watch = watch();
    assert_eq!(received(&mut watch, &headers(END_HEADERS, 1, REQUEST), 0), Ok(true));
    for frame in [frame(1, DATA, 0, 1), frame(200, DATA, 0, 1)] {
        assert_eq!(accepted(&mut watch, &frame, 0), (100_000, None));
    }
    for stream in (3..200_000).step_by(2) {
        assert_eq!(received(&mut watch, &request(stream), 0), Ok(true));
    }
    assert_eq!(watch.last_stream(), 199_999);
    // With a body each.
    for stream in (200_001..400_000).step_by(2) {
        let post =
            [headers(END_HEADERS, stream, REQUEST), frame(9, DATA, 0, stream), frame(0, DATA, END_STREAM, stream)];
        assert_eq!(received(&mut watch, &post.concat(), 0), Ok(true));
    }
    assert_eq!(watch.open.len(), 1);
}

/// hyper ignores what comes on a stream that it has reset, for as long as it comes.
#[test]
fn data_on_a_stream_that_has_ended_is_bounded() {
    let reset = [0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    for data in [frame(0, DATA, END_STREAM, 1), frame(1, DATA, END_STREAM, 1), frame(1, DATA, 0, 1)] {
        let mut watch = watch();
        assert_eq!(received(&mut watch, &headers(END_HEADERS, 1, REQUEST), 0), Ok(true));
        assert_eq!(watch.sent(&reset), Ok(()));
        // The request has earned ten.
        assert_eq!(accepted(&mut watch, &data, 0), (2_010, Some(Flood::EmptyData)), "{data:?}");
    }
}

#[test]
fn header_blocks_that_open_no_stream_are_bounded_as_malformed_requests() {
    let trailers = |stream| headers(END_HEADERS | END_STREAM, stream, &[0x90]);
    let mut watch = watch();
    for stream in (1..20_000).step_by(2) {
        let post = [headers(END_HEADERS, stream, REQUEST), trailers(stream)].concat();
        assert_eq!(received(&mut watch, &post, 0), Ok(true), "one block of trailers for each request");
    }
    assert_eq!(accepted(&mut watch, &trailers(1), 0), (50, Some(Flood::Malformed)));
    assert_eq!(accepted(&mut watch, &trailers(1), 1_000), (10, Some(Flood::Malformed)));
}

/// Whether it opens a stream, is refused or is ignored, it costs the same.
#[test]
fn header_lists_that_are_too_large_are_bounded_at_once() {
    let entry = [&[0x40, 1, b'x', 0x7f, 0x81, 0x0f][..], &[b'x'; 2_048]].concat();
    let mut watch = watch();
    let [_, a, b, c] = u32::try_from(entry.len()).expect("short").to_be_bytes();
    let first = [&[a, b, c, HEADERS, END_HEADERS, 0, 0, 0, 1], &entry[..]].concat();
    assert_eq!(received(&mut watch, &first, 0), Ok(true));
    // 15 times 2,081 bytes are below the bound, 16 are not.
    for stream in (3..1_000).step_by(2) {
        assert_eq!(received(&mut watch, &headers(END_HEADERS, stream, &[0xbe; 15]), 0), Ok(true));
    }
    assert_eq!(watch.settle(500), Ok(()));
    for stream in (1_001..1_101).step_by(2) {
        assert_eq!(received(&mut watch, &headers(END_HEADERS, stream, &[0xbe; 16]), 0), Ok(true));
    }
    assert_eq!(watch.settle(500), Ok(()), "none is counted twice");
    let another = headers(END_HEADERS, 1_101, &[0xbe; 16]);
    assert_eq!(received(&mut watch, &another, 0), Err(Fault::Flood(Flood::Malformed)));
}

/// Clients respond to each DATA frame with one or two frames that open a window, some with a PING: on a fast connection
/// that is thousands a second.
#[test]
fn frames_that_follow_data_or_belong_to_a_request_are_paid_for_by_it() {
    for (length, following) in [(200, [window_update(), window_update(), ping()].concat()), (1, window_update())] {
        let mut watch = watch();
        for _ in 0..100_000 {
            assert_eq!(watch.sent(&frame(length, DATA, 0, 1)), Ok(()));
            assert_eq!(received(&mut watch, &following, 0), Ok(false));
        }
    }
    // Also long before the client responds to them.
    let mut late = self::watch();
    for _ in 0..40_000 {
        assert_eq!(late.sent(&frame(1, DATA, 0, 1)), Ok(()));
    }
    for _ in 0..40_000 {
        assert_eq!(received(&mut late, &window_update(), 0), Ok(false));
    }
    // A priority and a window for each request.
    for stream in (1..100_000).step_by(2) {
        let more = [request(stream), frame(5, PRIORITY, 0, stream), frame(4, WINDOW_UPDATE, 0, stream)];
        assert_eq!(received(&mut late, &more.concat(), 0), Ok(true));
    }
    // What was earned has an end.
    for _ in 0..1_000_000 {
        assert_eq!(late.sent(&frame(200, DATA, 1, 1)), Ok(()));
    }
    assert_eq!(accepted(&mut late, &window_update(), 0), (50_000, Some(Flood::WindowUpdate)));
}

/// A client that opens its window byte by byte gets a frame for each byte.
#[test]
fn bytes_requested_one_by_one_earn_no_burst() {
    let mut watch = watch();
    for _ in 0..100_000 {
        assert_eq!(received(&mut watch, &window_update(), 0), Ok(false));
        assert_eq!(watch.sent(&frame(1, DATA, 0, 1)), Ok(()));
    }
    let (pings, _) = accepted(&mut watch, &ping(), 0);
    assert!(pings <= 4_100, "{pings}");
}

#[test]
fn nothing_earns_settings() {
    let mut watch = watch();
    for stream in (1..10_000).step_by(2) {
        assert_eq!(received(&mut watch, &request(stream), 0), Ok(true));
        assert_eq!(watch.sent(&frame(200, DATA, END_STREAM, stream)), Ok(()));
    }
    assert_eq!(accepted(&mut watch, &frame(0, SETTINGS, 0, 0), 0), (200, Some(Flood::Settings)));
}

#[test]
fn requests_rejected_with_a_response_are_bounded() {
    let mut watch = watch();
    assert_eq!(watch.rejected(100), Ok(()));
    assert_eq!(watch.rejected(100), Ok(()), "each counts once");
    assert_eq!(received(&mut watch, &[], 1_000), Ok(false));
    assert_eq!(watch.rejected(120), Ok(()), "a second later");
    assert_eq!(watch.rejected(121), Err(Fault::Flood(Flood::Malformed)));
}

/// A busy proxy may cancel thousands of requests a second, if it sends many more.
#[test]
fn cancelled_requests_are_bounded_by_the_others() {
    let request_and_reset = |stream| [request(stream), frame(4, RST_STREAM, 0, stream)].concat();
    let mut watch = watch();
    for stream in (1..400_001).step_by(4) {
        assert_eq!(received(&mut watch, &request_and_reset(stream), 0), Ok(true));
        assert_eq!(received(&mut watch, &request(stream + 2), 0), Ok(true));
    }
    let mut rapid = self::watch();
    let taken = (1..).step_by(2).position(|stream| received(&mut rapid, &request_and_reset(stream), 0).is_err());
    assert_eq!(taken, Some(3_999));
}

#[test]
fn requests_that_hyper_does_not_hand_over_are_bounded() {
    let open = |watch: &mut Watch, count: u32| {
        for _ in 0..count {
            let request = request(watch.last_stream() + 2);
            assert_eq!(received(watch, &request, 0), Ok(true));
        }
    };
    let mut watch = watch();
    open(&mut watch, 10_000);
    assert_eq!(watch.settle(10_000), Ok(()), "all of them are served");
    open(&mut watch, 50);
    assert_eq!(watch.settle(10_000), Ok(()));
    assert_eq!(watch.settle(10_000), Ok(()), "each counts once");
    open(&mut watch, 100);
    assert_eq!(watch.settle(10_100), Ok(()));
    open(&mut watch, 1);
    assert_eq!(watch.settle(10_100), Err(Fault::Flood(Flood::Malformed)));
    assert_eq!(received(&mut watch, &[], 1_000), Ok(false));
    open(&mut watch, 10);
    assert_eq!(watch.settle(10_100), Ok(()), "a second later");
    open(&mut watch, 1);
    assert_eq!(watch.settle(10_100), Err(Fault::Flood(Flood::Malformed)));
    // Too many at once: not the client's fault, which has not seen our settings yet.
    let mut eager = self::watch();
    open(&mut eager, 1_000);
    for _ in 0..900 {
        assert_eq!(eager.sent(&[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, 7]), Ok(()));
    }
    assert_eq!(eager.settle(100), Ok(()));
    // A request that is not complete yet.
    let mut slow = self::watch();
    open(&mut slow, 50);
    assert_eq!(slow.settle(0), Ok(()));
    for begun in [&headers(0, 901, REQUEST)[..], &request(901)[..10]] {
        let mut slow = self::watch();
        open(&mut slow, 50);
        assert_eq!(received(&mut slow, begun, 0), Ok(false));
        assert_eq!(slow.settle(0), Ok(()));
    }
    // After a GOAWAY nothing more is served.
    let mut leaving = self::watch();
    assert_eq!(leaving.sent(&goaway(0x7fff_ffff, 0, "")), Ok(()));
    open(&mut leaving, 1_000);
    assert_eq!(leaving.settle(0), Ok(()));
    // What hyper itself ends.
    assert_eq!(self::watch().sent(&goaway(1, ENHANCE_YOUR_CALM, "why")), Err(Fault::Flood(Flood::Other)));
}

#[test]
fn a_preface_is_that_of_http_2_to_its_last_byte() {
    for step in 1..=PREFACE.len() {
        let mut watch = Watch::new(TERMS, 0);
        assert!(PREFACE.chunks(step).all(|piece| received(&mut watch, piece, 0) == Ok(false)));
    }
    for wrong in 0..PREFACE.len() {
        let mut bytes = PREFACE.to_vec();
        bytes[wrong] ^= 1;
        let mut watch = Watch::new(TERMS, 0);
        let at = bytes.chunks(1).position(|byte| received(&mut watch, byte, 0) == Err(Fault::Preface));
        assert_eq!(at, Some(wrong));
    }
}

#[test]
fn the_last_stream_is_the_last_that_was_handed_on() {
    let mut watch = watch();
    assert_eq!(received(&mut watch, &request(5), 0), Ok(true));
    let flood = [request(7), ping().repeat(3_000)].concat();
    assert!(received(&mut watch, &flood, 0).is_err());
    assert_eq!(watch.last_stream(), 5);
}
