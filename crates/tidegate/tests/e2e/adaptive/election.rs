//! Several gateways that share a limit through Redis: one adapts, from what all of them see, and all follow.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::adaptive::forecaster::{Behaviour, Forecaster};
use crate::adaptive::setting::{HUNDRED, fixed, limit, send, wait_for_entry, wait_for_limit};
use crate::adaptive::store::gateway;
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Gateway, Upstream, timing, wait_until};

fn is_holder(gateway: &Gateway) -> bool {
    gateway.metric("tidegate_adaptive_holder") == Some(1.0)
}

/// Two gateways, the one that adapts first.
fn two(upstream: &Upstream, server: &Server, section: &str) -> [Gateway; 2] {
    let one = gateway(upstream, server, section);
    wait_until("the first one adapts", || is_holder(&one));
    let other = gateway(upstream, server, section);
    other.wait_for_line("INFO AdaptiveController - Another gateway adapts the limit, this one follows");
    assert!(!is_holder(&other));
    [one, other]
}

/// What the forecaster got as offered, all in all.
fn offered(forecaster: &Forecaster) -> u64 {
    let of = |snapshot: &Value| -> u64 {
        snapshot["series"]["offered"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
    };
    forecaster.snapshots().iter().map(of).sum()
}

#[test]
fn one_of_two_asks_for_both_and_both_follow() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(100)));
    let [holder, follower] = two(&upstream, &server, &forecaster.section(""));
    forecaster.wait_for_more(2);
    assert_eq!((send(&holder, 7), send(&follower, 5)), (7, 5));
    wait_until("both are told of", || offered(&forecaster) >= 12);
    assert_eq!(offered(&forecaster), 12, "each request once");
    forecaster.now_responses(fixed(120));
    wait_for_limit(&holder, 120);
    wait_for_limit(&follower, 120);
    let reported = limit(&follower);
    assert_eq!((&reported["set_by"], &reported["base"]["limit"]), (&json!("adaptive"), &json!(100)));
    follower.wait_for_line(
        "AI update followed: algorithm=fixed, limit from 100 to 120, window=1, decided by another gateway",
    );
    wait_for_entry(&follower, "it is recorded", |entry| entry["event"] == "followed" && entry["to"]["limit"] == 120);
    assert!(!follower.lines().iter().any(|line| line.contains("AI request sent")));
    forecaster.now_responses(fixed(100));
    wait_until("both return", || limit(&holder)["set_by"] == "file" && limit(&follower)["set_by"] == "file");
}

#[test]
fn when_the_one_that_adapts_dies_another_goes_on() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let [holder, follower] = two(&upstream, &server, &forecaster.section(""));
    wait_for_limit(&follower, 120);
    drop(holder);
    wait_until("it takes over", || is_holder(&follower));
    assert_eq!(limit(&follower)["limit"], 120, "with what was in force");
    follower.wait_for_line("INFO AdaptiveController - This gateway adapts the limit for all that share it");
    follower.wait_for_line("AI request sent");
    forecaster.now_responses(fixed(130));
    wait_for_limit(&follower, 130);
}

/// What the other left to it ends when it should have, though the forecaster is gone too.
#[test]
fn a_schedule_ends_though_its_gateway_is_dead() {
    let (server, upstream, forecaster) = (
        Server::start(),
        Upstream::start(),
        Forecaster::responding(json!({
        // Much later than the holder dies: every response begins with the same.
        "algorithm": "fixed", "limit": 200, "window": 1, "validFor": 14, "schedule": [{"after": 13, "limit": 150}]})),
    );
    let [holder, follower] = two(&upstream, &server, &forecaster.section(""));
    wait_for_limit(&follower, 200);
    forecaster.now(Behaviour::Closes);
    drop(holder);
    wait_until("it takes over", || is_holder(&follower));
    assert_eq!(limit(&follower)["limit"], 200);
    wait_until("it ends", || limit(&follower)["set_by"] == "file");
    wait_for_entry(&follower, "it is recorded", |entry| entry["verdict"] == "reverted" && entry["to"]["limit"] == 100);
}

#[test]
fn one_that_stops_lets_another_adapt_at_once() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let [mut holder, follower] = two(&upstream, &server, &forecaster.section(""));
    wait_for_limit(&follower, 120);
    holder.signal("TERM");
    let stopped = Instant::now();
    wait_until("it takes over", || is_holder(&follower));
    // A lease that is not given back lasts five seconds.
    timing::assert_within(Duration::from_secs(4), stopped, "the lease is given back");
    assert!(holder.wait_for_end());
}

#[test]
fn what_an_operator_sets_anywhere_ends_what_was_adapted_everywhere() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let [holder, follower] = two(&upstream, &server, &forecaster.section(""));
    wait_for_limit(&follower, 120);
    forecaster.now(Behaviour::Closes);
    forecaster.wait_for_more(2);
    assert_eq!(follower.post("/config/limits", r#"{"algorithm": "fixed", "limit": 80, "window": 1}"#).status, 200);
    wait_until("both follow", || limit(&holder)["limit"] == 80 && limit(&follower)["limit"] == 80);
    assert_eq!((&limit(&holder)["set_by"], &limit(&follower)["set_by"]), (&json!("api"), &json!("api")));
    forecaster.now_responses(fixed(110));
    wait_for_limit(&follower, 110);
    assert_eq!(limit(&follower)["base"]["limit"], 80);
}

#[test]
fn a_limit_in_memory_is_adapted_by_each_gateway_itself() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let start = || {
        Gateway::start(&format!(
            "upstreams: {{app: {{url: \"http://{}\"}}}}\nredis: {{url: \"{}\"}}\nlimits: {{default: {}}}\n{}",
            upstream.address,
            server.url(),
            HUNDRED.replace('}', ", state: memory}"),
            forecaster.section("")
        ))
    };
    let (one, other) = (start(), start());
    wait_for_limit(&one, 120);
    wait_for_limit(&other, 120);
    assert!(is_holder(&one) && is_holder(&other));
}

/// Who follows has little to do and sees nothing wrong itself: what the one that adapts has measured counts all the
/// same, to the request.
#[test]
fn who_follows_keeps_to_what_was_measured() {
    let (server, forecaster) = (Server::start(), Forecaster::responding(fixed(100)));
    let (upstream, state) = crate::adaptive::measured::upstream();
    let [holder, follower] = two(&upstream, &server, &forecaster.section("errors: 0.2, floor: 60"));
    let _load = crate::adaptive::load::Load::start(&holder, 3, std::time::Duration::from_millis(20));
    state.store(crate::adaptive::measured::FAILING, std::sync::atomic::Ordering::Relaxed);
    wait_for_limit(&holder, 60);
    wait_for_limit(&follower, 60);
    let asked = forecaster.count();
    wait_until("some seconds pass", || {
        assert_eq!(limit(&follower)["limit"], 60);
        forecaster.count() >= asked + 5
    });
    let reported = follower.lines().iter().filter(|line| line.contains("AI update followed")).count();
    assert!(reported <= 2, "once when it begins, not each second: {reported}");
}

/// Something else under the election's keys: nobody adapts, and the reason is reported.
#[test]
fn what_is_not_ours_in_redis_is_reported() {
    let (server, upstream, forecaster) = (Server::start(), Upstream::start(), Forecaster::responding(fixed(120)));
    let key = "tidegate:{ratelimiter}::council:default:members";
    redis::cmd("SET").arg(key).arg("mine").exec(&mut server.connection()).expect("it is set");
    let gateway = gateway(&upstream, &server, &forecaster.section(""));
    gateway.wait_for_line("WARN AdaptiveController - gateways that share the limit can't elect a leader: ");
    assert_eq!((send(&gateway, 3), &limit(&gateway)["set_by"]), (3, &json!("file")));
    redis::cmd("DEL").arg(key).exec(&mut server.connection()).expect("it is gone");
    wait_for_limit(&gateway, 120);
}
