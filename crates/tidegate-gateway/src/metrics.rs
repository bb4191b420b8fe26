//! Metrics. Each worker writes its own shard; a scrape adds them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_adapt::SHOWN_MICROS as LATENCY_MICROS;
use tidegate_http::client::Trouble;
use tidegate_http::deadlines::{Ended, Waiting};
use tidegate_policy::Algorithm;
use tidegate_serve::{
    Aggregate, Buckets, Counter, Exposition, Histogram, HistogramSnapshot, Kind, Process, Shard, Sink,
};
use tidegate_store::{FailureMode, StoreEvent};

use crate::adaptation_state::Adaptation;
use crate::buffers::Buffers;
use crate::client_shares::ClientShares;
use crate::config::numbers::figure;
use crate::cuts::Cut;
use crate::h2::Flood;
use crate::plan::Plan;
use crate::source::Source;
use crate::upstream_metrics::buckets;

/// Upper bounds of the times that calls to Redis take, in microseconds.
const STORE_MICROS: [u64; 10] = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 100_000];
/// Statuses whose series exist from the start: a series that appears with its first event has no rate for it.
const USUAL_STATUSES: [usize; 6] = [200, 429, 500, 502, 503, 504];

/// Why connections are closed: to make room for others, or because of a timeout.
const CLOSED: [&str; 4] = ["evicted", "head_timeout", "idle_timeout", "write_timeout"];

/// How often a log line summarizes events that happen often.
pub(crate) const SUMMARY_EVERY: Duration = Duration::from_secs(10);

/// All metrics.
pub(crate) struct Metrics {
    shards: Box<[Shard<WorkerMetrics>]>,
    latency: Buckets,
    store_calls: Histogram,
    store_errors: Counter,
    /// Failed calls to Redis that are not yet in the log.
    pub(crate) store_troubles: Aggregate,
    lost_slots: Counter,
    /// Lost slots that are not yet in the log.
    pub(crate) unreported_lost_slots: Aggregate,
    process: Process,
    /// Where the event log goes.
    events: Option<Sink>,
    pub(crate) connections: AtomicI64,
    /// The most connections.
    pub(crate) most_connections: AtomicU64,
    /// Connections that the gateway closed before their clients did, in the order of [`CLOSED`].
    closed: [Counter; CLOSED.len()],
    pub(crate) bad_requests: Counter,
    /// What client addresses hold.
    pub(crate) shares: Arc<ClientShares>,
    /// Memory for bodies.
    pub(crate) buffers: Arc<Buffers>,
    /// In the order of [`Cut::ALL`].
    cuts: [Counter; Cut::ALL.len()],
    /// In the order of [`Flood::ALL`].
    floods: [Counter; Flood::ALL.len()],
    pub(crate) reloads: Counter,
    pub(crate) failed_reloads: Counter,
    pub(crate) config_version: AtomicU64,
}

/// The metrics of one worker.
pub(crate) struct WorkerMetrics {
    pub(crate) forwarded: Counter,
    pub(crate) rejected: Counter,
    /// By algorithm, in the order of [`Algorithm::ALL`]; the last counts requests without a limit.
    by_algorithm: [Counter; Algorithm::ALL.len() + 1],
    pub(crate) duration: Histogram,
    /// Statuses from 100 to 599.
    by_status: Box<[Counter; 500]>,
    /// In the order of [`Source::ALL`].
    by_source: [Counter; Source::ALL.len()],
    pub(crate) in_flight: AtomicI64,
}

impl WorkerMetrics {
    fn new(latency: &Buckets) -> Self {
        Self {
            forwarded: Counter::new(),
            rejected: Counter::new(),
            by_algorithm: Default::default(),
            duration: Histogram::new(latency),
            by_status: Box::new([const { Counter::new() }; 500]),
            by_source: Default::default(),
            in_flight: AtomicI64::new(0),
        }
    }

    /// Counts a decision; `algorithm` is that of the request's first limit.
    pub(crate) fn decided(&self, forwarded: bool, algorithm: Option<Algorithm>) {
        if forwarded {
            self.forwarded.inc();
        } else {
            self.rejected.inc();
        }
        let index = algorithm.and_then(|algorithm| Algorithm::ALL.iter().position(|other| *other == algorithm));
        self.by_algorithm[index.unwrap_or(Algorithm::ALL.len())].inc();
    }

    /// Counts the end of a request: its status, where its response came from, how long it took.
    pub(crate) fn ended(&self, status: http::StatusCode, source: Option<Source>, took: Duration) {
        self.responded(status);
        if let Some(source) = source {
            self.by_source[source.index()].inc();
        }
        self.duration.observe(took);
    }

    /// Counts a response, perhaps to something that is not a request.
    pub(crate) fn responded(&self, status: http::StatusCode) {
        if let Some(counter) = self.by_status.get(usize::from(status.as_u16().saturating_sub(100))) {
            counter.inc();
        }
    }
}

impl Metrics {
    pub(crate) fn new(workers: usize, events: Option<Sink>) -> Self {
        let latency = buckets(&LATENCY_MICROS);
        Self {
            shards: (0..workers).map(|_| Shard(WorkerMetrics::new(&latency))).collect(),
            latency,
            store_calls: Histogram::new(&buckets(&STORE_MICROS)),
            store_errors: Counter::new(),
            store_troubles: Aggregate::new(SUMMARY_EVERY, Instant::now()),
            lost_slots: Counter::new(),
            unreported_lost_slots: Aggregate::new(SUMMARY_EVERY, Instant::now()),
            process: Process::new(),
            events,
            connections: AtomicI64::new(0),
            most_connections: AtomicU64::new(0),
            closed: Default::default(),
            bad_requests: Counter::new(),
            shares: Arc::default(),
            buffers: Arc::default(),
            cuts: Default::default(),
            floods: Default::default(),
            reloads: Counter::new(),
            failed_reloads: Counter::new(),
            config_version: AtomicU64::new(0),
        }
    }

    pub(crate) fn worker(&self, worker: usize) -> &WorkerMetrics {
        &self.shards[worker].0
    }

    /// Counts a connection that the gateway closed before its client did.
    pub(crate) fn closed(&self, ended: Ended) {
        let reason = match ended {
            Ended::Evicted(_) => 0,
            Ended::Late(Waiting::First | Waiting::Head) => 1,
            Ended::Late(Waiting::Next) => 2,
            Ended::Late(Waiting::Taking) => 3,
            // The gateway stops, or the connection has lingered long enough. The others are not of connections.
            Ended::Late(
                Waiting::Work
                | Waiting::Client
                | Waiting::Body
                | Waiting::Stream
                | Waiting::StreamClient
                | Waiting::Ending,
            ) => return,
        };
        self.closed[reason].inc();
    }

    /// Counts a client that is cut off so that it does not take from others.
    pub(crate) fn cut(&self, cut: Cut) {
        self.cuts[cut.index()].inc();
    }

    /// Counts an HTTP/2 connection that is closed because of a flood.
    pub(crate) fn flooded(&self, flood: Flood) {
        let counted = Flood::ALL.iter().zip(&self.floods).find(|(other, _)| **other == flood);
        if let Some((_, counter)) = counted {
            counter.inc();
        }
    }

    /// Counts an event of the connection to Redis.
    pub(crate) fn store_event(&self, event: StoreEvent<'_>) {
        match event {
            StoreEvent::Call { took, error } => {
                self.store_calls.observe(took);
                if error.is_some() {
                    self.store_errors.inc();
                }
            }
            StoreEvent::Unreached { .. } | StoreEvent::Down { .. } | StoreEvent::StillDown { .. } => {
                self.store_errors.inc();
            }
            StoreEvent::Reached { .. } | StoreEvent::Up { .. } => {}
            StoreEvent::SlotsLost { slots } => self.lost_slots.add(slots as u64),
        }
    }

    /// The metrics page, in the text format of Prometheus.
    pub(crate) fn page(
        &self,
        plan: &Plan,
        store: Option<&StoreState>,
        access_log: Option<&Sink>,
        adaptation: &Adaptation,
        endpoints: impl FnOnce(&mut Exposition),
    ) -> String {
        let mut page = Exposition::new();
        self.write_requests(&mut page);
        write_default_limit(plan, &mut page);
        if let Some(store) = store {
            self.write_store(store, &mut page);
        }
        let mut mode = page.family("ratelimiter_mode", "1 for the mode that is in force.", Kind::Gauge);
        let failing = store.filter(|store| store.is_down).map(|store| store.mode);
        mode.sample(&[("type", "normal")], failing.is_none());
        for on_failure in FailureMode::ALL {
            mode.sample(&[("type", &format!("fail{}", on_failure.name()))], failing == Some(on_failure));
        }
        write_limits(plan, &mut page);
        write_upstreams(plan, &mut page);
        endpoints(&mut page);
        adaptation.write(plan.site.adaptive.as_deref(), &mut page);
        self.write_gateway(&mut page, access_log);
        self.process.write(&mut page);
        page.into_text()
    }

    fn write_requests(&self, page: &mut Exposition) {
        let sum = |of: &dyn Fn(&WorkerMetrics) -> u64| self.shards.iter().map(|shard| of(&shard.0)).sum::<u64>();
        page.family("ratelimiter_requests_total", "Requests decided, by decision.", Kind::Counter)
            .sample(&[("decision", "forwarded")], sum(&|shard| shard.forwarded.get()))
            .sample(&[("decision", "rejected")], sum(&|shard| shard.rejected.get()));
        let mut duration = HistogramSnapshot::empty(&self.latency);
        self.shards.iter().for_each(|shard| duration.merge(&shard.0.duration));
        page.family(
            "ratelimiter_request_duration_seconds",
            "Time from a request's head to the end of its response.",
            Kind::Histogram,
        )
        .histogram(&[], &duration);
        let mut family =
            page.family("ratelimiter_requests_by_algorithm_total", "Requests decided, by algorithm.", Kind::Counter);
        let names = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).chain(["none"]);
        for (index, name) in names.enumerate() {
            family.sample(&[("algorithm", name)], sum(&|shard| shard.by_algorithm[index].get()));
        }
        let mut family = page.family("ratelimiter_responses_total", "Responses, by status.", Kind::Counter);
        for status in 100..600 {
            let count = sum(&|shard| shard.by_status[status - 100].get());
            if count > 0 || USUAL_STATUSES.contains(&status) {
                family.sample(&[("status", &status.to_string())], count);
            }
        }
        let mut family = page.family("tidegate_responses_total", "Responses, by where they come from.", Kind::Counter);
        for source in Source::ALL {
            family.sample(&[("source", source.word())], sum(&|shard| shard.by_source[source.index()].get()));
        }
    }

    fn write_store(&self, store: &StoreState, page: &mut Exposition) {
        page.family("ratelimiter_redis_request_duration_seconds", "How long calls to Redis took.", Kind::Histogram)
            .histogram(&[], &self.store_calls.snapshot());
        page.family(
            "ratelimiter_redis_errors_total",
            "Calls to Redis that failed, and lost connections.",
            Kind::Counter,
        )
        .sample(&[], self.store_errors.get());
        page.family(
            "tidegate_places_lost_total",
            "Slots in flight that could not be given back to Redis; they stay taken for `hold`.",
            Kind::Counter,
        )
        .sample(&[], self.lost_slots.get());
        page.family("ratelimiter_redis_connected", "Whether Redis is available.", Kind::Gauge)
            .sample(&[], !store.is_down);
        page.family("tidegate_config_version", "Version of the limits in Redis.", Kind::Gauge)
            .sample(&[], self.config_version.load(Ordering::Relaxed));
    }

    fn write_gateway(&self, page: &mut Exposition, access_log: Option<&Sink>) {
        let in_flight: i64 = self.shards.iter().map(|shard| shard.0.in_flight.load(Ordering::Relaxed)).sum();
        let positive = |count: i64| u64::try_from(count).unwrap_or(0);
        page.family("tidegate_connections", "Client connections that are open.", Kind::Gauge)
            .sample(&[], positive(self.connections.load(Ordering::Relaxed)));
        page.family("tidegate_connections_max", "Maximum number of open client connections.", Kind::Gauge)
            .sample(&[], self.most_connections.load(Ordering::Relaxed));
        let mut closed = page.family(
            "tidegate_connections_closed_total",
            "Client connections that the gateway closed before their clients did, by reason.",
            Kind::Counter,
        );
        for (reason, count) in CLOSED.into_iter().zip(&self.closed) {
            closed.sample(&[("reason", reason)], count.get());
        }
        page.family("tidegate_requests_in_flight", "Requests in flight.", Kind::Gauge).sample(&[], positive(in_flight));
        page.family("tidegate_http2_streams", "HTTP/2 requests in flight.", Kind::Gauge)
            .sample(&[], self.shares.streams());
        page.family("tidegate_buffered_bytes", "Bytes of bodies that are read and not yet sent on.", Kind::Gauge)
            .sample(&[], self.buffers.bytes());
        page.family("tidegate_bad_requests_total", "Connections closed because of invalid HTTP.", Kind::Counter)
            .sample(&[], self.bad_requests.get());
        let mut cuts = page.family(
            "tidegate_clients_cut_total",
            "Requests and connections that were ended so that their clients do not take from others, by cause.",
            Kind::Counter,
        );
        for (cut, counter) in Cut::ALL.iter().zip(&self.cuts) {
            cuts.sample(&[("cause", cut.label())], counter.get());
        }
        let mut floods = page.family(
            "tidegate_http2_floods_total",
            "HTTP/2 connections closed with ENHANCE_YOUR_CALM, by the kind of flood.",
            Kind::Counter,
        );
        for (flood, counter) in Flood::ALL.iter().zip(&self.floods) {
            floods.sample(&[("cause", flood.label())], counter.get());
        }
        page.family("tidegate_reloads_total", "Reloads of the configuration, by result.", Kind::Counter)
            .sample(&[("result", "applied")], self.reloads.get())
            .sample(&[("result", "refused")], self.failed_reloads.get());
        if let Some(sink) = access_log {
            page.family(
                "tidegate_access_log_dropped_total",
                "Lines that the access log dropped, because its buffer was full or after an error.",
                Kind::Counter,
            )
            .sample(&[], sink.dropped());
            page.family(
                "tidegate_access_log_errors_total",
                "Errors while the access log was written or reopened.",
                Kind::Counter,
            )
            .sample(&[], sink.errors());
        }
        if let Some(sink) = &self.events {
            page.family(
                "tidegate_log_dropped_total",
                "Lines that standard output did not take, including those of an access log there.",
                Kind::Counter,
            )
            .sample(&[], sink.dropped());
        }
        page.family("tidegate_build_info", "The version that runs.", Kind::Gauge)
            .sample(&[("version", env!("CARGO_PKG_VERSION"))], true);
    }
}

/// The state of the connection to Redis.
pub(crate) struct StoreState {
    pub(crate) is_down: bool,
    /// The failure mode.
    pub(crate) mode: FailureMode,
}

/// Gauges without a label for the limit: they are those of `default`.
fn write_default_limit(plan: &Plan, page: &mut Exposition) {
    let Some(limit) = plan.limit("default") else { return };
    let numbers = &limit.settings.numbers;
    let fill_rate = numbers.fill_rate();
    let quota = figure(numbers.quota());
    let current = fill_rate.unwrap_or(quota);
    let window = if fill_rate.is_some() { 0.0 } else { numbers.quota_span().as_secs_f64() };
    let mut gauge = |name: &str, help: &str, value: f64| {
        page.family(name, help, Kind::Gauge).sample(&[], value);
    };
    gauge("ratelimiter_current_limit", "The limit `default`: requests in a window, or a second for buckets.", current);
    gauge("ratelimiter_window_seconds", "The window of the limit `default`; 0 for buckets.", window);
    gauge(
        "ratelimiter_bucket_capacity",
        "The bucket of the limit `default`; 0 for windows.",
        fill_rate.map_or(0.0, |_| quota),
    );
    gauge(
        "ratelimiter_token_fill_rate",
        "Tokens a second of the limit `default`; 0 for windows.",
        fill_rate.unwrap_or(0.0),
    );
    gauge("rate_limit_current_limit", "As ratelimiter_current_limit.", current);
    page.family("rate_limit_algorithm", "1 for the algorithm of the limit `default`.", Kind::Gauge)
        .sample(&[("algorithm", numbers.algorithm().name())], true);
}

fn write_limits(plan: &Plan, page: &mut Exposition) {
    let mut family = page.family("tidegate_limit_requests_total", "Decisions of a limit, by decision.", Kind::Counter);
    for limit in &plan.limits {
        let sum =
            |of: &dyn Fn(&crate::limit::LimitStats) -> u64| limit.stats.iter().map(|shard| of(&shard.0)).sum::<u64>();
        let name = limit.name();
        family.sample(&[("limit", name), ("decision", "admitted")], sum(&|stats| stats.admitted.get()));
        family.sample(&[("limit", name), ("decision", "refused")], sum(&|stats| stats.rejected.get()));
        family.sample(&[("limit", name), ("decision", "would_refuse")], sum(&|stats| stats.would_reject.get()));
    }
    let mut family = page.family("tidegate_limit_quota", "Requests that an unused limit admits at once.", Kind::Gauge);
    for limit in &plan.limits {
        let algorithm = limit.settings.numbers.algorithm().name();
        family.sample(&[("limit", limit.name()), ("algorithm", algorithm)], limit.settings.numbers.quota());
    }
    let mut family =
        page.family("tidegate_limit_window_seconds", "Time in which a limit's quota is restored.", Kind::Gauge);
    for limit in &plan.limits {
        family.sample(&[("limit", limit.name())], limit.settings.numbers.quota_span().as_secs_f64());
    }
    let mut family = page.family("tidegate_limit_keys", "Keys that a limit keeps in memory.", Kind::Gauge);
    for limit in &plan.limits {
        if let crate::limit::Counts::Memory(keyed) = &limit.counts {
            family.sample(&[("limit", limit.name())], keyed.len());
        }
    }
    let mut family =
        page.family("rate_limit_exceeded_total", "Requests that a limit rejected, by route and tier.", Kind::Counter);
    for ((route, tier), count) in plan.site.exceeded() {
        family.sample(&[("endpoint", route), ("user_tier", tier)], count);
    }
}

fn write_upstreams(plan: &Plan, page: &mut Exposition) {
    let named = || plan.site.upstreams.iter().map(|upstream| (&*upstream.name, &upstream.stats.metrics));
    let mut family = page.family(
        "request_latency_seconds",
        "Time from sending a request to the head of its response, by upstream and attempt.",
        Kind::Histogram,
    );
    for (name, metrics) in named() {
        for (attempt, latency) in metrics.shown_latencies() {
            family.histogram(&[("service", name), ("attempt", attempt)], &latency);
        }
    }
    let mut family =
        page.family("tidegate_upstream_longest_answer_seconds", "Longest time to a response's head.", Kind::Gauge);
    for (name, metrics) in named() {
        let longest = Duration::from_nanos(metrics.longest_nanos.load(Ordering::Relaxed));
        family.sample(&[("service", name)], longest.as_secs_f64());
    }
    let mut family =
        page.family("tidegate_upstream_long_answers_total", "Responses that took more than 5 s.", Kind::Counter);
    for (name, metrics) in named() {
        family.sample(&[("service", name)], metrics.long.get());
    }
    let mut family = page.family("tidegate_upstream_errors_total", "Responses with a status of 5xx.", Kind::Counter);
    for (name, metrics) in named() {
        for (status, counter) in (500..).zip(metrics.errors_by_status()) {
            // Those that dashboards query exist from the start.
            if counter.get() > 0 || matches!(status, 500 | 502 | 503) {
                family.sample(&[("service", name), ("status", &status.to_string())], counter.get());
            }
        }
    }
    let mut family = page.family(
        "tidegate_upstream_failures_total",
        "Requests without a response, or with an incomplete one.",
        Kind::Counter,
    );
    for (name, metrics) in named() {
        let troubles = metrics.troubles();
        let others = troubles.keys().copied().filter(|reason| !Trouble::OF_UPSTREAMS.contains(reason));
        for reason in Trouble::OF_UPSTREAMS.into_iter().chain(others) {
            family.sample(&[("service", name), ("reason", reason)], troubles.get(reason).copied().unwrap_or(0));
        }
    }
    let mut family = page.family(
        "tidegate_upstream_repeated_total",
        "Attempts without a response that were repeated, by reason.",
        Kind::Counter,
    );
    for (name, metrics) in named() {
        for (reason, count) in &*metrics.repeated_troubles() {
            family.sample(&[("service", name), ("reason", reason)], *count);
        }
    }
    let mut family =
        page.family("tidegate_upstream_connections", "Open connections, including idle ones.", Kind::Gauge);
    for upstream in &plan.site.upstreams {
        family.sample(&[("service", &upstream.name)], upstream.endpoints.pool().open_connections());
    }
}
