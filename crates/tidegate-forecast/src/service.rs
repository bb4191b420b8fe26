//! The forecaster as a service: a gateway sends what it sees, and gets the limits that are recommended.

mod forecasts;
mod metrics;
mod snapshot_errors;
mod state;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::json;
use tidegate_serve::rest::{Bounds, Request, Response, serve};
use tidegate_serve::{Log, Shutdown};
use tokio::net::TcpListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::Policy;
use crate::snapshot::Snapshot;
use forecasts::Forecasts;
use metrics::Metrics;
use snapshot_errors::SnapshotErrors;
use worker::{AdviceRequest, Worker};

/// The settings of the service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How it advises.
    pub policy: Policy,
    /// Where what was learnt is kept across restarts.
    pub state: Option<PathBuf>,
}

const COMPONENT: &str = "Forecaster";
const FAILED: &str = "the thread that forecasts has failed";
/// Series that are known at once.
const MOST_SOURCES: usize = 16;
/// Snapshots that may wait.
const MOST_WAITING: usize = 32;

/// Everything that requests need.
struct Site {
    listener: SocketAddr,
    requests: mpsc::Sender<AdviceRequest>,
    metrics: Arc<Metrics>,
    forecasts: Arc<Forecasts>,
    snapshot_errors: Arc<SnapshotErrors>,
    shutdown: Shutdown,
}

/// The service, ready to run.
pub struct Service {
    worker: Worker,
    metrics: Arc<Metrics>,
}

impl Service {
    /// Reads what was kept, before anybody can connect. `Err` says what can't be used.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let learning: Arc<AtomicU64> = Arc::default();
        let metrics = Arc::new(Metrics::new(vec![("prophet", Arc::clone(&learning))]));
        let worker = Worker::new(settings, Arc::clone(&metrics), learning)?;
        Ok(Self { worker, metrics })
    }

    /// Its settings and what it knows, for the log.
    pub fn summary(&self) -> String {
        self.worker.summary()
    }

    /// Serves until it shall stop; what was learnt is written then.
    pub async fn run(self, listener: TcpListener, log: Log, shutdown: Shutdown) -> std::io::Result<()> {
        let (requests, received) = mpsc::channel(MOST_WAITING);
        let (worker, its_log) = (self.worker, log.clone());
        let forecasts = worker.forecasts();
        let work = move || worker.work(received, &its_log);
        let working = std::thread::Builder::new().name("forecasts".to_owned()).spawn(work)?;
        let snapshot_errors = Arc::new(SnapshotErrors::new(log));
        let site = Arc::new(Site {
            listener: listener.local_addr()?,
            requests,
            metrics: self.metrics,
            forecasts,
            snapshot_errors: Arc::clone(&snapshot_errors),
            shutdown: shutdown.clone(),
        });
        let bounds = Bounds { connections: 256, body_bytes: 1 << 18, ..Bounds::default() };
        let respond = move |request: Request| {
            let site = Arc::clone(&site);
            async move { site.respond(request).await }
        };
        tokio::select! {
            () = serve(listener, bounds, shutdown, respond) => {}
            never = snapshot_errors.report_from_time_to_time() => match never {},
        }
        snapshot_errors.report_rest();
        // The last sender has gone with the service: the worker writes what it knows and ends.
        let ended = tokio::task::spawn_blocking(move || working.join());
        match tokio::time::timeout(END_PATIENCE, ended).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(_) => Err(std::io::Error::other(FAILED)),
            Err(_) => Err(std::io::Error::other("the thread that forecasts does not end")),
        }
    }
}

fn down(reason: &str) -> Response {
    Response::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "DOWN", "reason": reason }))
}

/// How long the end waits for the last fit and the state.
const END_PATIENCE: Duration = Duration::from_secs(10);

impl Site {
    async fn respond(&self, request: Request) -> Response {
        let is_get = matches!(request.method, Method::GET | Method::HEAD);
        match request.path() {
            "/v1/limit-config" if request.method == Method::POST => match request.rejection_of_pages(self.listener) {
                Some(rejection) => rejection,
                None => self.advise(&request.body).await,
            },
            "/v1/limit-config" => Response::only("POST"),
            "/v1/forecast" if is_get => Response::json(StatusCode::OK, &self.forecasts.to_json()),
            "/actuator/health/readiness" if is_get && self.shutdown.is_wanted() => down("it stops"),
            "/actuator/health" | "/actuator/health/readiness" if is_get && self.requests.is_closed() => down(FAILED),
            "/actuator/health" | "/actuator/health/liveness" | "/actuator/health/readiness" if is_get => {
                Response::json(StatusCode::OK, &json!({ "status": "UP", "snapshots": self.metrics.responded.get() }))
            }
            "/actuator/prometheus" if is_get => Response::metrics(self.metrics.page()),
            "/actuator/health"
            | "/actuator/health/liveness"
            | "/actuator/health/readiness"
            | "/actuator/prometheus"
            | "/v1/forecast" => Response::only("GET, HEAD"),
            _ => Response::nothing_here(),
        }
    }

    async fn advise(&self, body: &[u8]) -> Response {
        let snapshot = match Snapshot::read(body) {
            Ok(snapshot) => snapshot,
            Err(problems) => {
                self.metrics.bad.inc();
                self.snapshot_errors.note_invalid(&problems);
                return Response::bad(&problems);
            }
        };
        let (response, advice) = oneshot::channel();
        if let Err(error) = self.requests.try_send(AdviceRequest { snapshot, response }) {
            self.metrics.rejected.inc();
            let reason = match error {
                TrySendError::Full(_) => "too many snapshots are waiting",
                TrySendError::Closed(_) => FAILED,
            };
            return self.without_response(StatusCode::SERVICE_UNAVAILABLE, reason);
        }
        match advice.await {
            Ok(advice) => {
                self.metrics.responded.inc();
                Response::json(StatusCode::OK, &advice.to_json())
            }
            Err(_) => self.without_response(StatusCode::INTERNAL_SERVER_ERROR, FAILED),
        }
    }

    fn without_response(&self, status: StatusCode, reason: &str) -> Response {
        self.snapshot_errors.note_missing_response(reason);
        Response::error(status, reason)
    }
}
