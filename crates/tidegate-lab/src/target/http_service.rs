use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use tidegate_serve::rest::{self, Bounds, Request, Response};
use tidegate_serve::{Aggregate, Log, Shutdown};
use tokio::net::TcpListener;

use super::live_station::LiveStation;
use super::metrics::{self, Metrics};
use super::{Faults, Settings, Station, actuator};

/// A service to protect.
pub struct Target(Arc<Shared>);

/// What all its requests share.
struct Shared {
    station: Arc<LiveStation>,
    metrics: Metrics,
    /// Which requests fail: apart from the service times, so that faults leave those as they would have been.
    random: Mutex<Rng>,
    log: Log,
    shutdown: Shutdown,
    failed: Aggregate,
    rejected: Aggregate,
}

const COMPONENT: &str = "Target";

/// How often failures, which may come by the thousand, are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Far more connections than are ever served: requests that find the queue full get a response, and health has a
/// connection of its own.
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
            station: LiveStation::new(station, work)?,
            metrics: Metrics::new(),
            random: Mutex::new(Rng::with_seed(!seed)),
            log,
            shutdown,
            failed: Aggregate::new(LOG_INTERVAL, now),
            rejected: Aggregate::new(LOG_INTERVAL, now),
        })))
    }

    /// Serves until the shutdown; requests under way then have five seconds.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let address = listener.local_addr()?;
        let target = self.0;
        let shared = Arc::clone(&target);
        let respond = move |asked| respond(Arc::clone(&shared), asked, address);
        let served = tokio::select! {
            () = rest::serve(listener, BOUNDS, target.shutdown.clone(), respond) => Ok(()),
            error = target.station.run() => Err(error),
            never = target.log_regularly() => match never {},
        };
        target.log_failures(Aggregate::take_rest);
        served
    }
}

async fn respond(target: Arc<Shared>, asked: Request, address: SocketAddr) -> Response {
    let request = target.metrics.begin(asked.path(), &asked.method);
    let is_read = matches!(asked.method, Method::GET | Method::HEAD);
    let response = match metrics::served_as(asked.path()) {
        "/api/test" if is_read => target.work().await,
        "/api/test" => Response::only("GET, HEAD"),
        "/faults" if is_read => target.shown_faults(),
        "/faults" => asked.rejection_of_pages(address).unwrap_or_else(|| target.change_faults(&asked)),
        _ => actuator::respond(&asked, &target.station, &target.metrics, target.shutdown.is_wanted()),
    };
    request.responded(response.status());
    response
}

impl Shared {
    /// Serves a request.
    async fn work(&self) -> Response {
        let Some(held) = self.station.serve().await else {
            self.metrics.rejected.inc();
            self.log_rejected(self.rejected.note(Instant::now()));
            self.station.faults.hang_is_over().await;
            let full = Response::error(StatusCode::SERVICE_UNAVAILABLE, "all workers are busy and the queue is full");
            return full.with(RETRY_AFTER, HeaderValue::from_static("1"));
        };
        let error = self.draw_error();
        // A request that hangs keeps its worker.
        self.station.faults.hang_is_over().await;
        drop(held);
        match error {
            None => Response::text(StatusCode::OK, "OK"),
            Some(status) => {
                self.log_failed(self.failed.note(Instant::now()));
                Response::error(status, "this request fails because a fault is switched on")
            }
        }
    }

    fn draw_error(&self) -> Option<StatusCode> {
        let faults = self.station.faults.now();
        if faults.errors == 0.0 {
            return None;
        }
        let status = faults.draw_error(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))?;
        StatusCode::from_u16(status).ok()
    }

    fn shown_faults(&self) -> Response {
        let (faults, left) = self.station.faults.now_and_left();
        Response::json(StatusCode::OK, &faults.to_json(left))
    }

    fn change_faults(&self, asked: &Request) -> Response {
        let (faults, span) = match asked.method {
            Method::POST => match Faults::read(&asked.body) {
                Ok(read) => read,
                Err(problems) => return Response::bad(&problems),
            },
            Method::DELETE => (Faults::default(), None),
            _ => return Response::only("GET, HEAD, POST, DELETE"),
        };
        self.station.faults.set(faults, span);
        self.log.warn(COMPONENT, format_args!("faults: {}", faults.to_json(span)));
        self.shown_faults()
    }

    async fn log_regularly(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(LOG_INTERVAL / 10).await;
            self.log_failures(|aggregate| aggregate.take_due(Instant::now()));
        }
    }

    fn log_failures(&self, take: impl Fn(&Aggregate) -> Option<u64>) {
        self.log_failed(take(&self.failed));
        self.log_rejected(take(&self.rejected));
    }

    fn log_failed(&self, count: Option<u64>) {
        if let Some(count) = count {
            self.log.error(COMPONENT, format_args!("requests failed because of a fault: {count}"));
        }
    }

    fn log_rejected(&self, count: Option<u64>) {
        if let Some(count) = count {
            let reason = "all workers are busy and the queue is full";
            self.log.error(COMPONENT, format_args!("requests rejected because {reason}: {count}"));
        }
    }
}
