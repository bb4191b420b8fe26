//! A connection to a client or an upstream, plain or with TLS.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsStream;

/// How long a connection that has been closed is still read, so that the client can read our last response (RFC 9112
/// §9.6), …
pub const LINGER: Duration = Duration::from_secs(1);
/// The same if another connection needs its slot.
pub const SHORT_LINGER: Duration = Duration::from_millis(100);
/// … and how much of it.
const MOST_LINGERED: usize = 256 * 1024;

/// A connection, plain or with TLS.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// Without TLS; the bytes that were read to detect the protocol come first.
    Prefixed(Bytes, TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) | Self::Prefixed(_, tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    /// A second handle on the socket.
    fn handle(&self) -> io::Result<std::net::TcpStream> {
        self.tcp().as_fd().try_clone_to_owned().map(Into::into)
    }

    /// Watches for the end of the connection while nothing is read from it. An error if too many connections are
    /// watched already, or descriptors have run out.
    pub fn end(&self) -> io::Result<End> {
        let slot = EndSlot::take().ok_or(io::ErrorKind::QuotaExceeded)?;
        Ok(End { tcp: self.handle().and_then(TcpStream::from_std)?, _slot: slot })
    }
}

/// Closes our side, and reads on for a moment: closing while bytes arrive would discard our last response before the
/// client has read it.
pub async fn linger(mut stream: Stream, patience: Duration) {
    let lingering = async {
        stream.shutdown().await?;
        let (mut scrap, mut read) = (vec![0; 4_096], 0);
        while read < MOST_LINGERED {
            match stream.read(&mut scrap).await? {
                0 => break,
                count => read += count,
            }
        }
        io::Result::Ok(())
    };
    // The connection ends here, whatever the result.
    let _ended = timeout(patience, lingering).await;
}

/// Closes our side and keeps the connection for a moment without reading: a client that sends without end must not cost
/// more, and must not reconnect at once.
pub async fn hold(mut stream: Stream) {
    let holding = async {
        stream.shutdown().await?;
        let end = stream.end()?;
        poll_fn(|cx| if end.poll_has_come(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
        io::Result::Ok(())
    };
    let _ended = timeout(LINGER, holding).await;
}

/// The end of a connection, as its socket reports it, even while unread bytes precede it. It has its own handle, so
/// that it does not consume readiness events of the reader.
pub struct End {
    tcp: TcpStream,
    _slot: EndSlot,
}

/// How many ends are watched, and the maximum: each takes a second descriptor for its connection.
static ENDS: AtomicUsize = AtomicUsize::new(0);
static MOST_ENDS: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bounds how many ends the process watches. Beyond it, the end of a connection is noticed at the next read or write.
pub fn bound_ends(most: usize) {
    MOST_ENDS.store(most, Ordering::Relaxed);
}

/// One of the slots for watched ends.
struct EndSlot;

impl EndSlot {
    fn take() -> Option<Self> {
        let most = MOST_ENDS.load(Ordering::Relaxed);
        let room = |ends| (ends < most).then_some(ends + 1);
        ENDS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok().map(|_| Self)
    }
}

impl Drop for EndSlot {
    fn drop(&mut self) {
        ENDS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl End {
    /// Whether the other side has closed the connection. If not, the task is woken when it does.
    pub fn poll_has_come(&self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(ready) = self.tcp.poll_read_ready(cx) {
            let state = pin!(self.tcp.ready(Interest::READABLE)).poll(cx);
            if ready.is_err() || matches!(state, Poll::Ready(Ok(ready)) if ready.is_read_closed()) {
                return true;
            }
            // More bytes arrived. They stay in the socket: only the readiness is cleared.
            let _cleared = self.tcp.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        false
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Prefixed(prefix, tcp) if prefix.is_empty() => Pin::new(tcp).poll_read(cx, buf),
            Self::Prefixed(prefix, _) => {
                let count = prefix.len().min(buf.remaining());
                buf.put_slice(&prefix[..count]);
                prefix.advance(count);
                Poll::Ready(Ok(()))
            }
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) | Self::Prefixed(_, tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) | Self::Prefixed(_, tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) | Self::Prefixed(_, tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
