//! What requests give back to Redis without waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_policy::Timestamp;
use tidegate_store::{Charged, Store};
use tokio::runtime::Handle;

/// Gives back to Redis what requests took, without making them wait: the client may have gone, the worker may be about
/// to end. It runs on the runtime that outlives the workers.
pub(crate) struct Returns {
    pub(crate) runtime: Handle,
    under_way: AtomicUsize,
}

impl Returns {
    /// Calls will run on this runtime.
    pub(crate) fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { runtime, under_way: AtomicUsize::new(0) })
    }

    /// Gives back in the background.
    pub(crate) fn give_back(self: &Arc<Self>, store: &Store, charged: Charged, now: Timestamp) {
        let (returns, store) = (Arc::clone(self), store.clone());
        returns.under_way.fetch_add(1, Ordering::Relaxed);
        self.runtime.spawn(async move {
            store.give_back(charged, now).await;
            returns.under_way.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Waits until nothing is under way or owed any more, but no longer than `timeout`.
    pub(crate) async fn wait(&self, store: Option<&Store>, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let is_left = || self.under_way.load(Ordering::Relaxed) > 0 || store.is_some_and(|store| store.owed() > 0);
        while is_left() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
