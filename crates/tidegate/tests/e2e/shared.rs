//! Gateways that share a Redis, what becomes of them when it is away, and what a change, a reload or the end does to
//! requests under way.

mod crowd;
mod encrypted;
mod followed;
mod holding;
mod outage;
mod relay;
mod restarted;
mod setup;
mod sharing;
mod shutdown;
mod topologies;
mod under_load;
