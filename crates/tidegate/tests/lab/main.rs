//! The lab from the command line: simulated and live.

#[path = "../support/harness.rs"]
mod harness;
#[path = "../control/outcome.rs"]
#[allow(dead_code, reason = "the tests of the gateway use all of it")]
mod outcome;

mod live;
mod replay;
mod simulate;
