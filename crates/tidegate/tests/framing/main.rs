//! HTTP/1 on the wire, both sides: what comes in, what goes on, what happens when either side misbehaves.

#[path = "../protocols/frames.rs"]
#[allow(dead_code, reason = "shared with the tests of HTTP/2, which use more of it")]
mod frames;
#[path = "../support/harness.rs"]
mod harness;
#[path = "../../../tidegate-store/tests/redis/server.rs"]
#[allow(dead_code, reason = "shared with the tests of the store, which use more of it")]
mod server;

mod ambiguity;
mod cancellation;
mod heads;
mod hop_by_hop;
mod judge;
mod origin;
mod proxying;
mod slowness;
mod unread;
mod upstream_trouble;
