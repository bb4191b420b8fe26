//! A service whose responses the test switches: those to requests, and those to health checks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tidegate_testkit::Upstream;

/// Where its health is asked for.
pub(super) const CHECKED: &str = "/health";

/// Responds to requests with one status, and to health checks with another.
pub(super) struct Switched {
    upstream: Upstream,
    statuses: Arc<[AtomicU16; 2]>,
    pub(super) address: SocketAddr,
}

impl Switched {
    /// Responds to requests with this status, and passes its checks.
    pub(super) fn new(status: u16) -> Self {
        let statuses: Arc<[AtomicU16; 2]> = Arc::new([status.into(), 200.into()]);
        let switched = Arc::clone(&statuses);
        let upstream = Upstream::responding(move |received| {
            let status = switched[usize::from(received.line.contains(CHECKED))].load(Ordering::Relaxed);
            format!("HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n").into_bytes()
        });
        Self { address: upstream.address, upstream, statuses }
    }

    /// Responds to requests with this status from now on.
    pub(super) fn respond(&self, status: u16) {
        self.statuses[0].store(status, Ordering::Relaxed);
    }

    /// Responds to checks with this status from now on.
    pub(super) fn respond_to_checks(&self, status: u16) {
        self.statuses[1].store(status, Ordering::Relaxed);
    }

    /// How many requests it got, without checks.
    pub(super) fn requests(&self) -> usize {
        self.upstream.received().iter().filter(|received| !received.line.contains(CHECKED)).count()
    }

    /// How often it was checked.
    pub(super) fn checks(&self) -> usize {
        self.upstream.count() - self.requests()
    }
}
