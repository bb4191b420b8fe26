//! A client's connection: who it is, and how long it may take for what.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::config::model::Connections;
use crate::forwarded;
use crate::sweep::{Deadline, Waiting};

/// A client's connection, as its requests see it.
pub(crate) struct Client {
    /// The address that connected; IPv4-mapped addresses as IPv4.
    pub(crate) peer: IpAddr,
    /// The peer as text, for `X-Forwarded-For` …
    pub(crate) peer_text: Box<str>,
    /// … and for `Forwarded`.
    pub(crate) peer_forwarded: Box<str>,
    /// What the listener is bound to.
    pub(crate) listener: SocketAddr,
    pub(crate) scheme: &'static str,
    pub(crate) is_h2: bool,
    /// Whether it came to the listener for changes and metrics.
    pub(crate) is_admin: bool,
    pub(crate) deadline: Arc<Deadline>,
    pub(crate) write_timeout: Duration,
    head_timeout: Duration,
    idle_timeout: Duration,
    /// Requests under way, and those of HTTP/2 that have come and not begun.
    active: AtomicU32,
    /// Pieces of responses that HTTP/2 has taken and not yet sent.
    unsent: AtomicU32,
    /// When a byte of these has last moved, in the worker's milliseconds.
    moved_millis: AtomicU64,
    /// A head has begun to arrive.
    in_head: AtomicBool,
    /// The client takes nothing of what is written.
    blocked: AtomicBool,
}

impl Client {
    pub(crate) fn new(
        peer: IpAddr,
        listener: SocketAddr,
        is_tls: bool,
        is_h2: bool,
        is_admin: bool,
        deadline: Arc<Deadline>,
        connections: &Connections,
    ) -> Self {
        let (head_timeout, idle_timeout) = (connections.head_timeout.get(), connections.idle_timeout.get());
        // A client that speaks HTTP/2 has sent something already.
        let first = if is_h2 { idle_timeout } else { idle_timeout.min(head_timeout) };
        deadline.set_for(Waiting::First, first);
        let peer = peer.to_canonical();
        Self {
            peer,
            peer_text: peer.to_string().into(),
            peer_forwarded: forwarded::node_of(peer).into(),
            listener,
            scheme: if is_tls { "https" } else { "http" },
            is_h2,
            is_admin,
            deadline,
            write_timeout: connections.write_timeout.get(),
            head_timeout,
            idle_timeout,
            active: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            moved_millis: AtomicU64::new(0),
            in_head: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
        }
    }

    pub(crate) fn request_began(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.in_head.store(false, Ordering::Relaxed);
        self.set_deadline();
    }

    pub(crate) fn request_ended(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.set_deadline();
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// What the connection waits for decides how long it may: for a request under way there is a deadline where it waits.
    fn set_deadline(&self) {
        if self.blocked.load(Ordering::Relaxed) {
            self.deadline.set_for(Waiting::Taking, self.write_timeout);
        } else if self.active.load(Ordering::Relaxed) > 0 {
            self.deadline.clear();
        } else if self.in_head.load(Ordering::Relaxed) {
            self.deadline.set_for(Waiting::Head, self.head_timeout);
        } else if self.unsent.load(Ordering::Relaxed) > 0 {
            // Not from now: only a byte that moves gains time.
            self.deadline.set_since(self.moved_millis.load(Ordering::Relaxed), Waiting::Taking, self.write_timeout);
        } else {
            self.deadline.set_for(Waiting::Next, self.idle_timeout);
        }
    }

    fn note_moved(&self) {
        self.moved_millis.store(self.deadline.now_millis(), Ordering::Relaxed);
    }

    /// A request has come over HTTP/2, and will begin in a task of its own: until then, too, the connection is not idle.
    pub(crate) fn request_came(self: &Arc<Self>) -> Arrival {
        self.request_began();
        Arrival(Arc::clone(self))
    }

    /// HTTP/2 has taken a piece of a response, to send it when the client lets it.
    pub(crate) fn piece_taken(&self) {
        if self.unsent.fetch_add(1, Ordering::Relaxed) == 0 {
            self.note_moved();
        }
    }

    /// Some bytes of a piece have been sent.
    pub(crate) fn piece_moved(&self) {
        self.note_moved();
        if self.is_idle() {
            self.set_deadline();
        }
    }

    /// It has been sent, or never will be.
    pub(crate) fn piece_gone(&self) {
        let was_last = self.unsent.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && self.is_idle() {
            self.set_deadline();
        }
    }

    pub(crate) fn has_read(&self) {
        // HTTP/2 has frames that begin no request; there, what is no request is idle.
        let begins = !self.is_h2 && self.active.load(Ordering::Relaxed) == 0;
        if begins && !self.in_head.swap(true, Ordering::Relaxed) {
            self.set_deadline();
        }
    }

    /// Nothing of a request is there: what was read was the end of the last one.
    pub(crate) fn awaits_request(&self) {
        if self.in_head.swap(false, Ordering::Relaxed) {
            self.set_deadline();
        }
    }

    pub(crate) fn has_written(&self, blocked: bool) {
        // Only when it turns: a client that takes nothing gains no time by what is waiting for it.
        if blocked != self.blocked.load(Ordering::Relaxed) {
            self.blocked.store(blocked, Ordering::Relaxed);
            self.note_moved();
            self.set_deadline();
        }
    }
}

/// A request that has come over HTTP/2: its connection is not idle as long as this is held.
pub(crate) struct Arrival(Arc<Client>);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Ended, Sweep};

    const WRITE_TIMEOUT_MILLIS: u64 = 30_000;

    /// An HTTP/2 connection with the default timeouts.
    fn connected() -> (Arc<Sweep>, Arc<Client>) {
        let (sweep, address) = (Sweep::new(), SocketAddr::from(([127, 0, 0, 1], 80)));
        let client = Client::new(address.ip(), address, false, true, false, sweep.deadline(), &Connections::default());
        (sweep, Arc::new(client))
    }

    fn is_idle(sweep: &Sweep) -> bool {
        let mut idlers = Vec::new();
        sweep.idlers(&mut idlers);
        !idlers.is_empty()
    }

    /// Between its arrival and its beginning, the end of another stream made the connection idle: an eviction then dropped the request.
    #[test]
    fn a_request_that_has_come_keeps_its_connection_from_being_idle() {
        let (sweep, client) = connected();
        client.request_began();
        let arrival = client.request_came();
        client.request_ended();
        assert!(!is_idle(&sweep) && !client.is_idle());
        client.request_began();
        drop(arrival);
        assert!(!is_idle(&sweep), "it is under way");
        client.request_ended();
        assert!(is_idle(&sweep));
        drop(client.request_came());
        assert!(is_idle(&sweep), "it was given up before it began");
    }

    /// A response that waits for the client's window had all of `idle_timeout`, and more with each request besides.
    #[test]
    fn only_a_byte_that_moves_gives_a_waiting_response_more_time() {
        let (sweep, client) = connected();
        let late = Some(Ended::Late(Waiting::Taking));
        client.request_began();
        client.piece_taken();
        client.request_ended();
        assert!(!is_idle(&sweep), "a response is under way");
        sweep.sweep(WRITE_TIMEOUT_MILLIS - 1_000);
        client.request_began();
        client.request_ended();
        client.has_written(false);
        client.has_read();
        sweep.sweep(WRITE_TIMEOUT_MILLIS + 100);
        assert_eq!(client.deadline.ended(), late);

        client.piece_moved();
        sweep.sweep(2 * WRITE_TIMEOUT_MILLIS);
        assert_eq!(client.deadline.ended(), None);
        sweep.sweep(2 * WRITE_TIMEOUT_MILLIS + 200);
        assert_eq!(client.deadline.ended(), late);
        client.piece_gone();
        assert!(is_idle(&sweep));
    }
}
