use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use tidegate_serve::rest::{self, Bounds, Request as Asked, Response as Answer};
use tidegate_serve::{Aggregate, Log, Shutdown};
use tokio::net::TcpListener;

use super::desk::Desk;
use super::metrics::Metrics;
use super::{Contention, Faults, ServiceTime, Station, actuator};

/// What a target is like.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a request is served.
    pub service_time: ServiceTime,
    /// How much longer when others are.
    pub contention: Contention,
    /// What a worker does meanwhile.
    pub work: Work,
    /// How many are served at once.
    pub workers: usize,
    /// How many may wait.
    pub queue: usize,
    /// Where chances come from.
    pub seed: u64,
}

/// What a worker does while it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It waits, as for a database.
    Sleep,
    /// It computes: the service time is CPU time of a thread of its own.
    Cpu,
}

/// A service to protect.
pub struct Target(Arc<Shared>);

/// What all its requests share.
pub(super) struct Shared {
    pub(super) desk: Arc<Desk>,
    pub(super) metrics: Metrics,
    /// Which requests fail: apart from the service times, so that faults leave those as they would have been.
    random: Mutex<Rng>,
    log: Log,
    shutdown: Shutdown,
    failed: Aggregate,
    refused: Aggregate,
}

const COMPONENT: &str = "Target";

/// How often the log tells of failures that may come by the thousand.
const TELLING: Duration = Duration::from_secs(10);

/// Far more connections than are ever served: who finds no worker and no place in the queue shall hear so, and health is
/// asked for over a connection of its own.
const BOUNDS: Bounds = Bounds {
    connections: 20_000,
    body_bytes: 64 * 1024,
    body_timeout: Duration::from_secs(10),
    write_timeout: Duration::from_secs(20),
    idle_timeout: Duration::from_secs(75),
    grace: Duration::from_secs(5),
};

impl Target {
    /// Makes one, within a runtime. It stops when `shutdown` says so.
    pub fn start(settings: &Settings, log: Log, shutdown: Shutdown) -> io::Result<Self> {
        let Settings { service_time, contention, work, workers, queue, seed } = *settings;
        let station = Station::new(workers, queue, service_time, contention, seed);
        let now = Instant::now();
        Ok(Self(Arc::new(Shared {
            desk: Desk::new(station, work)?,
            metrics: Metrics::new(),
            random: Mutex::new(Rng::with_seed(!seed)),
            log,
            shutdown,
            failed: Aggregate::new(TELLING, now),
            refused: Aggregate::new(TELLING, now),
        })))
    }

    /// Answers until it shall stop; requests under way then have five seconds.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let address = listener.local_addr()?;
        let target = self.0;
        let shared = Arc::clone(&target);
        let answer = move |asked| answer(Arc::clone(&shared), asked, address);
        let served = tokio::select! {
            () = rest::serve(listener, BOUNDS, target.shutdown.clone(), answer) => Ok(()),
            error = target.desk.run() => Err(error),
            never = target.tell_from_time_to_time() => match never {},
        };
        target.tell(Aggregate::take_rest);
        served
    }
}

async fn answer(target: Arc<Shared>, asked: Asked, address: SocketAddr) -> Answer {
    let request = target.metrics.begin(asked.path(), &asked.method);
    let is_read = matches!(asked.method, Method::GET | Method::HEAD);
    let answer = match asked.path() {
        "/api/test" if is_read => target.work().await,
        "/api/test" => Answer::only("GET, HEAD"),
        "/faults" if is_read => target.shown_faults(),
        "/faults" => asked.rejection_of_pages(address).unwrap_or_else(|| target.change_faults(&asked)),
        _ => actuator::answer(&target, &asked),
    };
    request.answered(answer.status());
    answer
}

impl Shared {
    pub(super) fn is_stopping(&self) -> bool {
        self.shutdown.is_wanted()
    }

    /// What it is there for.
    async fn work(&self) -> Answer {
        let Some(held) = self.desk.serve().await else {
            self.metrics.refused.inc();
            self.tell_refused(self.refused.note(Instant::now()));
            self.desk.faults.hang_is_over().await;
            let full = Answer::error(StatusCode::SERVICE_UNAVAILABLE, "all workers are busy and the queue is full");
            return full.with(RETRY_AFTER, HeaderValue::from_static("1"));
        };
        let error = self.draw_error();
        // With the worker, if it hung at the end: what hangs, hangs with all it has.
        self.desk.faults.hang_is_over().await;
        drop(held);
        match error {
            None => Answer::text(StatusCode::OK, "OK"),
            Some(status) => {
                self.tell_failed(self.failed.note(Instant::now()));
                Answer::error(status, "this request was to fail (a fault is switched on)")
            }
        }
    }

    fn draw_error(&self) -> Option<StatusCode> {
        let faults = self.desk.faults.now();
        if faults.errors == 0.0 {
            return None;
        }
        let status = faults.draw_error(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))?;
        StatusCode::from_u16(status).ok()
    }

    fn shown_faults(&self) -> Answer {
        let (faults, left) = self.desk.faults.now_and_left();
        Answer::json(StatusCode::OK, &faults.to_json(left))
    }

    fn change_faults(&self, asked: &Asked) -> Answer {
        let (faults, span) = match asked.method {
            Method::POST => match Faults::read(&asked.body) {
                Ok(read) => read,
                Err(problems) => return Answer::bad(&problems),
            },
            Method::DELETE => (Faults::default(), None),
            _ => return Answer::only("GET, HEAD, POST, DELETE"),
        };
        self.desk.faults.set(faults, span);
        self.log.warn(COMPONENT, format_args!("faults: {}", faults.to_json(span)));
        self.shown_faults()
    }

    async fn tell_from_time_to_time(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(TELLING / 10).await;
            self.tell(|aggregate| aggregate.take_due(Instant::now()));
        }
    }

    fn tell(&self, take: impl Fn(&Aggregate) -> Option<u64>) {
        self.tell_failed(take(&self.failed));
        self.tell_refused(take(&self.refused));
    }

    fn tell_failed(&self, count: Option<u64>) {
        if let Some(count) = count {
            self.log.error(COMPONENT, format_args!("answered with an error because of a fault: {count}"));
        }
    }

    fn tell_refused(&self, count: Option<u64>) {
        if let Some(count) = count {
            self.log
                .error(COMPONENT, format_args!("refused because all workers are busy and the queue is full: {count}"));
        }
    }
}
