//! The edge of adaptation: a task on the main runtime that runs what [`tidegate_adapt`] decides.
//!
//! - [`driver`] samples the counters each second ([`counters`]), asks the forecaster ([`forecaster_client`]), and
//!   puts in force what the pilot wants through [`Control::adapt`](crate::control::Control::adapt). No request ever
//!   waits for it.
//! - Of gateways that share the limit through Redis the leader decides, and the pilots of the others have the numbers
//!   that it publishes: [`membership`] is a gateway's part in that.
//! - [`reporting`] writes what happens to the log, the history and metrics
//!   ([`adaptation_state`](crate::adaptation_state)).

mod counters;
mod driver;
mod forecaster_client;
mod membership;
mod reporting;

pub(crate) use driver::run;
