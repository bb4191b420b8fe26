//! Clients that stall in the middle of a request: they hold nothing that others need, for no longer than it does harm,
//! and no address holds more than its share.

use std::time::Duration;

use tidegate_testkit::frames::{DATA, END_STREAM, Frame, HEADERS, INITIAL_WINDOW_SIZE, Outcome, RST_STREAM, Wire};
use tidegate_testkit::{Client, Gateway, Upstream, connect_from, pause, wait_until};

const ONE: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];

/// A gateway with these settings of its connections and of its upstream.
fn gateway(upstream: &Upstream, connections: &str, settings: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nlisteners: [{{address: \"127.0.0.1:0\", h2c: true}}]\n\
         admin: {{listen: \"127.0.0.1:0\"}}\nconnections: {{{connections}}}\n\
         upstreams: {{app: {{url: \"http://{}\", {settings}}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n{more}",
        upstream.address
    ))
}

/// Responds with so many bytes.
fn responding(bytes: usize) -> Upstream {
    Upstream::responding(move |_| {
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        response.extend((0..bytes).map(|index| index as u8));
        response
    })
}

fn cut(gateway: &Gateway, cause: &str) -> u64 {
    gateway.metric(&format!("tidegate_clients_cut_total{{cause=\"{cause}\"}}")).expect("it is there") as u64
}

fn connections(gateway: &Gateway) -> u64 {
    gateway.metric("tidegate_upstream_connections{service=\"app\"}").expect("it is there") as u64
}

/// An honest request, from an address of its own.
fn status(gateway: &Gateway) -> u16 {
    Client::connect_from(OTHER, gateway.address).request("GET", "/honest", &[], b"").status
}

fn get(stream: u32) -> Frame {
    Frame::request(stream, &[(":method", b"GET"), (":scheme", b"http"), (":path", b"/"), (":authority", b"a")])
}

/// An HTTP/2 client that asks for something on so many streams and takes nothing of it.
fn takes_nothing(gateway: &Gateway, streams: u32) -> Wire {
    let mut wire = Wire::over(connect_from(ONE, gateway.address), &[(INITIAL_WINDOW_SIZE, 0)]);
    let requests: Vec<Frame> = (0..streams).map(|stream| get(2 * stream + 1)).collect();
    assert!(wire.send(&requests));
    wire
}

/// Each held a connection from the first byte of its body, and all others got 503.
#[test]
fn bodies_that_do_not_come_hold_no_connection() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "", "max_connections: 2", "");
    let mut stalled: Vec<Client> = (0..20)
        .map(|number| {
            let mut client = Client::connect_from(ONE, gateway.address);
            let framing = if number % 2 == 0 { "Content-Length: 10" } else { "Transfer-Encoding: chunked" };
            let body = if number % 2 == 0 { "hello" } else { "5\r\nhello\r\n" };
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{body}"));
            client
        })
        .collect();
    wait_until("all have come", || gateway.metric("tidegate_buffered_bytes") == Some(100.0));
    assert!((0..50).all(|_| status(&gateway) == 200));
    assert!(connections(&gateway) <= 2);
    assert!(upstream.received().iter().all(|received| received.line.starts_with("GET")), "none was sent on");
    // What comes late is sent on whole.
    for (number, client) in stalled.iter_mut().enumerate() {
        client.send(if number % 2 == 0 { "world" } else { "5\r\nworld\r\n0\r\n\r\n" });
        assert_eq!(client.response().status, 200);
        assert_eq!(upstream.last().body, b"helloworld");
    }
    assert_eq!(gateway.metric("tidegate_buffered_bytes"), Some(0.0));
}

/// A body that is longer than the buffer is sent on from there.
#[test]
fn a_body_longer_than_the_buffer_is_sent_on_once_the_buffer_is_full() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "", "request_buffer_bytes: 1000", "");
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000\r\n\r\n");
    client.send("x".repeat(999));
    wait_until("it is buffered", || gateway.metric("tidegate_buffered_bytes") == Some(999.0));
    assert!(upstream.bytes().is_empty());
    client.send("x".repeat(500));
    wait_until("it is sent on", || upstream.bytes().iter().any(|bytes| bytes.ends_with(&[b'x'; 1_499])));
    client.send("x".repeat(1_501));
    assert_eq!(client.response().status, 200);
    assert_eq!(upstream.last().body.len(), 3_000);
}

/// When there is no memory left for bodies, they are sent on as they come.
#[test]
fn without_memory_for_bodies_they_are_sent_on_as_they_come() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "max_buffer_bytes: 10", "", "");
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nhello, hello");
    wait_until("it is sent on", || upstream.bytes().iter().any(|bytes| bytes.ends_with(b"hello, hello")));
    client.send("x".repeat(18));
    assert_eq!(client.response().status, 200);
}

/// One stream without a window kept the only connection for 30 s.
#[test]
fn a_response_that_fits_the_buffer_frees_its_connection_however_slow_its_client() {
    let upstream = responding(60_000);
    let gateway = gateway(&upstream, "", "max_connections: 1", "");
    let mut wire = takes_nothing(&gateway, 1);
    wait_until("it has been read ahead", || {
        gateway.metric("tidegate_buffered_bytes").is_some_and(|bytes| bytes >= 50_000.0)
    });
    assert!((0..20).all(|_| status(&gateway) == 200));
    wire.send(&[Frame::window_update(1, 100_000)]);
    let (mut body, mut ended) = (Vec::new(), false);
    while !ended {
        let frame = wire.read().expect("the connection goes on");
        if frame.kind == DATA {
            ended = frame.flags & END_STREAM != 0;
            body.extend(frame.payload);
        }
    }
    assert!(body.len() == 60_000 && body.iter().enumerate().all(|(index, byte)| *byte == index as u8));
    wait_until("its memory is given back", || gateway.metric("tidegate_buffered_bytes") == Some(0.0));
}

/// An upstream's limits count what the upstream works on.
#[test]
fn a_slow_client_does_not_hold_a_slot_of_its_upstreams_limits() {
    let upstream = responding(60_000);
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nadmin: {{listen: \"127.0.0.1:0\"}}\n\
         upstreams: {{app: {{url: \"http://{}\", limits: [slots]}}}}\n\
         limits: {{slots: {{algorithm: concurrency, limit: 1}}}}\ncommon_limits: []\n",
        upstream.address
    ));
    let _wire = takes_nothing(&gateway, 1);
    wait_until("it has been read ahead", || {
        gateway.metric("tidegate_buffered_bytes").is_some_and(|bytes| bytes >= 50_000.0)
    });
    assert!((0..20).all(|_| status(&gateway) == 200));
}

/// Responses that no buffer holds: those whose clients keep them waiting make room for others.
#[test]
fn a_client_that_takes_nothing_loses_its_connection_to_one_that_needs_it() {
    let upstream = responding(10_000_000);
    let gateway = gateway(&upstream, "max_client_share: 1", "max_connections: 4, connect_timeout: 20s", "");
    let mut wire = takes_nothing(&gateway, 4);
    wait_until("all are read ahead as far as possible", || {
        gateway.metric("tidegate_buffered_bytes").is_some_and(|bytes| bytes >= 4.0 * 65_536.0)
    });
    assert_eq!(connections(&gateway), 4);
    let mut client = Client::connect_from(OTHER, gateway.address);
    assert_eq!(client.request("GET", "/honest", &[], b"").body.len(), 10_000_000);
    assert_eq!(cut(&gateway, "evicted"), 1);
    assert!(wire.read_until(RST_STREAM).is_some(), "the one that lost learns it");
    let line = gateway.wait_for_line("Cut off a client");
    assert!(line.contains("WARN") && line.contains("127.0.0.2") && line.contains("max_connections"), "{line}");
}

/// The same for bodies that flowed and then stopped, over HTTP/1.
#[test]
fn a_body_that_stops_loses_its_connection_to_one_that_needs_it() {
    let upstream = Upstream::start();
    let settings = "max_connections: 2, connect_timeout: 20s, request_buffer_bytes: 100";
    let gateway = gateway(&upstream, "max_client_share: 1", settings, "");
    let mut stalled: Vec<Client> = (0..2)
        .map(|_| {
            let mut client = Client::connect_from(ONE, gateway.address);
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{}", "x".repeat(200)));
            client
        })
        .collect();
    wait_until("all connections are taken", || connections(&gateway) == 2);
    assert_eq!(status(&gateway), 200);
    wait_until("one has lost its connection", || cut(&gateway, "evicted") == 1);
    // The cut is counted before its response is sent.
    wait_until("one has a response", || stalled.iter_mut().any(Client::has_response));
    let mut responses = stalled.iter_mut().filter_map(|client| client.has_response().then(|| client.response()));
    let response = responses.next().expect("it is there");
    assert_eq!((response.status, &response.json()["error"]), (408, &"client_evicted".into()));
}

#[test]
fn a_body_that_comes_too_slowly_is_rejected() {
    let upstream = Upstream::start();
    for buffer in [0, 1_000] {
        let settings = format!("request_buffer_bytes: {buffer}");
        let gateway = gateway(&upstream, "min_rate: 1000, min_rate_window: 1s, body_timeout: 1h", &settings, "");
        let mut slow = Client::connect_from(ONE, gateway.address);
        slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        while !slow.has_response() {
            slow.try_send("x");
            pause(Duration::from_millis(20));
        }
        let response = slow.response();
        assert_eq!((response.status, &response.json()["error"]), (408, &"client_too_slow".into()), "{buffer}");
        assert_eq!(cut(&gateway, "slow_body"), 1);
        let line = gateway.wait_for_line("Cut off a client");
        assert!(line.contains("127.0.0.2") && line.contains("min_rate"), "{line}");
    }
}

/// Twice as fast as it must be, for three windows.
#[test]
fn a_body_that_comes_fast_enough_is_sent_on() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "min_rate: 1000, min_rate_window: 1s", "", "");
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6000\r\n\r\n");
    for _ in 0..60 {
        client.send("x".repeat(100));
        pause(Duration::from_millis(50));
    }
    assert_eq!(client.response().status, 200);
}

/// It takes a byte now and then, so that no pause is ever too long.
#[test]
fn a_response_that_is_taken_too_slowly_is_broken_off() {
    let upstream = responding(1_000_000);
    let connections = "min_rate: 100000, min_rate_window: 1s, write_timeout: 1h";
    let gateway = gateway(&upstream, connections, "response_buffer_bytes: 1000", "");
    let mut wire = takes_nothing(&gateway, 1);
    assert_eq!(wire.read_until(HEADERS).map(|frame| frame.stream), Some(1));
    let mut is_reset = false;
    while !is_reset {
        wire.send(&[Frame::window_update(1, 1)]);
        is_reset = wire.read().expect("the connection goes on").kind == RST_STREAM;
        pause(Duration::from_millis(20));
    }
    wait_until("it is counted", || cut(&gateway, "slow_reader") == 1);
}

/// The same over HTTP/1, where the kernel's buffers are between.
#[test]
fn a_response_that_is_taken_too_slowly_over_http1_is_broken_off() {
    let upstream = responding(50_000_000);
    let gateway = gateway(&upstream, "min_rate: 100000, min_rate_window: 1s, write_timeout: 1h", "", "");
    let mut client = Client::connect_from(ONE, gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is cut off", || cut(&gateway, "slow_reader") == 1);
    assert!(client.read_to_end().len() < 50_000_000);
}

/// Holds requests that have come until it is dropped.
fn holding() -> (Upstream, impl Fn() + use<>) {
    let held = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let holds = std::sync::Arc::clone(&held);
    let upstream = Upstream::behaving(move |received, stream| {
        if !received.line.contains("/honest") {
            wait_until("it is released", || !holds.load(std::sync::atomic::Ordering::Relaxed));
        }
        std::io::Write::write_all(stream, tidegate_testkit::OK).is_ok()
    });
    (upstream, move || held.store(false, std::sync::atomic::Ordering::Relaxed))
}

#[test]
fn an_address_has_only_its_share_of_an_upstreams_connections() {
    let (upstream, release) = holding();
    let gateway = gateway(&upstream, "max_client_share: 0.5", "max_connections: 10", "");
    let ask = |ip| {
        let mut client = Client::connect_from(ip, gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let mut held: Vec<Client> = Vec::new();
    for count in 1..=5 {
        held.push(ask(ONE));
        wait_until("it is under way", || upstream.count() == count);
    }
    let response = ask(ONE).response();
    assert_eq!((response.status, &response.json()["error"]), (503, &"client_share".into()));
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!((cut(&gateway, "upstream_share"), status(&gateway)), (1, 200));
    let line = gateway.wait_for_line("Cut off a client");
    assert!(line.contains("127.0.0.2") && line.contains("max_client_share"), "{line}");
    release();
    assert!(held.iter_mut().all(|client| client.response().status == 200));
    assert_eq!(ask(ONE).response().status, 200, "it holds nothing any more");
}

/// A trusted proxy sends requests of many clients.
#[test]
fn a_trusted_proxy_may_hold_everything() {
    let (upstream, release) = holding();
    let more = "trusted_proxies: [\"127.0.0.2\"]\n";
    let gateway = gateway(&upstream, "max_client_share: 0.5", "max_connections: 10", more);
    let mut held = Vec::new();
    for count in 1..=10 {
        let mut client = Client::connect_from(ONE, gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        held.push(client);
        wait_until("it is under way", || upstream.count() == count);
    }
    release();
    assert!(held.iter_mut().all(|client| client.response().status == 200));
}

#[test]
fn an_address_has_only_its_share_of_connections() {
    let (upstream, release) = holding();
    let gateway = gateway(&upstream, "max: 10, max_client_share: 0.5", "", "");
    let mut held: Vec<Client> = (0..5).map(|_| Client::connect_from(ONE, gateway.address)).collect();
    for (count, client) in held.iter_mut().enumerate() {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        wait_until("it is under way", || upstream.count() == count + 1);
    }
    let mut rejected = Client::connect_from(ONE, gateway.address);
    assert!(rejected.read_to_end().is_empty(), "it is closed at once");
    assert_eq!((cut(&gateway, "connection_share"), status(&gateway)), (1, 200));
    release();
    assert!(held.iter_mut().all(|client| client.response().status == 200));
    // Connections without a request can be closed for others, so they do not count.
    let mut again = Client::connect_from(ONE, gateway.address);
    assert_eq!(again.request("GET", "/honest", &[], b"").status, 200);
}

#[test]
fn http2_requests_are_bounded_in_all_and_for_each_address() {
    let (upstream, release) = holding();
    let gateway = gateway(&upstream, "max_total_streams: 10, max_client_share: 0.5", "", "");
    let ask = |ip, streams: &[u32]| {
        let mut wire = Wire::over(connect_from(ip, gateway.address), &[]);
        let requests: Vec<Frame> = streams.iter().map(|stream| get(*stream)).collect();
        assert!(wire.send(&requests));
        wire
    };
    let streams =
        |count: f64| wait_until("they are under way", || gateway.metric("tidegate_http2_streams") == Some(count));
    let mut one = ask(ONE, &[1, 3, 5, 7, 9]);
    streams(5.0);
    one.send(&[get(11)]);
    assert_eq!(one.outcome(11), Outcome::Status(503));
    assert_eq!(cut(&gateway, "stream_share"), 1);
    let mut other = ask(OTHER, &[1]);
    streams(6.0);
    release();
    assert_eq!([one.outcome(1), other.outcome(1)], [Outcome::Status(200), Outcome::Status(200)]);
    streams(0.0);
}
