//! How an idle HTTP/2 connection is closed to make room: with a GOAWAY that names its last request (RFC 9113 §6.8). A request that comes at
//! the same moment is above it, so that the client knows that it was not served, and can send it again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::h2::PREFACE;
use crate::stream::Stream;

/// The length of a frame's header (RFC 9113 §4.1).
const HEADER: usize = 9;
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;

/// The order to leave, given while nothing is under way on the connection. It is followed at the next read.
#[derive(Clone, Default)]
pub(crate) struct LeaveOrder(Arc<AtomicBool>);

impl LeaveOrder {
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An HTTP/2 client's connection that leaves when it is ordered to.
pub(crate) struct Leaving {
    stream: Stream,
    order: LeaveOrder,
    requests: Requests,
}

impl Leaving {
    pub(crate) fn new(stream: Stream, order: LeaveOrder) -> Self {
        Self { stream, order, requests: Requests { passed_over: PREFACE.len(), ..Requests::default() } }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn stream_mut(&mut self) -> Pin<&mut Stream> {
        Pin::new(&mut self.stream)
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.order.0.load(Ordering::Relaxed) {
            // Nothing is under way, so that all frames before it have been written. A socket that does not take so few bytes is not idle.
            let _sent = Pin::new(&mut self.stream).poll_write(cx, &goaway(self.requests.last_stream));
            let _flushed = Pin::new(&mut self.stream).poll_flush(cx);
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.requests.see(&buf.filled()[before..]);
        read
    }
}

/// A GOAWAY frame without an error.
fn goaway(last_stream: u32) -> [u8; HEADER + 8] {
    let mut frame = [0; HEADER + 8];
    (frame[2], frame[3]) = (8, GOAWAY);
    frame[HEADER..HEADER + 4].copy_from_slice(&last_stream.to_be_bytes());
    frame
}

/// Finds the last request in a client's bytes, however those are cut.
#[derive(Default)]
struct Requests {
    /// What is still to come of the preface, or of a payload.
    passed_over: usize,
    head: [u8; HEADER],
    filled: usize,
    last_stream: u32,
}

impl Requests {
    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let passed = self.passed_over.min(bytes.len());
            self.passed_over -= passed;
            bytes = &bytes[passed..];
            let part = bytes.len().min(HEADER - self.filled);
            self.head[self.filled..self.filled + part].copy_from_slice(&bytes[..part]);
            self.filled += part;
            bytes = &bytes[part..];
            if self.filled == HEADER {
                let [a, b, c, kind, _, stream @ ..] = self.head;
                if kind == HEADERS {
                    self.last_stream = self.last_stream.max(u32::from_be_bytes(stream) & 0x7fff_ffff);
                }
                self.passed_over = u32::from_be_bytes([0, a, b, c]) as usize;
                self.filled = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_request_is_found_however_the_bytes_are_cut() {
        let frame = |kind: u8, stream: u8, payload: &[u8]| {
            let length = u8::try_from(payload.len()).expect("a short one");
            [&[0, 0, length, kind, 4, 0, 0, 0, stream], payload].concat()
        };
        // The payload of the ping looks like a request, and the data that follows has a higher stream than any request.
        let ping = frame(6, 0, &[0, 0, 0, HEADERS, 0, 0, 0, 99]);
        let bytes = [PREFACE, &frame(4, 0, &[]), &frame(HEADERS, 3, &[0x82; 5]), &ping, &frame(0, 7, b"data")].concat();
        for size in 1..=bytes.len() {
            let mut requests = Requests { passed_over: PREFACE.len(), ..Requests::default() };
            bytes.chunks(size).for_each(|piece| requests.see(piece));
            assert_eq!((requests.last_stream, requests.filled, requests.passed_over), (3, 0, 0), "{size}");
        }
        assert_eq!(goaway(3), [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
    }
}
