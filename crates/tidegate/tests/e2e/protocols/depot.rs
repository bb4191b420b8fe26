//! An upstream for bodies of any length, plain or with TLS: it makes, checks and echoes them piece by piece.
//!
//! `POST /upload` responds with how much came and whether it was right; `GET /download/{length|chunked|close}/N` with
//! N bytes; `POST /echo` with what it reads, while it reads; `POST /hold` is an upload that is not read before
//! [`Depot::release`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::protocols::pattern::Pattern;
use tidegate_testkit::read_head;

/// The upstream.
pub(crate) struct Depot {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// Bytes of bodies that were handed to the kernel.
    written: AtomicU64,
    connections: AtomicUsize,
    requests: AtomicUsize,
    names: Mutex<Vec<Option<String>>>,
    released: Mutex<bool>,
    release: Condvar,
}

impl Depot {
    pub(crate) fn start() -> Self {
        Self::listen(None)
    }

    pub(crate) fn with_tls(config: Arc<ServerConfig>) -> Self {
        Self::listen(Some(config))
    }

    fn listen(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let shared: Arc<Shared> = Arc::default();
        let depot = Self { address: listener.local_addr().expect("an address"), shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                // Where a client leaves early, a conversation ends in an error that means nothing here.
                std::thread::spawn(move || {
                    let _ended = welcome(stream, tls, &shared);
                });
            }
        });
        depot
    }

    /// Bytes of responses' bodies that the kernel has taken so far.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Connections over which a request came.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// The names that clients have asked for in their TLS handshakes.
    pub(crate) fn names(&self) -> Vec<Option<String>> {
        self.shared.names.lock().expect("no panic").clone()
    }

    /// Lets uploads to `/hold` be read.
    pub(crate) fn release(&self) {
        *self.shared.released.lock().expect("no panic") = true;
        self.shared.release.notify_all();
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.release();
        self.shared.stopped.store(true, Ordering::Relaxed);
        let _woken = TcpStream::connect(self.address);
    }
}

fn welcome(mut stream: TcpStream, tls: Option<Arc<ServerConfig>>, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(config) = tls else { return converse(stream, shared) };
    let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    shared.names.lock().expect("no panic").push(session.server_name().map(str::to_owned));
    let mut stream = StreamOwned::new(session, stream);
    let ended = converse(&mut stream, shared);
    stream.conn.send_close_notify();
    stream.flush()?;
    ended
}

fn converse(stream: impl Read + Write, shared: &Shared) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let mut is_new = true;
    while let Some((line, headers)) = read_head(&mut stream) {
        shared.connections.fetch_add(usize::from(std::mem::take(&mut is_new)), Ordering::Relaxed);
        shared.requests.fetch_add(1, Ordering::Relaxed);
        let mut body = BodyReader::of(&headers);
        let path = line.split(' ').nth(1).unwrap_or_default();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts[..] {
            ["upload"] => upload(&mut stream, &mut body)?,
            ["hold"] => {
                let released = shared.released.lock().expect("no panic");
                drop(shared.release.wait_while(released, |released| !*released).expect("no panic"));
                upload(&mut stream, &mut body)?;
            }
            ["echo"] => echo(&mut stream, &mut body)?,
            ["download", framing, length] => {
                download(stream.get_mut(), shared, framing, length.parse().expect("a length"))?;
                if framing == "close" {
                    return Ok(());
                }
            }
            _ => stream.get_mut().write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?,
        }
        stream.get_mut().flush()?;
    }
    Ok(())
}

fn upload(stream: &mut BufReader<impl Read + Write>, body: &mut BodyReader) -> io::Result<()> {
    let (mut pattern, mut right, mut piece) = (Pattern::default(), true, vec![0; 64 * 1024]);
    loop {
        let count = body.read(stream, &mut piece)?;
        if count == 0 {
            break;
        }
        right &= pattern.takes(&piece[..count]);
    }
    let reported = format!("{} {right}", pattern.position);
    write!(stream.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{reported}", reported.len())
}

fn echo(stream: &mut BufReader<impl Read + Write>, body: &mut BodyReader) -> io::Result<()> {
    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let count = body.read(stream, &mut piece)?;
        if count == 0 {
            return stream.get_mut().write_all(b"0\r\n\r\n");
        }
        write!(stream.get_mut(), "{count:x}\r\n")?;
        stream.get_mut().write_all(&piece[..count])?;
        stream.get_mut().write_all(b"\r\n")?;
    }
}

fn download(out: &mut impl Write, shared: &Shared, framing: &str, length: u64) -> io::Result<()> {
    match framing {
        "length" => write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?,
        "chunked" => out.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?,
        _ => out.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?,
    }
    let mut pattern = Pattern::default();
    while pattern.position < length {
        let piece = pattern.next(length - pattern.position);
        if framing == "chunked" {
            write!(out, "{:x}\r\n", piece.len())?;
        }
        out.write_all(&piece)?;
        if framing == "chunked" {
            out.write_all(b"\r\n")?;
        }
        shared.written.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    if framing == "chunked" {
        out.write_all(b"0\r\n\r\n")?;
    }
    Ok(())
}

/// Reads a body out of a connection, whatever marks its end.
pub(crate) enum BodyReader {
    Length(u64),
    /// So much is left of the chunk.
    Chunked(u64),
    End,
}

impl BodyReader {
    /// What the headers of a request say.
    pub(crate) fn of(headers: &[(String, String)]) -> Self {
        let field = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        match (field("transfer-encoding"), field("content-length")) {
            (Some("chunked"), None) => Self::Chunked(0),
            (None, Some(length)) => Self::Length(length.parse().expect("a length")),
            (None, None) => Self::End,
            both => panic!("ambiguous: {both:?}"),
        }
    }

    /// The next bytes; zero at the end. A connection that ends before is an error.
    pub(crate) fn read(&mut self, stream: &mut impl BufRead, piece: &mut [u8]) -> io::Result<usize> {
        if let Self::Chunked(0) = self {
            let size = chunk_size(stream)?;
            *self = if size == 0 { Self::End } else { Self::Chunked(size) };
            if size == 0 {
                empty_line(stream)?;
            }
        }
        let most = match self {
            Self::Length(0) | Self::End => return Ok(0),
            Self::Length(left) | Self::Chunked(left) => usize::try_from(*left).unwrap_or(usize::MAX).min(piece.len()),
        };
        let count = stream.read(&mut piece[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Self::Length(left) | Self::Chunked(left) = self {
            *left -= count as u64;
        }
        if let Self::Chunked(0) = self {
            empty_line(stream)?;
        }
        Ok(count)
    }
}

fn chunk_size(stream: &mut impl BufRead) -> io::Result<u64> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    u64::from_str_radix(line.trim_end(), 16).map_err(|_| io::Error::other(format!("no chunk size: {line:?}")))
}

fn empty_line(stream: &mut impl BufRead) -> io::Result<()> {
    let mut line = [0; 2];
    stream.read_exact(&mut line)?;
    if line == *b"\r\n" { Ok(()) } else { Err(io::Error::other("no line end behind a chunk")) }
}
