//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use socket2::SockRef;
use tidegate_http::pace::MOST_UNSENT;
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
    // Accepted sockets inherit it. A system that does not know it serves all the same, and slow readers cost it more
    // memory.
    let _set = SockRef::from(&socket).set_tcp_notsent_lowat(MOST_UNSENT);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow reader of 1 MB had all of it copied into the kernel.
    #[tokio::test]
    async fn what_waits_unsent_for_a_client_is_bounded() {
        let listener = listen(([127, 0, 0, 1], 0).into()).expect("a free port");
        listener.set_nonblocking(false).expect("a socket");
        let _client = std::net::TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (accepted, _) = listener.accept().expect("a client has come");
        assert_eq!(SockRef::from(&accepted).tcp_notsent_lowat().expect("a TCP socket"), MOST_UNSENT);
    }
}
