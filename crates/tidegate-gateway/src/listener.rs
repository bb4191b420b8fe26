//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use tokio::net::TcpSocket;

/// A listening socket that all workers accept from.
pub(crate) struct Listener {
    /// `None` once the gateway drains: a client that connects then is rejected at once, and can go elsewhere.
    socket: Mutex<Option<std::net::TcpListener>>,
    pub(crate) address: SocketAddr,
    /// Read anew on reload.
    pub(crate) tls: ArcSwapOption<rustls::ServerConfig>,
    pub(crate) h2c: bool,
    pub(crate) is_admin: bool,
}

/// A listener and a worker's handle on its socket.
pub(crate) type Socket = (Arc<Listener>, std::net::TcpListener);

/// How many connections may wait in the kernel's queue: a burst of clients must not have to try twice. (The kernel may
/// permit fewer.)
pub(crate) const BACKLOG: u32 = 1_024;

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    // Workers take it into their own runtimes; it stays non-blocking.
    socket.listen(BACKLOG)?.into_std()
}

impl Listener {
    pub(crate) fn bind(
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        h2c: bool,
        is_admin: bool,
    ) -> io::Result<Self> {
        let socket = listen(address)?;
        let address = socket.local_addr()?;
        Ok(Self { socket: Mutex::new(Some(socket)), address, tls: ArcSwapOption::from(tls), h2c, is_admin })
    }

    /// A handle on the socket for a worker.
    pub(crate) fn socket(self: &Arc<Self>) -> io::Result<Socket> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok((Arc::clone(self), socket.try_clone()?))
    }

    pub(crate) fn close(&self) {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Uses another certificate for clients that connect from now on.
    pub(crate) fn show(&self, certificate: Option<Arc<rustls::ServerConfig>>) {
        self.tls.store(certificate);
    }
}
