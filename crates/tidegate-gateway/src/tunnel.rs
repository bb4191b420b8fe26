//! Connections that have gone over to another protocol, such as WebSocket: bytes both ways, until either side ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};

use crate::stream::Stream;
use crate::sweep::Deadline;
use crate::upstream::Connection;

/// Joins the client's connection, as soon as it has gone over, with the upstream's. What the request holds is held meanwhile.
pub(crate) fn open(upstream: Connection, upgrading: OnUpgrade, idle: Duration, held: impl Send + 'static) {
    tokio::spawn(async move {
        let (stream, unread, deadline, place) = upstream.into_parts();
        let mut upstream = Watched { stream, unread, deadline, idle };
        upstream.deadline.set(idle);
        let Ok(client) = upgrading.await else { return };
        let mut client = TokioIo::new(client);
        // However it ends, it has ended: there is nobody to tell.
        let _ended = copy_bidirectional(&mut client, &mut upstream).await;
        let _closed = client.shutdown().await;
        drop((held, place));
    });
}

/// The upstream's side of a tunnel. All bytes pass it, either way: it sees when none have for too long.
struct Watched {
    stream: Stream,
    /// What came with the head of the answer.
    unread: BytesMut,
    deadline: Arc<Deadline>,
    idle: Duration,
}

impl Watched {
    fn check<T>(&self, cx: &Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.deadline.set(self.idle);
        } else if self.deadline.has_passed() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        } else {
            self.deadline.watch(cx);
        }
        moved
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let count = self.unread.len().min(buf.remaining());
            buf.put_slice(&self.unread[..count]);
            self.unread.advance(count);
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.check(cx, read)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
