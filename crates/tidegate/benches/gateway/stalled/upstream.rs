//! The service behind the gateway: short responses, long ones with back pressure, and bodies that it reads.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;
const READ: usize = 16 * 1024;
/// What the kernel takes of a response before its reader does, as over a network. On the loopback, where packets have
/// 64 KiB, it would take up to 4 MiB of each long response. This one thread would be busy with copying them, and the
/// latency of the honest would be that of their upstream.
const SEND_BUFFER: u32 = 128 * 1024;
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];

pub(crate) struct Upstream {
    pub(crate) port: u16,
    _runtime: Runtime,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
        let socket = TcpSocket::new_v4().expect("a socket");
        // Accepted sockets inherit it.
        socket.set_send_buffer_size(SEND_BUFFER).expect("a TCP socket");
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let listener = {
            let _guard = runtime.enter();
            socket.listen(BACKLOG).expect("it is bound")
        };
        let port = listener.local_addr().expect("it is bound").port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream));
            }
        });
        Self { port, _runtime: runtime }
    }
}

/// Serves a connection until it ends.
async fn converse(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut read = BytesMut::new();
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            more(&mut stream, &mut read).await?;
        };
        let head = String::from_utf8_lossy(&read.split_to(end)).into_owned();
        let mut body = content_length(&head);
        while body > 0 {
            let count = body.min(read.len());
            read.advance(count);
            body -= count;
            if body > 0 {
                more(&mut stream, &mut read).await?;
            }
        }
        respond(&mut stream, head.split(' ').nth(1).unwrap_or_default()).await?;
    }
}

async fn more(stream: &mut TcpStream, read: &mut BytesMut) -> io::Result<()> {
    read.reserve(READ);
    if stream.read_buf(read).await? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn content_length(head: &str) -> usize {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    head.lines().find_map(value).unwrap_or(0)
}

async fn respond(stream: &mut TcpStream, path: &str) -> io::Result<()> {
    let mut left: usize = match path {
        "/1m" => 1_000_000,
        "/100m" => 100_000_000,
        _ => return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK").await,
    };
    stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n").as_bytes()).await?;
    while left > 0 {
        let count = left.min(PIECE.len());
        stream.write_all(&PIECE[..count]).await?;
        left -= count;
    }
    Ok(())
}
