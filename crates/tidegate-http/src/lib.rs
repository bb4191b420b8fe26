//! The HTTP/1 engine of the gateway.
//!
//! Heads are read strictly (RFC 9112): what could be understood in two ways is rejected. Heads are written anew, with
//! one framing; nothing of a client's or an upstream's head is passed on unread. The engine knows neither routes nor
//! limits nor configuration: whoever uses it hands settings and functions down.
//!
//! | module | it is |
//! |---|---|
//! | [`headers`], [`header_lines`] | headers that were read, headers to write |
//! | [`request`], [`forwarded`] | the head of a request; what proxies report of those they speak for |
//! | [`framing`] | where messages end: the chunked coding, header names and values that decide it |
//! | [`stream`], [`deadlines`], [`activity`], [`descriptors`] | connections, and how long and how many of them |
//! | [`server`] | the side of clients: request heads, request bodies, response heads |
//! | [`client`] | the side of upstreams: pools of connections, name lookup, one exchange |
//! | [`tunnel`] | connections that have gone over to another protocol |
//!
//! `server` and `client` stand beside each other and share only what is below them.

pub mod activity;
pub mod client;
pub mod deadlines;
pub mod descriptors;
pub mod forwarded;
pub mod framing;
pub mod header_lines;
pub mod headers;
pub mod request;
pub mod server;
pub mod stream;
pub mod tunnel;

/// The examples of the README are compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
