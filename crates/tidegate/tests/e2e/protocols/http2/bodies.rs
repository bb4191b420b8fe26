//! Bodies and trailers of HTTP/2, both ways.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame as BodyFrame;
use http_body_util::BodyExt;

use super::{GET, PLENTY, clear};
use crate::protocols::depot::Depot;
use crate::protocols::pattern::{Pattern, PatternBody};
use crate::protocols::session::{self, Whole, ask, get, request, run};
use tidegate_testkit::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, Wire, block,
};
use tidegate_testkit::{Upstream, pause, read_head};

#[test]
fn trailers_pass_both_ways() {
    let upstream = Upstream::responding(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\
          Trailer: grpc-status, grpc-message\r\n\r\n\
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
    let response = run(async { ask(&mut session::h2c(gateway.address).await, asked).await });
    assert_eq!((response.header("content-type"), &response.body[..]), (Some("application/grpc"), &b"hello"[..]));
    let trailers = response.trailers.expect("trailers");
    assert_eq!(trailers.get("grpc-status").expect("a status"), "0");
    assert_eq!(trailers.get("grpc-message").expect("a message"), "fine");
    assert_eq!(trailers.get("content-length"), None, "framing has no place in trailers (RFC 9110 §6.5.1)");
    let received = upstream.last();
    assert_eq!(received.body, b"question");
    assert_eq!((received.header("te"), received.header("connection")), (Some("trailers"), Some("te")));
    let bytes = String::from_utf8(upstream.bytes().concat()).expect("text");
    assert!(bytes.ends_with("0\r\nx-checksum: abc\r\n\r\n"), "{bytes}");
}

/// A response of gRPC that has nothing but trailers: they come as headers there.
#[test]
fn a_response_may_have_trailers_and_no_body() {
    let upstream = Upstream::responding(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\ngrpc-status: 5\r\n\r\n".to_vec()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    let response = run(async { ask(&mut session::h2c(gateway.address).await, get("/")).await });
    assert!(response.body.is_empty());
    assert_eq!(response.trailers.expect("trailers").get("grpc-status").expect("a status"), "5");
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
    let upstream = Upstream::responding(|received| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", received.body.len()).as_bytes(), &received.body]
            .concat()
    });
    let gateway = clear(upstream.address, PLENTY, "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        for length in [0, 1, 5_000, 300_000] {
            for reported in [true, false] {
                let mut asked = request("PUT", "/", PatternBody::new(length, reported).boxed());
                if reported {
                    asked.headers_mut().insert("content-length", length.into());
                }
                let response = ask(&mut session, asked).await;
                assert_eq!(response.body.len() as u64, length);
                assert!(Pattern::default().takes(&response.body));
                assert_eq!(response.header("content-length"), Some(length.to_string().as_str()));
                let received = upstream.last();
                let (coding, declared_length) =
                    (received.header("transfer-encoding"), received.header("content-length"));
                if reported {
                    assert_eq!((coding, declared_length), (None, Some(length.to_string().as_str())));
                } else {
                    assert_ne!(
                        coding.is_some(),
                        declared_length.is_some(),
                        "one of them frames the body: {received:?}"
                    );
                }
            }
        }
    });
}

#[test]
fn responses_without_a_body_stay_without() {
    let upstream = Upstream::responding(|received| {
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
            let response = ask(&mut session, asked).await;
            assert_eq!((response.status.as_u16(), response.body.len()), (status, 0));
        }
        let head = ask(&mut session, request("HEAD", "/200", http_body_util::Empty::new().boxed())).await;
        assert_eq!(head.header("content-length"), Some("7"), "HEAD tells what GET would give");
    });
    assert_eq!(upstream.received().iter().map(|received| received.connection).max(), Some(0), "it was kept alive");
}

/// A large body that is rejected is not read to its end: the client learns that and stops.
#[test]
fn a_rejected_upload_is_not_read_to_its_end() {
    let upstream = Upstream::start();
    let gateway = clear(upstream.address, "{algorithm: fixed, limit: 1, window: 3600}", "");
    run(async {
        let mut session = session::h2c(gateway.address).await;
        assert_eq!(ask(&mut session, get("/")).await.status, StatusCode::OK);
        session.ready().await.expect("it takes requests");
        let upload = request("POST", "/", PatternBody::new(u64::MAX, false).boxed());
        let response = Whole::of(session.send_request(upload).await.expect("an answer")).await;
        assert_eq!(response.status, StatusCode::TOO_MANY_REQUESTS);
        let again = ask(&mut session, get("/")).await;
        assert_eq!(again.status, StatusCode::TOO_MANY_REQUESTS, "the connection goes on");
    });
    assert_eq!(upstream.count(), 1);
}

/// A response may come before the body has: it is passed on at once, and the rest of the body is not wanted (RFC 9113
/// §8.1).
#[test]
fn the_response_of_an_upstream_before_the_body_has_come_is_passed_on() {
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
            let response = ask(&mut session, endless).await;
            assert_eq!((response.status, &response.body[..]), (StatusCode::FORBIDDEN, &b"no"[..]));
        }
    });
}

/// A conversation, as gRPC has it: each message gets a response before the next one is sent, so none may be held back.
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
        let (response, mut messages) = sender.send_request(head, false).expect("it takes it");
        let mut response = response.await.expect("an answer before the request has ended").into_body();
        for number in 0..1_000_u32 {
            messages.send_data(Bytes::copy_from_slice(&number.to_be_bytes()), false).expect("it takes it");
            let mut echoed = Vec::new();
            while echoed.len() < 4 {
                let data = response.data().await.expect("more").expect("data");
                response.flow_control().release_capacity(data.len()).expect("it was taken");
                echoed.extend_from_slice(&data);
            }
            assert_eq!(echoed, number.to_be_bytes());
        }
        messages.send_data(Bytes::new(), true).expect("it takes it");
        while let Some(rest) = response.data().await {
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
        let response = Whole::of(asked.await.expect("an answer")).await;
        assert_eq!(
            (response.status, response.json()["error"].as_str()),
            (StatusCode::REQUEST_TIMEOUT, Some("client_timeout"))
        );
        assert_eq!(ask(&mut session, get("/after")).await.status, StatusCode::OK, "the connection goes on");
    });
    assert!(upstream.received().iter().all(|received| received.line != "POST /paused HTTP/1.1"), "half a request");
}

/// A response that breaks off must not look whole.
#[test]
fn half_a_response_is_not_taken_for_a_whole_one() {
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
            let response = session.send_request(get(path)).await;
            if let Ok(response) = response {
                assert!(Whole::try_of(response).await.is_err(), "{path}");
            }
        }
    });
}

/// `write_timeout` is the longest pause, not the time for a piece of a response: on a slow line a piece takes long.
#[test]
fn a_slow_reader_that_takes_bytes_is_not_cut_off() {
    const LENGTH: usize = 200_000;
    let upstream = Upstream::responding(|_| {
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
        pause(Duration::from_millis(if more == 100 { 50 } else { 0 }));
        assert!(wire.send(&[Frame::window_update(1, more)]));
    }
    assert_eq!(taken, LENGTH);
}
