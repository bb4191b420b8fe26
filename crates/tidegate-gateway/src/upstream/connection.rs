use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{Trouble, Upstream};
use crate::stream::Stream;
use crate::sweep::{Deadline, Sweep};

/// What a read asks for at first; more when a body fills it.
const FIRST_READ: usize = 8 * 1024;
const LARGEST_READ: usize = 32 * 1024;

/// A connection to an upstream.
pub(crate) struct Connection {
    pub(super) stream: Stream,
    /// What was read and not yet understood.
    pub(super) read: BytesMut,
    /// What the next read asks for.
    read_size: usize,
    /// Whether it has carried a request before.
    pub(super) reused: bool,
    /// Since when it is idle, in the worker's milliseconds.
    pub(super) idle_since: u64,
    pub(super) deadline: Arc<Deadline>,
    /// Given up with the connection.
    place: Place,
}

/// One of the connections an upstream may have.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let room = |open| (open < most).then_some(open + 1);
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Self(Arc::clone(open)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    /// A new connection, TLS included, within the upstream's time for it.
    pub(crate) async fn open(upstream: &Upstream, sweep: &Sweep) -> Result<Self, Trouble> {
        let settings = &upstream.settings;
        let place = || Place::take(&upstream.pools.open, settings.max_connections);
        // A connection that nobody uses is no reason to refuse, whichever worker keeps it.
        let place = place().or_else(|| upstream.close_one_idle().then(place).flatten()).ok_or(Trouble::Full)?;
        let connecting = timeout(settings.connect_timeout, connect(upstream));
        let stream = connecting.await.map_err(|_| Trouble::ConnectTimeout)?.map_err(Trouble::Connect)?;
        Ok(Self {
            stream,
            read: BytesMut::new(),
            read_size: FIRST_READ,
            reused: false,
            idle_since: 0,
            deadline: sweep.deadline(),
            place,
        })
    }

    /// Whether it can carry another request: nothing came and it was not closed since the last one.
    pub(super) fn is_alive(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut cx = Context::from_waker(Waker::noop());
        self.read.is_empty() && Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// Makes it fit to be kept.
    pub(super) fn rest(&mut self, now: u64) {
        self.deadline.clear();
        self.reused = true;
        self.idle_since = now;
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

    /// The bare connection and what was read of it, for an upgrade.
    pub(crate) fn into_parts(self) -> (Stream, BytesMut, Arc<Deadline>, impl Send) {
        (self.stream, self.read, self.deadline, self.place)
    }
}

async fn connect(upstream: &Upstream) -> io::Result<Stream> {
    let settings = &upstream.settings;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in lookup_host((&*settings.host, settings.port)).await? {
        match TcpStream::connect(address).await {
            Ok(tcp) => {
                tcp.set_nodelay(true)?;
                let Some(tls) = &settings.tls else { return Ok(Stream::Plain(tcp)) };
                let tls = TlsConnector::from(Arc::clone(&tls.config)).connect(tls.name.clone(), tcp).await?;
                return Ok(Stream::Tls(Box::new(tls.into())));
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
