//! The forecaster as gateways and its user meet it.
#![allow(clippy::float_cmp, clippy::cast_precision_loss, reason = "counts are whole")]

#[path = "../support/harness.rs"]
mod harness;
#[path = "../control/outcome.rs"]
#[allow(dead_code, reason = "the tests of the gateway use all of it")]
mod outcome;

mod backtest;
mod forecaster;
mod options;
mod service;
mod state;
