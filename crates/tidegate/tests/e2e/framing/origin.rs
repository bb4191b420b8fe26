//! A service behind the gateway that the test itself plays, byte by byte.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use tidegate_testkit::{PATIENCE, wait_until};

/// A service whose every move is the test's.
pub(crate) struct Origin {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Origin {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("it can be asked without waiting");
        Self { address: listener.local_addr().expect("an address"), listener }
    }

    /// The next connection of the gateway; waits for it.
    pub(crate) fn accept(&self) -> Visit {
        let mut accepted = None;
        wait_until("a connection to the upstream", || {
            accepted = self.listener.accept().ok();
            accepted.is_some()
        });
        Visit::new(accepted.expect("it came").0)
    }

    /// A connection that waits to be accepted, if there is one.
    pub(crate) fn visitor(&self) -> Option<Visit> {
        self.listener.accept().ok().map(|(stream, _)| Visit::new(stream))
    }

    /// Whether a connection waits to be accepted.
    pub(crate) fn has_visitor(&self) -> bool {
        self.visitor().is_some()
    }
}

/// A connection of the gateway.
pub(crate) struct Visit {
    stream: BufReader<TcpStream>,
}

impl Visit {
    fn new(stream: TcpStream) -> Self {
        stream.set_nonblocking(false).expect("it waits");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream: BufReader::new(stream) }
    }

    /// The head of a request, as it came.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let count = self.stream.read_line(&mut head).expect("a head");
            assert!(count > 0, "the connection ends within a head: {head:?}");
        }
        head
    }

    /// So many bytes.
    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("bytes");
        bytes
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("it takes them");
    }

    /// Sends until the connection ends, and says how much was taken. Fails if nobody reads and nobody ends it.
    pub(crate) fn flood(&mut self, most: usize) -> usize {
        let (mut sent, piece) = (0, vec![b'x'; 65_536]);
        self.stream.get_ref().set_write_timeout(Some(PATIENCE)).expect("a timeout");
        while sent < most {
            match self.stream.get_mut().write_all(&piece) {
                Ok(()) => sent += piece.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nobody reads, and it stays open"),
                Err(_) => break,
            }
        }
        sent
    }

    /// Everything until the gateway ends the connection; fails if it does not.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
            Err(error) => panic!("the gateway keeps the connection: {error}"),
        }
        bytes
    }

    pub(crate) fn close(self) {
        let _closed = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}

/// An address that refuses every connection: it is bound, but nobody listens.
pub(crate) struct Rejecting {
    _socket: tokio::net::TcpSocket,
    pub(crate) address: SocketAddr,
}

impl Rejecting {
    pub(crate) fn new() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        Self { address: socket.local_addr().expect("an address"), _socket: socket }
    }
}

/// An address where nobody responds: its queue is full, so the kernel drops new connections.
pub(crate) struct Silent {
    listener: TcpListener,
    waiting: Vec<TcpStream>,
    pub(crate) address: SocketAddr,
}

impl Silent {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let listener = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
            socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
            socket.listen(1).and_then(tokio::net::TcpListener::into_std).expect("it listens")
        });
        let address = listener.local_addr().expect("an address");
        let (mut waiting, patience) = (Vec::new(), std::time::Duration::from_millis(100));
        while let Ok(stream) = TcpStream::connect_timeout(&address, patience) {
            waiting.push(stream);
            assert!(waiting.len() < 100, "the queue never fills");
        }
        Self { listener, waiting, address }
    }

    /// From now on connections are accepted.
    pub(crate) fn open(self) -> Origin {
        drop(self.waiting);
        self.listener.set_nonblocking(true).expect("it can be asked without waiting");
        while self.listener.accept().is_ok() {}
        Origin { listener: self.listener, address: self.address }
    }
}
