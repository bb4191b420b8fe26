//! Policies together with what else the gateway does: HTTP/2, HEAD, WebSocket, `Expect`, long bodies, hashing,
//! reserves.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use tidegate_testkit::{Client, Gateway, OK, Received, Upstream, request, wait_until};

use super::{breaker, config, gateway, gateway_with, metric, settable, statuses, with_status};
use crate::protocols::session::{ask, h2c, post, request as h2_request, run};

/// Every first attempt fails, every second succeeds.
fn every_second_succeeds() -> Upstream {
    let turn = AtomicUsize::new(0);
    Upstream::responding(move |_| {
        with_status(if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { 503 } else { 200 })
    })
}

fn over_http2(upstream: &Upstream, policy: &str) -> Gateway {
    let file = config(&[upstream.address], policy, "", "");
    Gateway::start(&format!("listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\n{file}"))
}

fn last_two(upstream: &Upstream) -> [Received; 2] {
    let mut received = upstream.received();
    let second = received.pop().expect("two attempts");
    [received.pop().expect("two attempts"), second]
}

#[test]
fn bodies_over_http2_are_sent_again_whole() {
    let upstream = every_second_succeeds();
    let gateway = over_http2(&upstream, "retry: {base: 1ms, idempotency_key: idempotency-key}");
    run(async {
        let mut session = h2c(gateway.address).await;
        let large = "x".repeat(60_000);
        for body in ["hello", large.as_str()] {
            let response = ask(&mut session, h2_request("PUT", "/", Full::new(body.to_owned().into()).boxed())).await;
            assert_eq!((response.status, response.header("x-tidegate-attempts")), (StatusCode::OK, Some("2")));
            for attempt in last_two(&upstream) {
                assert!(attempt.body == body.as_bytes(), "{} bytes", attempt.body.len());
            }
        }
        // Without a length in its head.
        let pieces = Pieces(["hello ", "world"].map(|piece| Frame::data(piece.into())).into_iter());
        let response = ask(&mut session, h2_request("PUT", "/", pieces.boxed())).await;
        assert_eq!(response.status, StatusCode::OK);
        for attempt in last_two(&upstream) {
            assert_eq!(attempt.body, b"hello world");
        }
        let before = upstream.count();
        let response = ask(&mut session, post("/", "pay")).await;
        assert_eq!((response.status, upstream.count() - before), (StatusCode::SERVICE_UNAVAILABLE, 1));
        // The next attempt succeeds, the one after it fails, and so on.
        for attempts in ["1", "2"] {
            let mut with_key = post("/", "pay");
            with_key.headers_mut().insert("idempotency-key", "7".parse().expect("a value"));
            let response = ask(&mut session, with_key).await;
            assert_eq!((response.status, response.header("x-tidegate-attempts")), (StatusCode::OK, Some(attempts)));
        }
    });
    wait_until("no body is in memory", || gateway.metric("tidegate_buffered_bytes") == Some(0.0));
}

/// A body in pieces that are there already.
struct Pieces(std::array::IntoIter<Frame<Bytes>, 2>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(Ok))
    }
}

#[test]
fn a_head_request_is_repeated_and_has_no_body() {
    let upstream = Upstream::behaving({
        let turn = AtomicUsize::new(0);
        move |_, stream| {
            let status = if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { 503 } else { 200 };
            let head = format!("HTTP/1.1 {status} Any\r\nContent-Length: 1000\r\n\r\n");
            stream.write_all(head.as_bytes()).is_ok()
        }
    });
    let gateway = gateway(&[upstream.address], "retry: {base: 1ms}, bulkhead: {limit: 1}");
    for _ in 0..3 {
        let response = request(gateway.address, "HEAD", "/", &[], b"");
        assert_eq!((response.status, response.header("content-length")), (200, Some("1000")));
        assert_eq!(response.header("x-tidegate-attempts"), Some("2"));
    }
}

/// A WebSocket uses the upstream as long as it lasts. How it ends says nothing about the upstream.
#[test]
fn an_upgraded_connection_holds_its_slot_until_it_ends() {
    let upstream = Upstream::behaving(|received, stream| {
        if received.header("upgrade").is_none() {
            return stream.write_all(OK).is_ok();
        }
        let switching = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(switching).expect("it takes them");
        let mut piece = [0; 64];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            stream.write_all(&piece[..count]).expect("it takes them");
        }
        false
    });
    let policy = "timeout: 300ms, attempt_timeout: 300ms, retry: {}, breaker: {consecutive: 1}, bulkhead: {limit: 1}";
    let gateway = gateway(&[upstream.address], policy);
    for _ in 0..2 {
        let mut client = Client::connect(gateway.address);
        client.send("GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert_eq!(client.response().status, 101);
        assert_eq!(metric(&gateway, "tidegate_bulkhead_in_flight", ""), 1);
        // Longer than the timeouts, which are over with the head.
        tidegate_testkit::pause(std::time::Duration::from_millis(400));
        assert_eq!(gateway.get("/").status, 503);
        client.send("hello");
        let mut echoed = [0; 5];
        client.stream.read_exact(&mut echoed).expect("it is echoed");
        assert_eq!(&echoed, b"hello");
        client.close();
        wait_until("the slot is free", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 0);
        assert_eq!(gateway.get("/").status, 200);
    }
    assert_eq!(breaker(&gateway)["failures"], 0);
}

/// The upstream decides whether it wants the body, so it is not read before: what was sent of it is gone.
#[test]
fn a_request_that_expects_100_continue_is_not_repeated() {
    let (upstream, _) = settable(503);
    let gateway = gateway(&[upstream.address], "retry: {base: 1ms}");
    let mut client = Client::connect(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.response().status, 100);
    client.send("hello");
    let response = client.response();
    assert_eq!((response.status, upstream.count()), (503, 1));
    assert_eq!(metric(&gateway, "tidegate_retries_denied_total", ",reason=\"unsafe\""), 1);
}

#[test]
fn a_body_longer_than_the_buffer_is_sent_once() {
    let (upstream, _) = settable(503);
    let gateway = gateway_with(&[upstream.address], "retry: {base: 1ms}", "request_buffer_bytes: 1000", "");
    for (length, attempts) in [(999, "3"), (100_000, "1")] {
        let response = request(gateway.address, "PUT", "/", &[], "x".repeat(length).as_bytes());
        assert_eq!((response.status, response.header("x-tidegate-attempts")), (503, Some(attempts)), "{length}");
    }
    assert_eq!(upstream.count(), 4);
    wait_until("no body is in memory", || gateway.metric("tidegate_buffered_bytes") == Some(0.0));
}

/// Affinity is worth less than a response.
#[test]
fn another_attempt_leaves_the_endpoint_of_its_hash() {
    let (bad, _) = settable(503);
    let (good, _) = settable(200);
    let policy = "retry: {attempts: 2, base: 1ms, budget: {share: 1}}";
    let gateway = gateway_with(&[bad.address, good.address], policy, "balance: hash, hash_key: \"header:x-key\"", "");
    for key in 0..20 {
        let response = gateway.get_with("/", &[("x-key", &key.to_string())]);
        assert_eq!(response.status, 200, "{key}");
    }
    assert!(bad.count() > 0, "some keys are its own");
}

/// A reserve gets what fails elsewhere.
#[test]
fn another_attempt_goes_to_a_reserve_if_there_is_nothing_else() {
    let (bad, _) = settable(503);
    let (reserve, _) = settable(200);
    let gateway = Gateway::start(&format!(
        "workers: 2\npolicies: {{p: {{retry: {{base: 1ms}}}}}}\nupstreams:\n  app:\n    policy: p\n    \
         endpoints: [\"http://{}\", {{url: \"http://{}\", weight: 0}}]\n    \
         ejection: {{consecutive_failures: 0}}\nlimits: {{default: {{algorithm: fixed, limit: 99, window: 60}}}}\n",
        bad.address, reserve.address
    ));
    assert_eq!(statuses(&gateway, 5), [200; 5]);
    assert_eq!((bad.count(), reserve.count()), (5, 5));
}
