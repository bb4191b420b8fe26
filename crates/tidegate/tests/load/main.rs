//! The load generator as its user meets it.

#[path = "../support/harness.rs"]
mod harness;
#[path = "../control/outcome.rs"]
mod outcome;

#[path = "../support/authority.rs"]
#[allow(dead_code, reason = "the tests of protocols use all of it")]
mod authority;

mod command_line;
mod freeze;
mod http2_peer;
mod merge;
mod running;
mod secure;
mod sending;
mod service;
mod target;
