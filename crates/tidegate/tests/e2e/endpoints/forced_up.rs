//! An operator knows better than checks and ejection: an endpoint that is set to `up` gets requests.

use std::net::SocketAddr;

use super::switched::{CHECKED, Switched};
use super::{gateway, shown, state};
use tidegate_testkit::{Gateway, wait_until};

fn set(gateway: &Gateway, endpoint: SocketAddr, state: &str) {
    let response = gateway.post(&format!("/config/upstreams/app/{endpoint}"), &format!("{{\"state\": \"{state}\"}}"));
    assert_eq!(response.status, 200, "{}", response.text());
    let endpoints = response.json()["endpoints"].as_array().expect("a list").clone();
    let name = endpoint.to_string();
    let changed = endpoints.iter().find(|shown| shown["endpoint"] == name.as_str()).expect("it is there");
    assert_eq!(changed["set"], state, "the response shows the change");
}

/// How many of 40 requests each of them gets.
fn shares(gateway: &Gateway, pool: &[Switched; 2]) -> [usize; 2] {
    let before = pool.each_ref().map(Switched::requests);
    (0..40).for_each(|_| drop(gateway.get("/")));
    let after = pool.each_ref().map(Switched::requests);
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn an_endpoint_that_checks_have_taken_out_gets_requests_again() {
    let pool = [200, 200].map(Switched::new);
    pool[0].respond_to_checks(500);
    let settings = format!("slow_start: 0, health_check: {{path: {CHECKED}, interval: 100ms}}");
    let gateway = gateway(&pool.each_ref().map(|endpoint| endpoint.address), &settings);
    wait_until("it is out", || state(&gateway, pool[0].address) == "unhealthy");
    assert_eq!(shares(&gateway, &pool), [0, 40]);
    set(&gateway, pool[0].address, "up");
    assert_eq!(state(&gateway, pool[0].address), "up");
    let checks = pool[0].checks();
    wait_until("it fails more checks", || pool[0].checks() > checks + 3);
    assert!(shares(&gateway, &pool)[0] > 0);
    assert_eq!(shown(&gateway, pool[0].address)["health"], "unhealthy", "what checks find is still shown");
    set(&gateway, pool[0].address, "auto");
    assert_eq!(state(&gateway, pool[0].address), "unhealthy");
    assert_eq!(shares(&gateway, &pool), [0, 40]);
}

#[test]
fn an_endpoint_that_is_ejected_gets_requests_again_and_is_not_ejected() {
    let pool = [503, 200].map(Switched::new);
    let settings = "slow_start: 0, ejection: {consecutive_failures: 1, time: 1h, max_time: 1h}";
    let gateway = gateway(&pool.each_ref().map(|endpoint| endpoint.address), settings);
    wait_until("it is ejected", || {
        gateway.get("/");
        state(&gateway, pool[0].address) == "ejected"
    });
    assert_eq!(shares(&gateway, &pool), [0, 40]);
    set(&gateway, pool[0].address, "up");
    assert!(shares(&gateway, &pool)[0] > 1, "it fails, and stays");
    let shown = shown(&gateway, pool[0].address);
    assert_eq!((&shown["state"], &shown["ejections"]), (&"up".into(), &1.into()));
    set(&gateway, pool[0].address, "auto");
    assert_eq!(shares(&gateway, &pool), [0, 40], "its ejection is not over");
}
