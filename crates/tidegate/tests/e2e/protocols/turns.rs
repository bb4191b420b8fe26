//! Requests on an HTTP/2 connection begin by turns, while their client takes its responses. What a response holds lasts
//! until its last byte has been sent.

use tidegate_testkit::frames::{DATA, END_STREAM, Frame, INITIAL_WINDOW_SIZE, Outcome, Wire};
use tidegate_testkit::{Client, Gateway, Upstream, connect_from, wait_until};

const ONE: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];
const LENGTH: usize = 2_000;

/// Its responses come whole, and are handed over in one piece.
fn upstream() -> Upstream {
    Upstream::responding(|_| {
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n").into_bytes();
        response.extend([b'x'; LENGTH]);
        response
    })
}

fn gateway(upstream: &Upstream, connections: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nlisteners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nadmin: {{listen: \"127.0.0.1:0\"}}\n\
         connections: {{{connections}}}\nupstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n{more}",
        upstream.address
    ))
}

fn cut(gateway: &Gateway, cause: &str) -> u64 {
    gateway.metric(&format!("tidegate_clients_cut_total{{cause=\"{cause}\"}}")).expect("it is there") as u64
}

fn in_flight(gateway: &Gateway) -> f64 {
    gateway.metric("tidegate_http2_streams").expect("it is there")
}

/// A client whose windows are of this size.
fn with_window(gateway: &Gateway, bytes: u32) -> Wire {
    Wire::over(connect_from(ONE, gateway.address), &[(INITIAL_WINDOW_SIZE, bytes)])
}

fn get(wire: &mut Wire, streams: impl Iterator<Item = u32>) {
    let fields: [(&str, &[u8]); 4] = [(":method", b"GET"), (":scheme", b"http"), (":path", b"/"), (":authority", b"a")];
    let requests: Vec<Frame> = streams.map(|stream| Frame::request(stream, &fields)).collect();
    assert!(wire.send(&requests));
}

/// So many streams end.
fn all_end(wire: &mut Wire, count: u32) {
    let mut ended = 0;
    while ended < count {
        let frame = wire.read().expect("the connection goes on");
        ended += u32::from(frame.kind == DATA && frame.flags & END_STREAM != 0);
    }
}

/// The stream with this number, from 0 on.
fn stream(number: u32) -> u32 {
    2 * number + 1
}

/// Each of 128 requests had its response fetched, for a client that took none of them.
#[test]
fn while_responses_are_not_taken_no_more_requests_begin() {
    let upstream = upstream();
    let gateway = gateway(&upstream, "max_untaken_streams: 2, write_timeout: 1h, min_rate: 0", "");
    let mut wire = with_window(&gateway, 0);
    get(&mut wire, (0..2).map(stream));
    assert_eq!(wire.outcome(stream(0)), Outcome::Status(200));
    wait_until("the other has its response, too", || gateway.metric("tidegate_buffered_bytes") >= Some(4_000.0));
    get(&mut wire, (2..20).map(stream));
    wait_until("they have come", || in_flight(&gateway) >= 20.0);
    // Others are served, and those that wait have not begun.
    let mut other = Client::connect_from(OTHER, gateway.address);
    assert!((0..50).all(|_| other.request("GET", "/other", &[], b"").status == 200));
    assert_eq!(upstream.received().iter().filter(|received| received.line.starts_with("GET / ")).count(), 2);
    // Once the client takes what it has, all of them are served.
    wire.send(&[Frame::settings(&[(INITIAL_WINDOW_SIZE, 1 << 20)]), Frame::window_update(0, 1 << 24)]);
    all_end(&mut wire, 20);
    wait_until("nothing is held", || in_flight(&gateway) == 0.0);
}

/// Each piece that was sent let the response count as taken, though the next one had no window any more.
#[test]
fn a_response_of_which_only_the_beginning_is_taken_is_not_taken() {
    let length = 1_000_000;
    let upstream = Upstream::responding(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; length]].concat()
    });
    let gateway = gateway(&upstream, "max_untaken_streams: 2, write_timeout: 1h, min_rate: 0", "");
    let mut wire = with_window(&gateway, 65_535);
    assert!(wire.send(&[Frame::window_update(0, 1 << 24)]));
    get(&mut wire, (0..2).map(stream));
    let mut taken = 0;
    while taken < 2 * 65_535 {
        let frame = wire.read().expect("the connection goes on");
        taken += if frame.kind == DATA { frame.payload.len() } else { 0 };
    }
    get(&mut wire, (2..20).map(stream));
    wait_until("they have come", || in_flight(&gateway) >= 20.0);
    let mut other = Client::connect_from(OTHER, gateway.address);
    assert!((0..20).all(|_| other.request("GET", "/other", &[], b"").status == 200));
    assert_eq!(upstream.received().iter().filter(|received| received.line.starts_with("GET / ")).count(), 2);
    // Those that are taken whole make room.
    wire.send(&[Frame::settings(&[(INITIAL_WINDOW_SIZE, 1 << 24)]), Frame::window_update(0, 1 << 28)]);
    all_end(&mut wire, 20);
    wait_until("nothing is held", || in_flight(&gateway) == 0.0);
}

/// The rejections themselves were waited for without end, and kept their counts.
#[test]
fn rejections_that_are_not_taken_end_in_time() {
    let upstream = upstream();
    let gateway = gateway(&upstream, "max_untaken_streams: 1, write_timeout: 1s", "");
    let mut wire = with_window(&gateway, 0);
    get(&mut wire, (0..1).map(stream));
    wait_until("it has its response", || gateway.metric("tidegate_buffered_bytes") >= Some(2_000.0));
    get(&mut wire, (1..10).map(stream));
    wait_until("the others are rejected", || {
        wire.send(&[Frame::window_update(stream(0), 1)]);
        cut(&gateway, "untaken_streams") > 0
    });
    wait_until("nothing is held", || in_flight(&gateway) == 0.0);
}

#[test]
fn a_request_whose_turn_does_not_come_is_rejected_in_time() {
    let upstream = upstream();
    let gateway = gateway(&upstream, "max_untaken_streams: 1, write_timeout: 2s", "");
    let mut wire = with_window(&gateway, 0);
    get(&mut wire, (0..1).map(stream));
    wait_until("it has its response", || gateway.metric("tidegate_buffered_bytes") >= Some(2_000.0));
    // It gets a little each second, so that only the others are late.
    get(&mut wire, (1..2).map(stream));
    wait_until("it is rejected", || {
        wire.send(&[Frame::window_update(stream(0), 1)]);
        cut(&gateway, "untaken_streams") == 1
    });
    let line = gateway.wait_for_line("Cut off a client");
    assert!(line.contains("max_untaken_streams") && line.contains("127.0.0.2"), "{line}");
    assert_eq!(upstream.count(), 1);
}

/// Here only the upstream is slow: it responds to none before it has all of them.
#[test]
fn requests_that_wait_for_their_upstream_do_not_hold_others_up() {
    let upstream = upstream_that_waits_for(100);
    let gateway = gateway(&upstream, "", "");
    let mut wire = with_window(&gateway, 1 << 20);
    get(&mut wire, (0..100).map(stream));
    all_end(&mut wire, 100);
}

/// Responds when it has so many requests.
fn upstream_that_waits_for(most: usize) -> Upstream {
    let come = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    Upstream::behaving(move |_, stream| {
        come.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        wait_until("all have come", || come.load(std::sync::atomic::Ordering::Relaxed) >= most);
        std::io::Write::write_all(stream, tidegate_testkit::OK).is_ok()
    })
}

/// A trusted proxy has clients of its own, and some of them are slow.
#[test]
fn a_trusted_proxy_has_no_turns() {
    let upstream = upstream();
    let more = "trusted_proxies: [\"127.0.0.2\"]\n";
    let gateway = gateway(&upstream, "max_untaken_streams: 1, write_timeout: 1h, min_rate: 0", more);
    let mut wire = with_window(&gateway, 0);
    get(&mut wire, (0..100).map(stream));
    wait_until("all have begun", || upstream.count() == 100);
}

/// hyper drops a body as soon as it has handed over the last piece, though the client has taken none of it. So these
/// requests were not counted, and any number of them could wait.
#[test]
fn a_response_that_is_not_taken_counts_though_it_is_handed_over_whole() {
    let upstream = upstream();
    let connections = "max_untaken_streams: 100, max_total_streams: 10, max_client_share: 1, write_timeout: 1h, \
                       min_rate: 0";
    let gateway = gateway(&upstream, connections, "");
    let mut wire = with_window(&gateway, 1);
    get(&mut wire, (0..10).map(stream));
    let mut begun = 0;
    while begun < 10 {
        let frame = wire.read().expect("the connection goes on");
        begun += u32::from(frame.kind == DATA);
    }
    let mut other = Wire::over(connect_from(OTHER, gateway.address), &[]);
    get(&mut other, (0..1).map(stream));
    assert_eq!(other.outcome(stream(0)), Outcome::Status(503));
    assert_eq!((cut(&gateway, "stream_total"), in_flight(&gateway)), (1, 10.0));
    drop(wire);
    wait_until("nothing is held", || in_flight(&gateway) == 0.0);
}

/// A byte now and then kept the connection, and all that was handed over, for ever.
#[test]
fn a_client_that_takes_its_last_responses_too_slowly_is_cut_off() {
    let upstream = upstream();
    let gateway = gateway(&upstream, "min_rate: 100000, min_rate_window: 1s, write_timeout: 1h", "");
    let mut wire = with_window(&gateway, 1);
    get(&mut wire, (0..5).map(stream));
    wait_until("it is cut off", || {
        wire.send(&[Frame::window_update(stream(0), 1)]);
        gateway.metric("tidegate_connections") == Some(0.0)
    });
}

/// Their requests were under way, so that nobody else got in.
#[test]
fn clients_that_take_nothing_make_room_for_new_ones() {
    let upstream = upstream();
    let connections = "max: 3, max_client_share: 1, write_timeout: 1h, min_rate: 0, max_untaken_streams: 1";
    let gateway = gateway(&upstream, connections, "");
    let mut stalled: Vec<Wire> = (0..3).map(|_| with_window(&gateway, 0)).collect();
    for wire in &mut stalled {
        // One has its response, the other waits for its turn.
        get(wire, (0..2).map(stream));
    }
    wait_until("all are stalled", || gateway.metric("tidegate_buffered_bytes") >= Some(6_000.0));
    assert_eq!(Client::connect_from(OTHER, gateway.address).request("GET", "/other", &[], b"").status, 200);
    let closed = gateway.metric("tidegate_connections_closed_total{reason=\"evicted\"}");
    assert!(closed >= Some(1.0), "{closed:?}");
}
