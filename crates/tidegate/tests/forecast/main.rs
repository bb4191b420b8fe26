//! `tidegate forecast` as its user meets it.

#[path = "../support/harness.rs"]
mod harness;
#[path = "../control/outcome.rs"]
#[allow(dead_code, reason = "the tests of the gateway use all of it")]
mod outcome;

mod backtest;
