//! The edge of adaptation: a task on the main runtime that carries out what [`tidegate_adapt`] decides.
//!
//! - [`driver`] samples the counters each second ([`counters`]), asks the forecaster ([`forecaster_client`]), and
//!   puts the pilot's numbers in force through [`Control::adapt`](crate::control::Control::adapt). No request ever
//!   waits for it.
//! - Among gateways that share the limit through Redis the leader decides, and the others follow the numbers that it
//!   publishes: [`membership`] is a gateway's part in that.
//! - [`reporting`] writes what happens to the log, the history and metrics
//!   ([`adaptation_state`](crate::adaptation_state)).

mod counters;
mod driver;
mod forecaster_client;
mod membership;
mod reporting;

pub(crate) use driver::run;
