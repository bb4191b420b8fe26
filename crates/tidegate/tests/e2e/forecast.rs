//! The forecaster as gateways and its user meet it.
#![allow(clippy::float_cmp, clippy::cast_precision_loss, reason = "counts are whole")]

mod backtest;
mod forecaster;
mod idle;
mod options;
mod service;
mod state;
