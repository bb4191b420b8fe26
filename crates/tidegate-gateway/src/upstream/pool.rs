use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use super::lookup::Lookup;
use super::{Connection, Trouble};
use crate::metrics::UpstreamMetrics;
use crate::settings::UpstreamSettings;

/// A service behind the gateway, and what all workers know of it.
pub(crate) struct Upstream {
    pub(crate) settings: UpstreamSettings,
    pub(crate) stats: Arc<UpstreamStats>,
    pub(crate) pools: Arc<Pools>,
}

/// The connections to one place; kept from one configuration to the next, so that their number is bounded whatever is reloaded.
pub(crate) struct Pools {
    /// Connections that are open, idle ones included.
    pub(crate) open: Arc<AtomicUsize>,
    /// A worker's idle connections, by the worker's number.
    idle: Box<[Pool]>,
    /// Where it is, by the worker's number.
    pub(super) lookups: Box<[Lookup]>,
    /// No configuration names the place any more: nothing is kept.
    closed: AtomicBool,
}

/// What is known of an upstream's health; kept from one configuration to the next.
pub(crate) struct UpstreamStats {
    /// Whether the last attempt to reach it failed.
    pub(crate) failing: AtomicBool,
    pub(crate) metrics: UpstreamMetrics,
}

impl Default for UpstreamStats {
    fn default() -> Self {
        Self { failing: AtomicBool::new(false), metrics: UpstreamMetrics::new() }
    }
}

/// Idle connections of one worker to one upstream: the last used is the first taken.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Connection>>);

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    pub(crate) fn new(workers: usize) -> Self {
        let idle = (0..workers).map(|_| Pool::default()).collect();
        let lookups = (0..workers).map(|_| Lookup::default()).collect();
        Self { open: Arc::default(), idle, lookups, closed: AtomicBool::new(false) }
    }

    /// Closes what is idle, and what requests under way would still leave here.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.idle.iter().for_each(|pool| pool.idle().clear());
    }
}

impl Upstream {
    pub(crate) fn new(settings: UpstreamSettings, pools: Arc<Pools>, stats: Arc<UpstreamStats>) -> Self {
        Self { settings, stats, pools }
    }

    /// An idle connection that still lives.
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
    pub(crate) fn close_one_idle(&self) -> bool {
        self.pools.idle.iter().any(|pool| {
            let idle = pool.idle().pop();
            idle.is_some()
        })
    }

    /// An answer came.
    pub(crate) fn answered(&self, took: Duration, status: StatusCode) {
        if self.stats.failing.load(Ordering::Relaxed) {
            self.stats.failing.store(false, Ordering::Relaxed);
        }
        self.stats.metrics.answered(took, status);
    }

    /// No answer came.
    pub(crate) fn failed(&self, trouble: &Trouble) {
        // A full upstream is no failing one.
        if !trouble.is_ours() {
            self.stats.failing.store(true, Ordering::Relaxed);
        }
        self.stats.metrics.failed(trouble.word());
    }

    /// Closes what has been idle for too long.
    pub(crate) fn close_idle(&self, worker: usize, now: u64) {
        let most = u64::try_from(self.settings.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        self.pools.idle[worker].idle().retain(|connection| now.saturating_sub(connection.idle_since) < most);
    }
}
