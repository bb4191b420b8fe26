//! More clients than connections: who is closed for whom.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::protocols::session;
use tidegate_testkit::authority::Authority;
use tidegate_testkit::frames::{Frame, GOAWAY, Outcome, Wire};
use tidegate_testkit::{Client, Directory, Gateway, OK, Upstream, text, wait_until};

const EVICTED: &str = "tidegate_connections_closed_total{reason=\"evicted\"}";
const LATE_HEADS: &str = "tidegate_connections_closed_total{reason=\"head_timeout\"}";
const NOT_TAKEN: &str = "tidegate_connections_closed_total{reason=\"write_timeout\"}";
const IDLE: &str = "tidegate_connections_closed_total{reason=\"idle_timeout\"}";

/// A gateway that takes HTTP/1 and HTTP/2, and asks nobody to leave because of the time.
fn with_connections(upstream: SocketAddr, settings: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nadmin: {{listen: \"127.0.0.1:0\"}}\nworkers: 2\n\
         upstreams: {{app: {{url: \"http://{upstream}\"}}}}\nlimits: {{default: {{algorithm: fixed, limit: 1000000, \
         window: 60}}}}\n\
         connections: {{head_timeout: 10m, idle_timeout: 10m, max_client_share: 1, {settings}}}\n"
    ))
}

fn connected(gateway: &Gateway) -> Option<f64> {
    gateway.metric("tidegate_connections")
}

/// A client that has just connected has a second to send something.
fn pass_a_second() {
    let began = Instant::now();
    wait_until("a second has passed", || began.elapsed() > Duration::from_millis(1_100));
}

/// An upstream that responds to `/held` when it is let.
struct Held {
    upstream: Upstream,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Held {
    fn new() -> Self {
        let gate: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let closed = Arc::clone(&gate);
        let upstream = Upstream::behaving(move |request, stream| {
            if request.line.contains("/held") {
                let open = closed.0.lock().expect("no panic");
                drop(closed.1.wait_while(open, |open| !*open).expect("no panic"));
            }
            stream.write_all(OK).is_ok()
        });
        Self { upstream, gate }
    }

    fn responses(&self) {
        *self.gate.0.lock().expect("no panic") = true;
        self.gate.1.notify_all();
    }
}

/// A client that holds its connection and asks for nothing.
#[expect(dead_code, reason = "they are held")]
enum Idler {
    Http1(Client),
    Http2(Wire),
}

impl Idler {
    fn silent(address: SocketAddr) -> Self {
        Self::Http1(Client::connect(address))
    }

    fn kept(address: SocketAddr) -> Self {
        let mut client = Client::connect(address);
        assert_eq!(client.request("GET", "/", &[], b"").status, 200);
        Self::Http1(client)
    }

    fn http2(address: SocketAddr) -> Self {
        let mut wire = Wire::connect(address);
        assert!(wire.settle());
        Self::Http2(wire)
    }
}

/// `connections: {max: 300}`, and 300 sockets that said nothing, or had asked once and kept quiet: of 120 clients that
/// came then, none was served for as long as the sockets were held. nginx closes the longest idle ones.
#[test]
fn idle_connections_make_room_for_new_clients() {
    let upstream = Upstream::start();
    let kinds: [fn(SocketAddr) -> Idler; 3] = [Idler::silent, Idler::kept, Idler::http2];
    for (kind, connect) in kinds.into_iter().enumerate() {
        let gateway = with_connections(upstream.address, "max: 300");
        let idle: Vec<Idler> = (0..300).map(|_| connect(gateway.address)).collect();
        // Otherwise those that have asked are the only ones to go.
        pass_a_second();
        // They hold their connections, too.
        let mut new = Vec::new();
        for number in 0..120 {
            let mut client = Client::connect(gateway.address);
            assert_eq!(client.request("GET", "/", &[], b"").status, 200, "client {number} against kind {kind}");
            new.push(client);
        }
        assert_eq!(gateway.metric("tidegate_connections_max"), Some(300.0));
        wait_until("as many have gone as came", || gateway.metric(EVICTED) >= Some(120.0));
        wait_until("no more are connected than may be", || connected(&gateway) <= Some(300.0));
        let line = gateway.wait_for_line("to let new clients in");
        assert!(line.contains("WARN") && line.contains("`connections.max` is 300"), "{line}");
        for client in &mut new {
            assert_eq!(client.request("GET", "/", &[], b"").status, 200, "who came last is not who goes");
        }
        drop(idle);
    }
}

#[test]
fn a_request_under_way_is_never_cut_short_for_a_new_client() {
    let held = Held::new();
    let gateway = with_connections(held.upstream.address, "max: 6");
    let mut busy = Client::connect(gateway.address);
    busy.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut uploading = Client::connect(gateway.address);
    uploading.send("POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nupload");
    let mut streaming = Wire::connect(gateway.address);
    let fields: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/held")];
    assert!(streaming.send(&[Frame::request(1, &fields)]));
    wait_until("all three are under way", || gateway.metric("tidegate_requests_in_flight") >= Some(3.0 + 1.0));
    let _idle: Vec<Client> = (0..3).map(|_| Client::connect(gateway.address)).collect();

    for _ in 0..30 {
        let mut client = Client::connect(gateway.address);
        assert_eq!(client.request("GET", "/", &[], b"").status, 200);
    }
    held.responses();
    assert_eq!((busy.response().status, streaming.outcome(1)), (200, Outcome::Status(200)));
    assert_eq!(uploading.response().status, 200);
}

/// When all have something to do, new clients wait for the first that has not.
#[test]
fn where_all_are_busy_new_clients_wait() {
    let held = Held::new();
    let gateway = with_connections(held.upstream.address, "max: 2");
    let mut busy: Vec<Client> = (0..2).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut busy {
        client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    wait_until("both are under way", || held.upstream.count() == 2);
    let mut new = Client::connect(gateway.address);
    new.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let line = gateway.wait_for_line("new clients wait");
    assert!(line.contains("`connections.max` is 2"), "{line}");
    assert_eq!((held.upstream.count(), gateway.metric(EVICTED)), (2, Some(0.0)));
    held.responses();
    assert_eq!(new.response().status, 200);
    for client in &mut busy {
        assert_eq!(client.response().status, 200);
    }
}

/// A head that was begun and never finished used to hold its connection for all of `head_timeout`.
#[test]
fn slow_heads_do_not_lock_others_out() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "max: 40");
    let slow: Vec<Client> = (0..40)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
            client
        })
        .collect();
    for _ in 0..20 {
        let mut client = Client::connect(gateway.address);
        assert_eq!(client.request("GET", "/", &[], b"").status, 200);
    }
    drop(slow);
}

#[test]
fn an_idle_http2_connection_gets_a_goaway_before_it_makes_room() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "max: 1");
    let mut idle = Wire::connect(gateway.address);
    let fields: [(&str, &[u8]); 4] = [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/")];
    assert!(idle.send(&[Frame::request(1, &fields)]));
    assert_eq!(idle.outcome(1), Outcome::Status(200));
    assert_eq!(gateway.get("/").status, 200);
    // A request that crossed it would be the third: the client knows that it was not served, and can send it again.
    let goaway = idle.read_until(GOAWAY).expect("a GOAWAY before the end");
    assert_eq!(goaway.payload, [0, 0, 0, 1, 0, 0, 0, 0], "the last stream was the first, and there was no error");
    idle.wait_for_end();
    wait_until("it is counted", || gateway.metric(EVICTED) == Some(1.0));
}

/// Responses that HTTP/2 has in hand and may not send yet (RFC 9113 §5.2) are under way, though nothing is left to be
/// read of them.
#[test]
fn a_response_that_waits_for_the_clients_window_is_not_idle() {
    let body = vec![b'x'; 5_000];
    let whole = [b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n".to_vec(), body].concat();
    let upstream =
        Upstream::responding(move |request| if request.line.contains("/large") { whole.clone() } else { OK.to_vec() });
    let gateway = with_connections(upstream.address, "max: 2");
    let mut waits = Wire::connect_with(gateway.address, &[(tidegate_testkit::frames::INITIAL_WINDOW_SIZE, 100)]);
    let fields: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/large")];
    assert!(waits.send(&[Frame::request(1, &fields)]));
    assert_eq!(waits.outcome(1), Outcome::Status(200));
    wait_until("the gateway has all of it", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(Client::connect(gateway.address));
        assert_eq!(others.last_mut().map(|client| client.request("GET", "/", &[], b"").status), Some(200));
    }
    assert!(waits.send(&[Frame::window_update(1, 50_000)]));
    let mut bytes = 0;
    while bytes < 5_000 {
        let frame = waits.read_until(tidegate_testkit::frames::DATA).expect("the rest comes");
        bytes += frame.payload.len();
    }
}

/// It used to have all of `idle_timeout` for that, and its end was not counted.
#[test]
fn a_response_that_a_client_never_takes_ends_with_write_timeout() {
    let whole = [b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n".to_vec(), vec![b'x'; 5_000]].concat();
    let upstream = Upstream::responding(move |_| whole.clone());
    let gateway = with_connections(upstream.address, "write_timeout: 500ms");
    let mut waits = Wire::connect_with(gateway.address, &[(tidegate_testkit::frames::INITIAL_WINDOW_SIZE, 100)]);
    let fields: [(&str, &[u8]); 4] = [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/")];
    assert!(waits.send(&[Frame::request(1, &fields)]));
    assert_eq!(waits.outcome(1), Outcome::Status(200));
    assert!(waits.read_until(GOAWAY).is_some());
    waits.wait_for_end();
    wait_until("it is counted", || gateway.metric(NOT_TAKEN) == Some(1.0));
    assert_eq!((gateway.metric(IDLE), gateway.metric(EVICTED)), (Some(0.0), Some(0.0)));
}

/// A WebSocket may be silent for long, and a response may take its reader long: neither is idle.
#[test]
fn an_upgraded_connection_and_a_slow_reader_are_not_idle() {
    const LARGE: usize = 8_000_000;
    let upstream = Upstream::behaving(|request, stream| {
        if request.header("upgrade").is_some() {
            let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            stream.write_all(head).expect("it is taken");
            let mut message = [0; 5];
            return stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok();
        }
        if request.line.contains("/large") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
            return stream.write_all(&[head.as_bytes(), &vec![b'x'; LARGE]].concat()).is_ok();
        }
        stream.write_all(OK).is_ok()
    });
    let gateway = with_connections(upstream.address, "max: 3, write_timeout: 10m");
    let mut socket = Client::connect(gateway.address);
    socket.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(socket.response().status, 101);
    let mut slow = Client::connect(gateway.address);
    slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("both are under way", || upstream.count() == 2);
    let mut others = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(gateway.address);
        assert_eq!(client.request("GET", "/", &[], b"").status, 200);
        others.push(client);
    }
    wait_until("one was left for all of them", || gateway.metric(EVICTED) == Some(19.0));
    socket.send("hello");
    let mut echoed = [0; 5];
    socket.stream.read_exact(&mut echoed).expect("it is still open");
    assert_eq!(&echoed, b"hello");
    assert_eq!(slow.response().body.len(), LARGE);
}

/// Such a socket used to have all of `idle_timeout`, as if its client had asked for something.
#[test]
fn a_connection_that_never_speaks_has_as_long_as_a_head() {
    let (upstream, authority, directory) = (Upstream::start(), Authority::new(), Directory::new());
    let issued = authority.issue(&["localhost"]);
    let certificate = text(&directory.file("certificate.pem", &issued.certificate));
    let key = text(&directory.file("key.pem", &issued.key));
    let kinds = ["", ", h2c: true", &format!(", tls: {{certificate: \"{certificate}\", key: \"{key}\"}}")];
    for kind in kinds {
        let gateway = Gateway::start(&format!(
            "listeners: [{{address: \"127.0.0.1:0\"{kind}}}]\nadmin: {{listen: \"127.0.0.1:0\"}}\n\
             upstreams: {{app: {{url: \"http://{}\"}}}}\nconnections: {{head_timeout: 300ms, idle_timeout: 10m}}\n",
            upstream.address
        ));
        let mut silent = Client::connect(gateway.address);
        assert!(silent.is_closed(), "{kind}");
        wait_until("it is counted", || gateway.metric(LATE_HEADS) == Some(1.0));
        assert_eq!((gateway.metric(IDLE), gateway.metric(EVICTED)), (Some(0.0), Some(0.0)), "{kind}");
    }
}

/// With TLS, one that has shaken hands and asks nothing is silent, too; one that has asked has the time of an idle one.
#[test]
fn a_tls_connection_that_asks_nothing_has_as_long_as_a_head_and_one_that_has_asked_is_idle() {
    let (upstream, authority, directory) = (Upstream::start(), Authority::new(), Directory::new());
    let issued = authority.issue(&["localhost"]);
    let certificate = text(&directory.file("certificate.pem", &issued.certificate));
    let key = text(&directory.file("key.pem", &issued.key));
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", tls: {{certificate: \"{certificate}\", key: \"{key}\"}}}}]\n\
         admin: {{listen: \"127.0.0.1:0\"}}\nlimits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n\
         upstreams: {{app: {{url: \"http://{}\"}}}}\nconnections: {{head_timeout: 4s, idle_timeout: 5s}}\n",
        upstream.address
    ));
    session::run(async {
        let silent = session::tls(gateway.address, authority.client(&["http/1.1"])).await;
        let mut asks = session::http1(session::tls(gateway.address, authority.client(&["http/1.1"])).await).await;
        let response = asks.send_request(session::for_http1(session::get("/"))).await.expect("an answer");
        assert_eq!(session::Whole::of(response).await.status, 200);
        let counted = |name: &'static str| {
            let waited = || wait_until(name, || gateway.metric(name) == Some(1.0));
            tokio::task::block_in_place(waited);
        };
        counted(LATE_HEADS);
        counted(IDLE);
        drop((silent, asks));
    });
}

/// Clients that open connections and say nothing must not push out those that ask now and then.
#[test]
fn a_flood_of_silent_connections_does_not_push_out_who_asks() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "max: 50");
    let mut asks = Client::connect(gateway.address);
    assert_eq!(asks.request("GET", "/", &[], b"").status, 200);
    let mut silent: Vec<Client> = (0..49).map(|_| Client::connect(gateway.address)).collect();
    wait_until("all are connected", || connected(&gateway) == Some(50.0));
    // Before, the one that has asked would be the only one to go.
    pass_a_second();
    for _ in 0..40 {
        silent.push(Client::connect(gateway.address));
    }
    wait_until("forty have gone", || gateway.metric(EVICTED) >= Some(40.0));
    assert_eq!(asks.request("GET", "/", &[], b"").status, 200, "it is the longest idle of all, and has asked");
}
