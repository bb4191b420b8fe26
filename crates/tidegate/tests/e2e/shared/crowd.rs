//! Many clients at once, each over a connection that it keeps.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tidegate_testkit::{Client, wait_until};

/// What came of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many got a response, by status.
    pub(crate) responses: BTreeMap<u16, usize>,
    /// How many got no response.
    pub(crate) broken: usize,
}

impl Tally {
    /// How many got this status.
    pub(crate) fn of(&self, status: u16) -> usize {
        self.responses.get(&status).copied().unwrap_or(0)
    }

    fn add(&mut self, other: Self) {
        for (status, count) in other.responses {
            *self.responses.entry(status).or_default() += count;
        }
        self.broken += other.broken;
    }
}

/// Clients that send one request after the other until they are stopped.
pub(crate) struct Crowd {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Tally>>,
}

impl Crowd {
    /// So many clients at each of these addresses. A client whose connection broke stops.
    pub(crate) fn start(addresses: &[SocketAddr], clients_each: usize) -> Self {
        Self::sending(addresses, clients_each, usize::MAX)
    }

    fn sending(addresses: &[SocketAddr], clients_each: usize, requests_each: usize) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = |address: SocketAddr| {
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            std::thread::spawn(move || converse(address, requests_each, &stop, &sent))
        };
        let clients = addresses.iter().flat_map(|address| (0..clients_each).map(|_| client(*address))).collect();
        Self { stop, sent, clients }
    }

    /// Waits until so many more requests have got a response: what is checked next has then happened under load.
    pub(crate) fn wait_for(&self, more: usize) {
        let before = self.sent.load(Ordering::Relaxed);
        wait_until("the crowd sends", || self.sent.load(Ordering::Relaxed) >= before + more);
    }

    /// Waits until every client has sent what it was to send, or has lost its connection.
    pub(crate) fn join(self) -> Tally {
        let mut tally = Tally::default();
        for client in self.clients {
            tally.add(client.join().expect("no panic"));
        }
        tally
    }

    /// Lets the requests under way end, and stops.
    pub(crate) fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }
}

/// Sends so many requests from each of so many clients at each address, all at once.
pub(crate) fn send(addresses: &[SocketAddr], clients_each: usize, requests_each: usize) -> Tally {
    Crowd::sending(addresses, clients_each, requests_each).join()
}

fn converse(address: SocketAddr, requests: usize, stop: &AtomicBool, sent: &AtomicUsize) -> Tally {
    let mut tally = Tally::default();
    let mut client = Client::connect(address);
    for _ in 0..requests {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let is_sent = client.try_send("GET /crowd HTTP/1.1\r\nHost: test.example\r\n\r\n");
        let Some(response) = is_sent.then(|| client.try_response_to("GET")).flatten() else {
            tally.broken += 1;
            break;
        };
        *tally.responses.entry(response.status).or_default() += 1;
        sent.fetch_add(1, Ordering::Relaxed);
    }
    tally
}
