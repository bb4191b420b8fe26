//! Clients that ask again and again, until the test has seen enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_testkit::{Client, Gateway, pause};

/// Clients at work; they leave with it.
pub(crate) struct Load {
    stopped: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// So many clients, each pausing for `between` from a response to the next request.
    pub(crate) fn start(gateway: &Gateway, clients: usize, between: Duration) -> Self {
        let (stopped, address) = (Arc::new(AtomicBool::new(false)), gateway.address);
        let client = |_| {
            let stopped = Arc::clone(&stopped);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                while !stopped.load(Ordering::Relaxed) {
                    client.request("GET", "/", &[], b"");
                    pause(between);
                }
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { stopped, clients }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let _ended = client.join();
        }
    }
}
