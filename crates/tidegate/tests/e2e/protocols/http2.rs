//! HTTP/2 to clients, by ALPN and with prior knowledge, and TLS before either version.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame as BodyFrame;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt as _};

use crate::protocols::depot::Depot;
use crate::protocols::footprint::Footprint;
use crate::protocols::pattern::{Pattern, PatternBody};
use crate::protocols::session::{self, Http2, Whole, ask, for_http1, get, post, request, run};
use crate::protocols::transfer::{Length, download_h2, read_answer_h2, upload_h2};
use tidegate_testkit::authority::{Authority, Issued};
use tidegate_testkit::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, Outcome, RST_STREAM, Wire, block,
};
use tidegate_testkit::{Client, Directory, Gateway, OK, PATIENCE, Upstream, read_head, text, tidegate, wait_until};

const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 60}";

/// A gateway that takes HTTP/2 without TLS.
fn clear(upstream: SocketAddr, limit: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\n\
         upstreams: {{app: {{url: \"http://{upstream}\"}}}}\nlimits: {{default: {limit}}}\n{more}\n"
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

/// An upstream that answers when the gate is open.
fn gated() -> (Upstream, Arc<Gate>) {
    let gate: Arc<Gate> = Arc::default();
    let kept = Arc::clone(&gate);
    let upstream = Upstream::answering(move |_| {
        kept.pass();
        OK.to_vec()
    });
    (upstream, gate)
}

#[test]
fn the_version_is_the_one_that_client_and_gateway_agree_on() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        for (offered, chosen) in [
            (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
            (&["h2"], Some(b"h2")),
            (&["http/1.1"], Some(b"http/1.1")),
            (&[], None),
        ] {
            let stream = session::tls(secured.gateway.address, secured.authority.client(offered)).await;
            assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
            let (answer, via) = if chosen == Some(b"h2") {
                (ask(&mut session::http2(stream).await, get("/a?b=c")).await, "2.0 tidegate")
            } else {
                let sent = session::http1(stream).await.send_request(for_http1(get("/a?b=c"))).await;
                (Whole::of(sent.expect("an answer")).await, "1.1 tidegate")
            };
            assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"OK"[..]));
            let received = upstream.last();
            assert_eq!(received.line, "GET /a?b=c HTTP/1.1");
            assert_eq!(received.header("via"), Some(via));
            assert_eq!(received.header("x-forwarded-proto"), Some("https"));
            assert_eq!(received.header("x-forwarded-host"), Some("test.example"));
            assert_eq!(received.header("x-request-id"), answer.header("x-request-id"));
        }
        let neither = session::try_tls(secured.gateway.address, secured.authority.client(&["spdy/3"])).await;
        assert!(neither.is_err(), "what nobody offers is not spoken (RFC 7301 §3.2)");
    });
    assert_eq!(upstream.count(), 4);
}

#[test]
fn http_2_without_tls_is_spoken_where_it_is_allowed() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "");
    let answer = run(async { ask(&mut session::h2c(gateway.address).await, get("/h2")).await });
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(upstream.last().header("x-forwarded-proto"), Some("http"));
    assert_eq!(gateway.get("/h1").status, 200, "HTTP/1.1 is spoken on the same port");
    // What begins like the preface may still be HTTP/1.1, however it arrives.
    let mut slow = Client::connect(gateway.address);
    for byte in b"PRIVATE /x HTTP/1.1\r\nHost: test.example\r\n\r\n" {
        slow.send([*byte]);
    }
    assert_eq!(slow.answer().status, 200);
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
    let upstream = Upstream::answering(move |received| {
        // Nobody is answered before all are there.
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
        for (number, answer) in asked.into_iter().enumerate() {
            assert_eq!(answer.await.expect("no panic").body, format!("/{number}"), "answers are not mixed up");
        }
    });
}

#[test]
fn no_more_requests_are_under_way_on_one_connection_than_are_allowed() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, peak) = (Arc::clone(&now), Arc::clone(&most));
    let upstream = Upstream::answering(move |_| {
        peak.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(10));
        counting.fetch_sub(1, Ordering::SeqCst);
        OK.to_vec()
    });
    let gateway = clear(upstream.address, PLENTY, "connections: {max_streams: 2}");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        // With its answer the client knows what is allowed.
        assert_eq!(ask(&mut session, get("/")).await.status, StatusCode::OK);
        let asked: Vec<_> = (0..20)
            .map(|_| {
                let mut session = session.clone();
                tokio::spawn(async move { ask(&mut session, get("/")).await.status })
            })
            .collect();
        for answer in asked {
            assert_eq!(answer.await.expect("no panic"), StatusCode::OK);
        }
    });
    assert_eq!((upstream.count(), most.load(Ordering::SeqCst)), (21, 2));
}

#[test]
fn headers_arrive_as_they_were_sent() {
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Thing: y\r\n\
          Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n\r\nOK"
            .to_vec()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    let mut asked = get("/");
    asked.headers_mut().append("x-thing", "one".parse().expect("a value"));
    asked.headers_mut().append("x-thing", "two".parse().expect("a value"));
    asked.headers_mut().append("x-bytes", http::HeaderValue::from_bytes(b"\xc3\xa4").expect("a value"));
    let answer = run(async { ask(&mut session::h2c(gateway.address).await, asked).await });
    let received = upstream.last();
    let things: Vec<_> = received.headers.iter().filter(|(name, _)| name == "x-thing").collect();
    assert_eq!(things.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(received.header("x-bytes"), Some("ä"));
    assert_eq!(received.header("host"), Some(upstream.address.to_string().as_str()));
    assert!(!received.headers.iter().any(|(name, _)| name.starts_with(':')), "{received:?}");
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert_eq!(answer.header("x-thing"), Some("y"));
    // RFC 9113 §8.2.2: what concerns an HTTP/1.1 connection has no place in HTTP/2.
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "x-hop"] {
        assert_eq!(answer.headers.get(name), None, "{name}");
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
fn trailers_pass_both_ways() {
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\nTrailer: grpc-status, grpc-message\r\n\r\n\
          5\r\nhello\r\n0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\ncontent-length: 3\r\n\r\n"
            .to_vec()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", "abc".parse().expect("a value"));
    trailers.insert("authorization", "none".parse().expect("a value"));
    let frames = [BodyFrame::data(Bytes::from_static(b"question")), BodyFrame::trailers(trailers)];
    let body = Frames { frames: frames.into(), pauses: false };
    let mut asked = request("POST", "/service/Method", body.boxed());
    asked.headers_mut().insert("te", "trailers".parse().expect("a value"));
    asked.headers_mut().insert("content-type", "application/grpc".parse().expect("a value"));
    let answer = run(async { ask(&mut session::h2c(gateway.address).await, asked).await });
    assert_eq!((answer.header("content-type"), &answer.body[..]), (Some("application/grpc"), &b"hello"[..]));
    let trailers = answer.trailers.expect("trailers");
    assert_eq!(trailers.get("grpc-status").expect("a status"), "0");
    assert_eq!(trailers.get("grpc-message").expect("a message"), "fine");
    assert_eq!(trailers.get("content-length"), None, "framing has no place in trailers (RFC 9110 §6.5.1)");
    let received = upstream.last();
    assert_eq!(received.body, b"question");
    assert_eq!((received.header("te"), received.header("connection")), (Some("trailers"), Some("te")));
    let bytes = String::from_utf8(upstream.bytes().concat()).expect("text");
    assert!(bytes.ends_with("0\r\nx-checksum: abc\r\n\r\n"), "{bytes}");
}

/// An answer of gRPC that has nothing but trailers: they come as headers there.
#[test]
fn an_answer_may_have_trailers_and_no_body() {
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\ngrpc-status: 5\r\n\r\n".to_vec()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    let answer = run(async { ask(&mut session::h2c(gateway.address).await, get("/")).await });
    assert!(answer.body.is_empty());
    assert_eq!(answer.trailers.expect("trailers").get("grpc-status").expect("a status"), "5");
}

/// A body of these frames, which then ends, or pauses for ever.
struct Frames {
    frames: VecDeque<BodyFrame<Bytes>>,
    pauses: bool,
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        match self.frames.pop_front() {
            None if self.pauses => Poll::Pending,
            frame => Poll::Ready(frame.map(Ok)),
        }
    }
}

#[test]
fn bodies_pass_both_ways_with_and_without_a_length() {
    let upstream = Upstream::answering(|received| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", received.body.len()).as_bytes(), &received.body]
            .concat()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        for length in [0, 1, 5_000, 300_000] {
            for told in [true, false] {
                let mut asked = request("PUT", "/", PatternBody::new(length, told).boxed());
                if told {
                    asked.headers_mut().insert("content-length", length.into());
                }
                let answer = ask(&mut session, asked).await;
                assert_eq!(answer.body.len() as u64, length);
                assert!(Pattern::default().takes(&answer.body));
                assert_eq!(answer.header("content-length"), Some(length.to_string().as_str()));
                let received = upstream.last();
                let (coding, told_length) = (received.header("transfer-encoding"), received.header("content-length"));
                if told {
                    assert_eq!((coding, told_length), (None, Some(length.to_string().as_str())));
                } else {
                    assert_ne!(coding.is_some(), told_length.is_some(), "one of them frames the body: {received:?}");
                }
            }
        }
    });
}

#[test]
fn answers_without_a_body_stay_without() {
    let upstream = Upstream::answering(|received| {
        let status = received.line.split(['/', ' ']).nth(2).expect("a status").to_owned();
        match status.as_str() {
            "204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "304" => b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 7\r\n\r\n".to_vec(),
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n".to_vec(),
        }
    });
    let gateway = clear(upstream.address, PLENTY, "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        for (method, path, status) in [("HEAD", "/200", 200), ("GET", "/204", 204), ("GET", "/304", 304)] {
            let asked = request(method, path, http_body_util::Empty::new().boxed());
            let answer = ask(&mut session, asked).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (status, 0));
        }
        let head = ask(&mut session, request("HEAD", "/200", http_body_util::Empty::new().boxed())).await;
        assert_eq!(head.header("content-length"), Some("7"), "HEAD tells what GET would give");
    });
    assert_eq!(upstream.received().iter().map(|received| received.connection).max(), Some(0), "it was kept alive");
}

#[test]
fn a_refusal_is_told_in_full_and_the_connection_goes_on() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, "{algorithm: fixed, limit: 2, window: 3600}", "");
    run(async {
        let mut session = secured.http2().await;
        for left in ["1", "0"] {
            let answer = ask(&mut session, get("/")).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert_eq!(
                (answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")),
                (Some("2"), Some(left))
            );
            assert!(
                answer.header("ratelimit").is_some_and(|told| told.starts_with(&format!("\"default\";r={left};t=")))
            );
            assert_eq!(answer.header("ratelimit-policy"), Some("\"default\";q=2;w=3600"));
            assert!(answer.header("x-ratelimit-reset").is_some());
        }
        // The body that nobody wants does not stand in the way of what follows.
        for _ in 0..20 {
            let answer = ask(&mut session, post("/", vec![b'x'; 100_000])).await;
            assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert_eq!(answer.header("x-tidegate-refused-by"), Some("default"));
            assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
            let told = answer.json();
            assert_eq!(told["status"], 429);
            assert_eq!(told["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
            assert_eq!(told["violated-policies"][0], "default");
            assert_eq!(told["limit"]["quota"], 2);
            assert_eq!(told["retry_after"].to_string(), answer.header("retry-after").expect("a time"));
            assert_eq!(told["request_id"], answer.header("x-request-id").expect("an id"));
        }
    });
    assert_eq!(upstream.count(), 2);
}

/// A large body that is refused is not read to its end: the client is told and stops.
#[test]
fn a_refused_upload_is_not_read_to_its_end() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, "{algorithm: fixed, limit: 1, window: 3600}", "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        assert_eq!(ask(&mut session, get("/")).await.status, StatusCode::OK);
        session.ready().await.expect("it takes requests");
        let upload = request("POST", "/", PatternBody::new(u64::MAX, false).boxed());
        let answer = Whole::of(session.send_request(upload).await.expect("an answer")).await;
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
        let again = ask(&mut session, get("/")).await;
        assert_eq!(again.status, StatusCode::TOO_MANY_REQUESTS, "the connection goes on");
    });
    assert_eq!(upstream.count(), 1);
}

/// An answer may come before the body has: it is passed on at once, and the rest of the body is not wanted (RFC 9113
/// §8.1).
#[test]
fn an_upstream_that_answers_before_the_body_has_come_is_heard() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            read_head(&mut std::io::BufReader::new(&mut stream)).expect("a head");
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").expect("it takes them");
            // It goes on reading: only the gateway can end it.
            while stream.read(&mut [0; 4_096]).is_ok_and(|count| count > 0) {}
        }
    });
    let gateway = clear(address, PLENTY, "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        for _ in 0..5 {
            let endless = request("POST", "/", PatternBody::new(u64::MAX, false).boxed());
            let answer = ask(&mut session, endless).await;
            assert_eq!((answer.status, &answer.body[..]), (StatusCode::FORBIDDEN, &b"no"[..]));
        }
    });
}

/// A conversation, as gRPC has it: each message is answered before the next one is sent, so none may be held back.
#[test]
fn messages_pass_both_ways_at_once() {
    let depot = Depot::start();
    let gateway = clear(depot.address, PLENTY, "");
    run(async {
        let tcp = tokio::net::TcpStream::connect(gateway.address).await.expect("it listens");
        tcp.set_nodelay(true).expect("no delay");
        let (sender, connection) = h2::client::handshake(tcp).await.expect("HTTP/2");
        tokio::spawn(connection);
        let mut sender = sender.ready().await.expect("it takes requests");
        let head = http::Request::post("http://test.example/echo").body(()).expect("a head");
        let (answer, mut messages) = sender.send_request(head, false).expect("it takes it");
        let mut answer = answer.await.expect("an answer before the request has ended").into_body();
        for number in 0..1_000_u32 {
            messages.send_data(Bytes::copy_from_slice(&number.to_be_bytes()), false).expect("it takes it");
            let mut echoed = Vec::new();
            while echoed.len() < 4 {
                let data = answer.data().await.expect("more").expect("data");
                answer.flow_control().release_capacity(data.len()).expect("it was taken");
                echoed.extend_from_slice(&data);
            }
            assert_eq!(echoed, number.to_be_bytes());
        }
        messages.send_data(Bytes::new(), true).expect("it takes it");
        while let Some(rest) = answer.data().await {
            assert!(rest.expect("a proper end").is_empty());
        }
    });
}

/// So many frames at once come from an honest client that has much to say in little pieces.
#[test]
fn a_burst_of_small_messages_passes() {
    const MESSAGES: u32 = 1_500;
    let depot = Depot::start();
    let gateway = clear(depot.address, PLENTY, "");
    let mut wire = Wire::connect(gateway.address);
    let fields: [(&str, &[u8]); 4] =
        [(":method", b"POST"), (":scheme", b"http"), (":authority", b"test.example"), (":path", b"/echo")];
    let mut frames = vec![Frame::new(HEADERS, END_HEADERS, 1, block(&fields))];
    frames.extend((0..MESSAGES).map(|number| Frame::new(DATA, 0, 1, number.to_be_bytes())));
    frames.push(Frame::new(DATA, END_STREAM, 1, []));
    assert!(wire.send(&frames));
    let mut echoed = Vec::new();
    loop {
        let frame = wire.read().expect("the connection goes on");
        assert_ne!(frame.kind, GOAWAY, "{frame:?}");
        if frame.kind == DATA {
            echoed.extend_from_slice(&frame.payload);
            if frame.flags & END_STREAM != 0 {
                break;
            }
        }
    }
    assert_eq!(echoed, (0..MESSAGES).flat_map(u32::to_be_bytes).collect::<Vec<u8>>());
}

#[test]
fn a_client_that_cancels_gives_its_place_back() {
    let depot = Depot::start();
    let gateway = clear(depot.address, "{algorithm: concurrency, limit: 1}", "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        session.ready().await.expect("it takes requests");
        let mut answer = session.send_request(get("/download/chunked/1000000000000")).await.expect("an answer");
        assert!(answer.body_mut().frame().await.is_some_and(|frame| frame.is_ok()));
        let refused = ask(&mut session, get("/download/length/1")).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "the place is taken");
        drop(answer);
        let until = Instant::now() + PATIENCE;
        while ask(&mut session, get("/download/length/1")).await.status != StatusCode::OK {
            assert!(Instant::now() < until, "the place does not come back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn one_request_that_pauses_ends_alone() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "connections: {body_timeout: 300ms}");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        session.ready().await.expect("it takes requests");
        let paused = Frames { frames: [BodyFrame::data(Bytes::from_static(b"half"))].into(), pauses: true }.boxed();
        let asked = session.send_request(request("POST", "/paused", paused));
        let mut other = session.clone();
        let other = tokio::spawn(async move { ask(&mut other, get("/other")).await });
        assert_eq!(other.await.expect("no panic").status, StatusCode::OK);
        let answer = Whole::of(asked.await.expect("an answer")).await;
        assert_eq!(
            (answer.status, answer.json()["error"].as_str()),
            (StatusCode::REQUEST_TIMEOUT, Some("client_timeout"))
        );
        assert_eq!(ask(&mut session, get("/after")).await.status, StatusCode::OK, "the connection goes on");
    });
    assert!(upstream.received().iter().all(|received| received.line != "POST /paused HTTP/1.1"), "half a request");
}

#[test]
fn requests_under_way_end_and_no_more_are_taken_when_it_stops() {
    let (upstream, gate) = gated();
    let mut gateway = clear(upstream.address, PLENTY, "");
    let mut wire = Wire::connect(gateway.address);
    assert!(wire.send(&[Frame::request(1, &GET)]));
    wait_until("the request is under way", || upstream.count() == 1);
    gateway.signal("TERM");
    let goodbye = wire.read_until(GOAWAY).expect("it says that it goes");
    assert_eq!(&goodbye.payload[4..8], &[0; 4], "without an error");
    assert!(wire.settle());
    gate.open();
    assert_eq!(wire.outcome(1), Outcome::Status(200), "what was under way ends well");
    wire.wait_for_end();
    assert!(gateway.wait_for_end());
    assert_eq!(upstream.count(), 1);
}

const GET: [(&str, &[u8]); 4] =
    [(":method", b"GET"), (":scheme", b"http"), (":authority", b"test.example"), (":path", b"/")];

/// Prefaces and handshakes that are there when the order comes are gone through with, and so are the requests behind
/// them.
#[test]
fn who_has_begun_to_speak_when_it_stops_is_still_heard() {
    let upstream = Upstream::start();
    let mut gateway = clear(upstream.address, PLENTY, "");
    gateway.signal("STOP");
    let mut wires: Vec<Wire> = (0..20).map(|_| Wire::connect(gateway.address)).collect();
    for wire in &mut wires {
        assert!(wire.send(&[Frame::request(1, &GET)]));
    }
    gateway.signal("TERM");
    gateway.signal("CONT");
    for wire in &mut wires {
        assert_eq!(wire.outcome(1), Outcome::Status(200));
    }
    assert!(gateway.wait_for_end());

    let mut secured = Secured::before(upstream.address, PLENTY, "");
    secured.gateway.signal("STOP");
    run(async {
        // On HTTP/2 it would be told to go before it asks, which costs it nothing.
        let (address, config) = (secured.gateway.address, secured.authority.client(&["http/1.1"]));
        let mut shaking = Box::pin(session::try_tls(address, config));
        let hello = async {
            // As soon as it is connected it says hello, and waits.
            let until = Instant::now() + PATIENCE;
            while unread(address) == 0 {
                assert!(Instant::now() < until, "it says nothing");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = &mut shaking => panic!("it stands still"),
            () = hello => {}
        }
        secured.gateway.signal("TERM");
        secured.gateway.signal("CONT");
        let mut session = session::http1(shaking.await.expect("a handshake")).await;
        let answer = session.send_request(for_http1(get("/"))).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
    });
    assert!(secured.gateway.wait_for_end());
}

/// Bytes that lie at this address and have not been read, by the kernel.
fn unread(address: SocketAddr) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel tells");
    let port = format!(":{:04X}", address.port());
    let queued = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let of_port = fields.get(1).is_some_and(|local| local.ends_with(&port));
        let queue = fields.get(4).and_then(|queues| queues.split_once(':')).filter(|_| of_port && fields[3] == "01");
        queue.and_then(|(_, received)| u64::from_str_radix(received, 16).ok()).unwrap_or(0)
    };
    table.lines().skip(1).map(queued).sum()
}

#[test]
fn idle_connections_do_not_keep_it_from_stopping() {
    let upstream = Upstream::start();
    let mut secured = Secured::before(upstream.address, PLENTY, "");
    let mut gateway = clear(upstream.address, PLENTY, "");
    run(async {
        let (mut over_tls, mut in_clear) = (secured.http2().await, session::h2c(gateway.address).await);
        assert_eq!(ask(&mut over_tls, get("/")).await.status, StatusCode::OK);
        assert_eq!(ask(&mut in_clear, get("/")).await.status, StatusCode::OK);
        secured.gateway.signal("TERM");
        gateway.signal("TERM");
        // Nobody waits here for as long as the half minute that they may drain.
        assert!(secured.gateway.wait_for_end() && gateway.wait_for_end());
        assert!(over_tls.ready().await.is_err() && in_clear.ready().await.is_err());
    });
}

/// Who has connected and asked for nothing has no request under way, whatever the listener waits for: a preface, a
/// handshake, leave.
#[test]
fn silent_connections_do_not_keep_it_from_stopping() {
    const PATIENT: &str = "connections: {head_timeout: 1h, idle_timeout: 1h}\n";
    let upstream = Upstream::start();
    let mut secured = Secured::before(upstream.address, PLENTY, PATIENT);
    let mut gateway = clear(upstream.address, PLENTY, PATIENT);
    let silent = [Client::connect(gateway.address), Client::connect(secured.gateway.address)];
    assert_eq!(gateway.get("/").status, 200, "those before it have been accepted");
    let mut deaf = Wire::connect(gateway.address);
    assert!(deaf.settle());
    run(async {
        assert_eq!(ask(&mut secured.http2().await, get("/")).await.status, StatusCode::OK);
        let _mute = session::tls(secured.gateway.address, secured.authority.client(&["h2"])).await;
        gateway.signal("TERM");
        secured.gateway.signal("TERM");
        assert!(gateway.wait_for_end() && secured.gateway.wait_for_end());
    });
    for mut client in silent {
        assert!(client.is_closed());
    }
}

#[test]
fn a_new_certificate_is_shown_after_a_reload_and_old_connections_go_on() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        let mut before = secured.http2().await;
        assert_eq!(ask(&mut before, get("/")).await.status, StatusCode::OK);
        assert_eq!(shown(&secured).await, secured.issued.der().to_vec());

        let renewed = secured.authority.issue(&["localhost"]);
        Secured::listener(&secured.directory, &renewed);
        assert_eq!(shown(&secured).await, secured.issued.der().to_vec(), "not before it is told to");
        secured.gateway.signal("HUP");
        secured.gateway.wait_for_line("Reloaded the configuration");
        assert_eq!(shown(&secured).await, renewed.der().to_vec());
        assert_eq!(ask(&mut before, get("/")).await.status, StatusCode::OK, "the old connection goes on");

        // A key that does not fit changes nothing.
        secured.directory.file("key.pem", &secured.issued.key);
        secured.gateway.signal("HUP");
        secured.gateway.wait_for_line("the configuration was not reloaded, nothing has changed");
        assert_eq!(shown(&secured).await, renewed.der().to_vec());
        assert_eq!(ask(&mut before, get("/")).await.status, StatusCode::OK);
    });
}

/// The certificate that a new client is shown.
async fn shown(secured: &Secured) -> Vec<u8> {
    let stream = session::tls(secured.gateway.address, secured.authority.client(&["h2"])).await;
    stream.get_ref().1.peer_certificates().expect("a certificate")[0].to_vec()
}

#[test]
fn certificates_that_can_not_be_used_are_refused_at_the_start() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let (issued, other) = (authority.issue(&["localhost"]), authority.issue(&["localhost"]));
    let certificate = text(&directory.file("certificate.pem", &issued.certificate));
    let key = text(&directory.file("key.pem", &issued.key));
    let foreign = text(&directory.file("foreign.pem", &other.key));
    let empty = text(&directory.file("empty.pem", ""));
    let absent = text(&directory.0.join("absent.pem"));
    for (certificate, key, field, named) in [
        (&absent, &key, "listeners[0].tls.certificate", &absent),
        (&empty, &key, "listeners[0].tls.certificate", &empty),
        (&key, &key, "listeners[0].tls.certificate", &key),
        (&certificate, &absent, "listeners[0].tls.key", &absent),
        (&certificate, &empty, "listeners[0].tls.key", &empty),
        (&certificate, &foreign, "listeners[0].tls.key", &String::new()),
    ] {
        let tls = format!("{{certificate: \"{certificate}\", key: \"{key}\"}}");
        let told = refused_at_start(&format!("listeners: [{{address: \"127.0.0.1:0\", tls: {tls}}}]"));
        assert!(told.contains(field) && told.contains(named.as_str()), "{field}, {named}: {told}");
    }
}

/// Starts a gateway that must not start, and returns why it did not.
fn refused_at_start(config: &str) -> String {
    let directory = Directory::new();
    let path = directory.file("gateway.yaml", config);
    let mut command = tidegate();
    let command = command.arg("gateway").arg("--config").arg(&path).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let until = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().expect("it can be asked") {
            Some(status) => break status,
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            None => {
                let _killed = child.kill();
                panic!("it starts with {config}");
            }
        }
    };
    assert_eq!(status.code(), Some(2), "{config}");
    let mut told = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut told).expect("text");
    told
}

#[test]
fn a_handshake_that_does_not_come_is_not_waited_for() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "connections: {head_timeout: 300ms}");
    let mut silent = Client::connect(secured.gateway.address);
    assert!(silent.is_closed());
    // Part of a ClientHello, and no more.
    let mut partial = Client::connect(secured.gateway.address);
    partial.send(b"\x16\x03\x01\x02\x00\x01\x00");
    assert!(partial.is_closed());
    // HTTP where TLS is spoken.
    let mut plain = Client::connect(secured.gateway.address);
    plain.send("GET / HTTP/1.1\r\nHost: test.example\r\n\r\n");
    assert!(!String::from_utf8_lossy(&plain.read_to_end()).contains("200 OK"));
    run(async { assert_eq!(ask(&mut secured.http2().await, get("/")).await.status, StatusCode::OK) });
    assert_eq!(upstream.count(), 1);
}

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
        std::thread::sleep(Duration::from_millis(20));
    }
    silent.wait_for_end();
    chatty.wait_for_end();
    assert_eq!(upstream.count(), 0);
}

#[test]
fn http_1_over_tls_is_kept_alive() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        let stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
        let mut session = session::http1(stream).await;
        for length in [0, 1, 100_000] {
            session.ready().await.expect("it takes requests");
            let asked = for_http1(post("/", vec![b'x'; length]));
            let answer = Whole::of(session.send_request(asked).await.expect("an answer")).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert_eq!(upstream.last().body.len(), length);
        }
    });
}

#[test]
fn long_bodies_pass_over_tls() {
    const LENGTH: u64 = 64 << 20;
    let depot = Depot::start();
    let secured = Secured::before(depot.address, PLENTY, "");
    let path = format!("/download/chunked/{LENGTH}");
    run(async {
        let mut session = secured.http2().await;
        let before = Footprint::of(&secured.gateway);
        assert_eq!(download_h2(&mut session, &path).await, (LENGTH, true));
        let (upload, _) = upload_h2("/upload", LENGTH, Length::Untold);
        assert_eq!(ask(&mut session, upload).await.body, format!("{LENGTH} true"));

        let stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
        let mut session = session::http1(stream).await;
        let answer = session.send_request(for_http1(get(&path))).await.expect("an answer");
        assert_eq!(read_answer_h2(answer.into_body()).await, (LENGTH, true));
        for told in [Length::Told, Length::Untold] {
            session.ready().await.expect("it takes requests");
            let (upload, _) = upload_h2("/upload", LENGTH, told);
            let answer = session.send_request(for_http1(upload)).await.expect("an answer");
            assert_eq!(Whole::of(answer).await.body, format!("{LENGTH} true"));
        }
        before.assert_growth_below(20);
    });
}

/// TLS has buffers of its own: what lies in them has not been taken.
#[test]
fn a_reader_over_tls_that_takes_nothing_is_cut_off() {
    let depot = Depot::start();
    let limit = "{algorithm: concurrency, limit: 1}";
    let secured = Secured::before(depot.address, limit, "connections: {write_timeout: 500ms}");
    run(async {
        let mut stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
        let asked = b"GET /download/length/1000000000 HTTP/1.1\r\nHost: test.example\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, asked).await.expect("it takes them");
        tokio::task::block_in_place(|| wait_until("the answer is under way", || depot.written() > 0));
        let mut session = secured.http2().await;
        let until = Instant::now() + PATIENCE;
        while ask(&mut session, get("/download/length/1")).await.status != StatusCode::OK {
            assert!(Instant::now() < until, "its place does not come back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut taken = Vec::new();
        let ended = stream.read_to_end(&mut taken).await;
        assert!(ended.is_err() || taken.len() < 1_000_000_000, "the rest comes after all");
    });
}

/// What is left of an answer may fit into TLS' own buffer: then nothing but its flushing waits for the client.
#[test]
fn a_reader_over_tls_that_takes_all_but_the_last_bytes_is_cut_off() {
    let depot = Depot::start();
    let timeouts = "connections: {write_timeout: 300ms, idle_timeout: 300ms}";
    let secured = Secured::before(depot.address, PLENTY, timeouts);
    run(async {
        let mut streams = Vec::new();
        // How much the system keeps differs: of so many lengths, some end within the last buffer.
        for part in 0..60 {
            let mut stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
            let asked = format!("GET /download/length/{} HTTP/1.1\r\nHost: a\r\n\r\n", 2_000_000 + part * 50_000);
            tokio::io::AsyncWriteExt::write_all(&mut stream, asked.as_bytes()).await.expect("it takes them");
            streams.push(stream);
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let page = ask(&mut secured.http2().await, get("/actuator/prometheus")).await;
            if String::from_utf8_lossy(&page.body).contains("\ntidegate_requests_in_flight 1\n") {
                break;
            }
            assert!(Instant::now() < until, "some never end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

/// RFC 8446 §6.1: without `close_notify` nobody knows whether all has come.
#[test]
fn a_tls_connection_is_closed_as_tls_has_it() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        let config = secured.authority.client(&["http/1.1"]);
        let mut stream = session::tls(secured.gateway.address, config).await;
        let asked = b"GET / HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, asked).await.expect("it takes them");
        let mut answer = Vec::new();
        // rustls makes a missing `close_notify` an error.
        stream.read_to_end(&mut answer).await.expect("a proper end");
        assert!(answer.ends_with(b"OK"));
    });
}

#[test]
fn an_upstream_that_fails_is_told_on_http_2_too() {
    // Bound, so that nobody else is given the port, and not listened on.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let gateway = clear(socket.local_addr().expect("an address"), PLENTY, "");
    let answer = run(async { ask(&mut session::h2c(gateway.address).await, get("/")).await });
    assert_eq!((answer.status, answer.json()["error"].as_str()), (StatusCode::BAD_GATEWAY, Some("connect_failed")));
}

/// An answer that breaks off must not look whole.
#[test]
fn half_an_answer_is_not_taken_for_a_whole_one() {
    let upstream = Upstream::behaving(|received, stream| {
        let half: &[u8] = if received.line.contains("chunked") {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"
        };
        stream.write_all(half).expect("it takes them");
        false
    });
    let gateway = clear(upstream.address, PLENTY, "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        for path in ["/chunked", "/length"] {
            session.ready().await.expect("it takes requests");
            let answer = session.send_request(get(path)).await;
            if let Ok(answer) = answer {
                assert!(Whole::try_of(answer).await.is_err(), "{path}");
            }
        }
    });
}

/// RFC 9113 §8.2.3: cookies may come in crumbs; they are one field.
#[test]
fn many_crumbs_are_one_cookie_and_a_204_has_no_length() {
    let upstream =
        Upstream::answering(|_| b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec());
    let gateway = clear(upstream.address, PLENTY, "");
    let mut asked = get("/");
    for _ in 0..150 {
        asked.headers_mut().append("cookie", http::HeaderValue::from_static("a=b"));
    }
    let answer = run(async { ask(&mut session::h2c(gateway.address).await, asked).await });
    assert_eq!((answer.status, answer.headers.get("content-length")), (StatusCode::NO_CONTENT, None));
    assert_eq!(upstream.last().header("cookie").map(|cookie| cookie.matches("a=b").count()), Some(150));
}

#[test]
fn a_path_that_is_not_ascii_is_refused() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, PLENTY, "");
    let mut wire = Wire::connect(gateway.address);
    let fields: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", "/\u{e9}".as_bytes())];
    wire.send(&[Frame::request(1, &fields)]);
    assert!(wire.outcome(1).is_refusal());
    assert_eq!(upstream.count(), 0);
}

/// `write_timeout` is the longest pause, not the time for a piece of an answer: on a slow line a piece takes long.
#[test]
fn a_slow_reader_that_takes_bytes_is_not_cut_off() {
    const LENGTH: usize = 200_000;
    let upstream = Upstream::answering(|_| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n").as_bytes(), &vec![b'x'; LENGTH]].concat()
    });
    let gateway = clear(upstream.address, PLENTY, "connections: {write_timeout: 2s}");
    let mut wire = Wire::connect_with(gateway.address, &[(INITIAL_WINDOW_SIZE, 100)]);
    assert!(wire.send(&[Frame::request(1, &GET), Frame::window_update(0, 1_000_000)]));
    let (started, mut taken) = (Instant::now(), 0);
    while taken < LENGTH {
        let frame = wire.read().expect("the connection goes on");
        assert!(frame.kind != RST_STREAM && frame.kind != GOAWAY, "cut off after {taken} bytes: {frame:?}");
        if frame.kind != DATA {
            continue;
        }
        taken += frame.payload.len();
        // A little at a time for longer than the timeout, which never comes to a pause of that length. Then all the
        // rest.
        let more = if started.elapsed() < Duration::from_secs(4) { 100 } else { LENGTH as u32 };
        std::thread::sleep(Duration::from_millis(if more == 100 { 50 } else { 0 }));
        assert!(wire.send(&[Frame::window_update(1, more)]));
    }
    assert_eq!(taken, LENGTH);
}

/// An answer is complete when its last byte has gone, not when there is somebody to give it to.
#[test]
fn an_answer_that_nobody_took_is_not_complete_in_the_access_log() {
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

/// Whoever has agreed on HTTP/2 and speaks something else was left without a word.
#[test]
fn what_is_not_http_2_over_tls_is_answered_in_http_2() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    let answer = run(async {
        let mut stream = session::tls(secured.gateway.address, secured.authority.client(&["h2"])).await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: test.example\r\n\r\n").await.expect("it takes them");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("it ends as TLS has it");
        answer
    });
    let is = |frame: &[u8], kind: u8| frame.get(3) == Some(&kind);
    let settings = 9 + usize::from(answer[2]);
    assert!(is(&answer, tidegate_testkit::frames::SETTINGS), "{}", answer.escape_ascii());
    let goaway = &answer[settings..];
    assert!(is(goaway, tidegate_testkit::frames::GOAWAY), "{}", answer.escape_ascii());
    assert_eq!(goaway[13..17], tidegate_testkit::frames::PROTOCOL_ERROR.to_be_bytes());
    assert_eq!(upstream.count(), 0);
}
