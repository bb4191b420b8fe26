//! What all workers share: the plan in force, metrics, the store, the logs.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use tidegate_http::client::Trouble;
use tidegate_http::deadlines::Shortage;
use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Change, Health};
use tidegate_serve::{Aggregate, Log, Reopening, most_open_files};
use tidegate_store::{FailureMode, Store, StoreEvent};
use tidegate_wait::Clock;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use crate::access_log::AccessLog;
use crate::adaptation_state::Adaptation;
use crate::connection_slots::ConnectionSlots;
use crate::cuts::Cut;
use crate::endpoint_report;
use crate::endpoints::Pool;
use crate::file_budget::most_checks;
use crate::h2::Flood;
use crate::metrics::{Metrics, SUMMARY_EVERY, StoreState};
use crate::names::Names;
use crate::plan::Plan;
use crate::returns::Returns;

/// What all workers share.
pub(crate) struct Gateway {
    plan: ArcSwap<Plan>,
    pub(crate) clock: Clock,
    store: Option<Store>,
    store_mode: FailureMode,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Log,
    access_log: Option<AccessLog>,
    pub(crate) adaptation: Adaptation,
    /// Addresses of upstreams' host names.
    pub(crate) names: Names,
    /// Turns of health checks, of all upstreams together: each takes a file descriptor.
    pub(crate) checks: Semaphore,
    /// How many there are.
    pub(crate) most_checks: usize,
    /// Another plan is in force.
    pub(crate) replanned: Notify,
    pub(crate) returns: Arc<Returns>,
    draining: AtomicBool,
    /// Whether requests under way are cut off.
    hurried: AtomicBool,
    rejections: Aggregate,
    troubles: Aggregate,
    /// Idle connections closed to make room for new clients.
    evictions: Aggregate,
    /// Idle connections closed to free file descriptors.
    evictions_for_descriptors: Aggregate,
    /// Endpoints that fail and are not ejected.
    not_ejected: Aggregate,
    /// Health checks that could not be made.
    unchecked: Aggregate,
    /// Clients that were cut off, in the order of [`Cut::ALL`].
    cuts: [Aggregate; Cut::ALL.len()],
    /// How often a client had to wait because no connection was idle.
    full: Aggregate,
    /// How often accepting a connection failed.
    not_accepted: Aggregate,
    floods: Aggregate,
    log_errors: Aggregate,
    /// How many errors of the access log are in `log_errors`.
    noted_log_errors: AtomicU64,
    /// How many failed reopenings of the access log are known.
    noted_reopenings: AtomicU64,
}

impl Gateway {
    #[expect(clippy::too_many_arguments, reason = "made once, where all of it comes together")]
    pub(crate) fn new(
        plan: Plan,
        clock: Clock,
        store: Option<Store>,
        store_mode: FailureMode,
        metrics: Arc<Metrics>,
        log: Log,
        access_log: Option<AccessLog>,
        adaptation: Adaptation,
        names: Names,
    ) -> Self {
        let now = Instant::now();
        let most_checks = most_checks(usize::try_from(most_open_files()).unwrap_or(usize::MAX));
        Self {
            plan: ArcSwap::from_pointee(plan),
            clock,
            store,
            store_mode,
            metrics,
            log,
            access_log,
            adaptation,
            names,
            checks: Semaphore::new(most_checks),
            most_checks,
            replanned: Notify::new(),
            returns: Returns::new(Handle::current()),
            draining: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
            rejections: Aggregate::new(SUMMARY_EVERY, now),
            troubles: Aggregate::new(SUMMARY_EVERY, now),
            evictions: Aggregate::new(SUMMARY_EVERY, now),
            evictions_for_descriptors: Aggregate::new(SUMMARY_EVERY, now),
            not_ejected: Aggregate::new(SUMMARY_EVERY, now),
            unchecked: Aggregate::new(SUMMARY_EVERY, now),
            cuts: Cut::ALL.map(|_| Aggregate::new(SUMMARY_EVERY, now)),
            full: Aggregate::new(SUMMARY_EVERY, now),
            not_accepted: Aggregate::new(SUMMARY_EVERY, now),
            floods: Aggregate::new(SUMMARY_EVERY, now),
            log_errors: Aggregate::new(SUMMARY_EVERY, now),
            noted_log_errors: AtomicU64::new(0),
            noted_reopenings: AtomicU64::new(0),
        }
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    pub(crate) fn swap(&self, plan: Plan) {
        self.plan.store(Arc::new(plan));
        self.adaptation.replanned.notify_one();
        self.replanned.notify_one();
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub(crate) fn store_state(&self) -> Option<StoreState> {
        self.store.as_ref().map(|store| StoreState { is_down: store.is_down(), mode: self.store_mode })
    }

    pub(crate) fn access_log(&self) -> Option<&AccessLog> {
        self.access_log.as_ref()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.adaptation.replanned.notify_one();
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed)
    }

    /// Cuts off requests under way.
    pub(crate) fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// Notes a rejected request. The log gets a line now and then, never one for each.
    pub(crate) fn note_rejection(&self, limit: &str, now: Instant) {
        if let Some(count) = self.rejections.note(now) {
            self.report_rejections(count, limit);
        }
    }

    fn report_rejections(&self, count: u64, limit: &str) {
        let requests = if count == 1 { "1 request" } else { "requests" };
        let count = if count == 1 { String::new() } else { format!("{count} ") };
        self.log.warn(
            "RateLimiter",
            format_args!("Request rejected: limit exceeded ({count}{requests}, last by `{limit}`)"),
        );
    }

    /// Notes a request without a complete response. The log gets a line now and then, with the id of the last such
    /// request.
    pub(crate) fn note_trouble(&self, upstream: &str, trouble: &Trouble, request_id: &str) {
        if let Some(count) = self.troubles.note(Instant::now()) {
            let which = if count == 1 { "request".to_owned() } else { format!("{count} times, last request") };
            self.log.error("ProxyHandler", format_args!("upstream `{upstream}`: {trouble} ({which} {request_id})"));
        }
    }

    /// Notes that an idle connection was closed for another.
    pub(crate) fn note_eviction(&self, shortage: Shortage, slots: &ConnectionSlots) {
        let aggregate = match shortage {
            Shortage::Slots => &self.evictions,
            Shortage::Descriptors => &self.evictions_for_descriptors,
        };
        let Some(count) = aggregate.note(Instant::now()) else { return };
        let closed = if count == 1 { "1 idle connection".to_owned() } else { format!("{count} idle connections") };
        match shortage {
            Shortage::Slots => {
                let taken = &slots.taken;
                self.log.warn("Gateway", format_args!("closed {closed} to let new clients in: {taken}"));
            }
            Shortage::Descriptors => {
                self.log.warn("Gateway", format_args!("closed {closed} to free file descriptors: none was left"));
            }
        }
    }

    /// Counts a client that is cut off so that it does not take from others. The log gets a line now and then.
    pub(crate) fn note_cut(&self, cut: Cut, peer: IpAddr) {
        self.metrics.cut(cut);
        if let Some(count) = self.cuts[cut.index()].note(Instant::now()) {
            let times = if count == 1 { String::new() } else { format!("{count} times, last ") };
            self.log.warn("Gateway", format_args!("Cut off a client: {} ({times}from {peer})", cut.text()));
        }
    }

    /// Notes that a client must wait, because all connections have requests under way.
    pub(crate) fn note_full(&self, slots: &ConnectionSlots) {
        if self.full.note(Instant::now()).is_some() {
            self.log.warn("Gateway", format_args!("new clients wait: {}, and none is idle", slots.taken));
        }
    }

    /// Notes that accepting a connection failed.
    pub(crate) fn note_not_accepted(&self, error: &std::io::Error) {
        if let Some(count) = self.not_accepted.note(Instant::now()) {
            let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
            self.log.error("Gateway", format_args!("can't accept a connection: {error}{times}"));
        }
    }

    /// Logs what has become of an endpoint. That one fails and is not ejected is logged now and then.
    pub(crate) fn note_endpoint_change(&self, upstream: &str, pool: &Pool, change: Change) {
        let mut times = String::new();
        if matches!(change, Change::NotEjected { .. }) {
            let Some(count) = self.not_ejected.note(Instant::now()) else { return };
            if count > 1 {
                times = format!(" ({count} times in all since the last line)");
            }
        }
        let (is_good, text) = endpoint_report::change_text(change);
        let index = endpoint_report::changed_index(change);
        let member = pool.members.get(index);
        let endpoint = member.map_or("", |member| member.state.name());
        let is_unhealthy = matches!(change, Change::HealthChanged { health: Health::Unhealthy, .. });
        let failed_check = member.filter(|_| is_unhealthy).and_then(|member| member.failed_check());
        let why = failed_check.map_or_else(String::new, |why| format!(": {why}"));
        let line = format!("endpoint {endpoint} of `{upstream}` {text}{why}{times}");
        if is_good { self.log.info("Upstream", line) } else { self.log.warn("Upstream", line) }
    }

    /// Notes that an endpoint could not be checked, for a reason that is not its own.
    pub(crate) fn note_unchecked(&self, upstream: &str, error: &std::io::Error) {
        if let Some(count) = self.unchecked.note(Instant::now()) {
            let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
            self.log.error("Upstream", format_args!("can't check endpoints of `{upstream}`: {error}{times}"));
        }
    }

    /// Counts an HTTP/2 connection that is closed because of a flood. The log gets a line now and then.
    pub(crate) fn note_flood(&self, flood: Flood, peer: IpAddr) {
        self.metrics.flooded(flood);
        if let Some(count) = self.floods.note(Instant::now()) {
            let what = if count == 1 {
                format!("Closed an HTTP/2 connection from {peer}")
            } else {
                format!("Closed {count} HTTP/2 connections, the last from {peer}")
            };
            self.log.warn("Gateway", format_args!("{what}: {}", flood.text()));
        }
    }

    /// Runs blocking work where no request and not even the shutdown waits for it.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, tokio::task::JoinError> {
        self.returns.runtime.spawn_blocking(work).await
    }

    /// Reports what was counted since the last line.
    pub(crate) fn summarize(&self, at_the_end: bool) {
        let now = Instant::now();
        let rest = |aggregate: &Aggregate| if at_the_end { aggregate.take_rest() } else { aggregate.take_due(now) };
        if let Some(count) = rest(&self.rejections) {
            self.log.warn("RateLimiter", format_args!("Request rejected: limit exceeded ({count} more)"));
        }
        if let Some(count) = rest(&self.metrics.store_troubles) {
            self.log.warn("RedisClient", format_args!("{count} more calls to Redis have failed"));
        }
        if let Some(count) = rest(&self.metrics.unreported_lost_slots) {
            report_lost_slots(&self.log, count, "more ");
        }
        if let Some(count) = rest(&self.troubles) {
            self.log.error("ProxyHandler", format_args!("{count} more requests got no response from their upstream"));
        }
        if let Some(count) = rest(&self.evictions) {
            self.log.warn("Gateway", format_args!("closed {count} more idle connections to let new clients in"));
        }
        if let Some(count) = rest(&self.evictions_for_descriptors) {
            self.log.warn("Gateway", format_args!("closed {count} more idle connections to free file descriptors"));
        }
        for (cut, aggregate) in Cut::ALL.iter().zip(&self.cuts) {
            if let Some(count) = rest(aggregate) {
                self.log.warn(
                    "Gateway",
                    format_args!("Cut off more clients, {count} in all since the last line: {}", cut.text()),
                );
            }
        }
        if let Some(count) = rest(&self.not_ejected) {
            let why = "because too many others are out";
            self.log.warn("Upstream", format_args!("{count} more failures ejected no endpoint, {why}"));
        }
        if let Some(count) = rest(&self.unchecked) {
            self.log.error("Upstream", format_args!("{count} more health checks could not be made"));
        }
        if let Some(count) = rest(&self.floods) {
            self.log.warn("Gateway", format_args!("Closed {count} more HTTP/2 connections: flooding"));
        }
        self.note_log_errors(now);
        if let (Some(count), Some(log)) = (rest(&self.log_errors), &self.access_log) {
            self.report_log_errors(count, log);
        }
    }

    /// Notes errors of the access log. Its writer runs by itself and only counts them.
    fn note_log_errors(&self, now: Instant) {
        let Some(log) = &self.access_log else { return };
        let Reopening { failed, error } = log.sink.reopening();
        // One that succeeded has made up for those before it.
        if self.noted_reopenings.swap(failed, Ordering::Relaxed) < failed
            && let Some(error) = error
        {
            let old = "lines still go to the old file";
            self.log.error("AccessLog", format_args!("can't reopen the access log {error}; {old}"));
        }
        let errors = log.sink.write_errors();
        for _ in self.noted_log_errors.swap(errors, Ordering::Relaxed)..errors {
            if let Some(count) = self.log_errors.note(now) {
                self.report_log_errors(count, log);
            }
        }
    }

    /// Reports slots that could not be given back to Redis before the process ends.
    pub(crate) fn report_unreturned(&self) {
        let owed = self.store().map_or(0, Store::owed);
        if owed > 0 {
            report_lost_slots(&self.log, owed as u64, "");
        }
    }

    fn report_log_errors(&self, count: u64, log: &AccessLog) {
        let last = log.sink.last_write_error().unwrap_or_default();
        let times = if count == 1 { String::new() } else { format!(" ({count} errors)") };
        self.log.error("AccessLog", format_args!("can't write the access log: {last}{times}"));
    }
}

fn report_lost_slots(log: &Log, count: u64, more: &str) {
    log.warn(
        "RedisClient",
        format_args!("{count} {more}slots in flight can't be given back to Redis; they stay taken for `hold`"),
    );
}

/// Records what happens to the connection to Redis at `address` in the log and the metrics.
pub(crate) fn observer(
    metrics: Arc<Metrics>,
    log: Log,
    mode: FailureMode,
    address: String,
) -> tidegate_store::Observer {
    let mode = match mode {
        FailureMode::Open => "fail-open mode",
        FailureMode::Closed => "fail-closed mode",
        FailureMode::Local => "local mode",
    };
    Arc::new(move |event| {
        metrics.store_event(event);
        match event {
            StoreEvent::Call { error: None, .. } | StoreEvent::StillDown { .. } => {}
            StoreEvent::Call { error: Some(error), .. } => {
                if let Some(count) = metrics.store_troubles.note(Instant::now()) {
                    let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
                    log.warn("RedisClient", format_args!("a call to Redis has failed{times}: {error}"));
                }
            }
            StoreEvent::Unreached { error } => log.warn(
                "RedisClient",
                format_args!("Redis could not be reached at {address}, starting in {mode} and trying again: {error}"),
            ),
            StoreEvent::Reached { after } => {
                let seconds = after.as_secs_f64();
                log.info(
                    "RedisClient",
                    format_args!("Redis reached at {address}, starting normal operation (after {seconds:.1} s)"),
                );
            }
            StoreEvent::Down { error } => {
                log.warn("RedisClient", format_args!("Redis connection lost, entering {mode}: {error}"));
            }
            StoreEvent::SlotsLost { slots } => {
                if let Some(count) = metrics.unreported_lost_slots.note_many(slots as u64, Instant::now()) {
                    report_lost_slots(&log, count, "");
                }
            }
            StoreEvent::Up { after } => {
                let seconds = after.as_secs_f64();
                log.info(
                    "RedisClient",
                    format_args!("Redis reconnected, resuming normal operation (it was away for {seconds:.1} s)"),
                );
            }
        }
    })
}
