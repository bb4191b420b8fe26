//! An endpoint: one address of a service, and the connections to it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::connect::ClientTls;
use super::connection::Connection;
use super::slots::{Slot, Slots};
use crate::deadlines::Owner;

/// The bounds of connections to an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointBounds {
    /// The longest time to connect.
    pub connect_timeout: Duration,
    /// The longest time from the request's last byte to the head of the response.
    pub response_timeout: Duration,
    /// The longest pause in a body.
    pub body_timeout: Duration,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// The most idle connections of each worker.
    pub max_idle: usize,
    /// The most connections of all workers together.
    pub max_connections: usize,
    /// The most bytes of a response's head.
    pub max_head_bytes: usize,
}

/// An endpoint, with its connections.
pub struct Endpoint {
    /// Where it is.
    pub address: SocketAddr,
    /// For `https`.
    pub tls: Option<Arc<ClientTls>>,
    /// The bounds of its connections.
    pub bounds: EndpointBounds,
    /// Its connections.
    pub pools: Arc<Pools>,
}

/// The connections to one address. They outlive a reload, so that their number stays bounded.
pub struct Pools {
    /// Whom the deadlines of its connections belong to.
    pub owner: Owner,
    pub(super) slots: Arc<Slots>,
    /// Idle connections, by the worker's index.
    idle: Box<[Pool]>,
    /// No configuration names the address any more: no connection is kept.
    closed: AtomicBool,
}

/// Idle connections of one worker to one endpoint. The last one used is the first one taken.
#[derive(Default)]
struct Pool(Mutex<Idle>);

type Idle = Vec<Box<Connection>>;

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    /// Empty pools, one for each worker.
    pub fn new(workers: usize) -> Self {
        let idle = (0..workers).map(|_| Pool::default()).collect();
        Self { owner: Owner::unique(), slots: Arc::default(), idle, closed: AtomicBool::new(false) }
    }

    /// How many connections are open, idle ones included.
    pub fn open(&self) -> usize {
        self.slots.open()
    }

    /// Closes idle connections now, and those in use when their requests have ended.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.idle.iter().for_each(|pool| pool.idle().clear());
    }
}

/// What a request gets that needs a connection.
pub(super) enum Room {
    /// A slot for a new one.
    Slot(Slot),
    /// One that was idle.
    Kept(Box<Connection>),
}

impl Endpoint {
    /// An endpoint of one worker, for tests.
    #[cfg(test)]
    pub(super) fn on_loopback(port: u16, max_connections: usize) -> Arc<Self> {
        let [connect_timeout, response_timeout, body_timeout, idle_timeout] = [Duration::from_secs(20); 4];
        let bounds = EndpointBounds {
            connect_timeout,
            response_timeout,
            body_timeout,
            idle_timeout,
            max_idle: 1,
            max_connections,
            max_head_bytes: 8_192,
        };
        let (address, pools) = (([127, 0, 0, 1], port).into(), Arc::new(Pools::new(1)));
        Arc::new(Self { address, tls: None, bounds, pools })
    }

    /// Takes an idle connection of this worker that is still open. One for each request that waits is left to those.
    #[inline]
    pub(super) fn idle_connection(&self, worker: usize) -> Option<Box<Connection>> {
        self.idle_beyond(worker, self.pools.slots.waiting())
    }

    fn idle_beyond(&self, worker: usize, reserved: usize) -> Option<Box<Connection>> {
        loop {
            let mut idle = self.pools.idle[worker].idle();
            let mut connection = if idle.len() > reserved { idle.pop() } else { None }?;
            drop(idle);
            if connection.is_alive() {
                return Some(connection);
            }
        }
    }

    /// Takes an idle connection, or a slot for a new one, if more than `reserved` of both are free. Connections of
    /// other workers come last: each event on them has to cross from one thread to another.
    pub(super) fn room(&self, worker: usize, reserved: usize) -> Option<Room> {
        let (pools, most) = (&self.pools, self.bounds.max_connections);
        if reserved > 0 {
            let idle: usize = pools.idle.iter().map(|pool| pool.idle().len()).sum();
            if most.saturating_sub(pools.open()) + idle <= reserved {
                return None;
            }
        }
        let own = || self.idle_beyond(worker, 0).map(Room::Kept);
        let new = || Slot::take(&pools.slots, most).map(Room::Slot);
        let others = || (0..pools.idle.len()).find_map(|other| self.idle_beyond(other, 0)).map(Room::Kept);
        // A connection that was closed in the meantime leaves its slot.
        own().or_else(new).or_else(others).or_else(new)
    }

    /// Takes a slot for a new connection, if one is free and nobody waits for it.
    pub(super) fn room_for_new(&self) -> Option<Room> {
        let slots = &self.pools.slots;
        if slots.waiting() == 0 { Slot::take(slots, self.bounds.max_connections).map(Room::Slot) } else { None }
    }

    /// Keeps a connection for the next request, if there is room.
    pub(super) fn keep(&self, mut connection: Box<Connection>) {
        connection.rest();
        let mut idle = self.pools.idle[connection.worker].idle();
        let is_closed = self.pools.closed.load(Ordering::SeqCst) || connection.is_descriptor_wanted();
        if idle.len() < self.bounds.max_idle && !is_closed {
            idle.push(connection);
            drop(idle);
            self.pools.slots.one_is_free();
        }
    }

    /// Closes an idle connection of any worker, if there is one.
    pub fn close_one_idle(&self) -> bool {
        self.pools.idle.iter().any(|pool| {
            let idle = pool.idle().pop();
            idle.is_some()
        })
    }

    /// Closes a worker's connections that have been idle for longer than `idle_timeout`.
    pub fn close_idle(&self, worker: usize, now_millis: u64) {
        let most = u64::try_from(self.bounds.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        self.pools.idle[worker].idle().retain(|connection| now_millis.saturating_sub(connection.idle_since) < most);
    }
}
