//! Clients that leave while something is being waited for: one test an await. Nothing stays taken, nothing stays open.

mod bodies;
mod over_http2;

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use crate::framing::judge;
use crate::framing::origin::{Origin, Silent, Visit};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway, Upstream, pause, wait_until};

/// One request at a time, one worker (another might open its own descriptors at any time); `more` are other settings,
/// `limits` are other limits, all of which count for every request.
fn gateway(upstream: SocketAddr, limits: &[(&str, &str)], more: &str) -> Gateway {
    buffering(0, upstream, limits, more)
}

/// The same, with so many bytes of a body that are read before a connection is taken.
fn buffering(buffer: usize, upstream: SocketAddr, limits: &[(&str, &str)], more: &str) -> Gateway {
    let place = ("place", "{algorithm: concurrency, limit: 1}");
    let all = || [place].into_iter().chain(limits.iter().copied());
    let names: Vec<&str> = all().map(|(name, _)| name).collect();
    let limits: Vec<String> = all().map(|(name, numbers)| format!("{name}: {numbers}")).collect();
    Gateway::start(&format!(
        "workers: 1\nupstreams:\n  \
         app: {{url: \"http://{upstream}\", connect_timeout: 60s, request_buffer_bytes: {buffer}}}\n\
         limits: {{{}}}\ncommon_limits: [{}]\n{more}",
        limits.join(", "),
        names.join(", ")
    ))
}

fn count(gateway: &Gateway, metric: &str) -> u64 {
    gateway.metric(metric).unwrap_or(0.0) as u64
}

/// Requests under way, without the one that asks.
fn in_flight(gateway: &Gateway) -> u64 {
    count(gateway, "tidegate_requests_in_flight") - 1
}

fn admitted(gateway: &Gateway, limit: &str) -> u64 {
    count(gateway, &format!("tidegate_limit_requests_total{{limit=\"{limit}\",decision=\"admitted\"}}"))
}

fn rejected(gateway: &Gateway, limit: &str) -> u64 {
    count(gateway, &format!("tidegate_limit_requests_total{{limit=\"{limit}\",decision=\"refused\"}}"))
}

fn upstream_connections(gateway: &Gateway) -> u64 {
    count(gateway, "tidegate_upstream_connections{service=\"app\"}")
}

/// The files and sockets a gateway has open.
struct Descriptors<'a> {
    gateway: &'a Gateway,
    before: usize,
}

impl<'a> Descriptors<'a> {
    /// Those it has open when nothing happens.
    fn of(gateway: &'a Gateway) -> Self {
        wait_until("no request is under way", || in_flight(gateway) == 0);
        let mut descriptors = Self { gateway, before: usize::MAX };
        // The connection that asked is on its way out.
        for _ in 0..20 {
            pause(Duration::from_millis(5));
            descriptors.before = descriptors.before.min(descriptors.count());
        }
        descriptors
    }

    fn count(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.gateway.pid())).expect("it runs").count()
    }

    /// Not one more for each of the rounds. (A few are opened when they are first needed.)
    fn assert_closed(&self, rounds: usize) {
        wait_until("descriptors are closed", || self.count() < self.before + rounds);
    }
}

fn send_get(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.address);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client
}

/// The place is taken: others are rejected, by that limit.
fn assert_taken(gateway: &Gateway) {
    let response = gateway.get("/b");
    assert_eq!((response.status, response.header("x-tidegate-refused-by")), (429, Some("place")));
}

/// A request passes, as soon as whoever came before it has been settled.
fn assert_passes(gateway: &Gateway, origin: &Origin) {
    let mut passed = None;
    wait_until("a request passes", || {
        let mut client = Client::connect(gateway.address);
        client.send("GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.stream.get_ref().set_nonblocking(true).expect("it can be asked without waiting");
        wait_until("it passes or is refused", || {
            passed = origin.visitor();
            passed.is_some() || client.stream.get_ref().peek(&mut [0]).is_ok()
        });
        client.stream.get_ref().set_nonblocking(false).expect("it waits");
        let Some(visit) = &mut passed else { return false };
        assert!(visit.head().starts_with("GET /next HTTP/1.1\r\n"));
        // Closed, so that the next round begins as this one did.
        visit.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nOK");
        assert_eq!(client.response().text(), "OK");
        assert_eq!(visit.read_to_end(), b"");
        true
    });
    wait_until("it has been settled", || in_flight(gateway) == 0);
}

/// Goes through it several times: what leaks, adds up. After each, everything is as if nobody had come: nothing is
/// under way, and a request passes.
fn rounds(origin: &Origin, gateway: &Gateway, mut leave: impl FnMut(&Gateway, &Origin)) {
    assert_passes(gateway, origin);
    let descriptors = Descriptors::of(gateway);
    for _ in 0..4 {
        leave(gateway, origin);
        wait_until("no request is under way", || in_flight(gateway) == 0);
        assert_passes(gateway, origin);
    }
    descriptors.assert_closed(4);
}

/// One a quarter of an hour; one more may wait for it.
const QUEUE: (&str, &str) = ("queue", "{algorithm: leaky, capacity: 1, fillRate: 0.001}");

#[test]
fn while_it_waits_in_a_queue() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[QUEUE], "");
    assert_passes(&gateway, &origin);
    let (descriptors, first) = (Descriptors::of(&gateway), admitted(&gateway, "queue"));
    // More than is read ahead: the end behind it must be seen all the same.
    let much = format!("Content-Length: 100000\r\n\r\n{}", "x".repeat(40_000));
    for (round, framing) in
        (1..).zip(["\r\n", "Content-Length: 5\r\n\r\nhello", "Content-Length: 0\r\n\r\n", much.as_str()])
    {
        let mut client = Client::connect(gateway.address);
        client.send(format!("PUT /waits HTTP/1.1\r\nHost: a\r\n{framing}"));
        // Each gets the one place there is to wait in: those who left have given it back.
        wait_until("it waits in the queue", || admitted(&gateway, "queue") == first + round);
        assert_taken(&gateway);
        client.close();
        wait_until("no request is under way", || in_flight(&gateway) == 0);
    }
    descriptors.assert_closed(4);
    assert!(!origin.has_visitor(), "who left the queue was sent on");
}

#[test]
fn while_it_waits_in_an_upstreams_queue() {
    let origin = Origin::new();
    let gateway = Gateway::start(&format!(
        "workers: 1\nupstreams: {{app: {{url: \"http://{}\", limits: [queue]}}}}\ncommon_limits: [place, once]\n\
         limits:\n  \
         place: {{algorithm: concurrency, limit: 1}}\n  once: {{algorithm: token, capacity: 3, fillRate: 0.0001}}\n  \
         queue: {}\n",
        origin.address, QUEUE.1
    ));
    assert_passes(&gateway, &origin);
    let (descriptors, first) = (Descriptors::of(&gateway), admitted(&gateway, "queue"));
    for round in 1..=3 {
        let client = send_get(&gateway);
        // Three times with two tokens left: those who left have given it back, too.
        wait_until("it waits in the queue", || admitted(&gateway, "queue") == first + round);
        assert_taken(&gateway);
        client.close();
        wait_until("no request is under way", || in_flight(&gateway) == 0);
    }
    descriptors.assert_closed(3);
    assert!(!origin.has_visitor(), "who left the queue was sent on");
}

#[test]
fn while_it_waits_in_a_queue_with_half_a_body() {
    let origin = Origin::new();
    let queue = ("queue", "{algorithm: leaky, capacity: 1, fillRate: 2}");
    let gateway = gateway(origin.address, &[queue], "");
    assert_passes(&gateway, &origin);
    let descriptors = Descriptors::of(&gateway);
    for framing in [
        "Content-Length: 10000000\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        // It waits for half a second behind this one.
        assert_passes(&gateway, &origin);
        wait_until("no request is under way", || in_flight(&gateway) == 0);
        let first = admitted(&gateway, "queue");
        let mut client = Client::connect(gateway.address);
        client.send(format!("PUT /waits HTTP/1.1\r\nHost: a\r\n{framing}"));
        wait_until("it was admitted", || admitted(&gateway, "queue") > first);
        client.close();
        wait_until("no request is under way", || in_flight(&gateway) == 0);
        // If it was sent on, then not as a whole one.
        if let Some(mut visit) = origin.visitor() {
            let bytes = visit.read_to_end();
            assert!(judge::read(&bytes).expect("well-formed").requests.is_empty(), "half a body became a whole one");
        }
    }
    descriptors.assert_closed(3);
    assert_passes(&gateway, &origin);
}

/// Redis has charged those who left, or will: all of it comes back, the place and the token.
fn redis_has_it_all_back(gateway: &Gateway) {
    wait_until("the place is free again", || gateway.get("/second").status == 200);
    wait_until("the second request has left its place", || {
        let response = gateway.get("/third");
        assert_eq!(response.status, 429, "two tokens, two requests");
        response.header("x-tidegate-refused-by") == Some("once")
    });
}

#[test]
fn while_redis_is_asked() {
    let redis = Server::start();
    let upstream = Upstream::start();
    let once = ("once", "{algorithm: token, capacity: 2, fillRate: 0.0001}");
    let more = format!("redis: {{url: \"{}\", budget: 30s}}\n", redis.url());
    let gateway = gateway(upstream.address, &[once], &more);
    assert_eq!(gateway.get("/first").status, 200);
    let descriptors = Descriptors::of(&gateway);
    for _ in 0..3 {
        redis.freeze(true);
        let client = send_get(&gateway);
        wait_until("it waits for Redis", || in_flight(&gateway) == 1);
        client.close();
        wait_until("no request is under way", || in_flight(&gateway) == 0);
        redis.freeze(false);
    }
    descriptors.assert_closed(3);
    assert_eq!(upstream.count(), 1, "who left was sent on");
    redis_has_it_all_back(&gateway);
}

#[test]
fn while_the_upstream_is_connected_to() {
    let silent = Silent::new();
    let gateway = gateway(silent.address, &[], "");
    let descriptors = Descriptors::of(&gateway);
    for round in 1..=4 {
        let client = send_get(&gateway);
        wait_until("it waits to be connected", || {
            admitted(&gateway, "place") == round && upstream_connections(&gateway) == 1
        });
        assert_taken(&gateway);
        client.close();
        wait_until("no request is under way", || in_flight(&gateway) == 0);
        wait_until("the connection is given up", || upstream_connections(&gateway) == 0);
    }
    descriptors.assert_closed(4);
}

/// Nothing of it was sent on, so it has cost nothing.
#[test]
fn while_the_upstream_is_connected_to_it_has_spent_nothing() {
    let silent = Silent::new();
    let once = ("once", "{algorithm: token, capacity: 1, fillRate: 0.0001}");
    let gateway = gateway(silent.address, &[once], "");
    for _ in 0..2 {
        let client = send_get(&gateway);
        wait_until("it waits to be connected, or was refused", || {
            upstream_connections(&gateway) == 1 || rejected(&gateway, "once") > 0
        });
        assert_eq!(rejected(&gateway, "once"), 0, "its token was not given back");
        client.close();
        wait_until("no request is under way", || in_flight(&gateway) == 0);
    }
}

#[test]
fn while_the_response_is_awaited() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, origin| {
        let client = send_get(gateway);
        let mut visit = origin.accept();
        visit.head();
        assert_taken(gateway);
        client.close();
        assert_eq!(visit.read_to_end(), b"", "the upstream is told");
    });
    assert_eq!(count(&gateway, "ratelimiter_responses_total{status=\"499\"}"), 4);
}

/// A client that has sent more than is read ahead once could leave unseen: its place stayed taken until the upstream
/// responded.
#[test]
fn while_the_response_is_awaited_with_much_behind_the_request() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    for reset in [false, true] {
        rounds(&origin, &gateway, |gateway, origin| {
            let mut client = send_get(gateway);
            client.send(vec![b'x'; 40_000]);
            let mut visit = origin.accept();
            visit.head();
            assert_taken(gateway);
            if reset {
                // What has come in and was not read makes it a reset.
                visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello");
                client.stream.get_ref().peek(&mut [0]).expect("the answer has begun");
                drop(client);
            } else {
                client.close();
            }
            assert_eq!(visit.read_to_end(), b"", "the upstream is told");
        });
    }
}

#[test]
fn while_the_responses_head_is_half_there() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, origin| {
        let client = send_get(gateway);
        let mut visit = origin.accept();
        visit.head();
        visit.send("HTTP/1.1 200 OK\r\nContent-Le");
        assert_taken(gateway);
        client.close();
        assert_eq!(visit.read_to_end(), b"", "the upstream is told");
    });
}

#[test]
fn while_the_upstream_is_asked_whether_to_continue() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, origin| {
        let mut client = Client::connect(gateway.address);
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        let mut visit = origin.accept();
        visit.head();
        assert_taken(gateway);
        client.close();
        assert_eq!(visit.read_to_end(), b"", "the upstream is told");
    });
}

#[test]
fn in_a_tunnel() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, origin| {
        let (client, mut visit) = tunnel(gateway, origin);
        assert_taken(gateway);
        client.close();
        assert_eq!(visit.read_to_end(), b"", "the upstream is told");
    });
    rounds(&origin, &gateway, |gateway, origin| {
        let (mut client, visit) = tunnel(gateway, origin);
        assert_taken(gateway);
        visit.close();
        assert!(client.is_closed(), "the client is told");
    });
}

#[test]
fn while_it_is_to_go_over_to_a_tunnel() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, origin| {
        let mut client = Client::connect(gateway.address);
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
        let mut visit = origin.accept();
        visit.head();
        assert_taken(gateway);
        client.close();
        assert_eq!(visit.read_to_end(), b"", "the upstream is told");
    });
}

#[test]
fn behind_a_response_that_did_not_want_the_body() {
    let origin = Origin::new();
    let few = "{algorithm: token, capacity: 1, fillRate: 0.0001}";
    let gateway = gateway(origin.address, &[("few", few)], "");
    assert_passes(&gateway, &origin);
    let descriptors = Descriptors::of(&gateway);
    for _ in 0..20 {
        let mut client = Client::connect(gateway.address);
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello");
        assert_eq!(client.response().status, 429);
        client.close();
    }
    wait_until("no request is under way", || in_flight(&gateway) == 0);
    descriptors.assert_closed(20);
}

#[test]
fn in_the_middle_of_a_change_of_limits() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, _| {
        let mut client = Client::connect(gateway.address);
        client.send("POST /config/limits HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"algorithm\":");
        wait_until("it is under way", || in_flight(gateway) == 1);
        client.close();
    });
}

/// A tunnel that has carried bytes both ways.
fn tunnel(gateway: &Gateway, origin: &Origin) -> (Client, Visit) {
    let mut client = Client::connect(gateway.address);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    visit.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().status, 101);
    client.send("ping");
    assert_eq!(visit.read(4), b"ping");
    visit.send("pong");
    read_until(&mut client, b"pong");
    (client, visit)
}

fn read_until(client: &mut Client, end: &[u8]) {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).expect("more of it");
        read.push(byte[0]);
    }
}
