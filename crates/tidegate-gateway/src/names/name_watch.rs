//! The addresses of a name as those see them who connect to it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// What is known about a name.
#[derive(Clone, Default)]
pub(super) struct Snapshot {
    pub(super) addresses: Arc<[IpAddr]>,
    /// Whether a lookup has ended, with or without success.
    pub(super) was_looked_up: bool,
    pub(super) is_failing: bool,
}

impl Snapshot {
    /// Takes in the end of a lookup. Returns whether those who watch need to know.
    pub(super) fn update(&mut self, addresses: &Arc<[IpAddr]>, is_failing: bool) -> bool {
        let is_news = !self.was_looked_up || self.addresses != *addresses;
        *self = Self { addresses: Arc::clone(addresses), was_looked_up: true, is_failing };
        is_news
    }
}

/// Watches a name: as long as one of its watches is there, it is looked up again and again.
#[derive(Clone)]
pub(crate) struct NameWatch {
    snapshot: watch::Receiver<Snapshot>,
}

impl NameWatch {
    pub(super) fn new(snapshot: watch::Receiver<Snapshot>) -> Self {
        Self { snapshot }
    }

    /// An address that never changes.
    pub(super) fn fixed(address: IpAddr) -> Self {
        let addresses = Arc::new([address.to_canonical()]);
        let (_, snapshot) = watch::channel(Snapshot { addresses, was_looked_up: true, is_failing: false });
        Self { snapshot }
    }

    /// The last good addresses, sorted; none before the first successful lookup. Never waits.
    pub(crate) fn addresses(&self) -> Arc<[IpAddr]> {
        Arc::clone(&self.snapshot.borrow().addresses)
    }

    /// Waits until the addresses have changed since this watch last returned from `changed` or `first`; also returns
    /// when the first lookup has ended, even without addresses. Can be cancelled.
    pub(crate) async fn changed(&mut self) -> Arc<[IpAddr]> {
        if self.snapshot.changed().await.is_err() {
            // An address, or the process ends: there will be no change.
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.snapshot.borrow_and_update().addresses)
    }

    /// Waits for the end of the first lookup, but not longer than `patience`: a gateway starts without its name server
    /// too. The addresses may be none. Can be cancelled.
    pub(crate) async fn first(&mut self, patience: Duration) -> Arc<[IpAddr]> {
        let first = self.snapshot.wait_for(|snapshot| snapshot.was_looked_up);
        // Late or not, the addresses are those that are there now.
        let _is_known = timeout(patience, first).await.is_ok();
        self.addresses()
    }
}
