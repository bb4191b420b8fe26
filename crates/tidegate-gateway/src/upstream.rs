//! Upstreams, and their health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_http::client::Trouble;
use tidegate_policy::endpoints::{Balance, Cause, Outcome};

use crate::endpoints::Endpoints;
use crate::key::KeyParts;
use crate::settings::{HealthCheckSettings, UpstreamSettings};
use crate::upstream_metrics::UpstreamMetrics;

/// An upstream, shared by all workers.
pub(crate) struct Upstream {
    pub(crate) name: Box<str>,
    /// Whether to send the client's `Host` instead of the endpoint's.
    pub(crate) preserve_host: bool,
    /// Limits on requests to it, by index.
    pub(crate) limits: Vec<usize>,
    pub(crate) connect_timeout: Duration,
    /// How much of a request's body is read before the request takes a connection.
    pub(crate) request_buffer_bytes: usize,
    /// How much of a response is read ahead of its client.
    pub(crate) response_buffer_bytes: usize,
    /// What decides the endpoint, if requests are spread by a key.
    pub(crate) hash_key: Option<KeyParts>,
    /// Responses with these statuses count as failures of an endpoint.
    failure_statuses: Vec<u16>,
    least_failure_status: u16,
    pub(crate) health_check: Option<Arc<HealthCheckSettings>>,
    pub(crate) stats: Arc<UpstreamStats>,
    pub(crate) endpoints: Arc<Endpoints>,
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
    pub(crate) fn new(settings: UpstreamSettings, endpoints: Arc<Endpoints>, stats: Arc<UpstreamStats>) -> Self {
        Self {
            name: settings.name,
            preserve_host: settings.preserve_host,
            limits: settings.limits,
            connect_timeout: settings.bounds.connect_timeout,
            request_buffer_bytes: settings.request_buffer_bytes,
            response_buffer_bytes: settings.response_buffer_bytes,
            hash_key: (settings.balancing.balance == Balance::Hash).then_some(settings.hash_key),
            least_failure_status: settings.failure_statuses.iter().copied().min().unwrap_or(u16::MAX),
            failure_statuses: settings.failure_statuses,
            health_check: settings.health_check,
            stats,
            endpoints,
        }
    }

    /// Records a response to an attempt, counted from 1. `took`: none if the client took some of the time.
    pub(crate) fn responded(&self, attempt: u32, took: Option<Duration>, status: StatusCode) {
        if self.stats.failing.load(Ordering::Relaxed) {
            self.stats.failing.store(false, Ordering::Relaxed);
        }
        self.stats.metrics.responded(attempt, took, status);
    }

    /// Whether a response with this status counts as a failure of its endpoint.
    pub(crate) fn is_failure(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        status >= self.least_failure_status && self.failure_statuses.contains(&status)
    }

    /// Records an attempt without a response, counted from 1, that is repeated.
    pub(crate) fn repeated(&self, attempt: u32, trouble: &Trouble) {
        self.stats.metrics.repeated(trouble.word(), attempt);
    }

    /// Records an attempt that could not be sent and goes to another endpoint at once.
    pub(crate) fn went_elsewhere(&self, trouble: &Trouble) {
        self.stats.metrics.went_elsewhere(trouble.word());
    }

    /// Records a request without a response.
    pub(crate) fn failed(&self, trouble: &Trouble) {
        // One whose connections are all in use is not failing, nor one that a client has kept waiting.
        if matches!(outcome_of(trouble, None), Outcome::Failure { .. }) {
            self.stats.failing.store(true, Ordering::Relaxed);
        }
        self.stats.metrics.failed(trouble.word());
    }
}

/// What trouble means for an endpoint. What the client or the gateway itself has caused says nothing about it. `took`
/// is how long the endpoint was waited for, where that is known.
pub(crate) fn outcome_of(trouble: &Trouble, took: Option<Duration>) -> Outcome {
    let (cause, took) = match trouble {
        Trouble::Connect(_) | Trouble::ConnectTimeout => (Cause::Connect, None),
        Trouble::ResponseTimeout | Trouble::BodyTimeout => (Cause::Timeout, took),
        Trouble::Closed | Trouble::Broken(_) | Trouble::BadResponse(_) => (Cause::Broken, None),
        Trouble::ClosedInUpload
        | Trouble::ClosedWhileHeld
        | Trouble::Full
        | Trouble::OutOfFiles
        | Trouble::NoEndpoint
        | Trouble::ClientTimeout
        | Trouble::ClientBody(_)
        | Trouble::TooLarge
        | Trouble::ClientSlow
        | Trouble::ClientEvicted
        | Trouble::ClientShare => return Outcome::Ignored,
    };
    Outcome::Failure { cause, took }
}

/// What the trouble of an attempt is for retries. None: it is the client's or the gateway's own.
pub(crate) fn retry_cause(trouble: &Trouble, is_replayable: bool) -> Option<Cause> {
    match trouble {
        Trouble::Full => Some(Cause::Connect),
        // The body was there: its client is not to blame.
        Trouble::ClosedInUpload => is_replayable.then_some(Cause::Broken),
        trouble => match outcome_of(trouble, None) {
            Outcome::Failure { cause, .. } => Some(cause),
            Outcome::Success { .. } | Outcome::Ignored => None,
        },
    }
}

/// Whether an attempt had no connection, so that nothing of its body was read.
pub(crate) fn has_no_connection(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Connect(_) | Trouble::ConnectTimeout) || trouble.is_rejection()
}
