//! Bytes to and from a target, never waiting: over TCP alone, or through TLS.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// TLS settings, and the name that the certificate must have.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// A connection. Whatever would wait is `WouldBlock`.
#[derive(Debug)]
pub(crate) struct Wire {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    /// Begins to connect; whether that has succeeded is reported by [`connected`](Self::connected) when the socket is
    /// ready.
    pub(crate) fn open(address: SocketAddr, secured: Option<&Secured>) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        let tcp = TcpStream::from(socket);
        tcp.set_nodelay(true)?;
        match connect(&tcp, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let tls = secured.map(|Secured { config, name }| ClientConnection::new(Arc::clone(config), name.clone()));
        let tls = tls.transpose().map_err(io::Error::other)?.map(Box::new);
        Ok(Self { tcp, tls })
    }

    /// Why the connection could not be made, if that is known by now.
    pub(crate) fn connected(&self) -> io::Result<()> {
        self.tcp.take_error()?.map_or(Ok(()), Err)
    }

    /// Through TLS, so that a short read does not mean that there is nothing left.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Sends some of `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.tcp.write(bytes) };
        let taken = tls.writer().write(bytes)?;
        self.flush()?;
        if taken == 0 && !bytes.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Sends what TLS has kept, as far as that can be done now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.tcp) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives some bytes; none at the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.tcp.read(into) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Closed without `close_notify`, as many servers do. HTTP shows by itself whether something is missing,
                // except for a response that ends by closing: it can't be distinguished from one that was cut off.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if !take_in(tls, &mut self.tcp)? {
                return if tls.is_handshaking() { Err(ErrorKind::ConnectionAborted.into()) } else { Ok(0) };
            }
        }
    }

    /// Continues the TLS handshake, and returns whether it is over.
    pub(crate) fn shake(&mut self) -> io::Result<bool> {
        loop {
            self.flush()?;
            let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_handshaking()) else { return Ok(true) };
            match take_in(tls, &mut self.tcp) {
                Ok(true) => {}
                Ok(false) => return Err(ErrorKind::ConnectionAborted.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the other side, or its certificate, could not be trusted.
    pub(crate) fn is_mistrust(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
    }

    /// Whether both sides have agreed on HTTP/2; without TLS the plan decides.
    pub(crate) fn is_http2(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.alpn_protocol() == Some(b"h2"))
    }
}

/// Takes in some of what has come, and sends what TLS itself wants to send. Returns whether the other side is
/// still there.
fn take_in(tls: &mut ClientConnection, tcp: &mut TcpStream) -> io::Result<bool> {
    if tls.read_tls(tcp)? == 0 {
        return Ok(false);
    }
    let processed = tls.process_new_packets();
    // Also the alert that reports what was wrong; what can't be sent now is sent with what comes next.
    while tls.wants_write() && tls.write_tls(tcp).is_ok() {}
    processed.map(|_| true).map_err(io::Error::other)
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}
