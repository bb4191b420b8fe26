//! The gateway: a reverse proxy that limits.
//!
//! This crate's public face is small: [read](config::parse) a configuration, [check](config::Settings::check) it,
//! [bind](Server::bind) and [run](Server::run). The path of a request is `handler.rs`; ARCHITECTURE.md has the map.

mod access_log;
mod adapt;
mod admin;
mod body;
mod client;
pub mod config;
mod control;
mod ending;
mod facts;
mod file_budget;
mod gateway;
mod h2;
mod h2_streams;
mod handler;
mod identity;
mod key;
mod limits;
mod listener;
mod metrics;
mod origin;
mod plan;
mod refusal;
mod rehearsal;
mod reload;
mod reply;
mod request_body;
mod request_id;
mod returns;
mod room;
mod routes;
mod server;
mod stored;
mod tls;
mod told;
mod upstream;
mod upstream_metrics;
mod vetting;
mod worker;

pub use adapt::{Autopilot, Told};
pub use control::Source;
pub use rehearsal::{Judgement, LimitFacts, Past, Rehearsal, Verdict};
pub use server::{Handle, NotStarted, Server};
