//! Limits that follow a forecaster: what the gateway tells it, what it does with its answers, and with answers that are none.
#![allow(clippy::float_cmp, reason = "counts and settings are whole, or told as they were written")]

mod answers;
#[allow(dead_code, reason = "the tests of protocols use all of it")]
#[path = "../support/authority.rs"]
mod authority;
mod bad_answers;
mod council;
mod forecaster;
#[path = "../support/harness.rs"]
mod harness;
mod load;
mod measured;
mod operator;
mod rails;
mod secure;
#[allow(dead_code, reason = "the store's tests use all of it")]
#[path = "../../../tidegate-store/tests/redis/server.rs"]
mod server;
mod setting;
mod store;
