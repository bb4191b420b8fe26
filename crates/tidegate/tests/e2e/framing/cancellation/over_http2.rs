//! The same over HTTP/2, where a client leaves one request by a reset: its connection goes on, and only what that
//! request held is free.

use super::{
    Descriptors, Gateway, Origin, QUEUE, Server, Silent, SocketAddr, Upstream, admitted, assert_taken, in_flight,
    redis_has_it_all_back, rejected, rounds, upstream_connections, wait_until,
};
use tidegate_testkit::frames::{Frame, Wire};

fn gateway(upstream: SocketAddr, limits: &[(&str, &str)], more: &str) -> Gateway {
    super::gateway(upstream, limits, &format!("listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\n{more}"))
}

/// A connection over which one request after the other is made, and left.
struct Fickle {
    wire: Wire,
    stream: u32,
}

impl Fickle {
    fn connect(gateway: &Gateway) -> Self {
        Self { wire: Wire::connect(gateway.address), stream: 1 }
    }

    fn send_get(&mut self) {
        let fields: [(&str, &[u8]); 4] =
            [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/a")];
        assert!(self.wire.send(&[Frame::request(self.stream, &fields)]));
    }

    /// Leaves the request, and waits until it has been settled.
    fn leave(&mut self, gateway: &Gateway) {
        assert!(self.wire.send(&[Frame::reset(self.stream)]));
        self.stream += 2;
        wait_until("no request is under way", || in_flight(gateway) == 0);
        assert!(self.wire.settle(), "the connection goes on");
    }
}

#[test]
fn while_it_waits_in_a_queue() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[QUEUE], "");
    super::assert_passes(&gateway, &origin);
    let (first, mut client) = (admitted(&gateway, "queue"), Fickle::connect(&gateway));
    for round in 1..=3 {
        client.send_get();
        // Each gets the one place there is to wait in: those who left have given it back.
        wait_until("it waits in the queue", || admitted(&gateway, "queue") == first + round);
        assert_taken(&gateway);
        client.leave(&gateway);
    }
    assert!(!origin.has_visitor(), "who left the queue was sent on");
}

#[test]
fn while_redis_is_asked() {
    let (redis, upstream) = (Server::start(), Upstream::start());
    let once = ("once", "{algorithm: token, capacity: 2, fillRate: 0.0001}");
    let more = format!("redis: {{url: \"{}\", budget: 30s}}\n", redis.url());
    let gateway = gateway(upstream.address, &[once], &more);
    assert_eq!(gateway.get("/first").status, 200);
    let mut client = Fickle::connect(&gateway);
    for _ in 0..3 {
        redis.freeze(true);
        client.send_get();
        wait_until("it waits for Redis", || in_flight(&gateway) == 1);
        client.leave(&gateway);
        redis.freeze(false);
    }
    assert_eq!(upstream.count(), 1, "who left was sent on");
    redis_has_it_all_back(&gateway);
}

/// Nothing of it was sent on, so it has cost nothing.
#[test]
fn while_the_upstream_is_connected_to() {
    let silent = Silent::new();
    let once = ("once", "{algorithm: token, capacity: 1, fillRate: 0.0001}");
    let gateway = gateway(silent.address, &[once], "");
    let (descriptors, mut client) = (Descriptors::of(&gateway), Fickle::connect(&gateway));
    for _ in 0..4 {
        client.send_get();
        wait_until("it waits to be connected, or was refused", || {
            upstream_connections(&gateway) == 1 || rejected(&gateway, "once") > 0
        });
        assert_eq!(rejected(&gateway, "once"), 0, "its token was not given back");
        client.leave(&gateway);
        wait_until("the connection is given up", || upstream_connections(&gateway) == 0);
    }
    descriptors.assert_closed(4);
}

#[test]
fn while_the_response_is_awaited() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    let mut client = Fickle::connect(&gateway);
    rounds(&origin, &gateway, |gateway, origin| {
        client.send_get();
        let mut visit = origin.accept();
        visit.head();
        assert_taken(gateway);
        client.leave(gateway);
        assert_eq!(visit.read_to_end(), b"", "the upstream is told");
    });
    assert_eq!(super::count(&gateway, "ratelimiter_responses_total{status=\"499\"}"), 4);
}
