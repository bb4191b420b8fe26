//! A gateway that starts while Redis is away, locked, or elsewhere.

use std::time::Instant;

use super::{BACK, REACHED, UNREACHED, all_pass, exhaust, is_open, limits_hold};
use crate::shared::setup::{FIVE, STRICT, admitted, config};
use tidegate_testkit::redis_server::{Server, free_port};
use tidegate_testkit::{Gateway, Upstream, wait_until};

/// The log spoke of a connection that was lost though there had been none, and of one that was back when it was first
/// made.
#[test]
fn without_redis_at_its_start_a_gateway_serves_and_limits_as_soon_as_redis_is_there() {
    for (mode, words) in [("open", "fail-open mode"), ("closed", "fail-closed mode"), ("local", "local mode")] {
        let (port, upstream) = (free_port(), Upstream::start());
        // Three late responses would be an outage, and this one is judged by its lines.
        let redis = format!("budget: 5s, on_failure: {mode}");
        let url = format!("redis://127.0.0.1:{port}");
        let gateway = Gateway::start(&config(upstream.address, &url, &redis, FIVE));
        let unreached = gateway.wait_for_line(UNREACHED);
        let expected = format!("{UNREACHED}127.0.0.1:{port}, starting in {words} and trying again: ");
        assert!(unreached.contains(&expected), "{unreached}");
        if mode == "open" {
            all_pass(&gateway, 20);
            is_open(&gateway);
        }
        let errors = || gateway.metric("ratelimiter_redis_errors_total").expect("it is counted");
        let before = errors();
        wait_until("it was tried again", || errors() >= before + 2.0);
        let mut server = Server::start_at(port);
        limits_hold(&gateway, Instant::now(), &format!("{REACHED}127.0.0.1:{port}, starting normal operation"));
        let lines = gateway.lines().join("\n");
        assert_eq!(lines.matches("could not be reached").count(), 1, "it is said once: {lines}");
        assert!(!lines.contains("connection lost") && !lines.contains("reconnected"), "{lines}");
        assert!(!lines.contains("can't be used"), "that it is away is said once: {lines}");

        // From here on a connection can be lost.
        server.kill();
        gateway.wait_for_line(&format!("WARN RedisClient - Redis connection lost, entering {words}: "));
        server.restart();
        gateway.wait_for_line(BACK);
        let lines = gateway.lines().join("\n");
        let count = |text: &str| lines.matches(text).count();
        assert_eq!((count("could not be reached"), count("Redis reached at")), (1, 1), "{lines}");
    }
}

/// What was set while it was away counts as soon as it is there.
#[test]
fn without_redis_at_its_start_a_gateway_follows_the_document_that_it_finds_later() {
    let (port, upstream) = (free_port(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &format!("redis://127.0.0.1:{port}"), STRICT, FIVE));
    assert_eq!(gateway.get("/").status, 503);
    let server = Server::start_at(port);
    let text = r#"{"algorithm":"fixed","limit":3,"window":2592000}"#;
    redis::cmd("SET").arg("ratelimiter:config").arg(text).exec(&mut server.connection()).expect("set");
    wait_until("it follows", || gateway.get("/config/limits").json()["limit"] == 3);
    assert_eq!(admitted(&gateway, "/", 10), 3);
}

/// A server that wants a password. Its own connections were there before.
fn locked(server: &Server, password: &str) -> redis::Connection {
    let mut connection = server.connection();
    lock(&mut connection, password);
    connection
}

fn lock(connection: &mut redis::Connection, password: &str) {
    redis::cmd("CONFIG").arg(&["SET", "requirepass", password]).exec(connection).expect("set");
}

fn with_environment(upstream: &Upstream, server: &Server, password: &str) -> Gateway {
    let text = format!("upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {FIVE}}}\n", upstream.address);
    Gateway::start_with(&text, |command| {
        command.env("REDIS_HOST", "127.0.0.1").env("REDIS_PORT", server.port.to_string());
        command.env("REDIS_PASSWORD", password);
    })
}

#[test]
fn host_port_and_password_of_redis_come_from_the_environment() {
    let (server, upstream) = (Server::start(), Upstream::start());
    // Everything that has a meaning in a URL.
    let password = "p@ss:w/o r?d#1%41&=+";
    let mut connection = locked(&server, password);
    let gateways = [0, 1].map(|_| with_environment(&upstream, &server, password));
    for gateway in &gateways {
        assert_eq!(gateway.metric("ratelimiter_redis_connected"), Some(1.0));
        exhaust(gateway);
        let lines = gateway.lines().join("\n");
        assert!(!lines.contains("p@ss") && !lines.contains("p%40ss"), "a secret in the log: {lines}");
    }
    let keys: Vec<String> = redis::cmd("KEYS").arg("tidegate:*").query(&mut connection).expect("keys");
    assert!(keys.iter().any(|key| key.starts_with("tidegate:{ratelimiter}:default:fixed:")), "{keys:?}");
}

#[test]
fn with_a_wrong_password_a_gateway_serves_open_says_so_and_tries_again() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let mut connection = locked(&server, "the right one");
    let gateway = with_environment(&upstream, &server, "the-wrong-one");
    gateway.wait_for_line(UNREACHED);
    all_pass(&gateway, 20);
    is_open(&gateway);
    assert!(!gateway.lines().join("\n").contains("the-wrong-one"), "a secret in the log: {:#?}", gateway.lines());
    lock(&mut connection, "the-wrong-one");
    limits_hold(&gateway, Instant::now(), REACHED);
}
