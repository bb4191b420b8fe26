//! Which endpoint gets a request.

use std::collections::BTreeSet;

use super::{gateway, named, shares, state, with_upstream};
use crate::framing::origin::Rejecting;
use tidegate_testkit::Client;

#[test]
fn requests_are_spread_by_weight() {
    let [one, two] = [named("one"), named("two")];
    for balance in ["least_requests", "round_robin"] {
        let upstream = format!(
            "endpoints: [\"http://{}\", {{url: \"http://{}\", weight: 3}}], balance: {balance}",
            one.address, two.address
        );
        let got = shares(&with_upstream(&upstream, ""), 800, &[&one, &two]);
        assert!((150..=250).contains(&got[0]) && got[0] + got[1] == 800, "{balance}: {got:?}");
    }
}

/// Weight 0 is a reserve.
#[test]
fn an_endpoint_without_weight_gets_requests_only_if_no_other_is_there() {
    let [one, reserve] = [named("one"), named("reserve")];
    let upstream =
        format!("endpoints: [\"http://{}\", {{url: \"http://{}\", weight: 0}}]", one.address, reserve.address);
    let gateway = with_upstream(&upstream, "");
    assert_eq!(shares(&gateway, 50, &[&one, &reserve]), [50, 0]);
    let down = gateway.post(&format!("/config/upstreams/app/{}", one.address), "{\"state\": \"down\"}");
    assert_eq!(down.status, 200);
    assert_eq!(shares(&gateway, 50, &[&one, &reserve]), [0, 50]);
}

#[test]
fn requests_with_the_same_key_go_to_the_same_endpoint() {
    let pool = [named("one"), named("two"), named("three")];
    let addresses = pool.each_ref().map(|upstream| upstream.address);
    let gateway = gateway(&addresses, "balance: hash, hash_key: \"header:x-key\"");
    let ask = |key: usize| gateway.get_with("/", &[("X-Key", &key.to_string())]).text();
    let first: Vec<String> = (0..60).map(ask).collect();
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3, "{first:?}");
    assert_eq!((0..60).map(ask).collect::<Vec<String>>(), first);
    // By address, all requests of this test have one key.
    let by_address = super::gateway(&addresses, "balance: hash");
    let all: BTreeSet<String> = (0..20).map(|_| by_address.get("/").text()).collect();
    assert_eq!(all.len(), 1);
}

/// Nothing was sent, so another one can have it, body and all.
#[test]
fn a_request_that_finds_no_connection_goes_to_another_endpoint() {
    let (dead, alive) = (Rejecting::new(), named("alive"));
    let gateway = gateway(&[dead.address, alive.address], "ejection: {consecutive_failures: 0}");
    for number in 0..40 {
        let body = format!("body {number}");
        assert_eq!(gateway.post("/", &body).text(), "alive");
        assert_eq!(alive.last().body, body.as_bytes());
    }
    // No request has failed, and the dead endpoint has.
    let failures = gateway.metric("tidegate_upstream_failures_total{service=\"app\",reason=\"connect_failed\"}");
    assert_eq!(failures, Some(0.0));
    assert!(super::shown(&gateway, dead.address)["failures"].as_u64() > Some(0));
}

#[test]
fn an_endpoint_that_rejects_connections_is_ejected_and_the_other_gets_everything() {
    let (dead, alive) = (Rejecting::new(), named("alive"));
    let gateway =
        gateway(&[dead.address, alive.address], "ejection: {consecutive_failures: 3, time: 1h, max_time: 1h}");
    assert_eq!(shares(&gateway, 60, &[&alive]), [60]);
    assert_eq!((state(&gateway, dead.address), state(&gateway, alive.address)), ("ejected".into(), "up".into()));
    let line = gateway.wait_for_line("ejected for 3600 s");
    assert!(line.contains(&dead.address.to_string()) && line.contains("connect"), "{line}");
    let failures = || gateway.metric("tidegate_upstream_failures_total{service=\"app\",reason=\"connect_failed\"}");
    let before = failures();
    assert_eq!(shares(&gateway, 20, &[&alive]), [20]);
    assert_eq!(failures(), before, "it is not attempted any more");
    let name = format!("tidegate_endpoint_up{{service=\"app\",endpoint=\"{}\"}}", dead.address);
    assert_eq!(gateway.metric(&name), Some(0.0));
}

/// A client that sends half a body, or leaves, says nothing about the endpoint.
#[test]
fn what_clients_do_is_not_held_against_an_endpoint() {
    let [one, two] = [named("one"), named("two")];
    let settings = "ejection: {consecutive_failures: 1}, request_buffer_bytes: 0";
    let gateway = gateway(&[one.address, two.address], settings);
    for _ in 0..20 {
        let mut client = Client::connect(gateway.address);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
        client.close();
    }
    assert_eq!(shares(&gateway, 20, &[&one, &two]).iter().sum::<usize>(), 20);
    assert_eq!((state(&gateway, one.address), state(&gateway, two.address)), ("up".into(), "up".into()));
}
