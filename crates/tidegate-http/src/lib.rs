//! The HTTP/1 engine of the Tidegate gateway.
//!
//! Heads are read strictly (RFC 9112): a message that two parsers could understand in two ways is rejected. Heads are
//! written anew, with one framing; nothing of a client's or an upstream's head is passed on unread. The engine knows
//! neither routes nor limits nor configuration: the caller passes settings and functions in.
//!
//! ```
//! use bytes::BytesMut;
//! use tidegate_http::server::take_head;
//!
//! let mut read = BytesMut::from("GET /users?page=2 HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
//! let head = take_head(&mut read, 32_768, 100).expect("a valid head").expect("a whole head");
//! assert_eq!(head.request.uri.path(), "/users");
//! assert_eq!(head.request.headers.get("host"), Some(&b"api.example.com"[..]));
//! assert!(head.keep_alive && read.is_empty());
//!
//! // A bare LF ends a line for some parsers and not for others.
//! let mut ambiguous = BytesMut::from("GET / HTTP/1.1\nHost: a\r\n\r\n");
//! let rejected = take_head(&mut ambiguous, 32_768, 100).err().expect("an error");
//! assert_eq!((rejected.status.as_u16(), rejected.detail), (400, "a line does not end in CR LF"));
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`headers`], [`header_lines`] | headers that were read, headers to write |
//! | [`request`], [`forwarded`] | the head of a request; the headers by which proxies report their clients |
//! | [`framing`] | where messages end: the chunked coding, and the header names and values that decide it |
//! | [`stream`], [`deadlines`], [`activity`], [`pace`], [`client_wait`] | connections, their timeouts and pace |
//! | [`descriptors`], [`share`], [`eviction`] | how many connections there may be, how many of one client, and which is closed for another |
//! | [`server`] | the side of clients: request heads, request bodies, response heads |
//! | [`client`] | the side of upstreams: pools of connections, name lookup, one exchange |
//! | [`tunnel`] | connections that have switched to another protocol |
//!
//! `server` and `client` do not know each other: they share only the modules below them.

pub mod activity;
pub mod client;
pub mod client_wait;
pub mod deadlines;
pub mod descriptors;
pub mod eviction;
pub mod forwarded;
pub mod framing;
pub mod header_lines;
pub mod headers;
pub mod pace;
pub mod request;
pub mod server;
pub mod share;
pub mod stream;
pub mod tunnel;

/// The examples of the README are compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
