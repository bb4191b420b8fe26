//! A service behind the gateway that shows every byte it was sent.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::message::{read_chunks, read_head};

/// A request as an upstream got it.
#[derive(Clone, Debug)]
pub struct Received {
    /// Method, target and version.
    pub line: String,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Which connection it came over, counted from 0.
    pub connection: u32,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

type Behaviour = dyn Fn(&Received, &mut TcpStream) -> bool + Send + Sync;

/// A service behind the gateway: it keeps what it was sent, byte by byte.
pub struct Upstream {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    bytes: Arc<Mutex<BTreeMap<u32, Vec<u8>>>>,
    stopped: Arc<AtomicBool>,
}

/// The response of an upstream unless set otherwise.
pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

impl Upstream {
    /// Responds to every request with `OK`.
    pub fn start() -> Self {
        Self::responding(|_| OK.to_vec())
    }

    /// Responds with what `response` returns, byte by byte.
    pub fn responding(response: impl Fn(&Received) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::behaving(move |received, stream| stream.write_all(&response(received)).is_ok())
    }

    /// Does with each request what `behaviour` says; false ends the connection.
    pub fn behaving(behaviour: impl Fn(&Received, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::listening(listener, behaviour)
    }

    /// The same on a socket that is there already.
    pub fn listening(
        listener: TcpListener,
        behaviour: impl Fn(&Received, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Self {
        let upstream = Self {
            address: listener.local_addr().expect("an address"),
            received: Arc::default(),
            bytes: Arc::default(),
            stopped: Arc::default(),
        };
        let (received, bytes, stopped) =
            (Arc::clone(&upstream.received), Arc::clone(&upstream.bytes), Arc::clone(&upstream.stopped));
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        std::thread::spawn(move || {
            for (connection, stream) in (0_u32..).zip(listener.incoming().map_while(Result::ok)) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (received, bytes, behaviour) = (Arc::clone(&received), Arc::clone(&bytes), Arc::clone(&behaviour));
                std::thread::spawn(move || converse(connection, stream, &received, &bytes, &*behaviour));
            }
        });
        upstream
    }

    /// All requests so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }

    pub fn last(&self) -> Received {
        self.received().pop().expect("a request")
    }

    pub fn count(&self) -> usize {
        self.received.lock().expect("no panic").len()
    }

    /// Every byte that came, by connection.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        self.bytes.lock().expect("no panic").values().cloned().collect()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _woken = TcpStream::connect(self.address);
    }
}

/// Keeps a copy of what is read.
struct Tapped<'a> {
    stream: TcpStream,
    connection: u32,
    bytes: &'a Mutex<BTreeMap<u32, Vec<u8>>>,
}

impl Read for Tapped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(buffer)?;
        // Of long bodies the beginning is enough.
        let mut all = self.bytes.lock().expect("no panic");
        let kept = all.entry(self.connection).or_default();
        if kept.len() < 1 << 20 {
            kept.extend_from_slice(&buffer[..count]);
        }
        Ok(count)
    }
}

fn converse(
    connection: u32,
    stream: TcpStream,
    received: &Mutex<Vec<Received>>,
    bytes: &Mutex<BTreeMap<u32, Vec<u8>>>,
    behaviour: &Behaviour,
) {
    let Ok(mut out) = stream.try_clone() else { return };
    let _set = out.set_nodelay(true);
    let mut stream = BufReader::new(Tapped { stream, connection, bytes });
    while let Some((line, headers)) = read_head(&mut stream) {
        let field = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        if field("expect").is_some() && out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            return;
        }
        let mut body = Vec::new();
        if field("transfer-encoding").is_some() {
            let Some(chunks) = read_chunks(&mut stream) else { return };
            body = chunks;
        } else if let Some(length) = field("content-length") {
            body = vec![0; length.parse().expect("a length")];
            if stream.read_exact(&mut body).is_err() {
                return;
            }
        }
        let request = Received { line, headers, body, connection };
        received.lock().expect("no panic").push(request.clone());
        if !behaviour(&request, &mut out) {
            let _closed = out.shutdown(Shutdown::Both);
            return;
        }
    }
}
