//! A server that does as little as a server can: it responds to whatever ends in an empty line, and writes down when
//! that came.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK";
/// The listener among the connections, which are numbered from 0.
const LISTENER: u64 = u64::MAX;

pub(crate) struct Responder {
    pub(crate) port: u16,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

impl Responder {
    /// Serves in a thread of its own, to the end of the program.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket can be");
        let port = listener.local_addr().expect("an address").port();
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&arrivals);
        thread::spawn(move || serve(&listener, &reported));
        Self { port, arrivals }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// When requests came since this was last asked.
    pub(crate) fn take_arrivals(&self) -> Vec<Instant> {
        std::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(listener: &TcpListener, arrivals: &Mutex<Vec<Instant>>) {
    let epoll: OwnedFd = epoll::create(CreateFlags::CLOEXEC).expect("epoll");
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN).expect("a listener");
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let (mut events, mut buffer) = (Vec::<Event>::with_capacity(256), vec![0; 16_384]);
    loop {
        events.clear();
        if epoll::wait(&epoll, spare_capacity(&mut events), None).is_err() {
            continue;
        }
        for event in &events {
            let data = event.data;
            if data.u64() == LISTENER {
                accept(listener, &epoll, &mut connections);
                continue;
            }
            let slot = &mut connections[data.u64() as usize];
            if slot.as_mut().is_some_and(|stream| !response(stream, &mut buffer, arrivals)) {
                *slot = None;
            }
        }
    }
}

fn accept(listener: &TcpListener, epoll: &OwnedFd, connections: &mut Vec<Option<TcpStream>>) {
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).expect("a socket can be");
        let data = EventData::new_u64(connections.len() as u64);
        epoll::add(epoll, &stream, data, EventFlags::IN | EventFlags::ET).expect("a connection");
        connections.push(Some(stream));
    }
}

/// Responds to what has come, and says whether the connection is still there. No tool here sends a request before the
/// last one gets a response.
fn response(stream: &mut TcpStream, buffer: &mut [u8], arrivals: &Mutex<Vec<Instant>>) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        Ok(read) if buffer[..read].ends_with(b"\r\n\r\n") => {
            arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            stream.write_all(RESPONSE).is_ok()
        }
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
