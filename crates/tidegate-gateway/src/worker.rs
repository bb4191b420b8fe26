//! A worker: the state of a thread that serves connections, and what it shares with the others.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tidegate_http::deadlines::{Deadlines, Ended, Owner, Shortage};
use tidegate_http::descriptors::Descriptors;
use tidegate_http::eviction::{Eviction, Evictor};
use tidegate_http::share::FEW;
use tidegate_input::Utc;
use tokio::sync::OwnedSemaphorePermit;

use crate::client_shares::CountedConnection;
use crate::connection_slots::ConnectionSlots;
use crate::control::Control;
use crate::cuts::Cut;
use crate::gateway::Gateway;
use crate::metrics::WorkerMetrics;
use crate::request_id::Ids;
use crate::upstream::Upstream;

/// The state of a thread that serves connections.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) control: Arc<Control>,
    pub(crate) deadlines: Arc<Deadlines>,
    pub(crate) ids: Ids,
    /// How many connections it serves.
    open: AtomicUsize,
    /// The value of `Date`.
    date: Mutex<[u8; 29]>,
    /// Slots of connections, shared by all workers.
    slots: Arc<ConnectionSlots>,
    /// File descriptors for connections to upstreams, shared by all workers.
    pub(crate) descriptors: Arc<Descriptors>,
    /// Requests whose clients are waited for, of all workers.
    stalled: Arc<Evictor>,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        gateway: &Arc<Gateway>,
        control: &Arc<Control>,
        deadlines: &Arc<Deadlines>,
        slots: &Arc<ConnectionSlots>,
        descriptors: &Arc<Descriptors>,
        stalled: &Arc<Evictor>,
    ) -> Arc<Self> {
        Arc::new(Self {
            index,
            gateway: Arc::clone(gateway),
            control: Arc::clone(control),
            deadlines: Arc::clone(deadlines),
            ids: Ids::new(RandomState::new().hash_one(index)),
            open: AtomicUsize::new(0),
            date: Mutex::new(Utc::now().http_date()),
            slots: Arc::clone(slots),
            descriptors: Arc::clone(descriptors),
            stalled: Arc::clone(stalled),
        })
    }

    /// Waits for a slot for a client that has connected.
    pub(crate) async fn acquire_slot(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.acquire(|| self.gateway.note_full(&self.slots)).await
    }

    /// Closes an idle connection, so that another file descriptor can be opened.
    pub(crate) fn free_a_file(&self) {
        if !self.close_idle_upstream() {
            self.slots.free_a_descriptor();
        }
    }

    /// Counts a connection of a client's address. An error if it holds its share already. `None` if the address has no
    /// share: a trusted proxy, or a client of the admin listener.
    pub(crate) fn count_connection(&self, ip: IpAddr, is_admin: bool) -> Result<Option<CountedConnection>, ()> {
        let plan = self.gateway.plan();
        if is_admin || plan.site.is_trusted(ip.to_canonical()) {
            return Ok(None);
        }
        let free = self.slots.most.saturating_sub(self.busy().load(Ordering::Relaxed));
        let counted = self.gateway.metrics.shares.connect(ip, plan.site.most_held, free);
        if counted.is_none() {
            self.gateway.note_cut(Cut::ConnectionShare, ip.to_canonical());
        }
        counted.map(Some).ok_or(())
    }

    /// Whether an address may have another connection with requests under way, besides so many.
    #[inline]
    pub(crate) fn permits_busy(&self, busy_before: usize) -> bool {
        // The plan is asked only for those that hold more than anybody may.
        busy_before < FEW || self.permits_share(busy_before)
    }

    #[cold]
    fn permits_share(&self, busy_before: usize) -> bool {
        let free = self.slots.most.saturating_sub(self.busy().load(Ordering::Relaxed));
        self.gateway.plan().site.most_held.permits(busy_before, free)
    }

    /// How many connections have requests under way, of all workers.
    pub(crate) fn busy(&self) -> &Arc<AtomicUsize> {
        &self.slots.busy
    }

    /// Ends a request whose client is waited for, to make room for one that needs a descriptor.
    pub(crate) fn evict_stalled(&self) -> Eviction {
        self.stalled.evict_any(Shortage::Descriptors, usize::MAX)
    }

    /// Ends a request to this endpoint whose client is waited for, to make room for one that has waited since then.
    pub(crate) fn evict_stalled_of(&self, endpoint: Owner, waited_since: Instant) -> Eviction {
        self.stalled.evict_of(endpoint, waited_since, Shortage::Slots)
    }

    /// The same for each endpoint of an upstream.
    pub(crate) fn evict_stalled_of_upstream(&self, upstream: &Upstream, waited_since: Instant) {
        for member in &upstream.endpoints.pool().members {
            self.evict_stalled_of(member.endpoint.pools.owner, waited_since);
        }
    }

    /// Closes an idle connection to any upstream, of any worker. Returns whether it found one.
    pub(crate) fn close_idle_upstream(&self) -> bool {
        let plan = self.gateway.plan();
        let close = |upstream: &Arc<Upstream>| {
            upstream.endpoints.pool().members.iter().any(|member| member.endpoint.close_one_idle())
        };
        plan.site.upstreams.iter().any(close)
    }

    /// Counts a connection that the gateway ended before its client did.
    pub(crate) fn ended(&self, ended: Ended, is_admin: bool) {
        if is_admin {
            return;
        }
        self.gateway.metrics.closed(ended);
        if let Ended::Evicted(shortage) = ended {
            self.gateway.note_eviction(shortage, &self.slots);
        }
    }

    /// The time for `Date`, as of the last tick.
    pub(crate) fn date(&self) -> [u8; 29] {
        *self.date.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_date(&self) {
        let date = Utc::now().http_date();
        *self.date.lock().unwrap_or_else(PoisonError::into_inner) = date;
    }

    pub(crate) fn metrics(&self) -> &WorkerMetrics {
        self.gateway.metrics.worker(self.index)
    }

    /// How many connections it serves.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// Counts a connection as long as it lives.
pub(crate) struct Open(Arc<Worker>);

impl Open {
    pub(crate) fn new(worker: &Arc<Worker>) -> Self {
        worker.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(worker))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
