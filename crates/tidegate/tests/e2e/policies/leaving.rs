//! Clients that leave while their request waits, at each wait of its way: nothing stays taken.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

use super::{breaker, gateway, gateway_with, metric, state, statuses, with_status};
use crate::framing::origin::Silent;

fn send(gateway: &Gateway, head: &str) -> Client {
    let mut client = Client::connect(gateway.address);
    client.send(format!("{head} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

/// Requests under way, without the one that asks.
fn in_flight(gateway: &Gateway) -> u64 {
    gateway.metric("tidegate_requests_in_flight").expect("it is there") as u64 - 1
}

fn assert_all_free(gateway: &Gateway) {
    wait_until("no request is under way", || in_flight(gateway) == 0);
    assert_eq!(metric(gateway, "tidegate_bulkhead_in_flight", ""), 0);
    assert_eq!(metric(gateway, "tidegate_bulkhead_waiting", ""), 0);
    let endpoint = &gateway.get("/config/upstreams/app").json()["endpoints"][0];
    assert_eq!(endpoint["inFlight"], 0);
    wait_until("no body is in memory", || gateway.metric("tidegate_buffered_bytes") == Some(0.0));
}

const EVERYTHING: &str = "timeout: 3h, attempt_timeout: 30m, retry: {attempts: 3, base: 1h, max: 1h, jitter: none, \
                          budget: {floor: 100}}, breaker: {window: 100, minimum: 100}, \
                          bulkhead: {limit: 1, queue: 1, wait: 1h}";

/// An upstream that responds to nothing until it may.
fn held() -> (Upstream, Arc<AtomicBool>, mpsc::Sender<()>) {
    let (sender, receiver) = mpsc::channel();
    let (free, receiver) = (Arc::new(AtomicBool::new(false)), Mutex::new(receiver));
    let is_free = Arc::clone(&free);
    let upstream = Upstream::behaving(move |_, stream| {
        if !is_free.load(Ordering::Relaxed) {
            let _told: Result<(), _> = receiver.lock().expect("no panic").recv();
            return false;
        }
        stream.write_all(&with_status(200)).is_ok()
    });
    (upstream, free, sender)
}

#[test]
fn while_it_waits_for_the_head_of_a_response() {
    let (upstream, free, _sender) = held();
    let gateway = gateway(&[upstream.address], EVERYTHING);
    for head in ["GET /", "DELETE /", "POST /"] {
        let before = upstream.count();
        let client = send(&gateway, head);
        wait_until("it is sent", || upstream.count() > before);
        assert_eq!(metric(&gateway, "tidegate_bulkhead_in_flight", ""), 1);
        client.close();
        assert_all_free(&gateway);
    }
    assert_eq!(breaker(&gateway)["attempts"], 0, "that says nothing about the upstream");
    free.store(true, Ordering::Relaxed);
    assert_eq!(statuses(&gateway, 2), [200; 2]);
}

#[test]
fn while_it_waits_for_a_slot() {
    let (upstream, free, _sender) = held();
    let gateway = gateway(&[upstream.address], EVERYTHING);
    let first = send(&gateway, "GET /");
    wait_until("it is in flight", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 1);
    for _ in 0..3 {
        let second = send(&gateway, "GET /");
        wait_until("it waits", || metric(&gateway, "tidegate_bulkhead_waiting", "") == 1);
        second.close();
        wait_until("it has left", || metric(&gateway, "tidegate_bulkhead_waiting", "") == 0);
    }
    assert_eq!(metric(&gateway, "tidegate_bulkhead_rejected_total", ",reason=\"wait\""), 0, "nobody was rejected");
    first.close();
    assert_all_free(&gateway);
    free.store(true, Ordering::Relaxed);
    assert_eq!(statuses(&gateway, 2), [200; 2]);
}

/// Nothing is held in a pause, so nothing can leak there; it must not be sent afterwards either.
#[test]
fn while_it_pauses_before_another_attempt() {
    let (upstream, _) = super::settable(500);
    let gateway = gateway(&[upstream.address], EVERYTHING);
    for (round, request) in
        (1..).zip(["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"])
    {
        let mut client = Client::connect(gateway.address);
        client.send(request);
        let is_in_flight = || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 1;
        wait_until("it pauses", || upstream.count() == round && in_flight(&gateway) == 1 && !is_in_flight());
        client.close();
        assert_all_free(&gateway);
    }
    assert_eq!(upstream.count(), 2);
}

#[test]
fn while_it_waits_for_the_head_of_another_attempt() {
    let turn = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let upstream = Upstream::behaving(move |_, stream| {
        if turn.fetch_add(1, Ordering::Relaxed) == 0 {
            return stream.write_all(&with_status(503)).is_ok();
        }
        let _told = receiver.lock().expect("no panic").recv();
        false
    });
    let gateway = gateway(&[upstream.address], &EVERYTHING.replace("base: 1h", "base: 1ms"));
    let mut client = Client::connect(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    wait_until("it is sent again", || upstream.count() == 2);
    client.close();
    assert_all_free(&gateway);
    assert_eq!(breaker(&gateway)["attempts"], 1, "the first attempt");
    drop(sender);
}

#[test]
fn while_its_body_comes() {
    let (upstream, free, _sender) = held();
    let gateway = gateway(&[upstream.address], &EVERYTHING.replace("base: 1h", "base: 1ms"));
    for length in [10, 100_000] {
        let mut client = Client::connect(gateway.address);
        client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nhello"));
        wait_until("it is under way", || in_flight(&gateway) >= 1);
        client.close();
        assert_all_free(&gateway);
    }
    free.store(true, Ordering::Relaxed);
    assert_eq!((breaker(&gateway)["attempts"].as_u64(), statuses(&gateway, 1)), (Some(0), vec![200]));
}

/// A probe whose client leaves says nothing, and makes room for another one: the breaker would otherwise wait for it.
#[test]
fn while_it_is_a_probe() {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let upstream = Upstream::behaving(move |received, stream| {
        if received.line.contains("hang") {
            let _told = receiver.lock().expect("no panic").recv();
            return false;
        }
        stream.write_all(&with_status(if received.line.contains("fail") { 500 } else { 200 })).is_ok()
    });
    let policy = "breaker: {consecutive: 1, open: 50ms, probes: 1, probe_timeout: 1h}, bulkhead: {limit: 9}";
    let gateway = gateway(&[upstream.address], policy);
    assert_eq!(gateway.get("/fail").status, 500);
    let mut client = send(&gateway, "GET /hang");
    wait_until("a probe is sent", || {
        if upstream.count() == 2 {
            return true;
        }
        if client.has_response() {
            client = send(&gateway, "GET /hang");
        }
        false
    });
    assert_eq!((gateway.get("/").status, state(&gateway).as_str()), (503, "half_open"));
    client.close();
    assert_all_free(&gateway);
    wait_until("another probe passes", || gateway.get("/").status == 200);
    assert_eq!(state(&gateway), "closed");
    drop(sender);
}

/// The response is still coming: the slot is given back with it.
#[test]
fn while_the_body_of_the_response_comes() {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let upstream = Upstream::behaving(move |_, stream| {
        let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello");
        let _told = receiver.lock().expect("no panic").recv();
        false
    });
    let gateway = gateway(&[upstream.address], EVERYTHING);
    let mut client = send(&gateway, "GET /");
    wait_until("it has begun", || client.has_response());
    assert_eq!(metric(&gateway, "tidegate_bulkhead_in_flight", ""), 1);
    client.close();
    assert_all_free(&gateway);
    assert_eq!(breaker(&gateway)["failures"], 0);
    drop(sender);
}

#[test]
fn while_it_connects() {
    let silent = Silent::new();
    let gateway = gateway_with(&[silent.address], EVERYTHING, "connect_timeout: 60s", "");
    for request in ["GET /", "POST /"] {
        let client = send(&gateway, request);
        let open = || gateway.metric("tidegate_upstream_connections{service=\"app\"}");
        wait_until("it connects", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 1 && open() == Some(1.0));
        client.close();
        assert_all_free(&gateway);
    }
    assert_eq!(breaker(&gateway)["attempts"], 0);
    drop(silent);
}

/// The first endpoint can't be reached in time, and the second neither: its client leaves while the second is tried.
#[test]
fn while_it_goes_elsewhere() {
    let (first, second) = (Silent::new(), Silent::new());
    let upstream = "connect_timeout: 200ms, balance: round_robin";
    let gateway = gateway_with(&[first.address, second.address], EVERYTHING, upstream, "");
    let client = send(&gateway, "GET /");
    wait_until("the first has failed", || breaker(&gateway)["failures"] == 1);
    assert_eq!(metric(&gateway, "tidegate_bulkhead_in_flight", ""), 1, "it keeps its slot");
    client.close();
    assert_all_free(&gateway);
    assert!(breaker(&gateway)["attempts"].as_u64() <= Some(2));
}

/// It has the breaker's permission, and no slot yet.
#[test]
fn while_a_shaper_of_the_upstream_delays_it() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "workers: 2\npolicies: {{p: {{{EVERYTHING}}}}}\n\
         upstreams: {{app: {{url: \"http://{}\", policy: p, limits: [queue]}}}}\n\
         limits: {{queue: {{algorithm: leaky, capacity: 1, fillRate: 0.01}}, \
         default: {{algorithm: fixed, limit: 99, window: 60}}}}\n",
        upstream.address
    ));
    assert_eq!(gateway.get("/").status, 200);
    let admitted = || {
        let name = "tidegate_limit_requests_total{limit=\"queue\",decision=\"admitted\"}";
        gateway.metric(name).expect("it is there") as u64
    };
    // There is one place in the queue: each gets it, because those who left have given it back.
    for round in 2..=4 {
        let client = send(&gateway, "GET /");
        wait_until("it waits", || admitted() == round);
        assert_eq!(metric(&gateway, "tidegate_bulkhead_in_flight", ""), 0);
        client.close();
        assert_all_free(&gateway);
    }
    assert_eq!(upstream.count(), 1);
}
