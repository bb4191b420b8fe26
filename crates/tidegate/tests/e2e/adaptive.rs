//! Limits that follow a forecaster: what the gateway sends it, what it does with its responses, and with responses that
//! are none.
#![allow(clippy::float_cmp, reason = "counts and settings are whole, or told as they were written")]

mod bad_responses;
mod election;
mod forecaster;
mod load;
mod measured;
mod operator;
mod rails;
mod responses;
mod secure;
mod setting;
mod store;
