//! One limit, several gateways: together they admit what one would.

use std::net::SocketAddr;

use crate::shared::crowd::{Tally, send};
use crate::shared::holding::Holding;
use crate::shared::setup::{
    FIVE, FORWARDED, REJECTED, STRICT, admitted, config, counted, one_path_each, places_taken, without_limits,
};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

const QUOTA: usize = 60;
const CLIENTS_EACH: usize = 3;

/// A limit of 60 by this algorithm, which gives nothing back while a test runs.
fn sixty(algorithm: &str) -> String {
    match algorithm {
        "token" | "gcra" => format!("{{algorithm: {algorithm}, capacity: {QUOTA}, fill_rate: 0.001}}"),
        _ => format!("{{algorithm: {algorithm}, limit: {QUOTA}, window: 30d}}"),
    }
}

fn gateways(count: usize, config: &str) -> Vec<Gateway> {
    (0..count).map(|_| Gateway::start(config)).collect()
}

fn addresses(gateways: &[Gateway]) -> Vec<SocketAddr> {
    gateways.iter().map(|gateway| gateway.address).collect()
}

/// From all sides at once comes four times what is allowed.
fn share_exactly(count: usize, limit: &str) {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateways = gateways(count, &config(upstream.address, &server.url(), STRICT, limit));
    let requests_each = 4 * QUOTA / (count * CLIENTS_EACH);
    let tally = send(&addresses(&gateways), CLIENTS_EACH, requests_each);
    let expected = Tally { responses: [(200, QUOTA), (429, 3 * QUOTA)].into(), broken: 0 };
    assert_eq!(tally, expected, "{limit}");
    assert_eq!(upstream.count(), QUOTA, "{limit}");
    assert_eq!((counted(&gateways, FORWARDED), counted(&gateways, REJECTED)), (QUOTA, 3 * QUOTA), "{limit}");
}

#[test]
fn two_gateways_share_a_fixed_window_exactly() {
    share_exactly(2, &sixty("fixed"));
}

#[test]
fn two_gateways_share_a_sliding_window_exactly() {
    share_exactly(2, &sixty("sliding"));
}

#[test]
fn two_gateways_share_a_sliding_log_exactly() {
    share_exactly(2, &sixty("sliding_log"));
}

#[test]
fn two_gateways_share_a_token_bucket_exactly() {
    share_exactly(2, &sixty("token"));
}

#[test]
fn two_gateways_share_a_gcra_exactly() {
    share_exactly(2, &sixty("gcra"));
}

#[test]
fn four_gateways_share_a_limit_exactly() {
    share_exactly(4, &sixty("sliding_log"));
    share_exactly(4, &sixty("token"));
}

/// The shaper's queue is one queue: who comes when five wait is rejected, wherever the five are.
#[test]
fn two_gateways_share_a_leaky_bucket_exactly() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let limit = "{algorithm: leaky, capacity: 5, fill_rate: 0.001}";
    let gateways = gateways(2, &config(upstream.address, &server.url(), STRICT, limit));
    let ask = |place: usize| {
        let mut client = Client::connect(gateways[place % 2].address);
        client.send("GET / HTTP/1.1\r\nHost: test.example\r\n\r\n");
        client
    };
    let _asking: Vec<Client> = (0..16).map(ask).collect();
    // Besides those who wait, the questions for the metric are under way.
    let waiting = || counted(&gateways, "tidegate_requests_in_flight") - gateways.len();
    wait_until("one has passed, five wait, ten are refused", || {
        (upstream.count(), waiting(), counted(&gateways, REJECTED)) == (1, 5, 10)
    });
}

fn share_slots(count: usize) {
    const PLACES: usize = 8;
    let (server, upstream) = (Server::start(), Holding::start());
    let limit = format!("{{algorithm: concurrency, limit: {PLACES}}}");
    let gateways = gateways(count, &config(upstream.address(), &server.url(), STRICT, &limit));
    let ask = |place: usize| {
        let mut client = Client::connect(gateways[place % count].address);
        client.send("GET /held HTTP/1.1\r\nHost: test.example\r\n\r\n");
        client
    };
    let asking: Vec<Client> = (0..3 * PLACES).map(ask).collect();
    wait_until("two in three are refused", || counted(&gateways, REJECTED) >= 2 * PLACES);
    wait_until("one in three has arrived", || upstream.count() >= PLACES);
    upstream.let_go();
    let mut tally = Tally::default();
    for mut client in asking {
        *tally.responses.entry(client.response().status).or_default() += 1;
    }
    assert_eq!(tally.responses, [(200, PLACES), (429, 2 * PLACES)].into());
    assert_eq!(upstream.count(), PLACES);

    // A place comes back when its response has ended, and is given back in Redis after it. Then all can be taken again,
    // by one gateway alone.
    wait_until("every place is free", || places_taken(&server) == 0);
    upstream.hold();
    let held: Vec<Client> = (0..PLACES).map(|_| upstream.visit(gateways[0].address)).collect();
    for gateway in &gateways {
        assert_eq!(gateway.get("/held").status, 429);
    }
    upstream.let_go();
    for mut client in held {
        assert_eq!(client.response().status, 200);
    }
}

#[test]
fn two_gateways_share_slots_exactly() {
    share_slots(2);
}

#[test]
fn four_gateways_share_slots_exactly() {
    share_slots(4);
}

/// Nothing can return a place for a process that was killed: its time does.
#[test]
fn the_slots_of_a_killed_gateway_come_back_when_their_time_is_up() {
    let (server, upstream) = (Server::start(), Holding::start());
    let limit = "{algorithm: concurrency, limit: 2, hold: 1s}";
    let gateways = gateways(2, &config(upstream.address(), &server.url(), STRICT, limit));
    let _held: Vec<Client> = (0..2).map(|_| upstream.visit(gateways[0].address)).collect();
    gateways[0].signal("KILL");
    assert_eq!(gateways[1].get("/").status, 429, "nobody knows yet");
    let left = || gateways[1].get("/").header("x-ratelimit-remaining").map(str::to_owned);
    wait_until("both places are free", || left().as_deref() == Some("1"));
}

/// Leases are taken in advance, so at the end a little may lie unused; but never is more admitted than the limit says.
fn lease_without_excess(algorithm: &str) {
    let (server, upstream) = (Server::start(), Upstream::start());
    let limit = sixty(algorithm).replace('}', ", state: leased}");
    let redis = format!("{STRICT}, lease_tokens: 10, lease_span: 200ms");
    let gateways = gateways(2, &config(upstream.address, &server.url(), &redis, &limit));
    let first = send(&addresses(&gateways), CLIENTS_EACH, 40);
    assert_eq!(first.of(200) + first.of(429), 2 * CLIENTS_EACH * 40, "{algorithm}: {first:?}");
    assert!(first.of(200) <= QUOTA, "{algorithm}: {first:?}");
    // What lay unused comes back when its lease has ended: whoever comes then gets it.
    let mut sum = first.of(200);
    wait_until("all of it is used", || {
        sum += gateways.iter().map(|gateway| admitted(gateway, "/", 5)).sum::<usize>();
        sum >= QUOTA
    });
    sum += send(&addresses(&gateways), CLIENTS_EACH, 40).of(200);
    assert_eq!((sum, upstream.count()), (QUOTA, QUOTA), "{algorithm}");
}

#[test]
fn two_gateways_that_lease_a_fixed_window_never_exceed_it() {
    lease_without_excess("fixed");
}

#[test]
fn two_gateways_that_lease_a_sliding_window_never_exceed_it() {
    lease_without_excess("sliding");
}

#[test]
fn two_gateways_that_lease_a_token_bucket_never_exceed_it() {
    lease_without_excess("token");
}

#[test]
fn two_gateways_that_lease_a_gcra_never_exceed_it() {
    lease_without_excess("gcra");
}

/// A log entry of a lease stands at the lease's end; what was unused of it is returned with the next question.
#[test]
fn two_gateways_that_lease_a_sliding_log_never_exceed_it() {
    lease_without_excess("sliding_log");
}

#[test]
fn a_limit_in_memory_stays_its_gateways_own_and_what_it_rejects_costs_the_shared_one_nothing() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let limits = "limits:\n  everyone: {algorithm: fixed, limit: 1000, window: 30d}\n  \
                  own: {algorithm: fixed, limit: 5, window: 30d, state: memory}\n\
                  common_limits: [everyone]\n\
                  routes: [{prefix: /own, limits: [own]}, {prefix: /}]\n";
    let text = without_limits(upstream.address, &server.url(), STRICT) + limits;
    let gateways = gateways(2, &text);
    for gateway in &gateways {
        assert_eq!(admitted(gateway, "/own", 20), 5);
    }
    let response = gateways[1].get("/");
    let left = response.header("ratelimit").expect("how much is left");
    assert!(left.starts_with("\"everyone\";r=989;t="), "ten and this one were admitted, thirty refused: {left}");
}

#[test]
fn namespaces_share_nothing() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let start = |namespace: &str| {
        let redis = format!("{STRICT}, namespace: {namespace}");
        Gateway::start(&config(upstream.address, &server.url(), &redis, FIVE))
    };
    let (one, other, third) = (start("one"), start("other"), start("one"));
    assert_eq!(admitted(&one, "/", 10), 5);
    assert_eq!(admitted(&other, "/", 10), 5);
    assert_eq!(admitted(&third, "/", 10), 0, "the third is in the first one's");
    let numbers = r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#;
    assert_eq!(one.post("/config/limits", numbers).status, 200);
    wait_until("the third follows the first", || third.get("/config/limits").json()["limit"] == 9);
    assert_eq!(admitted(&third, "/", 10), 4, "nine, of which five are used");
    assert_eq!(other.get("/config/limits").json()["limit"], 5);
    assert_eq!(admitted(&other, "/", 10), 0);
}

/// Every algorithm whose counts last, each on a path of its own.
const LASTING: [&str; 5] = ["fixed", "sliding", "sliding_log", "token", "gcra"];

fn restart_with_the_same_counts(signal: &str) {
    let (server, upstream) = (Server::start(), Upstream::start());
    let limits = LASTING.map(|algorithm| (algorithm, sixty(algorithm)));
    let text = without_limits(upstream.address, &server.url(), STRICT) + &one_path_each(&limits);
    let mut before = Gateway::start(&text);
    for algorithm in LASTING {
        assert_eq!(admitted(&before, &format!("/{algorithm}"), 40), 40, "{algorithm}");
    }
    before.signal(signal);
    assert_eq!(before.wait_for_end(), signal == "TERM");
    let after = Gateway::start(&text);
    for algorithm in LASTING {
        assert_eq!(admitted(&after, &format!("/{algorithm}"), 40), QUOTA - 40, "{algorithm}");
    }
}

#[test]
fn a_gateway_that_is_stopped_and_started_knows_what_was_used() {
    restart_with_the_same_counts("TERM");
}

#[test]
fn a_gateway_that_is_killed_and_started_knows_what_was_used() {
    restart_with_the_same_counts("KILL");
}
