//! A connection to an endpoint: its unparsed bytes, and the slot and descriptor that it holds.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::slots::Slot;
use crate::deadlines::Deadline;
use crate::descriptors::Descriptor;
use crate::stream::Stream;

/// The size of the first read, and of later ones when a body fills it.
const FIRST_READ: usize = 8 * 1024;
const LARGEST_READ: usize = 32 * 1024;

/// A connection to an endpoint. It is kept in a box, so that exchanges and pools hand it on without copying it.
pub struct Connection {
    pub(super) stream: Stream,
    /// Bytes that were read and not yet parsed.
    pub(super) read: BytesMut,
    /// The size of the next read.
    read_size: usize,
    /// Whether it has carried a request before.
    pub(super) reused: bool,
    /// When it became idle, in the milliseconds of its worker.
    pub(super) idle_since: u64,
    /// The worker that opened it, whose runtime it belongs to. While connections are scarce, others use it, too.
    pub(super) worker: usize,
    pub(super) deadline: Arc<Deadline>,
    /// Given back when the connection is dropped.
    slot: Slot,
    /// Given back when the connection is dropped: after `stream`, which is closed first.
    descriptor: Descriptor,
}

impl Connection {
    /// A new connection over an open stream.
    pub(super) fn new(
        stream: Stream,
        worker: usize,
        deadline: Arc<Deadline>,
        slot: Slot,
        descriptor: Descriptor,
    ) -> Box<Self> {
        Box::new(Self {
            stream,
            read: BytesMut::new(),
            read_size: FIRST_READ,
            reused: false,
            idle_since: 0,
            worker,
            deadline,
            slot,
            descriptor,
        })
    }

    /// Whether it can carry another request: since the last one nothing has arrived and it was not closed.
    pub(super) fn is_alive(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut cx = Context::from_waker(Waker::noop());
        self.read.is_empty() && Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// Whether another request waits until a connection is closed.
    pub(super) fn is_descriptor_wanted(&self) -> bool {
        self.descriptor.is_wanted()
    }

    /// Prepares it to be kept.
    pub(super) fn rest(&mut self) {
        self.deadline.clear();
        self.reused = true;
        self.idle_since = self.deadline.now_millis();
        self.read_size = FIRST_READ;
        if self.read.capacity() > FIRST_READ {
            self.read = BytesMut::new();
        }
    }

    /// Reads more; zero is the end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read.reserve(self.read_size);
        let count = std::task::ready!(pin!(self.stream.read_buf(&mut self.read)).poll(cx));
        if matches!(count, Ok(count) if count >= self.read_size) {
            self.read_size = (self.read_size * 2).min(LARGEST_READ);
        }
        Poll::Ready(count)
    }

    /// The bare connection and the bytes not yet parsed, for an upgrade.
    pub(crate) fn into_parts(self) -> (Stream, BytesMut, Arc<Deadline>, impl Send) {
        (self.stream, self.read, self.deadline, (self.slot, self.descriptor))
    }
}
