//! A service to protect: so many workers, a bounded queue before them, a service time of a known distribution, and
//! faults that are switched at run time.
//!
//! What it decides is free of clocks and input: [`ServiceTime`], [`Contention`], [`Station`] and [`Faults`] serve a
//! simulation as well. [`Target`] serves them over HTTP.

mod actuator;
mod contention;
mod cpu_threads;
mod duration_text;
mod fault_switch;
mod faults;
mod http_service;
mod live_station;
mod metrics;
mod precise_timer;
mod service_time;
mod settings;
mod station;

pub use contention::Contention;
pub use faults::Faults;
pub use http_service::Target;
pub use service_time::{InvalidServiceTime, ServiceTime};
pub use settings::{Settings, Work};
pub use station::{Station, Ticket};
