//! Bulkheads: how many attempts are in flight, who waits, and that one full bulkhead is nobody else's trouble.

use std::io::Write as _;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidegate_testkit::{Client, Gateway, Upstream, pause, wait_until};

use super::{gateway, gateway_with, metric, with_status};

/// An upstream that responds to a request when it is told to.
fn held() -> (Upstream, mpsc::Sender<()>) {
    let (sender, receiver) = mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let upstream = Upstream::behaving(move |_, stream| {
        let _told = receiver.lock().expect("no panic").recv();
        stream.write_all(&with_status(200)).is_ok()
    });
    (upstream, sender)
}

fn send(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client
}

fn in_flight(gateway: &Gateway) -> u64 {
    metric(gateway, "tidegate_bulkhead_in_flight", "")
}

fn waiting(gateway: &Gateway) -> u64 {
    metric(gateway, "tidegate_bulkhead_waiting", "")
}

/// Over connections of their own, so both workers have some: the bound is that of the process.
#[test]
fn its_limit_is_never_exceeded_and_the_rest_is_rejected() {
    let (upstream, respond) = held();
    let gateway = gateway(&[upstream.address], "bulkhead: {limit: 3}");
    let mut admitted: Vec<Client> = (0..3).map(|_| send(&gateway)).collect();
    wait_until("three are in flight", || upstream.count() == 3);
    for _ in 0..5 {
        let rejected = gateway.get("/");
        assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("1")));
        assert_eq!(rejected.json()["error"], "bulkhead_full");
    }
    assert_eq!((in_flight(&gateway), metric(&gateway, "tidegate_bulkhead_limit", "")), (3, 3));
    assert_eq!(metric(&gateway, "tidegate_bulkhead_rejected_total", ",reason=\"full\""), 5);
    assert_eq!(gateway.metric("tidegate_responses_total{source=\"bulkhead\"}"), Some(5.0));
    (0..3).for_each(|_| respond.send(()).expect("the upstream waits"));
    for client in &mut admitted {
        assert_eq!(client.response().status, 200);
    }
    wait_until("all slots are free", || in_flight(&gateway) == 0);
    assert_eq!(upstream.count(), 3);
}

#[test]
fn its_queue_is_served_in_order_and_bounded() {
    let (upstream, respond) = held();
    let gateway = gateway(&[upstream.address], "bulkhead: {limit: 1, queue: 2, wait: 1m}");
    let mut clients = Vec::new();
    for number in 0..3 {
        clients.push(send(&gateway));
        wait_until("it is in flight or waits", || in_flight(&gateway) + waiting(&gateway) == number + 1);
    }
    assert_eq!((gateway.get("/").json()["error"].clone(), waiting(&gateway)), ("bulkhead_full".into(), 2));
    for (served, client) in (1..).zip(&mut clients) {
        assert_eq!(upstream.count(), served, "one after the other");
        respond.send(()).expect("the upstream waits");
        assert_eq!(client.response().status, 200);
        wait_until("the next is sent", || upstream.count() == 3.min(served + 1));
    }
    wait_until("all is free", || in_flight(&gateway) + waiting(&gateway) == 0);
}

#[test]
fn a_wait_ends_in_time() {
    let (upstream, respond) = held();
    for (policy, status, error) in [
        ("bulkhead: {limit: 1, queue: 5, wait: 100ms}", 503, "bulkhead_timeout"),
        // The request's own time is shorter.
        ("timeout: 100ms, bulkhead: {limit: 1, queue: 5, wait: 1h}", 503, "bulkhead_timeout"),
    ] {
        let gateway = gateway_with(&[upstream.address], policy, "request_buffer_bytes: 0", "");
        let mut first = Client::connect(gateway.address);
        // As long as its body comes, it has no bound of time.
        first.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh");
        wait_until("it is in flight", || in_flight(&gateway) == 1);
        let late = gateway.get("/");
        assert_eq!((late.status, late.json()["error"].as_str()), (status, Some(error)), "{policy}");
        assert_eq!(metric(&gateway, "tidegate_bulkhead_rejected_total", ",reason=\"wait\""), 1);
        respond.send(()).expect("the upstream waits");
        first.send("i");
        assert_eq!(first.response().status, 200);
    }
}

/// An event stream uses the upstream as long as it lasts.
#[test]
fn a_slot_is_held_until_the_upstream_has_sent_its_whole_response() {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let upstream = Upstream::behaving(move |_, stream| {
        let began = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        let _told = receiver.lock().expect("no panic").recv();
        began.and_then(|()| stream.write_all(b"0\r\n\r\n")).is_ok()
    });
    let gateway = gateway(&[upstream.address], "bulkhead: {limit: 1}");
    let client = send(&gateway);
    wait_until("it is in flight", || in_flight(&gateway) == 1);
    pause(Duration::from_millis(50));
    assert_eq!(gateway.get("/").status, 503);
    sender.send(()).expect("the upstream waits");
    wait_until("the slot is free", || in_flight(&gateway) == 0);
    drop(client);
}

/// The reason for bulkheads: what waits for a slow upstream must not take what others need.
#[test]
fn a_full_one_is_nobody_elses_trouble() {
    let (slow, respond) = held();
    let quick = Upstream::start();
    let gateway = Gateway::start(&format!(
        "workers: 2\npolicies: {{few: {{bulkhead: {{limit: 2, queue: 2, wait: 1m}}}}}}\n\
         upstreams:\n  slow: {{url: \"http://{}\", policy: few}}\n  quick: {{url: \"http://{}\", policy: few}}\n\
         limits: {{default: {{algorithm: fixed, limit: 9999, window: 60}}}}\n\
         routes: [{{prefix: /slow, upstream: slow}}, {{prefix: /, upstream: quick}}]\n",
        slow.address, quick.address
    ));
    let stuck: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let of = |service: &str, name: &str| {
        gateway.metric(&format!("{name}{{service=\"{service}\",policy=\"few\"}}")).expect("it is there") as u64
    };
    let is_full = || of("slow", "tidegate_bulkhead_in_flight") + of("slow", "tidegate_bulkhead_waiting") >= 4;
    wait_until("the slow one is full", is_full);
    for _ in 0..50 {
        assert_eq!(gateway.get("/").status, 200);
    }
    assert_eq!(of("quick", "tidegate_bulkhead_in_flight"), 0);
    drop((stuck, respond));
}

/// Two routes may treat one upstream differently.
#[test]
fn a_route_may_have_its_own_policy() {
    let (upstream, respond) = held();
    let gateway = Gateway::start(&format!(
        "workers: 2\npolicies: {{one: {{bulkhead: {{limit: 1}}}}, two: {{bulkhead: {{limit: 2}}}}}}\n\
         upstreams: {{app: {{url: \"http://{}\", policy: one}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 9999, window: 60}}}}\n\
         routes: [{{prefix: /vip, policy: two}}, {{prefix: /}}]\n",
        upstream.address
    ));
    let first = send(&gateway);
    wait_until("it is in flight", || upstream.count() == 1);
    assert_eq!(gateway.get("/").status, 503);
    let vip: Vec<Client> = (0..2)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET /vip HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    wait_until("these are in flight too", || upstream.count() == 3);
    assert_eq!(gateway.get("/vip").status, 503);
    drop((first, vip, respond));
}
