//! The connections that an endpoint may have, and the requests that wait for one of them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout_at};

use crate::descriptors::Waiting;

/// The connections to one endpoint, as a number, and who waits for one.
#[derive(Default)]
pub(super) struct Slots {
    /// Connections that are open, idle ones included.
    open: AtomicUsize,
    /// Requests that wait until one of these is idle or closed. What becomes free is theirs, not that of newcomers.
    waiting: AtomicUsize,
    /// Wakes the request that has waited longest.
    freed: Notify,
}

impl Slots {
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// How many requests wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// A connection is idle or closed: the request that has waited longest may have it.
    #[inline]
    pub(super) fn one_is_free(&self) {
        if self.waiting() > 0 {
            self.freed.notify_one();
        }
    }
}

/// One of the connections that an endpoint may have.
pub(super) struct Slot(Arc<Slots>);

impl Slot {
    /// None if all are taken.
    pub(super) fn take(slots: &Arc<Slots>, most: usize) -> Option<Self> {
        let room = |open| (open < most).then_some(open + 1);
        slots.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).ok()?;
        Some(Self(Arc::clone(slots)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.one_is_free();
    }
}

/// A request that waits for a connection. Those that came before are woken before.
pub(super) struct Waiter<'a> {
    slots: &'a Slots,
    /// Held for its `Drop`.
    _counted: Waiting<'a>,
    freed: Pin<Box<Notified<'a>>>,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(slots: &'a Slots) -> Self {
        let counted = Waiting::new(&slots.waiting);
        let mut freed = Box::pin(slots.freed.notified());
        // From here on it is woken. A connection that became free before this is found by looking once more.
        freed.as_mut().enable();
        Self { slots, _counted: counted, freed }
    }

    /// How many others wait.
    pub(super) fn others(&self) -> usize {
        self.slots.waiting().saturating_sub(1)
    }

    /// Waits until it is this request's turn, at most until then. Returns whether it is.
    pub(super) async fn wait(&mut self, until: Instant) -> bool {
        let is_woken = timeout_at(until, self.freed.as_mut()).await.is_ok();
        if is_woken {
            self.freed.set(self.slots.freed.notified());
            self.freed.as_mut().enable();
        }
        is_woken
    }
}
