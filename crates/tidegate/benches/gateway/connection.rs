//! A client's connection: HTTP/1.1, read strictly and as cheaply as can be.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

const READ: usize = 16 * 1024;

pub(crate) struct Connection {
    stream: TcpStream,
    read: BytesMut,
}

/// The head of a response.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) length: usize,
    /// Whether the gateway closes the connection afterwards.
    pub(crate) closes: bool,
}

impl Connection {
    pub(crate) async fn open(gateway: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(gateway).await?)
    }

    /// Connects from this address of the loopback: to a gateway, another one is another client.
    pub(crate) async fn open_from(address: Ipv4Addr, gateway: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((address, 0).into())?;
        Self::over(socket.connect(gateway).await?)
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: BytesMut::new() })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads a head.
    pub(crate) async fn head(&mut self) -> io::Result<Head> {
        loop {
            if let Some(end) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = self.read.split_to(end + 4);
                return parse(&head).ok_or_else(|| fault("its head can't be understood"));
            }
            self.more().await?;
        }
    }

    /// Reads a whole response.
    pub(crate) async fn response(&mut self) -> io::Result<Head> {
        let head = self.head().await?;
        let mut left = head.length;
        loop {
            let count = left.min(self.read.len());
            self.read.advance(count);
            left -= count;
            if left == 0 {
                break;
            }
            self.more().await?;
        }
        if self.read.is_empty() { Ok(head) } else { Err(fault("more than an answer came")) }
    }

    /// Reads so many bytes.
    pub(crate) async fn exactly(&mut self, count: usize) -> io::Result<BytesMut> {
        while self.read.len() < count {
            self.more().await?;
        }
        Ok(self.read.split_to(count))
    }

    /// Says that nothing more will be sent, and waits until the other side has said so too.
    pub(crate) async fn close(mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        match self.stream.read_buf(&mut self.read).await? {
            0 => Ok(()),
            _ => Err(fault("something came after the end")),
        }
    }

    async fn more(&mut self) -> io::Result<()> {
        self.read.reserve(READ);
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn fault(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn parse(head: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(head).ok()?;
    let status = text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let (mut length, mut closes) = (None, false);
    for line in text.split("\r\n").skip(1) {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse().ok()?);
        } else if name.eq_ignore_ascii_case("connection") {
            closes = value.eq_ignore_ascii_case("close");
        }
    }
    // Everything here has a length, but for the response that is the last before another protocol.
    let length = if status == 101 { 0 } else { length? };
    Some(Head { status, length, closes })
}
