//! Clients that leave while their request has a second attempt, or waits for it: nothing stays taken.

use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, mpsc};

use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

use super::super::{breaker, config, metric, statuses, with_status};
use super::{HEDGE, Holding, assert_all_free, failures_seen, hedges, send, warm};

#[test]
fn while_both_attempts_are_under_way() {
    let (one, other) = (Holding::new(), Holding::new());
    let policy = format!("{HEDGE}, breaker: {{window: 1000, minimum: 1000}}, bulkhead: {{limit: 2}}");
    let gateway = warm(&[one.address(), other.address()], &policy, "");
    one.hold(true);
    other.hold(true);
    let calls = breaker(&gateway)["attempts"].clone();
    for head in ["GET /", "PUT /"] {
        let before = one.upstream.count() + other.upstream.count();
        let mut client = Client::connect(gateway.address);
        client.send(format!("{head} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"));
        wait_until("both have it", || one.upstream.count() + other.upstream.count() == before + 2);
        assert_eq!(metric(&gateway, "tidegate_bulkhead_in_flight", ""), 2);
        client.close();
        wait_until("both slots are free", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 0);
        assert_all_free(&gateway);
    }
    assert_eq!(breaker(&gateway)["attempts"], calls, "that says nothing about the upstream");
    one.hold(false);
    other.hold(false);
    assert_eq!(statuses(&gateway, 4), [200; 4]);
}

#[test]
fn before_the_second_attempt_begins() {
    let (one, other) = (Holding::new(), Holding::new());
    let policy = HEDGE.replace("min_delay: 1ms", "min_delay: 1h");
    let gateway = warm(&[one.address(), other.address()], &policy, "");
    one.hold(true);
    other.hold(true);
    let before = one.upstream.count() + other.upstream.count();
    let client = send(&gateway, "/");
    wait_until("it is sent", || one.upstream.count() + other.upstream.count() == before + 1);
    client.close();
    assert_all_free(&gateway);
    assert_eq!(hedges(&gateway), (0, 0));
}

#[test]
fn after_one_of_the_two_has_failed() {
    let (one, other) = (Holding::new(), Holding::new());
    let policy = format!("{HEDGE}, bulkhead: {{limit: 2}}");
    let gateway = warm(&[one.address(), other.address()], &policy, "");
    for (failing, rest) in [(&one, &other), (&other, &one)] {
        one.hold(true);
        other.hold(true);
        failing.breaks.store(true, Ordering::Relaxed);
        let (before, failures) = (one.upstream.count() + other.upstream.count(), failures_seen(&gateway));
        let client = send(&gateway, "/");
        wait_until("both have it", || one.upstream.count() + other.upstream.count() == before + 2);
        failing.hold(false);
        wait_until("it has failed", || failures_seen(&gateway) > failures);
        client.close();
        wait_until("both slots are free", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 0);
        assert_all_free(&gateway);
        failing.breaks.store(false, Ordering::Relaxed);
        rest.hold(false);
        assert_eq!(statuses(&gateway, 4), [200; 4]);
    }
}

/// What the other attempt held is given back at once, what this one holds when the body ends.
#[test]
fn while_the_body_of_the_winner_comes() {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let streaming = Upstream::behaving(move |received, stream| {
        if !received.line.contains("stream") {
            return stream.write_all(&with_status(200)).is_ok();
        }
        let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello");
        let _released = receiver.lock().expect("no panic").recv();
        false
    });
    let slow = Holding::new();
    let gateway = warm(&[streaming.address, slow.address()], &format!("{HEDGE}, bulkhead: {{limit: 3}}"), "");
    slow.hold(true);
    let mut clients = Vec::new();
    // One of two goes to the slow one first.
    for round in 1..=2 {
        let mut client = send(&gateway, "/stream");
        wait_until("the head is there", || client.has_response());
        let in_flight = || metric(&gateway, "tidegate_bulkhead_in_flight", "");
        wait_until("only the one that responds has a slot", || in_flight() == round);
        clients.push(client);
    }
    clients.into_iter().for_each(Client::close);
    wait_until("all slots are free", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 0);
    assert_all_free(&gateway);
    drop(sender);
}

/// The upstream's limits are in Redis, which does not respond: for the first attempt, and for the second one.
#[test]
fn while_redis_is_asked_for_the_limits_of_an_attempt() {
    let (redis, one, other) = (Server::start(), Holding::new(), Holding::new());
    let policy = format!(
        "{}, breaker: {{window: 1000, minimum: 1000}}, bulkhead: {{limit: 9}}",
        HEDGE.replace("min_delay: 1ms", "min_delay: 300ms")
    );
    let text = config(&[one.address(), other.address()], &policy, "balance: round_robin, limits: [few]", "").replace(
        "limits: {default",
        "limits: {few: {algorithm: concurrency, limit: 2, hold: 1h, key: global}, default",
    );
    let redis_settings = format!("redis: {{url: '{}', budget: 1m, on_failure: closed}}\n", redis.url());
    let gateway = Gateway::start(&format!("{redis_settings}{text}"));
    assert_eq!(statuses(&gateway, 60), [200; 60]);
    let calls = breaker(&gateway)["attempts"].clone();
    let count = || one.upstream.count() + other.upstream.count();

    redis.freeze(true);
    let (before, client) = (count(), send(&gateway, "/"));
    wait_until("it waits for Redis", || gateway.metric("tidegate_requests_in_flight") == Some(2.0));
    client.close();
    wait_until("it has left", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    redis.freeze(false);
    assert_eq!((count(), &breaker(&gateway)["attempts"]), (before, &calls));

    one.hold(true);
    other.hold(true);
    let client = send(&gateway, "/");
    wait_until("the first attempt is sent", || count() == before + 1);
    redis.freeze(true);
    // The endpoint of the second one counts it while Redis is asked.
    let in_flight = || {
        let endpoints = gateway.get("/config/upstreams/app").json()["endpoints"].clone();
        endpoints.as_array().expect("a list").iter().filter_map(|endpoint| endpoint["inFlight"].as_u64()).sum::<u64>()
    };
    wait_until("the second one waits for Redis", || in_flight() == 2);
    client.close();
    wait_until("it has left", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    assert_all_free(&gateway);
    redis.freeze(false);
    assert_eq!((count(), hedges(&gateway).0), (before + 1, 0));
    assert_eq!(breaker(&gateway)["attempts"], calls);
    one.hold(false);
    other.hold(false);
    // Both slots are there again.
    wait_until("requests pass", || gateway.get("/").status == 200);
    one.hold(true);
    other.hold(true);
    let before = count();
    let client = send(&gateway, "/");
    wait_until("both attempts are sent", || count() == before + 2);
    client.close();
    assert_all_free(&gateway);
}
