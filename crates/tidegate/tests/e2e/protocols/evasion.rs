//! Clients that evade the rules about stalls, and honest ones that look like them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_testkit::frames::{DATA, END_STREAM, Frame, HEADERS, INITIAL_WINDOW_SIZE, Outcome, SETTINGS, Wire};
use tidegate_testkit::{Client, Gateway, OK, Upstream, connect_from, pause, wait_until};

const ONE: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];

/// A gateway with these settings of its connections and of its upstream.
fn gateway(upstream: SocketAddr, connections: &str, settings: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nlisteners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nadmin: {{listen: \"127.0.0.1:0\"}}\n\
         connections: {{{connections}}}\nupstreams: {{app: {{url: \"http://{upstream}\", {settings}}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n"
    ))
}

/// Responds with so many bytes.
fn responding(bytes: usize) -> Upstream {
    Upstream::responding(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; bytes]].concat()
    })
}

fn cut(gateway: &Gateway, cause: &str) -> u64 {
    gateway.metric(&format!("tidegate_clients_cut_total{{cause=\"{cause}\"}}")).expect("it is there") as u64
}

/// Requests under way, without the one that asks for this.
fn under_way(gateway: &Gateway) -> u32 {
    gateway.metric("tidegate_requests_in_flight").expect("it is there") as u32 - 1
}

/// An honest request, from an address of its own.
fn status(gateway: &Gateway) -> u16 {
    Client::connect_from(OTHER, gateway.address).request("GET", "/honest", &[], b"").status
}

fn fields(method: &'static [u8]) -> [(&'static str, &'static [u8]); 4] {
    [(":method", method), (":scheme", b"http"), (":path", b"/"), (":authority", b"a")]
}

fn get(stream: u32) -> Frame {
    Frame::request(stream, &fields(b"GET"))
}

/// A request whose body does not end here.
fn post(stream: u32) -> Frame {
    let request = Frame::request(stream, &fields(b"POST"));
    Frame { flags: request.flags & !END_STREAM, ..request }
}

/// An upstream that responds with the head of a response while it reads the request, and with no more.
fn with_early_head() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut read = Vec::new();
                while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).is_err() {
                        return;
                    }
                    read.extend(byte);
                }
                if read.starts_with(b"GET") {
                    let _sent = stream.write_all(OK);
                } else {
                    let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
                }
                let _ended = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    address
}

/// The head of the response removed the deadline of the upload, and nothing set it again: the request held its
/// connection for ever, and could not be evicted.
#[test]
fn an_upload_that_stops_after_the_head_of_its_response_ends() {
    for late in [true, false] {
        let connections = if late { "body_timeout: 1s, min_rate: 0" } else { "body_timeout: 1h, min_rate: 0" };
        let connections = format!("{connections}, max_client_share: 1");
        let settings = "max_connections: 1, request_buffer_bytes: 0, body_timeout: 1h, connect_timeout: 30s";
        let gateway = gateway(with_early_head(), &connections, settings);
        let mut client = Client::connect_from(ONE, gateway.address);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{}", "x".repeat(500)));
        wait_until("its response has begun", || client.has_response());
        if late {
            wait_until("it ends", || under_way(&gateway) == 0);
        } else {
            assert_eq!(status(&gateway), 200, "it is evicted");
        }
    }
}

/// Ways to send a request whose body stops.
const STOPPING: [&str; 4] = ["long", "unbuffered", "expects", "http2"];

/// Only short bodies over HTTP/1 made room.
#[test]
fn whatever_body_a_connection_waits_for_it_makes_room_for_another() {
    for way in STOPPING {
        let upstream = Upstream::start();
        let buffer = if way == "unbuffered" { 0 } else { 100 };
        let connections = "max: 3, max_client_share: 1, body_timeout: 1h, min_rate: 0";
        let gateway = gateway(upstream.address, connections, &format!("request_buffer_bytes: {buffer}"));
        let head = |more: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n{more}\r\n");
        let body = "x".repeat(500);
        let (mut clients, mut wires) = (Vec::new(), Vec::new());
        for count in 1..=3 {
            if way == "http2" {
                let mut wire = Wire::over(connect_from(ONE, gateway.address), &[]);
                assert!(wire.send(&[post(1), Frame::new(DATA, 0, 1, body.as_bytes())]));
                wires.push(wire);
            } else {
                let mut client = Client::connect_from(ONE, gateway.address);
                client.send(head(if way == "expects" { "Expect: 100-continue\r\n" } else { "" }));
                client.try_send(&body);
                clients.push(client);
            }
            wait_until("it is under way", || under_way(&gateway) == count);
        }
        assert_eq!(status(&gateway), 200, "{way}");
    }
}

/// The client of a body that goes on is not waited for.
#[test]
fn a_steady_upload_is_not_evicted_for_one_that_stalls() {
    let upstream = Upstream::start();
    let connections = "max_client_share: 1, body_timeout: 1h, min_rate: 0";
    let settings = "max_connections: 4, request_buffer_bytes: 100, connect_timeout: 30s";
    let gateway = gateway(upstream.address, connections, settings);
    let begin = |length: usize| {
        let mut client = Client::connect_from(ONE, gateway.address);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(500)));
        client
    };
    let pieces = 60;
    let mut steady = begin(500 + pieces * 20_000);
    let mut stalled = Vec::new();
    for piece in 0..pieces {
        if piece == pieces / 2 {
            stalled.extend((0..3).map(|_| begin(10_000)));
            let connected = "tidegate_upstream_connections{service=\"app\"}";
            wait_until("all connections are taken", || gateway.metric(connected) == Some(4.0));
        }
        if piece == pieces - 2 {
            assert_eq!(status(&gateway), 200);
        }
        steady.send("x".repeat(20_000));
        pause(Duration::from_millis(30));
    }
    assert_eq!(steady.response().status, 200);
    wait_until("one has lost its connection", || stalled.iter_mut().any(Client::has_response));
    assert_eq!(cut(&gateway, "evicted"), 1);
}

/// The same for a response that is taken steadily, when the connections of clients run out.
#[test]
fn a_steady_reader_is_not_closed_for_one_that_stalls() {
    let upstream = responding(8_000_000);
    let gateway = gateway(upstream.address, "max: 3, max_client_share: 1, write_timeout: 1h, min_rate: 0", "");
    let ask = || {
        let mut stream = connect_from(ONE, gateway.address);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it takes them");
        stream
    };
    let mut steady = ask();
    let (mut taken, mut buffer) = (0, vec![0; 20_000]);
    let (mut stalled, mut newcomer) = (Vec::new(), None);
    while taken < 8_000_000 {
        let count = steady.read(&mut buffer).expect("it goes on");
        assert!(count > 0, "it is closed after {taken} bytes");
        taken += count;
        if taken > 800_000 && stalled.is_empty() {
            stalled = vec![ask(), ask()];
        }
        if taken > 1_600_000 {
            newcomer.get_or_insert_with(|| connect_from(OTHER, gateway.address));
        }
        if taken < 2_400_000 {
            pause(Duration::from_millis(30));
        }
    }
    let mut newcomer = newcomer.expect("it came");
    newcomer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it takes them");
    let mut whole = Vec::new();
    newcomer.read_to_end(&mut whole).expect("it is served");
    assert!(whole.len() > 8_000_000);
}

/// While the one that was closed lingered, another was closed at each tick.
#[test]
fn one_newcomer_takes_one_connection() {
    let upstream = Upstream::start();
    let gateway = gateway(upstream.address, "max: 10, max_client_share: 1, body_timeout: 1h, min_rate: 0", "");
    let mut slow: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = Client::connect_from(ONE, gateway.address);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhello");
            client
        })
        .collect();
    wait_until("all are under way", || under_way(&gateway) == 10);
    // Those that have just begun may not be closed yet.
    pause(Duration::from_millis(1_200));
    assert_eq!(status(&gateway), 200);
    let closed = slow.iter_mut().filter_map(|client| client.has_response().then(|| client.response().status));
    assert_eq!(closed.collect::<Vec<u16>>(), [408]);
    assert_eq!(cut(&gateway, "evicted"), 1);
}

/// Connections count when they are opened and when a request begins on them: an address could open any number first.
#[test]
fn connections_that_were_idle_count_when_requests_begin_on_them() {
    let released = Arc::new(AtomicBool::new(false));
    let release = Arc::clone(&released);
    let upstream = Upstream::behaving(move |received, stream| {
        if !received.line.contains("/honest") {
            wait_until("it is released", || released.load(Ordering::Relaxed));
        }
        stream.write_all(OK).is_ok()
    });
    let gateway = gateway(upstream.address, "max: 12, max_client_share: 0.5", "");
    let mut clients: Vec<Client> = (0..9).map(|_| Client::connect_from(ONE, gateway.address)).collect();
    let mut wire = Wire::over(connect_from(ONE, gateway.address), &[]);
    for (count, client) in clients[..6].iter_mut().enumerate() {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        wait_until("it is under way", || upstream.count() == count + 1);
    }
    let rejected = clients[6].request("GET", "/", &[], b"");
    assert_eq!((rejected.status, &rejected.json()["error"]), (503, &"connection_share".into()));
    assert_eq!(rejected.header("x-tidegate-refused-by"), Some("gateway"));
    assert_eq!(rejected.header("retry-after"), Some("1"));
    assert!(wire.send(&[get(1)]));
    assert_eq!(wire.outcome(1), Outcome::Status(503));
    assert_eq!((cut(&gateway, "connection_share"), status(&gateway)), (2, 200));
    release.store(true, Ordering::Relaxed);
    assert!(clients[..6].iter_mut().all(|client| client.response().status == 200));
    assert_eq!(clients[6].request("GET", "/honest", &[], b"").status, 200, "it may again");
    wire.send(&[get(3)]);
    assert!(wire.settle());
}

/// Each connection could send 4 MiB that nobody had read.
#[test]
fn large_windows_for_uploads_are_bounded() {
    let upstream = Upstream::start();
    let gateway = gateway(upstream.address, "max_buffer_bytes: 1048576", "");
    let window = || {
        let mut wire = Wire::over(connect_from(ONE, gateway.address), &[]);
        let settings = wire.read_until(SETTINGS).expect("the connection goes on").payload;
        let setting = settings.chunks(6).find(|setting| setting.starts_with(&INITIAL_WINDOW_SIZE.to_be_bytes()));
        // Without the setting it is what HTTP/2 begins with.
        let bytes = setting.map_or(65_535, |setting| u32::from_be_bytes(setting[2..].try_into().expect("four bytes")));
        (wire, bytes)
    };
    let ((large, of_large), (_small, of_small)) = (window(), window());
    assert_eq!((of_large, of_small), (131_072, 65_535));
    drop(large);
    wait_until("it is given back", || window().1 == 131_072);
}

/// Each stream that was reset let another one begin.
#[test]
fn streams_that_are_reset_let_no_more_begin_at_a_time() {
    let upstream = responding(2_000);
    let connections = "max_untaken_streams: 2, write_timeout: 1h, min_rate: 0";
    let gateway = gateway(upstream.address, connections, "");
    let mut wire = Wire::over(connect_from(ONE, gateway.address), &[(INITIAL_WINDOW_SIZE, 0)]);
    let mut next = 1;
    for round in 1..=8 {
        let streams = [next, next + 2];
        next += 4;
        assert!(wire.send(&streams.map(get)));
        wait_until("both have begun", || upstream.count() == 2 * round);
        wait_until("both have responses", || gateway.metric("tidegate_buffered_bytes") == Some(4_000.0));
        assert!(wire.send(&streams.map(Frame::reset)));
        wait_until("both have ended", || gateway.metric("tidegate_http2_streams") == Some(0.0));
    }
    let mut many: Vec<Frame> = (0..20).map(|number| get(next + 2 * number)).collect();
    let others = many.split_off(2);
    assert!(wire.send(&many));
    wait_until("both have responses", || gateway.metric("tidegate_buffered_bytes") == Some(4_000.0));
    assert!(wire.send(&others));
    wait_until("all have come", || gateway.metric("tidegate_http2_streams") == Some(20.0));
    assert!((0..20).all(|_| status(&gateway) == 200));
    assert_eq!(upstream.received().iter().filter(|received| received.line.starts_with("GET / ")).count(), 18);
}

/// It never had taken all that there was, so that its other requests waited, and were rejected.
#[test]
fn a_client_that_reads_at_full_speed_has_its_other_requests_served() {
    let upstream = Upstream::responding(|received| {
        let bytes = if received.line.contains("/honest") { 10 } else { 20_000_000 };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; bytes]].concat()
    });
    let gateway = gateway(upstream.address, "max_untaken_streams: 2", "");
    let mut wire = Wire::over(connect_from(ONE, gateway.address), &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    assert!(wire.send(&[Frame::window_update(0, 1 << 30), get(1), get(3)]));
    let (mut taken, mut ended, mut served) = (0, 0, false);
    while !served {
        let frame = wire.read().expect("the connection goes on");
        match frame.kind {
            DATA if frame.stream < 5 => {
                let before = taken;
                taken += frame.payload.len();
                ended += u32::from(frame.flags & END_STREAM != 0);
                if before < 1_000_000 && taken >= 1_000_000 {
                    assert!(wire.send(&[get(5)]));
                }
            }
            HEADERS => served = frame.stream == 5,
            _ => {}
        }
    }
    assert!(ended < 2, "it is served while they go on");
}

/// While one request waited, each newcomer waited too: connections lay idle, and each request that had waited closed
/// one of another worker and made its own.
#[test]
fn at_saturation_connections_are_used_again_and_the_rest_is_rejected() {
    let upstream = Upstream::behaving(|_, stream| {
        pause(Duration::from_millis(10));
        stream.write_all(OK).is_ok()
    });
    let gateway = gateway(upstream.address, "", "max_connections: 4");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|number: u8| {
                let address = gateway.address;
                scope.spawn(move || {
                    let mut client = Client::connect_from([127, 0, 1, number + 1], address);
                    (0..40).map(|_| client.request("GET", "/", &[], b"").status).collect::<Vec<u16>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(statuses.len() - served, statuses.iter().filter(|status| **status == 503).count());
    assert!(served >= 40 && served < statuses.len(), "{served} of {}", statuses.len());
    let connections = upstream.received().iter().map(|received| received.connection).max().unwrap_or_default();
    assert!(connections < 12, "{connections} connections for {served} requests");
}
