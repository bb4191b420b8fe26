//! The file descriptors for connections to upstreams, of all workers and all upstreams together. The process keeps the
//! rest for everything else, however many requests there are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// The file descriptors for connections to upstreams.
pub struct Descriptors {
    free: Semaphore,
    /// Requests that wait for one.
    waiting: AtomicUsize,
}

impl Descriptors {
    /// `most` descriptors, all of them free.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { free: Semaphore::new(most.min(Semaphore::MAX_PERMITS)), waiting: AtomicUsize::new(0) })
    }

    /// Takes one for a new connection. If none is free, `close_idle` closes an idle connection; requests that wait are
    /// served in the order in which they came. None after the deadline.
    pub(crate) async fn take(
        self: &Arc<Self>,
        until: Instant,
        close_idle: impl FnOnce() -> bool,
    ) -> Option<Descriptor> {
        let permit = if let Ok(permit) = self.free.try_acquire() {
            permit
        } else {
            let _waiting = Waiting::new(&self.waiting);
            close_idle();
            timeout_at(until, self.free.acquire()).await.ok()?.ok()?
        };
        permit.forget();
        Some(Descriptor(Arc::clone(self)))
    }
}

/// One of those that wait, counted as long as this exists.
pub struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    /// Counts one more.
    pub fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The descriptor of one connection, given back when this is dropped.
pub(crate) struct Descriptor(Arc<Descriptors>);

impl Descriptor {
    /// Whether a request waits for a descriptor: then an idle connection is closed, not kept.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.free.add_permits(1);
    }
}

/// Whether the process or the system can open no more descriptors until others are closed.
pub fn is_out_of_files(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    #[tokio::test]
    async fn the_last_one_is_waited_for_until_it_is_free_again() {
        let descriptors = Descriptors::new(1);
        let first = descriptors.take(later(), || unreachable!("one is free")).await.expect("one is free");
        assert!(!first.is_wanted());
        assert!(descriptors.take(Instant::now(), || false).await.is_none(), "its time is up");
        assert!(!first.is_wanted(), "nobody waits any more");
        let (waiting, mut freed) = (Arc::clone(&descriptors), Some(first));
        let take = waiting.take(later(), || {
            // What is idle is closed.
            assert!(freed.as_ref().is_some_and(Descriptor::is_wanted));
            freed.take().is_some()
        });
        assert!(take.await.is_some());
    }

    #[test]
    fn only_errors_about_the_number_of_files_count() {
        assert!([23, 24].map(io::Error::from_raw_os_error).iter().all(is_out_of_files));
        assert!(![12, 105, 111].map(io::Error::from_raw_os_error).iter().any(is_out_of_files));
        assert!(!is_out_of_files(&io::ErrorKind::NotFound.into()));
    }
}
