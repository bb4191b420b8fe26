//! HTTP/2 to clients, by ALPN and with prior knowledge, and TLS before either version.

mod bodies;
mod stopping;
mod tls;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use http::StatusCode;
use http_body_util::BodyExt;

use crate::protocols::depot::Depot;
use crate::protocols::session::{self, Http2, ask, get, post, run};
use tidegate_testkit::authority::{Authority, Issued};
use tidegate_testkit::frames::{Frame, INITIAL_WINDOW_SIZE, Outcome, Wire};
use tidegate_testkit::{Client, Directory, Gateway, OK, PATIENCE, Upstream, pause, text, wait_until, wait_until_async};

const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 60}";

/// A gateway that takes HTTP/2 without TLS.
fn clear(upstream: SocketAddr, limit: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\n\
         upstreams: {{app: {{url: \"http://{upstream}\", request_buffer_bytes: 0}}}}\n\
         limits: {{default: {limit}}}\n{more}\n"
    ))
}

/// A gateway with a certificate for `localhost`.
struct Secured {
    gateway: Gateway,
    authority: Authority,
    issued: Issued,
    directory: Directory,
}

impl Secured {
    fn before(upstream: SocketAddr, limit: &str, more: &str) -> Self {
        let (authority, directory) = (Authority::new(), Directory::new());
        let issued = authority.issue(&["localhost"]);
        let config = format!(
            "listeners: [{}]\n\
             upstreams: {{app: {{url: \"http://{upstream}\"}}}}\nlimits: {{default: {limit}}}\n{more}\n",
            Self::listener(&directory, &issued)
        );
        Self { gateway: Gateway::start(&config), authority, issued, directory }
    }

    fn listener(directory: &Directory, issued: &Issued) -> String {
        let certificate = text(&directory.file("certificate.pem", &issued.certificate));
        let key = text(&directory.file("key.pem", &issued.key));
        format!("{{address: \"127.0.0.1:0\", tls: {{certificate: \"{certificate}\", key: \"{key}\"}}}}")
    }

    async fn http2(&self) -> Http2 {
        let stream = session::tls(self.gateway.address, self.authority.client(&["h2"])).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        session::http2(stream).await
    }
}

/// Holds whoever passes until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().expect("no panic") = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.lock().expect("no panic");
        drop(self.1.wait_while(closed, |open| !*open).expect("no panic"));
    }
}

/// An upstream that responds when the gate is open.
fn gated() -> (Upstream, Arc<Gate>) {
    let gate: Arc<Gate> = Arc::default();
    let kept = Arc::clone(&gate);
    let upstream = Upstream::responding(move |_| {
        kept.pass();
        OK.to_vec()
    });
    (upstream, gate)
}

#[test]
fn http_2_without_tls_is_spoken_where_it_is_allowed() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "");
    let response = run(async { ask(&mut session::h2c(gateway.address).await, get("/h2")).await });
    assert_eq!(response.status, StatusCode::OK);
    assert_eq!(upstream.last().header("x-forwarded-proto"), Some("http"));
    assert_eq!(gateway.get("/h1").status, 200, "HTTP/1.1 is spoken on the same port");
    // What begins like the preface may still be HTTP/1.1, however it arrives.
    let mut slow = Client::connect(gateway.address);
    for byte in b"PRIVATE /x HTTP/1.1\r\nHost: test.example\r\n\r\n" {
        slow.send([*byte]);
    }
    assert_eq!(slow.response().status, 200);
    assert_eq!(upstream.last().line, "PRIVATE /x HTTP/1.1");
}

#[test]
fn http_2_without_tls_is_not_spoken_where_it_is_not_allowed() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut wire = Wire::connect(gateway.address);
    wire.send(&[Frame::request(1, &[(":method", b"GET"), (":scheme", b"http"), (":path", b"/")])]);
    assert!(wire.read().is_none_or(|frame| frame.kind != tidegate_testkit::frames::SETTINGS), "it speaks HTTP/2");
    wire.wait_for_end();
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(upstream.count(), 1, "nothing but the honest request has passed");
}

#[test]
fn many_requests_are_under_way_on_one_connection() {
    const STREAMS: usize = 100;
    let (arrived, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Gate::default()));
    let (count, open) = (Arc::clone(&arrived), Arc::clone(&gate));
    let upstream = Upstream::responding(move |received| {
        // Nobody gets a response before all are there.
        if count.fetch_add(1, Ordering::Relaxed) + 1 == STREAMS {
            open.open();
        }
        open.pass();
        let path = received.line.split(' ').nth(1).expect("a path").to_owned();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).into_bytes()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    run(async {
        let session = session::h2c(gateway.address).await;
        let asked: Vec<_> = (0..STREAMS)
            .map(|number| {
                let mut session = session.clone();
                tokio::spawn(async move { ask(&mut session, get(&format!("/{number}"))).await })
            })
            .collect();
        for (number, response) in asked.into_iter().enumerate() {
            assert_eq!(response.await.expect("no panic").body, format!("/{number}"), "answers are not mixed up");
        }
    });
}

#[test]
fn no_more_requests_are_under_way_on_one_connection_than_are_allowed() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, peak) = (Arc::clone(&now), Arc::clone(&most));
    let upstream = Upstream::responding(move |_| {
        peak.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        pause(Duration::from_millis(10));
        counting.fetch_sub(1, Ordering::SeqCst);
        OK.to_vec()
    });
    let gateway = clear(upstream.address, PLENTY, "connections: {max_streams: 2}");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        // With its response the client knows what is allowed.
        assert_eq!(ask(&mut session, get("/")).await.status, StatusCode::OK);
        let asked: Vec<_> = (0..20)
            .map(|_| {
                let mut session = session.clone();
                tokio::spawn(async move { ask(&mut session, get("/")).await.status })
            })
            .collect();
        for response in asked {
            assert_eq!(response.await.expect("no panic"), StatusCode::OK);
        }
    });
    assert_eq!((upstream.count(), most.load(Ordering::SeqCst)), (21, 2));
}

#[test]
fn headers_arrive_as_they_were_sent() {
    let upstream = Upstream::responding(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Thing: y\r\n\
          Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n\r\nOK"
            .to_vec()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    let mut asked = get("/");
    asked.headers_mut().append("x-thing", "one".parse().expect("a value"));
    asked.headers_mut().append("x-thing", "two".parse().expect("a value"));
    asked.headers_mut().append("x-bytes", http::HeaderValue::from_bytes(b"\xc3\xa4").expect("a value"));
    let response = run(async { ask(&mut session::h2c(gateway.address).await, asked).await });
    let received = upstream.last();
    let things: Vec<_> = received.headers.iter().filter(|(name, _)| name == "x-thing").collect();
    assert_eq!(things.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(received.header("x-bytes"), Some("ä"));
    assert_eq!(received.header("host"), Some(upstream.address.to_string().as_str()));
    assert!(!received.headers.iter().any(|(name, _)| name.starts_with(':')), "{received:?}");
    let cookies: Vec<_> = response.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert_eq!(response.header("x-thing"), Some("y"));
    // RFC 9113 §8.2.2: what concerns an HTTP/1.1 connection has no place in HTTP/2.
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "x-hop"] {
        assert_eq!(response.headers.get(name), None, "{name}");
    }
}

/// RFC 9113 §8.2.3: cookies that came in several fields "MUST be concatenated into a single octet string using the
/// two-octet delimiter of 0x3b, 0x20 before being passed into a non-HTTP/2 context". An upstream that reads the first
/// field only would miss the session.
#[test]
fn crumbs_of_a_cookie_are_put_together() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "");
    let mut asked = get("/");
    for crumb in ["a=1", "b=2", "c=3"] {
        asked.headers_mut().append("cookie", crumb.parse().expect("a value"));
    }
    run(async { ask(&mut session::h2c(gateway.address).await, asked).await });
    let received = upstream.last();
    let cookies: Vec<_> = received.headers.iter().filter(|(name, _)| name == "cookie").collect();
    assert_eq!(cookies.len(), 1, "{cookies:?}");
    assert_eq!(cookies[0].1, "a=1; b=2; c=3");
}

#[test]
fn a_rejection_is_sent_in_full_and_the_connection_goes_on() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, "{algorithm: fixed, limit: 2, window: 3600}", "");
    run(async {
        let mut session = secured.http2().await;
        for left in ["1", "0"] {
            let response = ask(&mut session, get("/")).await;
            assert_eq!(response.status, StatusCode::OK);
            assert_eq!(
                (response.header("x-ratelimit-limit"), response.header("x-ratelimit-remaining")),
                (Some("2"), Some(left))
            );
            assert!(
                response
                    .header("ratelimit")
                    .is_some_and(|reported| reported.starts_with(&format!("\"default\";r={left};t=")))
            );
            assert_eq!(response.header("ratelimit-policy"), Some("\"default\";q=2;w=3600"));
            assert!(response.header("x-ratelimit-reset").is_some());
        }
        // The body that nobody wants does not stand in the way of what follows.
        for _ in 0..20 {
            let response = ask(&mut session, post("/", vec![b'x'; 100_000])).await;
            assert_eq!(response.status, StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(response.header("content-type"), Some("application/problem+json"));
            assert_eq!(response.header("x-tidegate-refused-by"), Some("default"));
            assert_eq!(response.header("x-ratelimit-remaining"), Some("0"));
            let reported = response.json();
            assert_eq!(reported["status"], 429);
            assert_eq!(reported["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
            assert_eq!(reported["violated-policies"][0], "default");
            assert_eq!(reported["limit"]["quota"], 2);
            assert_eq!(reported["retry_after"].to_string(), response.header("retry-after").expect("a time"));
            assert_eq!(reported["request_id"], response.header("x-request-id").expect("an id"));
        }
    });
    assert_eq!(upstream.count(), 2);
}

#[test]
fn a_client_that_cancels_gives_its_slot_back() {
    let depot = Depot::start();
    let gateway = clear(depot.address, "{algorithm: concurrency, limit: 1}", "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        session.ready().await.expect("it takes requests");
        let mut response = session.send_request(get("/download/chunked/1000000000000")).await.expect("an answer");
        assert!(response.body_mut().frame().await.is_some_and(|frame| frame.is_ok()));
        let rejected = ask(&mut session, get("/download/length/1")).await;
        assert_eq!(rejected.status, StatusCode::TOO_MANY_REQUESTS, "the place is taken");
        drop(response);
        let is_admitted = async || ask(&mut session, get("/download/length/1")).await.status == StatusCode::OK;
        wait_until_async("the slot comes back", is_admitted).await;
    });
}

const GET: [(&str, &[u8]); 4] =
    [(":method", b"GET"), (":scheme", b"http"), (":authority", b"test.example"), (":path", b"/")];

/// `head_timeout` counts from the first byte of a head: also while it is not known yet whether that is HTTP/1.1 or
/// HTTP/2.
#[test]
fn a_preface_that_does_not_end_is_not_waited_for() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "connections: {head_timeout: 300ms}");
    for begun in ["P", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut slow = Client::connect(gateway.address);
        slow.send(begun);
        assert!(slow.is_closed(), "{begun:?}");
    }
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn an_idle_connection_ends_in_time_whatever_frames_come() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "connections: {idle_timeout: 500ms}");
    let mut silent = Wire::connect(gateway.address);
    let mut chatty = Wire::connect(gateway.address);
    let started = Instant::now();
    // Pings are no requests.
    while chatty.settle() {
        assert!(started.elapsed() < PATIENCE, "pings keep it open");
        pause(Duration::from_millis(20));
    }
    silent.wait_for_end();
    chatty.wait_for_end();
    assert_eq!(upstream.count(), 0);
}

#[test]
fn an_upstream_that_fails_is_reported_on_http_2_too() {
    // Bound, so that nobody else is given the port, and not listened on.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let gateway = clear(socket.local_addr().expect("an address"), PLENTY, "");
    let response = run(async { ask(&mut session::h2c(gateway.address).await, get("/")).await });
    assert_eq!((response.status, response.json()["error"].as_str()), (StatusCode::BAD_GATEWAY, Some("connect_failed")));
}

/// RFC 9113 §8.2.3: cookies may come in crumbs; they are one field.
#[test]
fn many_crumbs_are_one_cookie_and_a_204_has_no_length() {
    let upstream =
        Upstream::responding(|_| b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec());
    let gateway = clear(upstream.address, PLENTY, "");
    let mut asked = get("/");
    for _ in 0..150 {
        asked.headers_mut().append("cookie", http::HeaderValue::from_static("a=b"));
    }
    let response = run(async { ask(&mut session::h2c(gateway.address).await, asked).await });
    assert_eq!((response.status, response.headers.get("content-length")), (StatusCode::NO_CONTENT, None));
    assert_eq!(upstream.last().header("cookie").map(|cookie| cookie.matches("a=b").count()), Some(150));
}

#[test]
fn a_path_that_is_not_ascii_is_rejected() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "");
    let mut wire = Wire::connect(gateway.address);
    let fields: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", "/\u{e9}".as_bytes())];
    wire.send(&[Frame::request(1, &fields)]);
    assert!(wire.outcome(1).is_rejection());
    assert_eq!(upstream.count(), 0);
}

/// A response is complete when its last byte has gone, not when there is somebody to give it to.
#[test]
fn a_response_that_nobody_took_is_not_complete_in_the_access_log() {
    let (upstream, directory) = (Upstream::start(), Directory::new());
    let log = directory.0.join("access.log");
    let more = format!("connections: {{write_timeout: 300ms}}\naccess_log: {{format: json, file: \"{}\"}}", text(&log));
    let gateway = clear(upstream.address, PLENTY, &more);
    let lines = |complete: bool| {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        lines.lines().filter(|line| line.contains(&format!("\"complete\":{complete}"))).count()
    };
    // No room for a byte: one leaves, the other does nothing.
    for (number, leaves) in [(1, true), (2, false)] {
        let mut wire = Wire::connect_with(gateway.address, &[(INITIAL_WINDOW_SIZE, 0)]);
        assert!(wire.send(&[Frame::request(1, &GET)]));
        assert_eq!(wire.outcome(1), Outcome::Status(200));
        if leaves {
            assert!(wire.send(&[Frame::reset(1)]));
        }
        wait_until("it has been logged", || lines(false) + lines(true) == number);
        assert_eq!(lines(false), number);
    }
    run(async { assert_eq!(ask(&mut session::h2c(gateway.address).await, get("/")).await.status, StatusCode::OK) });
    wait_until("a whole one is logged", || lines(true) == 1);
}
