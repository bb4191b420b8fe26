use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::descriptors::Descriptor;
use super::{Local, Trouble, Upstream};
use crate::file_budget::is_out_of_files;
use crate::stream::Stream;
use crate::sweep::Deadline;
use crate::tls::ClientTls;

/// What a read asks for at first; more when a body fills it.
const FIRST_READ: usize = 8 * 1024;
const LARGEST_READ: usize = 32 * 1024;
/// The least time an address has, of those that a name may have many of.
const LEAST_SHARE: Duration = Duration::from_millis(200);

/// How long what was closed has until another descriptor is opened in its place.
const FILE_PATIENCE: Duration = Duration::from_millis(5);

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
    /// The same: after `stream`, which is closed first.
    descriptor: Descriptor,
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
    pub(super) async fn open(upstream: &Upstream, local: &Local<'_>) -> Result<Self, Trouble> {
        let (settings, sweep) = (&upstream.settings, local.sweep);
        let place = || Place::take(&upstream.pools.open, settings.max_connections);
        // A connection that nobody uses is no reason to refuse, whichever worker keeps it.
        let place = place().or_else(|| upstream.close_one_idle().then(place).flatten()).ok_or(Trouble::Full)?;
        let until = Instant::now() + settings.connect_timeout;
        let descriptor = local.descriptors.take(until, local.close_idle).await.ok_or(Trouble::OutOfFiles)?;
        let stream = connect(upstream, local, until).await?;
        Ok(Self {
            stream,
            read: BytesMut::new(),
            read_size: FIRST_READ,
            reused: false,
            idle_since: 0,
            deadline: sweep.deadline(),
            place,
            descriptor,
        })
    }

    /// Whether it can carry another request: nothing came and it was not closed since the last one.
    pub(super) fn is_alive(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut cx = Context::from_waker(Waker::noop());
        self.read.is_empty() && Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// Whether another request waits until a connection is closed.
    pub(super) fn is_descriptor_wanted(&self) -> bool {
        self.descriptor.is_wanted()
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
        (self.stream, self.read, self.deadline, (self.place, self.descriptor))
    }
}

/// Connects to an upstream. Where the system opens no more descriptors, something that can be spared is closed first: the upstream is well.
async fn connect(upstream: &Upstream, local: &Local<'_>, until: Instant) -> Result<Stream, Trouble> {
    loop {
        match attempt_once(upstream, local, until).await {
            Err(Trouble::Connect(error)) if is_out_of_files(&error) => {
                (local.free_a_file)();
                if Instant::now() + FILE_PATIENCE >= until {
                    return Err(Trouble::OutOfFiles);
                }
                tokio::time::sleep(FILE_PATIENCE).await;
            }
            done => return done,
        }
    }
}

/// Finds the upstream and connects to it.
async fn attempt_once(upstream: &Upstream, local: &Local<'_>, until: Instant) -> Result<Stream, Trouble> {
    let settings = &upstream.settings;
    let addresses = if let Ok(ip) = settings.host.parse::<IpAddr>() {
        Arc::from([SocketAddr::new(ip, settings.port)])
    } else {
        let (sweep, host) = (Arc::clone(local.sweep), (settings.host.to_string(), settings.port));
        let resolve = || async { lookup_host(host).await.map(Iterator::collect) };
        let finding = upstream.pools.lookups[local.worker].get(move || sweep.now_millis(), resolve);
        timeout_at(until, finding).await.map_err(|_| Trouble::ConnectTimeout)?.map_err(Trouble::Connect)?
    };
    connect_to(&addresses, settings.tls.as_ref(), until).await
}

/// Connects to one of the addresses, in their order.
pub(crate) async fn connect_to(
    addresses: &[SocketAddr],
    tls: Option<&ClientTls>,
    until: Instant,
) -> Result<Stream, Trouble> {
    let mut failed = Trouble::Connect(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for (address, others) in addresses.iter().zip((1..=addresses.len()).rev()) {
        // Each has its share: one that does not answer must not use up the time of those behind it.
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(others).unwrap_or(u32::MAX);
        match timeout(share.max(LEAST_SHARE).min(left), attempt(*address, tls)).await {
            Ok(Ok(stream)) => return Ok(stream),
            // The next would have none, either.
            Ok(Err(error)) if is_out_of_files(&error) => return Err(Trouble::Connect(error)),
            Ok(Err(error)) => failed = Trouble::Connect(error),
            Err(_) => failed = Trouble::ConnectTimeout,
        }
    }
    Err(failed)
}

async fn attempt(address: SocketAddr, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Stream::Plain(tcp)) };
    let tls = TlsConnector::from(Arc::clone(&tls.config)).connect(tls.name.clone(), tcp).await?;
    Ok(Stream::Tls(Box::new(tls.into())))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
    const PATIENCE: Duration = Duration::from_secs(2);

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { timeout(10 * PATIENCE, test).await.expect("it ends") });
    }

    async fn listening() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(LOOPBACK).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    /// A listener whose queue is full: the kernel drops whoever knocks.
    async fn silent() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(LOOPBACK).expect("a free port");
        let listener = socket.listen(1).expect("it listens");
        let (address, mut waiting) = (listener.local_addr().expect("an address"), Vec::new());
        while let Ok(stream) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
            waiting.push(stream.expect("it is there"));
            assert!(waiting.len() < 100, "the queue never fills");
        }
        (listener, address, waiting)
    }

    #[test]
    fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        run(async {
            let ((_listener, silent, _waiting), (_other, answers)) = (silent().await, listening().await);
            let stream = connect_to(&[silent, answers], None, Instant::now() + PATIENCE).await;
            let Ok(Stream::Plain(tcp)) = stream else { panic!("it can't be reached") };
            assert_eq!(tcp.peer_addr().expect("it is connected"), answers);
            let late = connect_to(&[silent], None, Instant::now() + LEAST_SHARE).await;
            assert!(matches!(late, Err(Trouble::ConnectTimeout)));
        });
    }

    #[test]
    fn an_address_that_has_no_tls_leaves_the_next_a_chance() {
        run(async {
            let roots = Arc::new(RootCertStore::empty());
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let config = config.expect("versions").with_root_certificates(Arc::clone(&roots)).with_no_client_auth();
            let name = ServerName::try_from("localhost").expect("a name");
            let tls = ClientTls { config: Arc::new(config), name, roots };
            let ((first, address), (second, other)) = (listening().await, listening().await);
            let addresses = [address, other];
            let connecting = connect_to(&addresses, Some(&tls), Instant::now() + PATIENCE);
            // Both take the connection, and close it.
            let closed = async { (first.accept().await.map(drop), second.accept().await.map(drop)) };
            let (failed, closed) = tokio::join!(connecting, closed);
            assert!(closed.0.is_ok() && closed.1.is_ok());
            assert!(matches!(failed, Err(Trouble::Connect(_))));
        });
    }
}
