//! An endpoint: one address of a service, and the connections to it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::client_terms::ClientTerms;
use super::connect::ClientTls;
use super::connection::Connection;
use super::lookup::Lookup;
use crate::deadlines::Owner;
use crate::share::AddressShare;

/// Where an endpoint is, and the bounds of connections to it.
pub struct EndpointSettings {
    /// The host to connect to.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// For `https`.
    pub tls: Option<ClientTls>,
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
    /// Where it is, and its bounds.
    pub settings: EndpointSettings,
    /// Its connections.
    pub pools: Arc<Pools>,
}

/// The connections to one address. They outlive a reload, so that their number stays bounded.
pub struct Pools {
    /// Whom deadlines of its connections belong to.
    pub(super) owner: Owner,
    /// Connections that are open, idle ones included.
    pub(super) open: Arc<AtomicUsize>,
    /// Requests that have a connection, or are about to get one.
    in_use: AtomicUsize,
    /// Idle connections, by the worker's index.
    idle: Box<[Pool]>,
    /// Lookups of the address, by the worker's index.
    pub(super) lookups: Box<[Lookup]>,
    /// No configuration names the address any more: no connection is kept.
    closed: AtomicBool,
}

/// Idle connections of one worker to one endpoint. The last one used is the first one taken.
#[derive(Default)]
struct Pool(Mutex<Vec<Connection>>);

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    /// Empty pools, one for each worker.
    pub fn new(workers: usize) -> Self {
        let idle = (0..workers).map(|_| Pool::default()).collect();
        let lookups = (0..workers).map(|_| Lookup::default()).collect();
        let (open, in_use, closed) = (Arc::default(), AtomicUsize::new(0), AtomicBool::new(false));
        Self { owner: Owner::unique(), open, in_use, idle, lookups, closed }
    }

    /// How many connections are open, idle ones included.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many requests have a connection, or are about to get one.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Closes idle connections now, and those in use when their requests have ended.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.idle.iter().for_each(|pool| pool.idle().clear());
    }
}

/// A request to an endpoint, counted for the endpoint and for its client's address as long as this exists.
pub(super) struct InUse {
    pub(super) endpoint: Arc<Endpoint>,
    address: Option<Arc<AddressShare>>,
}

impl InUse {
    /// Counts a request. None if the client's address holds its share of the endpoint's connections.
    pub(super) fn begin(endpoint: &Arc<Endpoint>, client: &ClientTerms<'_>) -> Option<Self> {
        let pools = &endpoint.pools;
        let others = pools.in_use.fetch_add(1, Ordering::Relaxed);
        let counted = Self { endpoint: Arc::clone(endpoint), address: client.address.cloned() };
        if let Some(address) = &counted.address {
            let held = address.of_upstream(pools.owner).fetch_add(1, Ordering::Relaxed);
            let free = endpoint.settings.max_connections.saturating_sub(others);
            if !client.most_held.permits(held as usize, free) {
                return None;
            }
        }
        Some(counted)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let pools = &self.endpoint.pools;
        pools.in_use.fetch_sub(1, Ordering::Relaxed);
        if let Some(address) = &self.address {
            address.of_upstream(pools.owner).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Endpoint {
    /// Takes an idle connection that is still open.
    pub(super) fn idle_connection(&self, worker: usize) -> Option<Connection> {
        loop {
            let mut connection = self.pools.idle[worker].idle().pop()?;
            if connection.is_alive() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, if there is room.
    pub(super) fn keep(&self, worker: usize, mut connection: Connection, now: u64) {
        connection.rest(now);
        let mut idle = self.pools.idle[worker].idle();
        let is_closed = self.pools.closed.load(Ordering::SeqCst) || connection.is_descriptor_wanted();
        if idle.len() < self.settings.max_idle && !is_closed {
            idle.push(connection);
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
        let most = u64::try_from(self.settings.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        self.pools.idle[worker].idle().retain(|connection| now_millis.saturating_sub(connection.idle_since) < most);
    }
}
