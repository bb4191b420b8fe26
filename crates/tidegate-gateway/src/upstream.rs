//! Upstreams, and their health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_http::client::{Endpoint, Pools, Trouble};

use crate::settings::UpstreamSettings;
use crate::upstream_metrics::UpstreamMetrics;

/// An upstream, shared by all workers.
pub(crate) struct Upstream {
    pub(crate) name: Box<str>,
    /// The start of every path.
    pub(crate) base: Box<str>,
    /// The `Host` to send.
    pub(crate) authority: http::HeaderValue,
    /// Whether to send the client's `Host` instead.
    pub(crate) preserve_host: bool,
    /// Limits on requests to it, by index.
    pub(crate) limits: Vec<usize>,
    /// How much of a request's body is read before the request takes a connection.
    pub(crate) request_buffer_bytes: usize,
    /// How much of a response is read ahead of its client.
    pub(crate) response_buffer_bytes: usize,
    pub(crate) stats: Arc<UpstreamStats>,
    /// Its address and connections.
    pub(crate) endpoint: Arc<Endpoint>,
}

/// An upstream's health and metrics. They outlive a reload.
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
        let UpstreamSettings {
            name,
            endpoint,
            base,
            authority,
            preserve_host,
            limits,
            request_buffer_bytes,
            response_buffer_bytes,
        } = settings;
        let endpoint = Arc::new(Endpoint { settings: endpoint, pools });
        Self {
            name,
            base,
            authority,
            preserve_host,
            limits,
            request_buffer_bytes,
            response_buffer_bytes,
            stats,
            endpoint,
        }
    }

    /// Records a response.
    pub(crate) fn responded(&self, took: Duration, status: StatusCode) {
        if self.stats.failing.load(Ordering::Relaxed) {
            self.stats.failing.store(false, Ordering::Relaxed);
        }
        self.stats.metrics.responded(took, status);
    }

    /// Records a request without a response.
    pub(crate) fn failed(&self, trouble: &Trouble) {
        // An upstream whose connections are all in use is not failing.
        if !trouble.is_rejection() {
            self.stats.failing.store(true, Ordering::Relaxed);
        }
        self.stats.metrics.failed(trouble.word());
    }
}
