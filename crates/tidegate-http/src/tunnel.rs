//! Connections that have switched to another protocol, such as WebSocket: bytes both ways, until either side ends.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use crate::client::Connection;
use crate::deadlines::Deadline;
use crate::stream::Stream;

/// Copies bytes between the client and the upstream until both sides have ended or no byte has moved for `idle`.
pub async fn run(client: Stream, unread: BytesMut, upstream: Connection, idle: Duration) {
    // Dropped after the connections.
    let (stream, from_upstream, deadline, _slot) = upstream.into_parts();
    deadline.set(idle);
    let mut client = Side { stream: client, unread, deadline: Arc::clone(&deadline), idle };
    let mut upstream = Side { stream, unread: from_upstream, deadline: Arc::clone(&deadline), idle };
    let mut copying = pin!(copy_bidirectional(&mut client, &mut upstream));
    // An error ends the tunnel like a regular end: nobody is left to report it to.
    poll_fn(|cx| {
        deadline.watch(cx);
        if deadline.has_passed() { Poll::Ready(()) } else { copying.as_mut().poll(cx).map(|_ended| ()) }
    })
    .await;
}

/// One side of a tunnel. Every byte that moves postpones the deadline.
struct Side {
    stream: Stream,
    /// Bytes that were read together with the head.
    unread: BytesMut,
    deadline: Arc<Deadline>,
    idle: Duration,
}

impl Side {
    fn moved<T>(&self, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.deadline.set(self.idle);
        }
        moved
    }
}

impl AsyncRead for Side {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let count = self.unread.len().min(buf.remaining());
            buf.put_slice(&self.unread[..count]);
            self.unread.advance(count);
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.moved(read)
    }
}

impl AsyncWrite for Side {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.moved(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
