//! A connection of either protocol.

use super::exchange::{Done, Exchange};
use super::http1::Http1;
use super::http2::Http2;
use super::poller::Ready;

/// A connection to the target, by the protocol of the plan.
pub(super) enum Connection {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

impl Connection {
    /// Whether another request may be sent on it.
    pub(super) fn is_free(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_free(),
            Self::Http2(connection) => connection.is_free(),
        }
    }

    /// Whether it can be used again.
    pub(super) fn is_usable(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_usable(),
            Self::Http2(connection) => connection.is_usable(),
        }
    }

    /// Whether it must be looked after without an event from the kernel.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.has_more(),
            Self::Http2(connection) => connection.has_more(),
        }
    }

    /// The socket is ready for something.
    pub(super) fn ready(&mut self, ready: &Ready, buffer: &mut [u8], done: &mut Vec<Done>) {
        match self {
            Self::Http1(connection) => connection.ready(ready, buffer, done),
            Self::Http2(connection) => connection.ready(done),
        }
    }

    /// Gives up the request that was sent as `stream`.
    pub(super) fn give_up(&mut self, stream: u32, done: &mut Vec<Done>) -> Option<Exchange> {
        match self {
            Self::Http1(connection) => connection.give_up(),
            Self::Http2(connection) => connection.give_up(stream, done),
        }
    }
}
