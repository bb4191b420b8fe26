//! Redis is killed, frozen, slow, absent or does not know us: requests go on, and limits return with it.

mod slots;
mod starting;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::shared::crowd::{Crowd, send};
use crate::shared::relay::Relay;
use crate::shared::setup::{FIVE, PLENTY, STRICT, admitted, config, without_limits};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway, Response, Upstream, timing, wait_until};

const LOST: &str = "WARN RedisClient - Redis connection lost, entering fail-open mode";

const BACK: &str = "INFO RedisClient - Redis reconnected, resuming normal operation";

const UNREACHED: &str = "WARN RedisClient - Redis could not be reached at ";

const REACHED: &str = "INFO RedisClient - Redis reached at ";

/// Long enough that a busy machine's own pauses are short beside it.
const BUDGET: Duration = Duration::from_millis(200);

/// What a request may take while Redis is away: its budget, and something for the rest of its way.
const MOST: Duration = Duration::from_millis(300);

/// Limits are to be back within so much of Redis' return.
const SOON: Duration = Duration::from_secs(2);

/// With the failure mode `on_failure`.
fn gateway(upstream: &Upstream, redis_url: &str, on_failure: &str) -> Gateway {
    let redis = format!("budget: {}ms, on_failure: {on_failure}", BUDGET.as_millis());
    Gateway::start(&config(upstream.address, redis_url, &redis, FIVE))
}

/// Uses the limit up. A late response on a busy machine lets a request more through, so nobody counts here.
fn exhaust(gateway: &Gateway) {
    wait_until("the limit refuses", || gateway.get("/").status == 429);
}

/// Limits are back: the limit rejects again, soon enough.
fn limits_again(gateway: &Gateway, since: Instant) {
    limits_hold(gateway, since, BACK);
}

/// The limit rejects, soon enough, and the log says why.
fn limits_hold(gateway: &Gateway, since: Instant, line: &str) {
    exhaust(gateway);
    timing::assert_within(SOON, since, "limits are back");
    gateway.wait_for_line(line);
    wait_until("it says so", || gateway.metric("ratelimiter_redis_connected") == Some(1.0));
    assert_eq!(gateway.metric("ratelimiter_mode{type=\"failopen\"}"), Some(0.0));
    assert_eq!(gateway.metric("ratelimiter_mode{type=\"normal\"}"), Some(1.0));
    let health = gateway.get("/actuator/health").json();
    assert_eq!(health["store"]["status"], "UP", "{health}");
}

/// So many requests, one after the other, all of which pass; and how long each took.
fn all_pass(gateway: &Gateway, requests: usize) -> Vec<Duration> {
    let mut client = Client::connect(gateway.address);
    let mut pass = || {
        let start = Instant::now();
        let response = client.request("GET", "/", &[], b"");
        assert_eq!(response.status, 200, "{response:?}");
        start.elapsed()
    };
    (0..requests).map(|_| pass()).collect()
}

/// The longest of all but one in a hundred.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100 - 1]
}

fn is_open(gateway: &Gateway) {
    assert_eq!(gateway.metric("ratelimiter_redis_connected"), Some(0.0));
    assert_eq!(gateway.metric("ratelimiter_mode{type=\"failopen\"}"), Some(1.0));
    assert_eq!(gateway.metric("ratelimiter_mode{type=\"normal\"}"), Some(0.0));
    assert!(gateway.metric("ratelimiter_redis_errors_total") >= Some(1.0));
    let (health, readiness) = (gateway.get("/actuator/health").json(), gateway.get("/actuator/health/readiness"));
    assert_eq!((&health["status"], &health["store"]["status"]), (&json!("UP"), &json!("DOWN")), "{health}");
    assert_eq!(readiness.status, 200, "it serves: {readiness:?}");
}

/// Once the flag is set nobody asks Redis any more, so nobody waits for it either.
fn nobody_waits(gateway: &Gateway) {
    let calls = || gateway.metric("ratelimiter_redis_request_duration_seconds_count");
    let before = calls();
    assert!(before > Some(0.0));
    all_pass(gateway, 100);
    assert_eq!(calls(), before);
}

#[test]
fn when_redis_is_killed_requests_pass_and_limits_return_with_it() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let gateway = gateway(&upstream, &server.url(), "open");
    exhaust(&gateway);
    server.kill();
    let times = all_pass(&gateway, 200);
    assert!(!timing::are_judged() || p99(times.clone()) <= MOST, "{:?}", p99(times));
    gateway.wait_for_line(LOST);
    is_open(&gateway);
    nobody_waits(&gateway);
    assert_eq!(gateway.get("/").header("x-ratelimit-limit"), None, "nobody knows how much is left");
    server.restart();
    limits_again(&gateway, Instant::now());
    let lost = gateway.lines().into_iter().filter(|line| line.contains("Redis connection lost")).count();
    assert_eq!(lost, 1, "one line an outage");
}

/// The counter grows with every attempt to connect that fails, too.
#[test]
fn attempts_to_reconnect_that_fail_are_counted_as_errors() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let gateway = gateway(&upstream, &server.url(), "open");
    server.kill();
    gateway.wait_for_line(LOST);
    let errors = || gateway.metric("ratelimiter_redis_errors_total").expect("it is counted");
    let before = errors();
    wait_until("some attempts have failed", || errors() >= before + 2.0);
}

/// Several short outages, so that the requests that had to wait are more than one in a hundred. Ends with the last of
/// them.
fn no_longer_than_the_budget(gateway: &Gateway, go: impl Fn(), come_back: impl Fn()) {
    let mut times = Vec::new();
    for round in 0..4 {
        if round > 0 {
            come_back();
            wait_until("Redis is back", || gateway.metric("ratelimiter_redis_connected") == Some(1.0));
        }
        exhaust(gateway);
        go();
        times.append(&mut all_pass(gateway, 50));
        wait_until("the flag is set", || gateway.metric("ratelimiter_redis_connected") == Some(0.0));
    }
    let p99 = p99(times);
    assert!(p99 >= BUDGET / 2, "some wait for their budget: {p99:?}");
    assert!(!timing::are_judged() || p99 <= MOST, "none waits for longer than its budget: {p99:?}");
}

#[test]
fn when_redis_is_frozen_requests_wait_no_longer_than_the_budget_and_soon_not_at_all() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = gateway(&upstream, &server.url(), "open");
    no_longer_than_the_budget(&gateway, || server.freeze(true), || server.freeze(false));
    gateway.wait_for_line(LOST);
    is_open(&gateway);
    nobody_waits(&gateway);
    server.freeze(false);
    limits_again(&gateway, Instant::now());
}

#[test]
fn when_redis_is_slow_requests_wait_no_longer_than_the_budget_and_soon_not_at_all() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let relay = Relay::start(&server);
    let gateway = gateway(&upstream, &relay.url(), "open");
    no_longer_than_the_budget(&gateway, || relay.delay(3 * BUDGET), || relay.delay(Duration::ZERO));
    gateway.wait_for_line(LOST);
    is_open(&gateway);
    nobody_waits(&gateway);
    relay.delay(Duration::ZERO);
    limits_again(&gateway, Instant::now());
}

/// As long as its responses come within the budget, a slow Redis is as good as any.
#[test]
fn a_slow_redis_within_the_budget_limits_exactly() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let relay = Relay::start(&server);
    let gateways = [0, 1].map(|_| Gateway::start(&config(upstream.address, &relay.url(), STRICT, FIVE)));
    relay.delay(Duration::from_millis(30));
    let tally = send(&gateways.each_ref().map(|gateway| gateway.address), 4, 2);
    assert_eq!((tally.of(200), tally.of(429)), (5, 11), "{tally:?}");
}

#[test]
fn no_request_fails_while_redis_is_killed_frozen_and_taken_back_under_load() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), "budget: 20ms", PLENTY));
    let crowd = Crowd::start(&[gateway.address], 4);
    let connected = |expected: f64| {
        wait_until("the flag follows", || gateway.metric("ratelimiter_redis_connected") == Some(expected));
        crowd.wait_for(100);
    };
    for _ in 0..2 {
        crowd.wait_for(100);
        server.kill();
        connected(0.0);
        server.restart();
        connected(1.0);
        server.freeze(true);
        connected(0.0);
        server.freeze(false);
        connected(1.0);
    }
    let tally = crowd.stop();
    assert_eq!(tally.broken, 0, "{tally:?}");
    assert_eq!(tally.responses.keys().collect::<Vec<_>>(), [&200], "{tally:?}");
    assert_eq!(upstream.count(), tally.of(200));
}

#[test]
fn in_closed_mode_requests_are_rejected_with_503_while_redis_is_away() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let redis = "budget: 500ms, on_failure: closed";
    let gateway = Gateway::start(&config(upstream.address, &server.url(), redis, FIVE));
    assert_eq!(admitted(&gateway, "/", 2), 2);
    server.kill();
    let rejected: Vec<Response> = (0..20).map(|_| gateway.get("/")).collect();
    for response in &rejected {
        assert_eq!((response.status, response.header("retry-after")), (503, Some("1")), "{response:?}");
        let body = response.json();
        assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
        assert_eq!(body["error"], "limiter_unavailable");
        assert!(response.header("x-tidegate-refused-by").is_some(), "{response:?}");
        assert_eq!(body["request_id"].as_str(), response.header("x-request-id"));
    }
    assert_eq!(upstream.count(), 2);
    gateway.wait_for_line("WARN RedisClient - Redis connection lost, entering fail-closed mode");
    let readiness = gateway.get("/actuator/health/readiness");
    assert_eq!((readiness.status, &readiness.json()["status"]), (503, &json!("DOWN")));
    assert_eq!(gateway.get("/actuator/health/liveness").status, 200);
    assert_eq!(gateway.metric("ratelimiter_mode{type=\"failclosed\"}"), Some(1.0));
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"rejected\"}"), Some(20.0));

    server.restart();
    gateway.wait_for_line(BACK);
    wait_until("it is ready", || gateway.get("/actuator/health/readiness").status == 200);
    assert_eq!(admitted(&gateway, "/", 10), 5, "this Redis knows of nothing");
}

#[test]
fn in_local_mode_each_gateway_limits_in_memory_while_redis_is_away() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let redis = "budget: 500ms, on_failure: local";
    let gateways = [0, 1].map(|_| Gateway::start(&config(upstream.address, &server.url(), redis, FIVE)));
    assert_eq!(admitted(&gateways[0], "/", 10), 5);
    assert_eq!(admitted(&gateways[1], "/", 10), 0);
    server.kill();
    for gateway in &gateways {
        assert_eq!(admitted(gateway, "/", 20), 5);
        let rejected = gateway.get("/");
        assert_eq!((rejected.status, rejected.header("x-tidegate-refused-by")), (429, Some("default")), "{rejected:?}");
        assert!(rejected.header("retry-after").is_some(), "{rejected:?}");
        gateway.wait_for_line("WARN RedisClient - Redis connection lost, entering local mode");
        assert_eq!(gateway.metric("ratelimiter_mode{type=\"faillocal\"}"), Some(1.0));
        assert_eq!(gateway.get("/actuator/health/readiness").status, 200);
    }
    server.restart();
    for gateway in &gateways {
        gateway.wait_for_line(BACK);
    }
    assert_eq!(gateways.iter().map(|gateway| admitted(gateway, "/", 10)).sum::<usize>(), 5, "together again");
}

/// A full Redis, or one that can't persist, responds to every write with an error. Limiting used to be off then without
/// a word.
#[test]
fn when_redis_rejects_every_write_that_is_an_outage_until_it_takes_them_again() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let redis = "budget: 5s, on_failure: open";
    let gateway = Gateway::start(&config(upstream.address, &server.url(), redis, PLENTY));
    all_pass(&gateway, 1);
    let memory = |bytes: &str| {
        redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).exec(&mut server.connection()).expect("set");
    };
    memory("1");
    wait_until("it is noticed", || {
        all_pass(&gateway, 1);
        gateway.metric("ratelimiter_redis_connected") == Some(0.0)
    });
    let lost = gateway.wait_for_line(LOST);
    assert!(lost.contains("OOM"), "{lost}");
    is_open(&gateway);
    let errors = || gateway.metric("ratelimiter_redis_errors_total").expect("it is counted");
    let before = errors();
    wait_until("it was tried again", || errors() >= before + 2.0);
    is_open(&gateway);
    memory("0");
    gateway.wait_for_line(BACK);
    wait_until("limits are back", || gateway.get("/").header("x-ratelimit-limit").is_some());
    let lost = gateway.lines().into_iter().filter(|line| line.contains("Redis connection lost")).count();
    assert_eq!(lost, 1, "one line an outage");
}

/// Somebody's data under one account's key: the mode decides for its requests, the others are limited, and the log
/// tells.
#[test]
fn data_of_others_under_our_key_is_reported_and_not_an_outage() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let limit = "{algorithm: fixed, limit: 5, window: 30d, key: \"header:x-who\"}";
    let gateway = Gateway::start(&config(upstream.address, &server.url(), "budget: 5s", limit));
    let get = |who: &str| gateway.get_with("/", &[("x-who", who)]);
    assert_eq!(get("ann").header("x-ratelimit-remaining"), Some("4"));
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("tidegate:*:fixed:*").query(&mut connection).expect("keys");
    for key in &keys {
        redis::cmd("DEL").arg(key).exec(&mut connection).expect("deleted");
        redis::cmd("LPUSH").arg(&[key, "x"]).exec(&mut connection).expect("pushed");
    }
    for _ in 0..20 {
        let response = get("ann");
        assert_eq!((response.status, response.header("x-ratelimit-remaining")), (200, None), "{response:?}");
    }
    let warning = gateway.wait_for_line("a call to Redis has failed");
    assert!(warning.contains(" WARN ") && warning.contains("WRONGTYPE"), "{warning}");
    assert_eq!(get("bob").header("x-ratelimit-remaining"), Some("4"));
    assert_eq!(gateway.metric("ratelimiter_redis_connected"), Some(1.0));
    assert!(gateway.metric("ratelimiter_redis_errors_total") >= Some(20.0));
}

#[test]
fn in_closed_mode_the_limit_that_can_not_be_asked_is_named_and_nothing_was_exceeded() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let file = without_limits(upstream.address, &server.url(), "budget: 500ms, on_failure: closed")
        + "limits:\n  own: {algorithm: fixed, limit: 3, window: 30d, state: memory}\n  \
           shared: {algorithm: fixed, limit: 100, window: 30d}\ncommon_limits: [own, shared]\n";
    let gateway = Gateway::start(&file);
    server.kill();
    gateway.wait_for_line("Redis connection lost");
    let rejected = gateway.get("/");
    assert_eq!(rejected.status, 503, "{rejected:?}");
    assert!(rejected.text().contains("limit `shared`: limit store unavailable"), "{}", rejected.text());
    assert_eq!(gateway.metric("rate_limit_exceeded_total{endpoint=\"default\",user_tier=\"anonymous\"}"), Some(0.0));
    assert!(!gateway.lines().iter().any(|line| line.contains("limit exceeded")), "{:?}", gateway.lines());
}
