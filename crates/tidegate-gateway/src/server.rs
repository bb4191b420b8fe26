//! The server: threads that each serve a share of the connections, all from the same listening sockets.

mod accepting;
mod connection;
mod http1;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_adapt::SeriesNames;
use tidegate_http::deadlines::{Deadlines, Idler, TICK};
use tidegate_http::descriptors::Descriptors;
use tidegate_http::eviction::Evictor;
use tidegate_http::stream;
use tidegate_serve::{Log, Shutdown, ShutdownHandle};
use tidegate_store::{LeaseTerms, Store, StoreConfig};
use tidegate_wait::Clock;
use tokio::task::JoinSet;

use self::accepting::accept;
use crate::access_log::AccessLog;
use crate::adapt;
use crate::adaptation_state::Adaptation;
use crate::config::model::Connections;
use crate::connection_slots::ConnectionSlots;
use crate::control::{self, Control, Source, report_lints};
use crate::endpoint_tasks::{self, Lookups};
use crate::file_budget::{FileBudget, FileNeeds};
use crate::gateway::{Gateway, observer};
use crate::listener::{Listener, Socket};
use crate::metrics::Metrics;
use crate::names::Names;
use crate::reload::{reload, reopen_logs};
use crate::settings::{RedisSettings, Settings};
use crate::worker::Worker;

/// How long the end waits for what is given back to Redis.
const RETURNS_TIMEOUT: Duration = Duration::from_secs(3);

/// File descriptors that are open at the start, where the system does not report them.
const OPEN_AT_START: u64 = 32;

/// Connections to the admin listener, apart from those of clients: it must respond when clients hold all of theirs.
const ADMIN_CONNECTIONS: usize = 64;

/// A bound of so many connections is no reason for a warning where the configuration has no number.
const MANY_CLIENTS: usize = 1_000;

/// How long a client may keep its upstream waiting before its request may be ended for another.
const STALLED: Duration = Duration::from_millis(300);

/// Threads of a worker that wait for name servers.
const LOOKUP_THREADS: usize = 8;

/// A gateway that has its sockets and is ready to serve.
pub struct Server {
    gateway: Arc<Gateway>,
    control: Arc<Control>,
    listeners: Vec<Arc<Listener>>,
    admin: Option<Arc<Listener>>,
    workers: usize,
    connections: Connections,
}

/// Why a gateway could not start.
#[derive(Debug)]
pub enum NotStarted {
    /// An address can't be listened on.
    Bind(SocketAddr, io::Error),
    /// The access log can't be written.
    AccessLog(io::Error),
    /// A limit can't be set up.
    Limit(String),
    /// Threads can't be started.
    Thread(io::Error),
}

impl std::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bind(address, error) => write!(f, "can't listen on {address}: {error}"),
            Self::AccessLog(error) => write!(f, "access_log.file: {error}"),
            Self::Limit(error) => f.write_str(error),
            Self::Thread(error) => write!(f, "can't start a worker: {error}"),
        }
    }
}

impl std::error::Error for NotStarted {}

/// The names of this gateway's load, which distinguish it from that of other gateways.
fn series_names(listeners: &[Arc<Listener>], redis: Option<&RedisSettings>) -> SeriesNames {
    let port = listeners.first().map_or(0, |listener| listener.address.port());
    SeriesNames {
        alone: format!("{}:{port}", tidegate_serve::host_name()),
        shared: redis
            .map_or_else(String::new, |redis| format!("{}/{}", redis.topology.address(), redis.namespace.as_str())),
    }
}

fn bind(
    address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    h2c: bool,
    is_admin: bool,
) -> Result<Arc<Listener>, NotStarted> {
    let bound = Listener::bind(address, tls, h2c, is_admin);
    bound.map(Arc::new).map_err(|error| NotStarted::Bind(address, error))
}

async fn connect(redis: &RedisSettings, metrics: &Arc<Metrics>, log: &Log) -> Result<Store, NotStarted> {
    let on_failure = redis.model.on_failure;
    let config = StoreConfig {
        budget: redis.model.budget().get(),
        on_failure,
        lease: LeaseTerms { tokens: redis.model.lease_tokens(), span: redis.model.lease_span().get() },
        observer: observer(Arc::clone(metrics), log.clone(), on_failure, redis.topology.address()),
        ..StoreConfig::new(redis.topology.clone(), redis.namespace.clone())
    };
    Store::connect(config).await.map_err(|error| NotStarted::Limit(format!("redis: {error}")))
}

impl Server {
    /// Takes the sockets, connects to Redis where it is configured, and reads the limits kept there. The runtime that
    /// this is called on runs what is not a request: Redis, the admin listener.
    pub async fn bind(settings: Settings, source: Source, log: Log) -> Result<Self, NotStarted> {
        let mut listeners = Vec::new();
        for listener in &settings.listeners {
            listeners.push(bind(listener.address, listener.tls.clone(), listener.h2c, false)?);
        }
        let admin = settings.admin_listen.map(|address| bind(address, None, false, true)).transpose()?;
        let access_log = settings
            .access_log
            .as_ref()
            .map(|settings| AccessLog::open(settings, &log))
            .transpose()
            .map_err(NotStarted::AccessLog)?;
        report_lints(&log, &settings.lints);
        let (workers, connections) = (settings.workers, settings.connections.clone());
        let metrics = Arc::new(Metrics::new(workers + 1, log.sink().cloned()));
        let store = match &settings.redis {
            Some(redis) => Some(connect(redis, &metrics, &log).await?),
            None => None,
        };
        let mode = settings.redis.as_ref().map(|redis| redis.model.on_failure).unwrap_or_default();
        let clock = Clock::start();
        let series_names = series_names(&listeners, settings.redis.as_ref());
        let names = Names::new(settings.resolver.clone(), tokio::runtime::Handle::current(), log.clone());
        let lookups = Lookups::of(&names, &settings.upstreams, settings.resolver.timeout).await;
        let (control, plan) = Control::start(settings, source, listeners.clone(), store.as_ref(), clock.now(), &log)
            .await
            .map_err(NotStarted::Limit)?;
        lookups.apply(&plan, clock.now());
        metrics.config_version.store(plan.version, Ordering::Relaxed);
        let adaptation = Adaptation::new(series_names);
        let gateway = Arc::new(Gateway::new(plan, clock, store, mode, metrics, log, access_log, adaptation, names));
        Ok(Self { gateway, control: Arc::new(control), listeners, admin, workers, connections })
    }

    /// Where clients connect, as URLs.
    pub fn addresses(&self) -> Vec<String> {
        let url = |listener: &Arc<Listener>| {
            let scheme = if listener.tls.load().is_some() { "https" } else { "http" };
            format!("{scheme}://{}", listener.address)
        };
        self.listeners.iter().map(url).collect()
    }

    /// Where limits are changed, if there is an admin listener.
    pub fn admin_address(&self) -> Option<String> {
        self.admin.as_ref().map(|listener| format!("http://{}", listener.address))
    }

    /// Controls the gateway while it runs.
    pub fn handle(&self) -> Handle {
        Handle { gateway: Arc::clone(&self.gateway), control: Arc::clone(&self.control) }
    }

    /// The limits in force, for people.
    pub fn summary(&self) -> String {
        let plan = self.gateway.plan();
        let limit = |limit: &crate::limit::Limit| format!("{} ({})", limit.name(), limit.settings.numbers);
        let limits: Vec<String> = plan.limits.iter().map(limit).collect();
        let upstream = |upstream: &Arc<crate::upstream::Upstream>| {
            let urls: Vec<String> = upstream.endpoints.entries().iter().map(|entry| entry.url()).collect();
            format!("{} {}", upstream.name, urls.join(" "))
        };
        let upstreams: Vec<String> = plan.site.upstreams.iter().map(upstream).collect();
        let state = match self.gateway.store_state() {
            None => "memory".to_owned(),
            Some(store) => format!("redis, fail-{}", store.mode.name()),
        };
        let adaptation = plan.site.adaptive.as_ref().map_or_else(String::new, |adaptive| {
            let (limit, mode, seconds) = (&adaptive.limit, adaptive.mode.word(), adaptive.interval.as_secs_f64());
            format!("; adaptation: {mode}, limit {limit}, every {seconds} s from {}", adaptive.forecaster.authority)
        });
        let (limits, upstreams) = (limits.join(", "), upstreams.join(", "));
        format!("upstreams: {upstreams}; limits: {limits}; state: {state}; workers: {}{adaptation}", self.workers)
    }

    /// Serves until `shutdown`, and then until all requests under way have ended or the drain timeout is over.
    pub async fn run(self, mut shutdown: Shutdown) -> Result<(), NotStarted> {
        let (budget, limit) = self.file_budget();
        stream::bound_ends(budget.watches);
        let (descriptors, to_the_end) = (Descriptors::new(budget.upstreams), ShutdownHandle::new());
        let deadlines: Vec<Arc<Deadlines>> = (0..self.workers).map(|_| Deadlines::new()).collect();
        let taken = format!("all connections are taken ({})", self.bound(&budget, limit));
        let slots = ConnectionSlots::new(budget.clients, taken, &deadlines);
        let stalled = Arc::new(Evictor::new(&deadlines, Deadlines::stalled, stalled_rank));
        self.gateway.metrics.most_connections.store(budget.clients as u64, Ordering::Relaxed);
        let mut threads: Vec<JoinHandle<usize>> = Vec::new();
        for (index, deadlines) in deadlines.iter().enumerate() {
            let worker = Worker::new(index, &self.gateway, &self.control, deadlines, &slots, &descriptors, &stalled);
            let (shutdown, drain) = (shutdown.clone(), self.connections.drain_timeout.get());
            // Taken here, because an order to stop may come before the thread runs, and clients even before that.
            let sockets = self.listeners.iter().map(Listener::socket).collect::<io::Result<Vec<_>>>();
            let sockets = sockets.map_err(NotStarted::Thread)?;
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            let thread = thread.spawn(move || work(&worker, sockets, shutdown, drain));
            threads.push(thread.map_err(NotStarted::Thread)?);
        }
        if self.gateway.store().is_some() {
            tokio::spawn(control::follow(Arc::clone(&self.gateway), Arc::clone(&self.control)));
        }
        tokio::spawn(endpoint_tasks::run(Arc::clone(&self.gateway)));
        // Always started: a reload may turn adaptation on.
        tokio::spawn(adapt::run(Arc::clone(&self.gateway), Arc::clone(&self.control)));
        let summaries = tokio::spawn(summaries(Arc::clone(&self.gateway)));
        if let Some(listener) = self.admin {
            // Its metrics come after those of the workers.
            let deadlines = Deadlines::new();
            let taken = format!("all {} connections to `admin.listen` are taken", budget.admin);
            let slots = ConnectionSlots::new(budget.admin, taken, std::slice::from_ref(&deadlines));
            let (gateway, control, index) = (&self.gateway, &self.control, self.workers);
            let worker = Worker::new(index, gateway, control, &deadlines, &slots, &descriptors, &stalled);
            let owner = Arc::clone(&worker);
            tokio::spawn(Arc::clone(&worker.deadlines).run(move |_| owner.set_date()));
            // It responds to the very end, so that health checks see that the gateway drains.
            let socket = Listener::socket(&listener).map_err(NotStarted::Thread)?;
            tokio::spawn(accept(worker, socket, to_the_end.observer()));
        }
        shutdown.wanted().await;
        self.gateway.drain();
        self.listeners.iter().for_each(|listener| listener.close());
        let joined = tokio::task::spawn_blocking(move || {
            threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum::<usize>()
        });
        let left = joined.await.unwrap_or(0);
        self.gateway.returns.wait(self.gateway.store(), RETURNS_TIMEOUT).await;
        self.gateway.report_unreturned();
        summaries.abort();
        self.gateway.summarize(true);
        if left > 0 {
            let why = if self.gateway.is_hurried() { "by the second signal" } else { "when the time to drain was up" };
            let connections =
                if left == 1 { "1 connection was".to_owned() } else { format!("{left} connections were") };
            self.gateway.log.warn("Gateway", format_args!("{connections} cut off {why}"));
        }
        if let Some(log) = self.gateway.access_log() {
            // Not closed: on standard output the event log uses it too.
            log.sink.flush(Duration::from_secs(2));
        }
        Ok(())
    }
}

impl Server {
    /// How many connections and how many file descriptors there may be.
    fn file_budget(&self) -> (FileBudget, usize) {
        let plan = self.gateway.plan();
        let upstreams = plan.site.upstreams.iter().map(|upstream| upstream.endpoints.most_connections());
        let limit = usize::try_from(tidegate_serve::most_open_files()).unwrap_or(usize::MAX);
        let needs = FileNeeds {
            limit,
            open: usize::try_from(tidegate_serve::open_files().unwrap_or(OPEN_AT_START)).unwrap_or(usize::MAX),
            workers: self.workers,
            listeners: self.listeners.len(),
            upstream_connections: upstreams.fold(0, usize::saturating_add),
            has_redis: self.gateway.store().is_some(),
            admin: if self.admin.is_some() { ADMIN_CONNECTIONS } else { 0 },
        };
        (needs.budget(self.connections.max), limit)
    }

    /// What bounds the number of clients, as a text. Logs it if that is not the configuration.
    fn bound(&self, budget: &FileBudget, limit: usize) -> String {
        let (clients, max) = (budget.clients, self.connections.max);
        if clients >= max {
            return format!("`connections.max` is {max}");
        }
        let lowered = format!(
            "connections.max: lowered from {max} to {clients}, because the process may have only {limit} file \
             descriptors open (RLIMIT_NOFILE) and each client may need a second one for its upstream; raise the limit \
             (`ulimit -n`, `LimitNOFILE=` of systemd, `--ulimit nofile=` of Docker) or lower `connections.max`"
        );
        // The default is only a bound: where many connections fit, nothing is wrong.
        if max == Connections::default().max && clients >= MANY_CLIENTS {
            self.gateway.log.info("Gateway", lowered);
        } else {
            self.gateway.log.warn("Gateway", lowered);
        }
        format!("`connections.max` is {max}, but the process may have only {limit} file descriptors open")
    }
}

/// Of requests whose clients have been waited for long enough, the one that was waited for longest is ended first.
fn stalled_rank(idler: &Idler) -> Option<u8> {
    (idler.waited >= STALLED).then_some(0)
}

async fn summaries(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.summarize(false);
        endpoint_tasks::step(&gateway);
    }
}

/// Controls a gateway while it runs.
#[derive(Clone)]
pub struct Handle {
    gateway: Arc<Gateway>,
    control: Arc<Control>,
}

impl Handle {
    /// Cuts off requests under way once the gateway stops. What they hold in Redis is still given back.
    pub fn hurry(&self) {
        self.gateway.hurry();
    }

    /// Whether requests under way are cut off.
    pub fn is_hurried(&self) -> bool {
        self.gateway.is_hurried()
    }

    /// Reads the configuration anew. An invalid one changes nothing.
    pub async fn reload(&self) -> Result<(), String> {
        reload(&self.gateway, &self.control).await.map_err(|error| error.to_string())
    }

    /// Opens the access log's file anew, after it was renamed or removed.
    pub fn reopen_logs(&self) {
        reopen_logs(&self.gateway);
    }
}

/// A worker's thread. Returns how many connections were cut off at the end.
fn work(worker: &Arc<Worker>, sockets: Vec<Socket>, shutdown: Shutdown, drain: Duration) -> usize {
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(LOOKUP_THREADS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            worker.gateway.log.error("Gateway", format_args!("can't start a worker: {error}"));
            return 0;
        }
    };
    run_to_end(runtime, serve_and_drain(worker, sockets, shutdown, drain))
}

/// Runs `task`, and ends the runtime with it: all other tasks are dropped, and a name server that does not respond is
/// not waited for.
fn run_to_end<T>(runtime: tokio::runtime::Runtime, task: impl Future<Output = T>) -> T {
    let done = runtime.block_on(task);
    runtime.shutdown_background();
    done
}

async fn serve_and_drain(worker: &Arc<Worker>, sockets: Vec<Socket>, mut shutdown: Shutdown, drain: Duration) -> usize {
    let owner = Arc::clone(worker);
    tokio::spawn(Arc::clone(&worker.deadlines).run(move |is_second| {
        owner.set_date();
        if !is_second {
            return;
        }
        let plan = owner.gateway.plan();
        let now = owner.deadlines.now_millis();
        let pools = plan.site.upstreams.iter().map(|upstream| upstream.endpoints.pool());
        pools.for_each(|pool| pool.members.iter().for_each(|member| member.endpoint.close_idle(owner.index, now)));
    }));
    let mut accepting = JoinSet::new();
    for socket in sockets {
        accepting.spawn(accept(Arc::clone(worker), socket, shutdown.clone()));
    }
    shutdown.wanted().await;
    // All that follows ends by this deadline.
    let deadline = Instant::now() + drain;
    worker.gateway.drain();
    let is_done = |accepting: &mut JoinSet<()>| {
        while accepting.try_join_next().is_some() {}
        accepting.is_empty() && worker.open() == 0
    };
    while !is_done(&mut accepting) && Instant::now() < deadline && !worker.gateway.is_hurried() {
        worker.deadlines.wake_all();
        tokio::time::sleep(TICK.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
    worker.open()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Looking up a host blocks a thread of the runtime for as long as the name server takes.
    #[test]
    fn the_end_does_not_wait_for_a_blocked_lookup() {
        let (response, never) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let is_over = run_to_end(runtime, async move {
            let lookup = tokio::task::spawn_blocking(move || {
                began.send(()).expect("the test waits");
                // Bounded, so that a test that fails ends.
                never.recv_timeout(Duration::from_secs(20))
            });
            begun.recv().expect("it has begun");
            lookup.is_finished()
        });
        assert!(!is_over);
        assert!(response.send(()).is_ok(), "the lookup was waited for");
    }
}
