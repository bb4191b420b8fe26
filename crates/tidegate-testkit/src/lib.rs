//! What tests share: real servers, a client and an upstream that show every byte, and naive models to judge by.
//!
//! Everything listens on free ports of the loopback and is ended by its process id. Waiting is for the thing itself,
//! with a bound.
#![allow(missing_docs, reason = "read by those who write tests; names that need no words have none")]
#![allow(clippy::new_without_default, reason = "to make one is to start something")]

pub mod oracle;
pub mod walk;

#[cfg(feature = "servers")]
pub mod authority;
#[cfg(feature = "servers")]
mod client;
#[cfg(feature = "servers")]
pub mod command;
#[cfg(feature = "servers")]
mod directory;
#[cfg(feature = "servers")]
mod dns_message;
#[cfg(feature = "servers")]
pub mod dns_server;
#[cfg(feature = "servers")]
pub mod frames;
#[cfg(feature = "servers")]
mod gateway;
#[cfg(feature = "servers")]
pub mod load_run;
#[cfg(feature = "servers")]
mod message;
#[cfg(feature = "servers")]
mod process;
#[cfg(feature = "servers")]
pub mod redis_server;
#[cfg(feature = "servers")]
pub mod redis_tls;
#[cfg(feature = "servers")]
pub mod timing;
#[cfg(feature = "servers")]
mod upstream;
#[cfg(feature = "servers")]
mod waiting;

#[cfg(feature = "servers")]
pub use {
    client::{Client, Response, connect_from, request},
    directory::{Directory, text},
    gateway::Gateway,
    message::read_head,
    process::{binary, signal, tidegate},
    upstream::{OK, Received, Upstream},
    waiting::{PATIENCE, pause, pause_async, wait_for, wait_for_exit, wait_until, wait_until_async},
};
