//! Gateways that share a Redis, what becomes of them when it is away, and what a change, a reload or the end does to requests under way.

#[allow(dead_code, reason = "the tests of protocols use all of it")]
#[path = "../support/authority.rs"]
mod authority;
mod crowd;
mod encrypted;
mod followed;
#[path = "../support/harness.rs"]
mod harness;
mod holding;
mod outage;
mod relay;
#[allow(dead_code, reason = "the store's tests use all of it")]
#[path = "../../../tidegate-store/tests/redis/secure.rs"]
mod secure;
#[allow(dead_code, reason = "the store's tests use all of it")]
#[path = "../../../tidegate-store/tests/redis/server.rs"]
mod server;
mod setup;
mod sharing;
mod shutdown;
mod topologies;
mod under_load;
