//! Clients that stall: each opens a request, goes no further, and opens another one when it is cut.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest, Ready};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::streams;

/// The attackers come within this time.
const ARRIVAL: Duration = Duration::from_secs(2);
/// The time from a cut to the next request. Without it this would be a flood, which is another attack.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// What one read of a slow reader takes, once a second.
const SIP: usize = 100;
/// How long a slow reader keeps a connection. The end of one that the gateway has closed waits behind bytes that the
/// reader never takes, so it goes by time: longer than the gateway bears it by default.
const READER_LIFETIME: Duration = Duration::from_secs(35);
/// Small, so that responses wait in the gateway and not in the kernel.
const RECEIVE_BUFFER: u32 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    Bodies,
    Streams,
    Readers,
    LongReaders,
}

impl Attack {
    pub(crate) const ALL: [Self; 4] = [Self::Bodies, Self::Streams, Self::Readers, Self::LongReaders];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bodies => "bodies",
            Self::Streams => "streams",
            Self::Readers => "readers-1m",
            Self::LongReaders => "readers-100m",
        }
    }

    /// How many connections it has.
    fn connections(self) -> u32 {
        match self {
            Self::Bodies => 4_600,
            Self::Streams => streams::CONNECTIONS,
            Self::Readers => 1_000,
            Self::LongReaders => 500,
        }
    }
}

/// Where an attack comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    OneAddress,
    ManyAddresses,
}

impl Origin {
    pub(crate) const ALL: [Self; 2] = [Self::OneAddress, Self::ManyAddresses];

    pub(crate) fn addresses(self) -> u32 {
        match self {
            Self::OneAddress => 1,
            Self::ManyAddresses => 50,
        }
    }

    fn address(self, number: u32) -> Ipv4Addr {
        match self {
            Self::OneAddress => Ipv4Addr::new(127, 0, 0, 2),
            Self::ManyAddresses => Ipv4Addr::new(127, 0, 1, 1 + (number % self.addresses()) as u8),
        }
    }
}

/// Requests of attackers: opened so far, and ended by the gateway.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) opened: AtomicU64,
    pub(crate) ended: AtomicU64,
}

/// An attack under way; it ends with its owner.
pub(crate) struct Crowd {
    pub(crate) tally: Arc<Tally>,
    runtime: Option<Runtime>,
}

impl Crowd {
    pub(crate) fn start(attack: Attack, origin: Origin, gateway: SocketAddr) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
        let tally = Arc::<Tally>::default();
        for number in 0..attack.connections() {
            let from = origin.address(number);
            let delay = ARRIVAL * number / attack.connections();
            runtime.spawn(persist(attack, from, gateway, delay, Arc::clone(&tally)));
        }
        Self { tally, runtime: Some(runtime) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

async fn persist(attack: Attack, from: Ipv4Addr, gateway: SocketAddr, delay: Duration, tally: Arc<Tally>) {
    sleep(delay).await;
    loop {
        if let Ok(stream) = connect(from, gateway).await {
            // How it ends makes no difference: the next one begins.
            let _ended = match attack {
                Attack::Bodies => send_part(stream, &tally).await,
                Attack::Streams => streams::hold(stream, &tally).await,
                Attack::Readers => sip(stream, "/1m", &tally).await,
                Attack::LongReaders => sip(stream, "/100m", &tally).await,
            };
        }
        sleep(PAUSE).await;
    }
}

async fn connect(from: Ipv4Addr, gateway: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind((from, 0).into())?;
    socket.connect(gateway).await
}

/// Sends a hundredth of a body, and waits.
async fn send_part(mut stream: TcpStream, tally: &Tally) -> io::Result<()> {
    let head = b"POST /take HTTP/1.1\r\nHost: bench\r\nContent-Length: 100000\r\n\r\n";
    stream.write_all(&[&head[..], &[b'x'; 1_000]].concat()).await?;
    tally.opened.fetch_add(1, Ordering::Relaxed);
    let mut response = [0; 1024];
    while stream.read(&mut response).await.is_ok_and(|count| count > 0) {}
    tally.ended.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Asks for a long response, and takes a little of it each second.
async fn sip(mut stream: TcpStream, path: &str, tally: &Tally) -> io::Result<()> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes()).await?;
    tally.opened.fetch_add(1, Ordering::Relaxed);
    let (mut taken, start) = ([0; SIP], Instant::now());
    while start.elapsed() < READER_LIFETIME {
        sleep(Duration::from_secs(1)).await;
        let is_closed = stream.ready(Interest::READABLE).await.is_ok_and(Ready::is_read_closed);
        if is_closed || !stream.read(&mut taken).await.is_ok_and(|count| count > 0) {
            tally.ended.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    Ok(())
}
