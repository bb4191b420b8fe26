//! What all workers share: the plan in force, counts, the store, the logs.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use tidegate_http::client::Trouble;
use tidegate_http::deadlines::Shortage;
use tidegate_policy::Timestamp;
use tidegate_serve::{Aggregate, Log};
use tidegate_store::{FailureMode, Store, StoreEvent};
use tidegate_wait::Clock;
use tokio::runtime::Handle;

use crate::access_log::AccessLog;
use crate::adaptation_state::Adaptation;
use crate::connection_slots::ConnectionSlots;
use crate::h2::Flood;
use crate::metrics::{Metrics, SUMMARY_EVERY, StoreState};
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
    pub(crate) returns: Arc<Returns>,
    draining: AtomicBool,
    /// Whether those under way get no more time.
    hurried: AtomicBool,
    refusals: Aggregate,
    troubles: Aggregate,
    /// Connections that were closed to make room, …
    evictions: Aggregate,
    /// … and those that were closed to free file descriptors.
    evictions_for_descriptors: Aggregate,
    /// How often there was no room, and nobody to close.
    full: Aggregate,
    /// How often nobody could be accepted.
    not_accepted: Aggregate,
    floods: Aggregate,
    /// Errors of the access log, and how many of them have been noted.
    log_errors: Aggregate,
    noted_log_errors: AtomicU64,
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
    ) -> Self {
        let now = Instant::now();
        Self {
            plan: ArcSwap::from_pointee(plan),
            clock,
            store,
            store_mode,
            metrics,
            log,
            access_log,
            adaptation,
            returns: Returns::new(Handle::current()),
            draining: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
            refusals: Aggregate::new(SUMMARY_EVERY, now),
            troubles: Aggregate::new(SUMMARY_EVERY, now),
            evictions: Aggregate::new(SUMMARY_EVERY, now),
            evictions_for_descriptors: Aggregate::new(SUMMARY_EVERY, now),
            full: Aggregate::new(SUMMARY_EVERY, now),
            not_accepted: Aggregate::new(SUMMARY_EVERY, now),
            floods: Aggregate::new(SUMMARY_EVERY, now),
            log_errors: Aggregate::new(SUMMARY_EVERY, now),
            noted_log_errors: AtomicU64::new(0),
        }
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    pub(crate) fn swap(&self, plan: Plan) {
        self.plan.store(Arc::new(plan));
        self.adaptation.replanned.notify_one();
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

    /// Cuts off what is under way.
    pub(crate) fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// A request was refused: a line now and then, never one each.
    pub(crate) fn note_refusal(&self, limit: &str, now: Instant) {
        if let Some(count) = self.refusals.note(now) {
            self.tell_refusals(count, limit);
        }
    }

    fn tell_refusals(&self, count: u64, limit: &str) {
        let requests = if count == 1 { "1 request" } else { "requests" };
        let count = if count == 1 { String::new() } else { format!("{count} ") };
        self.log.warn(
            "RateLimiter",
            format_args!("Request rejected: limit exceeded ({count}{requests}, last by `{limit}`)"),
        );
    }

    /// An upstream did not answer this request as it should: a line now and then, with the id of the last such request.
    pub(crate) fn note_trouble(&self, upstream: &str, trouble: &Trouble, request_id: &str) {
        if let Some(count) = self.troubles.note(Instant::now()) {
            let which = if count == 1 { "request".to_owned() } else { format!("{count} times, last request") };
            self.log.error("ProxyHandler", format_args!("upstream `{upstream}`: {trouble} ({which} {request_id})"));
        }
    }

    /// A client's idle connection was closed for another.
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

    /// A client must wait, for all connections have requests under way.
    pub(crate) fn note_full(&self, slots: &ConnectionSlots) {
        if self.full.note(Instant::now()).is_some() {
            self.log.warn("Gateway", format_args!("new clients wait: {}, and none is idle", slots.taken));
        }
    }

    /// Nobody could be accepted.
    pub(crate) fn note_not_accepted(&self, error: &std::io::Error) {
        if let Some(count) = self.not_accepted.note(Instant::now()) {
            let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
            self.log.error("Gateway", format_args!("no more connections can be accepted: {error}{times}"));
        }
    }

    /// An HTTP/2 connection is closed because of a flood: counted, and a line now and then.
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

    /// Runs what blocks where it holds up nobody, not even the end.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, tokio::task::JoinError> {
        self.returns.runtime.spawn_blocking(work).await
    }

    /// Tells what was counted since the last line.
    pub(crate) fn summarize(&self, at_the_end: bool) {
        let now = Instant::now();
        let rest = |aggregate: &Aggregate| if at_the_end { aggregate.take_rest() } else { aggregate.take_due(now) };
        if let Some(count) = rest(&self.refusals) {
            self.log.warn("RateLimiter", format_args!("Request rejected: limit exceeded ({count} more)"));
        }
        if let Some(count) = rest(&self.metrics.store_troubles) {
            self.log.warn("RedisClient", format_args!("{count} more calls to Redis have failed"));
        }
        if let Some(count) = rest(&self.metrics.places_lost) {
            tell_places_lost(&self.log, count, "more ");
        }
        if let Some(count) = rest(&self.troubles) {
            self.log.error("ProxyHandler", format_args!("{count} more requests got no answer from their upstream"));
        }
        if let Some(count) = rest(&self.evictions) {
            self.log.warn("Gateway", format_args!("closed {count} more idle connections to let new clients in"));
        }
        if let Some(count) = rest(&self.evictions_for_descriptors) {
            self.log.warn("Gateway", format_args!("closed {count} more idle connections to free file descriptors"));
        }
        if let Some(count) = rest(&self.floods) {
            self.log.warn("Gateway", format_args!("Closed {count} more HTTP/2 connections: flooding"));
        }
        self.note_log_errors(now);
        if let (Some(count), Some(log)) = (rest(&self.log_errors), &self.access_log) {
            self.tell_log_errors(count, log);
        }
    }

    /// The access log's writer works by itself; what went wrong there is looked for from time to time.
    fn note_log_errors(&self, now: Instant) {
        let Some(log) = &self.access_log else { return };
        let errors = log.sink.errors();
        for _ in self.noted_log_errors.swap(errors, Ordering::Relaxed)..errors {
            if let Some(count) = self.log_errors.note(now) {
                self.tell_log_errors(count, log);
            }
        }
    }

    /// Reports places that Redis was not there to take back, when the process ends.
    pub(crate) fn report_unreturned(&self) {
        let owed = self.store().map_or(0, Store::owed);
        if owed > 0 {
            tell_places_lost(&self.log, owed as u64, "");
        }
    }

    fn tell_log_errors(&self, count: u64, log: &AccessLog) {
        let last = log.sink.last_error().unwrap_or_default();
        let times = if count == 1 { String::new() } else { format!(" ({count} errors)") };
        self.log.error("AccessLog", format_args!("the access log is not written as it should be: {last}{times}"));
    }
}

fn tell_places_lost(log: &Log, count: u64, more: &str) {
    log.warn(
        "RedisClient",
        format_args!("{count} {more}places in flight can't be given back: they stay taken for as long as `hold` says"),
    );
}

/// Records in the log and the metrics what happens between us and Redis at `address`.
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
                if let Some(count) = metrics.places_lost.note_many(slots as u64, Instant::now()) {
                    tell_places_lost(&log, count, "");
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
