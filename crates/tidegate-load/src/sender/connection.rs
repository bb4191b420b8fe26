//! A connection of either protocol.

use super::exchange::{Done, Exchange};
use super::http1::Http1;
use super::http2::Http2;
use super::poller::Ready;

/// A connection.
pub(super) enum Line {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

impl Line {
    /// Whether another request may be sent on it.
    pub(super) fn is_free(&self) -> bool {
        match self {
            Self::Http1(line) => line.is_free(),
            Self::Http2(line) => line.is_free(),
        }
    }

    /// Whether it will be of use again.
    pub(super) fn is_usable(&self) -> bool {
        match self {
            Self::Http1(line) => line.is_usable(),
            Self::Http2(line) => line.is_usable(),
        }
    }

    /// Whether it must be looked after without an event from the kernel.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Self::Http1(line) => line.has_more(),
            Self::Http2(line) => line.has_more(),
        }
    }

    /// The socket is ready for something.
    pub(super) fn ready(&mut self, ready: &Ready, buffer: &mut [u8], done: &mut Vec<Done>) {
        match self {
            Self::Http1(line) => line.ready(ready, buffer, done),
            Self::Http2(line) => line.ready(done),
        }
    }

    /// Gives up the request that was sent as `stream`.
    pub(super) fn give_up(&mut self, stream: u32, done: &mut Vec<Done>) -> Option<Exchange> {
        match self {
            Self::Http1(line) => line.give_up(),
            Self::Http2(line) => line.give_up(stream, done),
        }
    }
}
