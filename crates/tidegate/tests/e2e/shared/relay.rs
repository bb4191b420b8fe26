//! A line to Redis that can be made slow, or stand still.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::shared::holding::Door;
use tidegate_testkit::pause;
use tidegate_testkit::redis_server::Server;

/// Carries bytes between gateways and a server. What the server says arrives later, if it is set so.
pub(crate) struct Relay {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    delay_millis: AtomicU64,
    scripts: AtomicUsize,
    door: Door,
    stopped: AtomicBool,
}

impl Relay {
    pub(crate) fn start(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (port, server) = (listener.local_addr().expect("an address").port(), server.port);
        let state = Arc::<State>::default();
        state.door.set(true);
        let relay = Self { port, state: Arc::clone(&state) };
        std::thread::spawn(move || {
            for gateway in listener.incoming().map_while(Result::ok) {
                if state.stopped.load(Ordering::Relaxed) {
                    return;
                }
                // A server that is away looks as it would without a relay: the connection ends.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    join(gateway, server, &state);
                }
            }
        });
        relay
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on what the server says takes so long.
    pub(crate) fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).expect("a short time");
        self.state.delay_millis.store(millis, Ordering::Relaxed);
    }

    /// Keeps what the server says until it is let go.
    pub(crate) fn hold(&self) {
        self.state.door.set(false);
    }

    pub(crate) fn let_go(&self) {
        self.state.door.set(true);
    }

    /// How many scripts have been sent to the server.
    pub(crate) fn scripts(&self) -> usize {
        self.state.scripts.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        self.let_go();
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(gateway: TcpStream, server: TcpStream, state: &Arc<State>) {
    for stream in [&gateway, &server] {
        stream.set_nodelay(true).expect("no delay of the kernel's");
    }
    let (mut to_server, mut to_gateway) =
        (server.try_clone().expect("a socket"), gateway.try_clone().expect("a socket"));
    let asking = Arc::clone(state);
    std::thread::spawn(move || {
        carry(gateway, |bytes| {
            let scripts = bytes.windows(4).filter(|word| word == b"EVAL").count();
            // Counted when the server has it, not before.
            let written = to_server.write_all(bytes).is_ok();
            asking.scripts.fetch_add(scripts, Ordering::Relaxed);
            written
        });
        let _ended = to_server.shutdown(Shutdown::Both);
    });
    let (on_its_way, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
    let responding = Arc::clone(state);
    std::thread::spawn(move || {
        carry(server, |bytes| {
            let delay = Duration::from_millis(responding.delay_millis.load(Ordering::Relaxed));
            on_its_way.send((Instant::now() + delay, bytes.to_vec())).is_ok()
        });
    });
    let arrived = Arc::clone(state);
    std::thread::spawn(move || {
        for (at, bytes) in arriving {
            pause(at.saturating_duration_since(Instant::now()));
            arrived.door.pass();
            if to_gateway.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ended = to_gateway.shutdown(Shutdown::Both);
    });
}

fn carry(mut from: TcpStream, mut to: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !to(&buffer[..count]) {
            return;
        }
    }
}
