//! What a reload keeps of policies, and what it changes.

use tidegate_testkit::wait_until;

use super::{breaker, config, gateway, metric, reload, settable, state, statuses};

#[test]
fn an_open_breaker_stays_open_and_its_counts_stay() {
    let (upstream, _) = settable(500);
    let gateway = gateway(&[upstream.address], "breaker: {window: 4, minimum: 4, open: 1h}");
    assert_eq!(statuses(&gateway, 5), [500, 500, 500, 500, 503]);
    reload(&gateway, &config(&[upstream.address], "breaker: {window: 4, minimum: 3, open: 1h}, timeout: 9s", "", ""));
    assert_eq!((statuses(&gateway, 2), state(&gateway).as_str()), (vec![503; 2], "open"));
    assert_eq!(metric(&gateway, "tidegate_breaker_calls_total", ",kind=\"failure\""), 4);
}

#[test]
fn new_numbers_are_in_force_at_once() {
    let (upstream, _) = settable(500);
    let gateway = gateway(&[upstream.address], "breaker: {window: 100, minimum: 100}, retry: {attempts: 2, base: 0}");
    statuses(&gateway, 3);
    assert_eq!((state(&gateway).as_str(), upstream.count()), ("closed", 6));
    reload(&gateway, &config(&[upstream.address], "breaker: {window: 100, minimum: 7, open: 1h}", "", ""));
    assert_eq!(statuses(&gateway, 2), [500, 503], "the seventh attempt is one too many");
    assert_eq!(upstream.count(), 7, "and it is not repeated any more");
}

#[test]
fn a_policy_that_is_gone_leaves_nothing() {
    let (upstream, _) = settable(500);
    let gateway = gateway(&[upstream.address], "breaker: {window: 4, minimum: 4, open: 1h}");
    assert_eq!(statuses(&gateway, 5).pop(), Some(503));
    let plain = format!("workers: 2\nupstreams: {{app: {{url: \"http://{}\"}}}}\n", upstream.address);
    reload(&gateway, &plain);
    assert_eq!(statuses(&gateway, 2), [500; 2]);
    assert_eq!(gateway.metric("circuit_breaker_state{service=\"app\",policy=\"p\"}"), None);
    reload(&gateway, &config(&[upstream.address], "breaker: {window: 4, minimum: 4, open: 1h}", "", ""));
    assert_eq!((statuses(&gateway, 1), state(&gateway).as_str()), (vec![500], "closed"));
    assert_eq!(breaker(&gateway)["attempts"], 1, "it begins anew");
}

#[test]
fn an_invalid_file_changes_nothing() {
    let (upstream, _) = settable(500);
    let gateway = gateway(&[upstream.address], "breaker: {window: 4, minimum: 4, open: 1h}");
    statuses(&gateway, 4);
    let broken = config(&[upstream.address], "breaker: {window: 4, minimum: 5}", "", "");
    std::fs::write(&gateway.config, broken).expect("it can be written");
    let response = gateway.post("/reload", "");
    let detail = response.json()["detail"].as_str().expect("a text").to_owned();
    assert_eq!(response.status, 400);
    assert!(detail.contains("policies.p.breaker.minimum: must be at most the calls of `window`"), "{detail}");
    assert_eq!((statuses(&gateway, 1), state(&gateway).as_str()), (vec![503], "open"));
}

/// Requests that are under way when the policy goes keep what they hold of it until they end.
#[test]
fn a_bulkhead_counts_on_over_reloads() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = std::sync::Mutex::new(receiver);
    let upstream = tidegate_testkit::Upstream::behaving(move |_, stream| {
        let _ended = receiver.lock().expect("no panic").recv();
        std::io::Write::write_all(stream, &super::with_status(200)).is_ok()
    });
    let gateway = gateway(&[upstream.address], "bulkhead: {limit: 1}");
    let mut first = tidegate_testkit::Client::connect(gateway.address);
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is in flight", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 1);
    reload(&gateway, &config(&[upstream.address], "bulkhead: {limit: 1}, timeout: 30s", "", ""));
    assert_eq!(statuses(&gateway, 1), [503]);
    sender.send(()).expect("the upstream waits");
    assert_eq!(first.response().status, 200);
    wait_until("the slot is free", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 0);
    drop(sender);
    assert_eq!(statuses(&gateway, 1), [200]);
}
