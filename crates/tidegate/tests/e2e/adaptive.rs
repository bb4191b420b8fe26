//! Limits that follow a forecaster: what the gateway tells it, what it does with its responses, and with answers that
//! are none.
#![allow(clippy::float_cmp, reason = "counts and settings are whole, or told as they were written")]

mod answers;
mod bad_answers;
mod council;
mod forecaster;
mod load;
mod measured;
mod operator;
mod rails;
mod secure;
mod setting;
mod store;
