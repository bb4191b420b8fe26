//! Connections that go over to another protocol, as WebSocket does.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::protocols::footprint::Footprint;
use crate::protocols::pattern::Pattern;
use crate::protocols::session;
use tidegate_testkit::authority::Authority;
use tidegate_testkit::{
    Client, Directory, Gateway, OK, PATIENCE, Received, Response, Upstream, pause, text, wait_until,
};

const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 60}";

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

const ASK: &str = "GET /socket HTTP/1.1\r\nHost: test.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

fn before(upstream: SocketAddr, limit: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\nupstreams: {{app: {{url: \"http://{upstream}\"}}}}\nlimits: {{default: {limit}}}\n{more}\n"
    ))
}

/// An upstream that goes over and then does what `then` says with the connection. Other requests get
/// `OK`.
fn switching(then: impl Fn(TcpStream) + Send + Sync + 'static) -> Upstream {
    Upstream::behaving(move |received, stream| {
        if received.header("upgrade").is_none() {
            return stream.write_all(OK).is_ok();
        }
        stream.write_all(SWITCHING).expect("it takes them");
        then(stream.try_clone().expect("a handle"));
        false
    })
}

/// Sends back what comes, until nothing does.
fn echoing(mut stream: TcpStream) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        if stream.write_all(&piece[..count]).is_err() {
            return;
        }
    }
}

/// Lets a test hold the upstream's end of a connection itself.
fn handed_over() -> (Upstream, Receiver<TcpStream>) {
    let (sender, receiver): (Sender<TcpStream>, _) = channel();
    let sender = Mutex::new(sender);
    let upstream = Upstream::behaving(move |received, stream| {
        if received.header("upgrade").is_none() {
            return stream.write_all(OK).is_ok();
        }
        stream.write_all(SWITCHING).expect("it takes them");
        let handle = stream.try_clone().expect("a handle");
        sender.lock().expect("no panic").send(handle).expect("a test");
        // The test ends it: this thread reads no more.
        loop {
            std::thread::park();
        }
    });
    (upstream, receiver)
}

fn take(receiver: &Receiver<TcpStream>) -> TcpStream {
    let stream = receiver.recv_timeout(PATIENCE).expect("the upstream has gone over");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Asks to go over, and reads the head of the response.
fn upgrade(gateway: &Gateway) -> (Client, Response) {
    let mut client = Client::connect(gateway.address);
    client.send(ASK);
    let response = client.response();
    (client, response)
}

fn read_exactly(stream: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("so many bytes");
    bytes
}

#[test]
fn the_gateway_goes_over_with_its_upstream_and_carries_bytes_both_ways() {
    let upstream = switching(echoing);
    let gateway = before(upstream.address, PLENTY, "");
    let (mut client, response) = upgrade(&gateway);
    assert_eq!(response.status, 101);
    assert_eq!(response.header("upgrade"), Some("websocket"));
    assert!(response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade")));
    assert_eq!(response.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(response.header("x-ratelimit-limit"), Some("1000000"));
    let received = upstream.last();
    assert_eq!(received.header("upgrade"), Some("websocket"));
    assert!(received.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade")));
    assert_eq!(received.header("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    assert_eq!(received.header("content-length"), None);
    for message in ["one", "two", "\r\n\r\nGET / HTTP/1.1\r\n\r\n", "\0\u{1}\u{7f}"] {
        client.send(message);
        assert_eq!(read_exactly(&mut client.stream, message.len()), message.as_bytes());
    }
    client.stream.get_ref().shutdown(Shutdown::Write).expect("it is open");
    assert!(client.is_closed());
    assert_eq!(upstream.count(), 1);
}

#[test]
fn the_upstream_may_speak_first() {
    // Its first bytes come with the head of its response.
    let upstream = Upstream::behaving(|_, stream| {
        stream.write_all(&[SWITCHING, b"welcome"].concat()).expect("it takes them");
        echoing(stream.try_clone().expect("a handle"));
        false
    });
    let gateway = before(upstream.address, PLENTY, "");
    let (mut client, response) = upgrade(&gateway);
    assert_eq!(response.status, 101);
    assert_eq!(read_exactly(&mut client.stream, 7), b"welcome");
    client.send("thanks");
    assert_eq!(read_exactly(&mut client.stream, 6), b"thanks");
}

/// What a client sends before 101 may be a request to an upstream that refuses to go over.
#[test]
fn bytes_sent_too_early_wait_for_the_upgrade() {
    let (go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let early = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&early);
    let upstream = Upstream::behaving(move |received, stream| {
        if received.header("upgrade").is_none() {
            return stream.write_all(OK).is_ok();
        }
        gate.lock().expect("no panic").recv().expect("a word");
        stream.set_nonblocking(true).expect("it can be set");
        *seen.lock().expect("no panic") = stream.read(&mut [0; 64]).ok();
        stream.set_nonblocking(false).expect("it can be set");
        stream.write_all(SWITCHING).expect("it takes them");
        echoing(stream.try_clone().expect("a handle"));
        false
    });
    let gateway = before(upstream.address, PLENTY, "");
    let mut client = Client::connect(gateway.address);
    client.send([ASK, "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"].concat());
    wait_until("the request is under way", || upstream.count() == 1);
    client.send("and more");
    // The only worker has gone on meanwhile.
    assert_eq!(gateway.get("/other").status, 200);
    go.send(()).expect("it waits");
    assert_eq!(client.response().status, 101);
    let expected = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\nand more";
    assert_eq!(read_exactly(&mut client.stream, expected.len()), expected.as_bytes(), "they come after it");
    assert_eq!(*early.lock().expect("no panic"), None, "the upstream could read them before it went over");
    let first = upstream.bytes().swap_remove(0);
    assert!(first.ends_with(b"\r\n\r\n") && !first.windows(8).any(|bytes| bytes == b"smuggled"), "{first:?}");
}

#[test]
fn an_upstream_that_does_not_go_over_is_heard() {
    for (response, status, body) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"[..], 200, "plain"),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad", 400, "bad"),
        (
            b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
            426,
            "",
        ),
        (b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", 403, "no"),
    ] {
        let upstream =
            Upstream::responding(
                move |received| {
                    if received.header("upgrade").is_some() { response.to_vec() } else { OK.to_vec() }
                },
            );
        let gateway = before(upstream.address, PLENTY, "");
        let (mut client, heard) = upgrade(&gateway);
        assert_eq!((heard.status, heard.text().as_str()), (status, body));
        // Both connections speak HTTP as before.
        assert_eq!(client.request("GET", "/after", &[], b"").status, 200);
        assert_eq!(upstream.last().line, "GET /after HTTP/1.1");
        assert_eq!(upstream.last().connection, 0);
    }
}

/// What was sent too early to an upstream that does not go over is the next request, and is judged as one.
#[test]
fn bytes_sent_too_early_are_the_next_request_if_there_is_no_upgrade() {
    let upstream = Upstream::start();
    let gateway = before(upstream.address, "{algorithm: fixed, limit: 1, window: 3600}", "");
    let mut client = Client::connect(gateway.address);
    client.send([ASK, "GET /second HTTP/1.1\r\nHost: x\r\n\r\n"].concat());
    assert_eq!(client.response().status, 200);
    assert_eq!(client.response().status, 429, "it does not pass the limits unseen");
    assert_eq!(upstream.count(), 1);
}

/// An upstream that went over to HTTP/2 would carry requests that no limit sees.
#[test]
fn http_2_is_no_protocol_to_go_over_to() {
    let upstream = Upstream::start();
    let gateway = before(upstream.address, PLENTY, "");
    for protocol in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.0"] {
        let mut client = Client::connect(gateway.address);
        let headers = [
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("Upgrade", protocol),
            ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ];
        assert_eq!(client.request("GET", "/", &headers, b"").status, 200, "{protocol}");
        let received = upstream.last();
        for name in ["upgrade", "connection", "http2-settings"] {
            assert_eq!(received.header(name), None, "{protocol}: {received:?}");
        }
    }
}

#[test]
fn what_is_not_asked_for_rightly_is_not_passed_on() {
    let upstream = Upstream::start();
    let gateway = before(upstream.address, PLENTY, "");
    let (websocket, upgrade) = (("Upgrade", "websocket"), ("Connection", "upgrade"));
    for (name, headers, body) in [
        ("without Connection", &[websocket][..], ""),
        ("not named in Connection", &[websocket, ("Connection", "keep-alive")], ""),
        ("twice", &[websocket, ("Upgrade", "other"), upgrade], ""),
        ("with a body", &[websocket, upgrade], "body"),
    ] {
        let response = Client::connect(gateway.address).request("POST", "/", headers, body.as_bytes());
        assert!(matches!(response.status, 200 | 400), "{name}: {}", response.status);
        assert!(upstream.received().iter().all(|received| received.header("upgrade").is_none()), "{name}");
    }
    // HTTP/1.0 has no upgrades (RFC 9110 §7.8).
    let mut old = Client::connect(gateway.address);
    old.send("GET / HTTP/1.0\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(old.response().status, 200);
    assert_eq!(upstream.last().header("upgrade"), None);
}

#[test]
fn an_upstream_that_goes_over_unasked_is_not_followed() {
    let upstream = Upstream::responding(|_| [SWITCHING, b"smuggled"].concat());
    let gateway = before(upstream.address, PLENTY, "");
    let response = gateway.get("/");
    assert_eq!((response.status, response.json()["error"].as_str()), (502, Some("bad_answer")));
}

#[test]
fn the_end_of_one_direction_is_passed_on_and_the_other_goes_on() {
    let (upstream, receiver) = handed_over();
    let gateway = before(upstream.address, PLENTY, "");
    // The client ends its direction first.
    let (mut client, _) = upgrade(&gateway);
    let mut far = take(&receiver);
    client.send("last words");
    client.stream.get_ref().shutdown(Shutdown::Write).expect("it is open");
    let mut heard = Vec::new();
    far.read_to_end(&mut heard).expect("an end");
    assert_eq!(heard, b"last words");
    far.write_all(b"still here").expect("it takes them");
    assert_eq!(read_exactly(&mut client.stream, 10), b"still here");
    far.shutdown(Shutdown::Both).expect("it is open");
    assert!(client.is_closed());
    // The upstream ends its direction first.
    let (mut client, _) = upgrade(&gateway);
    let mut far = take(&receiver);
    far.write_all(b"last words").expect("it takes them");
    far.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(client.read_to_end(), b"last words");
    client.send("still here");
    assert_eq!(read_exactly(&mut far, 10), b"still here");
    client.close();
    assert_eq!(far.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn a_side_that_breaks_off_takes_the_other_with_it() {
    let (upstream, receiver) = handed_over();
    let gateway = before(upstream.address, PLENTY, "");
    let (client, _) = upgrade(&gateway);
    let mut far = take(&receiver);
    client.close();
    assert_eq!(far.read(&mut [0; 1]).unwrap_or(0), 0);
    let (mut client, _) = upgrade(&gateway);
    take(&receiver).shutdown(Shutdown::Both).expect("it is open");
    assert!(client.is_closed());
}

#[test]
fn a_tunnel_without_a_byte_ends_in_time() {
    let (upstream, receiver) = handed_over();
    let gateway = before(upstream.address, PLENTY, "connections: {upgrade_timeout: 300ms}");
    assert_eq!(gateway.get("/").status, 200);
    let before = Footprint::of(&gateway);
    let (mut client, _) = upgrade(&gateway);
    let mut far = take(&receiver);
    assert!(client.is_closed());
    assert_eq!(far.read(&mut [0; 1]).unwrap_or(0), 0, "the upstream is told too");
    before.wait_for_descriptors(0);
}

#[test]
fn a_tunnel_in_use_outlives_the_timeout() {
    let upstream = switching(echoing);
    let gateway = before(upstream.address, PLENTY, "connections: {upgrade_timeout: 1s, idle_timeout: 1s}");
    let (mut client, _) = upgrade(&gateway);
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(2_500) {
        client.send("x");
        assert_eq!(read_exactly(&mut client.stream, 1), b"x");
        pause(Duration::from_millis(100));
    }
}

/// A byte one way is enough, whichever.
#[test]
fn a_tunnel_used_one_way_outlives_the_timeout() {
    let (upstream, receiver) = handed_over();
    let gateway = before(upstream.address, PLENTY, "connections: {upgrade_timeout: 1s}");
    let ((mut upwards, _), mut up) = (upgrade(&gateway), take(&receiver));
    let ((mut downwards, _), mut down) = (upgrade(&gateway), take(&receiver));
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(2_500) {
        upwards.send("u");
        assert_eq!(read_exactly(&mut up, 1), b"u");
        down.write_all(b"d").expect("it takes them");
        assert_eq!(read_exactly(&mut downwards.stream, 1), b"d");
        pause(Duration::from_millis(100));
    }
}

/// "An upgraded connection without a byte either way": a client that takes nothing while the upstream sends moves none,
/// once all buffers are full. Nor does an upstream that takes nothing.
#[test]
fn a_tunnel_whose_client_takes_nothing_ends_in_time() {
    let (upstream, receiver) = handed_over();
    let gateway = before(upstream.address, PLENTY, "connections: {upgrade_timeout: 500ms}");
    let (_client, _) = upgrade(&gateway);
    assert!(fills_up_and_ends(take(&receiver)), "the tunnel stays open for ever");
}

#[test]
fn a_tunnel_whose_upstream_takes_nothing_ends_in_time() {
    let (upstream, receiver) = handed_over();
    let gateway = before(upstream.address, PLENTY, "connections: {upgrade_timeout: 500ms}");
    let (client, _) = upgrade(&gateway);
    let _far = take(&receiver);
    assert!(fills_up_and_ends(client.stream.get_ref().try_clone().expect("a handle")));
}

/// Writes to a tunnel that nobody reads: whether it is ended.
fn fills_up_and_ends(mut stream: TcpStream) -> bool {
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    loop {
        match stream.write(&[0; 16 * 1024]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
    }
}

#[test]
fn a_slot_is_held_until_the_tunnel_ends() {
    let upstream = switching(echoing);
    let gateway = before(upstream.address, "{algorithm: concurrency, limit: 1}", "");
    let (mut client, response) = upgrade(&gateway);
    assert_eq!(response.status, 101);
    for message in ["one", "two"] {
        client.send(message);
        assert_eq!(read_exactly(&mut client.stream, 3), message.as_bytes());
        assert_eq!(gateway.get("/").status, 429);
        assert_eq!(upgrade(&gateway).1.status, 429);
    }
    client.close();
    wait_until("the place comes back", || gateway.get("/").status == 200);
    // And when the timeout ends it.
    let gateway =
        before(upstream.address, "{algorithm: concurrency, limit: 1}", "connections: {upgrade_timeout: 300ms}");
    let (_client, response) = upgrade(&gateway);
    assert_eq!(response.status, 101);
    wait_until("the place comes back", || gateway.get("/").status == 200);
}

#[test]
fn an_upgrade_is_rejected_by_a_limit_like_any_request() {
    let upstream = switching(echoing);
    let gateway = before(upstream.address, "{algorithm: fixed, limit: 1, window: 3600}", "");
    assert_eq!(gateway.get("/").status, 200);
    let (mut client, rejected) = upgrade(&gateway);
    assert_eq!(rejected.status, 429);
    assert_eq!(rejected.header("x-tidegate-refused-by"), Some("default"));
    assert_eq!(rejected.header("upgrade"), None);
    assert_eq!(client.request("GET", "/", &[], b"").status, 429, "the connection speaks HTTP as before");
    assert_eq!(upstream.count(), 1);
}

#[test]
fn a_client_that_leaves_before_the_upgrade_leaves_nothing_behind() {
    let (go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let upstream = Upstream::behaving(move |received: &Received, stream| {
        if received.header("upgrade").is_some() {
            gate.lock().expect("no panic").recv().expect("a word");
        }
        stream.write_all(if received.header("upgrade").is_some() { SWITCHING } else { OK }).is_ok()
    });
    let gateway = before(upstream.address, "{algorithm: concurrency, limit: 1}", "");
    let mut client = Client::connect(gateway.address);
    client.send(ASK);
    wait_until("the request is under way", || upstream.count() == 1);
    client.close();
    go.send(()).expect("it waits");
    wait_until("the place comes back", || gateway.get("/").status == 200);
}

#[test]
fn much_passes_both_ways_at_once() {
    const LENGTH: u64 = 64 << 20;
    let upstream = switching(echoing);
    let gateway = before(upstream.address, PLENTY, "");
    assert_eq!(gateway.get("/").status, 200);
    let before = Footprint::of(&gateway);
    let (mut client, _) = upgrade(&gateway);
    let mut writer = client.stream.get_ref().try_clone().expect("a handle");
    let writing = std::thread::spawn(move || {
        let mut pattern = Pattern::default();
        while pattern.position < LENGTH {
            let piece = pattern.next(LENGTH - pattern.position);
            writer.write_all(&piece).expect("it takes them");
        }
        writer.shutdown(Shutdown::Write).expect("it is open");
    });
    let (mut pattern, mut piece) = (Pattern::default(), vec![0; 64 * 1024]);
    while let count @ 1.. = client.stream.read(&mut piece).expect("more") {
        assert!(pattern.takes(&piece[..count]));
    }
    assert_eq!(pattern.position, LENGTH);
    writing.join().expect("no panic");
    before.assert_growth_below(20);
}

#[test]
fn a_tunnel_passes_over_tls_too() {
    let upstream = switching(echoing);
    let (authority, directory) = (Authority::new(), Directory::new());
    let issued = authority.issue(&["localhost"]);
    let certificate = text(&directory.file("certificate.pem", &issued.certificate));
    let key = text(&directory.file("key.pem", &issued.key));
    let tls = format!("{{certificate: \"{certificate}\", key: \"{key}\"}}");
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", tls: {tls}}}]\nupstreams: {{app: {{url: \"http://{}\"}}}}\n",
        upstream.address
    ));
    session::run(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = session::tls(gateway.address, authority.client(&["http/1.1"])).await;
        stream.write_all(ASK.as_bytes()).await.expect("it takes them");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "));
        for _ in 0..10 {
            stream.write_all(b"over TLS").await.expect("it takes them");
            let mut echoed = [0; 8];
            stream.read_exact(&mut echoed).await.expect("an echo");
            assert_eq!(&echoed, b"over TLS");
        }
        stream.shutdown().await.expect("it is open");
        assert_eq!(stream.read(&mut [0; 1]).await.expect("a proper end"), 0);
    });
}
