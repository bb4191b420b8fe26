//! The services behind the gateway, and what is known of their health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_http::client::{Endpoint, Pools, Trouble};

use crate::settings::UpstreamSettings;
use crate::upstream_metrics::UpstreamMetrics;

/// A service behind the gateway, and what all workers know of it.
pub(crate) struct Upstream {
    pub(crate) name: Box<str>,
    /// What goes before every path.
    pub(crate) base: Box<str>,
    /// The `Host` it is sent.
    pub(crate) authority: http::HeaderValue,
    /// Whether it is sent the client's `Host`.
    pub(crate) preserve_host: bool,
    /// Limits on what reaches it, by their indices.
    pub(crate) limits: Vec<usize>,
    pub(crate) stats: Arc<UpstreamStats>,
    /// Where it is, with its connections.
    pub(crate) endpoint: Arc<Endpoint>,
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

impl Upstream {
    pub(crate) fn new(settings: UpstreamSettings, pools: Arc<Pools>, stats: Arc<UpstreamStats>) -> Self {
        let UpstreamSettings { name, endpoint, base, authority, preserve_host, limits } = settings;
        let endpoint = Arc::new(Endpoint { settings: endpoint, pools });
        Self { name, base, authority, preserve_host, limits, stats, endpoint }
    }

    /// A response came.
    pub(crate) fn responded(&self, took: Duration, status: StatusCode) {
        if self.stats.failing.load(Ordering::Relaxed) {
            self.stats.failing.store(false, Ordering::Relaxed);
        }
        self.stats.metrics.responded(took, status);
    }

    /// No response came.
    pub(crate) fn failed(&self, trouble: &Trouble) {
        // A full upstream is no failing one.
        if !trouble.is_ours() {
            self.stats.failing.store(true, Ordering::Relaxed);
        }
        self.stats.metrics.failed(trouble.word());
    }
}
