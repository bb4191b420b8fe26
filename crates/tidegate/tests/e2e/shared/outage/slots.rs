//! What is owed to Redis after an outage: charges, and slots of requests in flight.

use super::BACK;
use crate::shared::holding::{Holding, leave};
use crate::shared::relay::Relay;
use crate::shared::setup::{FIVE, PLENTY, STRICT, admitted, config, one_path_each, places_taken, without_limits};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

/// Hyper drops the request's future when its client goes: what Redis charges for nobody must come back.
#[test]
fn what_is_charged_for_clients_that_left_during_the_call_comes_back() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let relay = Relay::start(&server);
    let limits = [
        ("fixed", FIVE.to_owned()),
        ("sliding", "{algorithm: sliding, limit: 5, window: 30d}".to_owned()),
        ("log", "{algorithm: sliding_log, limit: 5, window: 30d}".to_owned()),
        ("token", "{algorithm: token, capacity: 5, fill_rate: 0.001}".to_owned()),
        ("gcra", "{algorithm: gcra, capacity: 5, fill_rate: 0.001}".to_owned()),
    ];
    let file = without_limits(upstream.address, &relay.url(), STRICT) + &one_path_each(&limits);
    let gateway = Gateway::start(&file);
    // One each, so that Redis knows the scripts.
    assert!(limits.iter().all(|(name, _)| admitted(&gateway, &format!("/{name}"), 1) == 1));
    relay.hold();
    let before = relay.scripts();
    // One each: a bucket is careful, and keeps some of what several return in another order than they took it.
    let clients = limits.each_ref().map(|(name, _)| {
        let mut client = Client::connect(gateway.address);
        client.send(format!("GET /{name} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
        client
    });
    wait_until("Redis is asked", || relay.scripts() >= before + limits.len());
    clients.iter().for_each(leave);
    wait_until("they are gone", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    relay.let_go();
    for (name, _) in &limits {
        let mut sum = 1;
        wait_until("all of it came back", || {
            sum += admitted(&gateway, &format!("/{name}"), 1);
            sum == 5
        });
        assert_eq!(admitted(&gateway, &format!("/{name}"), 5), 0, "{name}: and not more");
    }
    assert_eq!(upstream.count(), 5 * limits.len(), "those who left were not sent on");
}

#[test]
fn a_slot_of_a_client_that_left_comes_back_whether_during_the_call_or_later() {
    let (server, upstream) = (Server::start(), Holding::start());
    let relay = Relay::start(&server);
    let limit = "{algorithm: concurrency, limit: 2}";
    let gateway = Gateway::start(&config(upstream.address(), &relay.url(), STRICT, limit));
    let during = || {
        relay.hold();
        let clients = [0, 1].map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET /held HTTP/1.1\r\nHost: test.example\r\n\r\n");
            client
        });
        wait_until("Redis has charged them", || places_taken(&server) == 2);
        clients.iter().for_each(leave);
        wait_until("they are gone", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
        relay.let_go();
    };
    let later = || {
        let clients = [0, 1].map(|_| upstream.visit(gateway.address));
        assert_eq!(gateway.get("/").status, 429, "both places are taken");
        clients.iter().for_each(leave);
    };
    // Redis knows the script from here on.
    assert_eq!(gateway.get("/").status, 200);
    wait_until("its place is free", || places_taken(&server) == 0);
    during();
    assert_eq!(upstream.count(), 1, "those who left were not sent on");
    wait_until("both places are free", || places_taken(&server) == 0);
    later();
    wait_until("both places are free", || places_taken(&server) == 0);
    assert_eq!(gateway.get("/").status, 200);
}

/// Redis stood still for three seconds, and clients whose requests ended meanwhile were locked out for an hour.
#[test]
fn places_of_requests_that_end_while_redis_is_away_are_free_when_it_is_back() {
    let (server, upstream) = (Server::start(), Holding::start());
    let limits = [("held", "{algorithm: concurrency, limit: 2}".to_owned()), ("other", PLENTY.to_owned())];
    let redis = "budget: 500ms, on_failure: open";
    let gateway = Gateway::start(&(without_limits(upstream.address(), &server.url(), redis) + &one_path_each(&limits)));
    let mut held = [0, 1].map(|_| upstream.visit(gateway.address));
    wait_until("both places are taken", || places_taken(&server) == 2);
    server.freeze(true);
    wait_until("it is given up", || {
        assert_eq!(gateway.get("/other").status, 200);
        gateway.metric("ratelimiter_redis_connected") == Some(0.0)
    });
    upstream.let_go();
    for client in &mut held {
        assert_eq!(client.response().status, 200);
    }
    server.freeze(false);
    gateway.wait_for_line(BACK);
    wait_until("both places are free", || places_taken(&server) == 0);
    assert_eq!(gateway.get("/held").status, 200);
    assert_eq!(gateway.metric("tidegate_places_lost_total"), Some(0.0));
}

/// They stay taken after the next start, for as long as `hold` says. Nothing in the log said why requests were rejected
/// then.
#[test]
fn places_that_are_owed_when_the_gateway_stops_are_reported() {
    let (server, upstream) = (Server::start(), Holding::start());
    let limits = [("held", "{algorithm: concurrency, limit: 2}".to_owned())];
    let redis = "budget: 500ms, on_failure: open";
    let mut gateway =
        Gateway::start(&(without_limits(upstream.address(), &server.url(), redis) + &one_path_each(&limits)));
    let mut held = upstream.visit(gateway.address);
    wait_until("its place is taken", || places_taken(&server) == 1);
    server.freeze(true);
    upstream.let_go();
    assert_eq!(held.response().status, 200);
    gateway.signal("TERM");
    assert!(gateway.wait_for_end());
    assert_eq!(lost_lines(&gateway), 1, "{:#?}", gateway.lines());
    server.freeze(false);
}

/// Puts somebody else's data under the keys of all places.
fn spoil_slots(server: &Server) {
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("tidegate:*:concurrency:*").query(&mut connection).expect("keys");
    for key in keys.iter().filter(|key| !key.ends_with(":log")) {
        redis::cmd("DEL").arg(key).exec(&mut connection).expect("deleted");
        redis::cmd("LPUSH").arg(&[key, "x"]).exec(&mut connection).expect("pushed");
    }
}

fn lost_lines(gateway: &Gateway) -> usize {
    gateway.lines().iter().filter(|line| line.contains("can't be given back")).count()
}

#[test]
fn slots_that_can_not_be_given_back_are_reported_now_and_then_and_not_a_line_each() {
    const PLACES: u32 = 12;
    let (server, upstream) = (Server::start(), Holding::start());
    let mut gateway = Gateway::start(&config(
        upstream.address(),
        &server.url(),
        "budget: 5s",
        "{algorithm: concurrency, limit: 100}",
    ));
    let mut held: Vec<Client> = (0..PLACES).map(|_| upstream.visit(gateway.address)).collect();
    wait_until("all places are taken", || places_taken(&server) == PLACES as usize);
    spoil_slots(&server);
    upstream.let_go();
    for client in &mut held {
        assert_eq!(client.response().status, 200);
    }
    wait_until("all are given up", || gateway.metric("tidegate_places_lost_total") == Some(f64::from(PLACES)));
    assert!(lost_lines(&gateway) < 6, "{:#?}", gateway.lines());
    gateway.signal("TERM");
    assert!(gateway.wait_for_end());
    let count = |line: &String| {
        let (before, _) = line.split_once("slots in flight can't be given back")?;
        before.split_whitespace().rev().find_map(|word| word.parse::<u32>().ok())
    };
    // The last lines may be on their way to us when it has ended.
    wait_until("all are told", || gateway.lines().iter().filter_map(count).sum::<u32>() >= PLACES);
    assert_eq!(gateway.lines().iter().filter_map(count).sum::<u32>(), PLACES, "{:#?}", gateway.lines());
}
