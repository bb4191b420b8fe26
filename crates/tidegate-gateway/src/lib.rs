//! The gateway: a reverse proxy that limits.
//!
//! This crate's public face is small: [read](config::parse) a configuration, [check](settings::Settings::check) it,
//! [bind](Server::bind) and [run](Server::run). The path of a request is `handler.rs`; ARCHITECTURE.md has the map.

mod access_log;
mod adapt;
mod adaptation_state;
mod admin;
mod admission;
mod attempt;
mod attempt_hold;
mod body;
mod buffers;
mod client;
mod client_address;
mod client_shares;
mod collect;
pub mod config;
mod connection_slots;
mod control;
mod cuts;
mod endpoint_report;
mod endpoint_tasks;
mod endpoints;
mod facts;
mod file_budget;
mod gateway;
mod h2;
mod h2_streams;
mod handler;
mod identity;
mod key;
mod limit;
mod limit_headers;
mod limit_texts;
mod listener;
mod metrics;
mod names;
mod origin;
mod plan;
mod read_ahead;
mod rejection;
mod reload;
mod replay;
mod request_body;
mod request_context;
mod request_id;
mod resolve;
mod response;
mod returns;
mod routes;
mod server;
pub mod settings;
mod settlement;
mod stages;
mod stored;
mod stream_turns;
mod stream_waits;
mod tally;
mod tls;
mod upstream;
mod upstream_metrics;
mod validation;
mod worker;

pub use control::Source;
pub use replay::{Judgement, LimitFacts, PastRequest, Replayer, Verdict};
pub use server::{Handle, NotStarted, Server};
