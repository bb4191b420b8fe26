//! The load generator as its user meets it.

mod command_line;
mod freeze;
mod http2_peer;
mod merge;
mod secure;
mod sending;
mod service;
mod target;
