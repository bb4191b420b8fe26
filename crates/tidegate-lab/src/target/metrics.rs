use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use tidegate_serve::{Buckets, Counter, Exposition, Histogram, Kind, Process};

use super::Faults;
use super::station::Occupancy;

/// The paths with series of their own; all others share one.
const PATHS: [&str; 6] = [
    "/api/test",
    "/faults",
    "/actuator/health",
    "/actuator/health/liveness",
    "/actuator/health/readiness",
    "/actuator/prometheus",
];
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const OTHER: &str = "other";

/// In microseconds. The middle ones are close, for that is where services are.
const BOUNDS_MICROS: [u64; 16] = [
    500, 1_000, 2_500, 5_000, 7_500, 10_000, 15_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Path, method and status.
type Labels = (&'static str, &'static str, StatusCode);

pub(super) struct Metrics {
    buckets: Buckets,
    /// Bounded, for each of its labels is.
    requests: Mutex<BTreeMap<Labels, Arc<Histogram>>>,
    abandoned: Counter,
    pub(super) rejected: Counter,
    process: Process,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            buckets: Buckets::new(&BOUNDS_MICROS.map(Duration::from_micros)),
            requests: Mutex::default(),
            abandoned: Counter::new(),
            rejected: Counter::new(),
            process: Process::new(),
        }
    }

    /// A request has come.
    pub(super) fn begin(&self, path: &str, method: &Method) -> Pending<'_> {
        let one_of = |known: &'static [&'static str], name: &str| {
            known.iter().copied().find(|known| *known == name).unwrap_or(OTHER)
        };
        let (path, method) = (one_of(&PATHS, served_as(path)), one_of(&METHODS, method.as_str()));
        Pending { metrics: self, began: Instant::now(), path, method, has_response: false }
    }

    fn histogram(&self, labels: Labels) -> Arc<Histogram> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(requests.entry(labels).or_insert_with(|| Arc::new(Histogram::new(&self.buckets))))
    }

    pub(super) fn page(&self, occupancy: &Occupancy, faults: &Faults) -> Exposition {
        let mut page = Exposition::new();
        self.write_requests(&mut page);
        let name = [("name", "target")];
        let mut gauge = |metric: &str, help: &str, labels: &[(&str, &str)], value: usize| {
            page.family(metric, help, Kind::Gauge).sample(labels, value);
        };
        gauge("executor_active_threads", "Workers that serve a request.", &name, occupancy.busy);
        gauge("executor_pool_max_threads", "Workers that there are.", &name, occupancy.workers);
        gauge("executor_queued_tasks", "Requests that wait for a worker.", &name, occupancy.waiting);
        let remaining = occupancy.most_waiting.saturating_sub(occupancy.waiting);
        gauge("executor_queue_remaining_tasks", "Requests for which the queue still has room.", &name, remaining);
        gauge("target_queue_limit", "Requests that may wait for a worker.", &[], occupancy.most_waiting);
        let help = "Requests rejected because the queue was full.";
        page.family("target_refused_requests_total", help, Kind::Counter).sample(&[], self.rejected.get());
        let help = "Requests whose client left before the response.";
        page.family("target_abandoned_requests_total", help, Kind::Counter).sample(&[], self.abandoned.get());
        let mut active = page.family("target_fault_active", "Whether a fault is switched on.", Kind::Gauge);
        for (fault, is_on) in faults.each() {
            active.sample(&[("fault", fault)], is_on);
        }
        self.process.write(&mut page);
        page
    }

    fn write_requests(&self, page: &mut Exposition) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help = "How long responses took, from the whole request to the response.";
        let mut family = page.family("http_server_requests_seconds", help, Kind::Histogram);
        for ((path, method, status), histogram) in requests {
            let labels = [("method", method), ("status", status.as_str()), ("uri", path)];
            family.histogram(&labels, &histogram.snapshot());
        }
    }
}

/// The path by which a request is served and counted: what is below `/api/test` is the same.
pub(super) fn served_as(path: &str) -> &str {
    match path.strip_prefix("/api/test/") {
        Some(below) if !below.is_empty() => "/api/test",
        Some(_) | None => path,
    }
}

/// A request without a response yet. If it is dropped as such, its client has gone.
pub(super) struct Pending<'a> {
    metrics: &'a Metrics,
    began: Instant,
    path: &'static str,
    method: &'static str,
    has_response: bool,
}

impl Pending<'_> {
    pub(super) fn responded(mut self, status: StatusCode) {
        self.has_response = true;
        self.metrics.histogram((self.path, self.method, status)).observe(self.began.elapsed());
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.has_response {
            self.metrics.abandoned.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_make_series_without_end() {
        let metrics = Metrics::new();
        for number in 0..1_000 {
            let method = Method::from_bytes(format!("M{number}").as_bytes()).expect("a method");
            metrics.begin(&format!("/{number}"), &method).responded(StatusCode::NOT_FOUND);
        }
        let occupancy = Occupancy { busy: 1, waiting: 2, workers: 3, most_waiting: 4 };
        let text = metrics.page(&occupancy, &Faults::default()).into_text();
        let count = "http_server_requests_seconds_count{method=\"other\",status=\"404\",uri=\"other\"} 1000";
        assert!(text.lines().any(|line| line == count), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("http_server_requests_seconds_count")).count(), 1);
    }
}
