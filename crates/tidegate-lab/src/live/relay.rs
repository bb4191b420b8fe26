//! A connection that can be slow, or stand still: responses may be delayed, or nothing passes at all.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use tokio::sync::watch;

use super::hosted::Hosted;

/// Passes connections on to an address.
pub(super) struct Relay {
    hosted: Hosted,
    delay: Arc<AtomicU64>,
    is_frozen: watch::Sender<bool>,
}

impl Relay {
    /// A relay to this address, at a free port.
    pub(super) fn to(target: SocketAddr) -> Result<Self, String> {
        Self::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), target)
    }

    /// A relay to this target that listens at this address.
    pub(super) fn at(address: SocketAddr, target: SocketAddr) -> Result<Self, String> {
        let delay = Arc::new(AtomicU64::new(0));
        let (held_up, is_frozen) = (Arc::clone(&delay), watch::Sender::new(false));
        let frozen = is_frozen.subscribe();
        let hosted = Hosted::start("relay", move |mut stop, ready| async move {
            let listener = match TcpListener::bind(address).await {
                Ok(listener) => listener,
                Err(error) => return drop(ready.send(Err(error.to_string()))),
            };
            let _heard = ready.send(listener.local_addr().map_err(|error| error.to_string()));
            loop {
                tokio::select! {
                    () = stop.wanted() => return,
                    accepted = listener.accept() => {
                        // If the target can't be reached, the client's connection ends too.
                        if let (Ok((near, _)), Ok(far)) = (accepted, TcpStream::connect(target).await) {
                            join(near, far, &held_up, &frozen);
                        }
                    }
                }
            }
        })?;
        Ok(Self { hosted, delay, is_frozen })
    }

    /// Where it is reached.
    pub(super) fn address(&self) -> SocketAddr {
        self.hosted.address
    }

    /// From now on responses come so much later.
    pub(super) fn slow_down(&self, delay: Duration) {
        self.delay.store(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// From now on nothing passes, either way, until it does again: connections stay.
    pub(super) fn freeze(&self, is_frozen: bool) {
        self.is_frozen.send_replace(is_frozen);
    }
}

fn join(near: TcpStream, far: TcpStream, delay: &Arc<AtomicU64>, frozen: &watch::Receiver<bool>) {
    // Small pieces both ways; an error here ends the connection, which both sides see.
    let _set = (near.set_nodelay(true), far.set_nodelay(true));
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    tokio::spawn(pass(near_read, far_write, Arc::default(), frozen.clone()));
    tokio::spawn(pass(far_read, near_write, Arc::clone(delay), frozen.clone()));
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Arc<AtomicU64>,
    mut frozen: watch::Receiver<bool>,
) {
    let mut piece = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let micros = delay.load(Relaxed);
        if micros > 0 {
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
        if frozen.wait_for(|is_frozen| !is_frozen).await.is_err() || to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
    let _ended = to.shutdown().await;
}
