//! The load generator as a service: tests are started, changed, seen and stopped over HTTP, one at a time.

mod current;
mod metrics;
mod plans;

pub use metrics::write as write_metrics;
pub use plans::{AllowedHosts, Plans};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate_input::object::Object;
use tidegate_input::{Problem, Problems, json};
use tidegate_serve::rest::{Bounds, Request, Response, serve};
use tidegate_serve::{Log, Process, Shutdown};
use tokio::net::TcpListener;

use crate::plan::SOME_RATE;
use crate::run::{NotStarted, Run};
use current::{Current, NoTest};

/// What the service does, and what not.
#[derive(Debug)]
pub struct Settings {
    /// Hosts that it may send to.
    pub hosts: AllowedHosts,
    /// Plans that can be started by their name.
    pub plans: Plans,
    /// The authorities that certificates of targets are checked by; without it the system's.
    pub ca: Option<PathBuf>,
}

/// Everything that requests need.
struct Site {
    settings: Settings,
    listener: SocketAddr,
    tests: Current,
    process: Process,
}

/// A trace within a plan may be long.
const LARGEST_PLAN: usize = 16 << 20;

/// Serves until it shall stop; a test that is running is stopped then.
pub async fn run(listener: TcpListener, settings: Settings, log: Log, shutdown: Shutdown) -> std::io::Result<()> {
    let site = Arc::new(Site {
        listener: listener.local_addr()?,
        tests: Current::new(settings.ca.clone(), log),
        settings,
        process: Process::new(),
    });
    let idle_timeout = Duration::from_secs(20);
    let bounds = Bounds { connections: 64, body_bytes: LARGEST_PLAN, idle_timeout, ..Bounds::default() };
    let shared = Arc::clone(&site);
    let respond = move |request: Request| {
        let site = Arc::clone(&shared);
        async move { site.respond(request).await }
    };
    serve(listener, bounds, shutdown, respond).await;
    site.tests.end().await;
    Ok(())
}

impl Site {
    async fn respond(self: Arc<Self>, request: Request) -> Response {
        let is_change = !matches!(request.method, Method::GET | Method::HEAD);
        // Plans and results are nobody's business but ours, too; health and metrics are.
        let is_ours = is_change || request.path().starts_with("/test");
        if is_ours && let Some(rejection) = request.rejection_of_pages(self.listener) {
            return rejection;
        }
        let (is_get, is_post) = (!is_change, request.method == Method::POST);
        match request.path() {
            "/test/start" if is_post => {
                // In a task of its own: the client may leave, and the test is started all the same.
                let starting = tokio::spawn(async move { self.start(request.body).await });
                starting.await.unwrap_or_else(|error| {
                    Response::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("the test can't be started: {error}"))
                })
            }
            "/test/stop" if is_post => self.stop(&request.body).await,
            "/test/start" | "/test/stop" => Response::only("POST"),
            "/test/status" if is_get => self.status(),
            "/test/config" if is_get => self.config(),
            "/test/result" if is_get => self.result(),
            "/test" if request.method == Method::PATCH => self.change(&request.body),
            "/test" => Response::only("PATCH"),
            "/actuator/health" | "/actuator/health/liveness" | "/actuator/health/readiness" if is_get => {
                Response::json(StatusCode::OK, &json!({ "status": "UP" }))
            }
            "/actuator/prometheus" if is_get => Response::metrics(metrics::page(&self.tests, &self.process)),
            "/test/status"
            | "/test/config"
            | "/test/result"
            | "/actuator/health"
            | "/actuator/health/liveness"
            | "/actuator/health/readiness"
            | "/actuator/prometheus" => Response::only("GET, HEAD"),
            _ => Response::nothing_here(),
        }
    }

    async fn start(&self, body: Bytes) -> Response {
        if let Some(busy) = self.tests.busy() {
            return conflict(busy.as_deref());
        }
        // Reading a long plan takes a while, in which others want to get a response.
        let plans = self.settings.plans.clone();
        let read = tokio::task::spawn_blocking(move || plans.asked_for(&body)).await;
        let plan = match read {
            Ok(Ok(plan)) => plan,
            Ok(Err(problems)) => return Response::bad(&problems),
            Err(error) => {
                return Response::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("the plan can't be read: {error}"));
            }
        };
        if let Err(problem) = self.settings.hosts.check(&plan) {
            return Response::bad(&[problem]);
        }
        match self.tests.start(plan).await {
            Ok(id) => Response::json(StatusCode::OK, &json!({ "status": "started", "testId": id })),
            Err(current::NotStarted::Busy(id)) => conflict(id.as_deref()),
            Err(current::NotStarted::Run(NotStarted::Plan(problem))) => Response::bad(&[problem]),
            Err(current::NotStarted::Run(NotStarted::System(error))) => {
                Response::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("the test can't be started: {error}"))
            }
        }
    }

    async fn stop(&self, text: &[u8]) -> Response {
        let id = if text.trim_ascii().is_empty() { Ok(None) } else { body(text, |body| Some(body.text("testId"))) };
        let id = match id {
            Ok(id) => id,
            Err(problems) => return Response::bad(&problems),
        };
        match self.tests.stop(id.as_deref()).await {
            Ok(id) => Response::json(StatusCode::OK, &json!({ "status": "stopped", "testId": id })),
            Err(NoTest) => Response::error(StatusCode::NOT_FOUND, "no test is running, or another one"),
        }
    }

    fn status(&self) -> Response {
        let status = self.tests.running().map_or_else(|| json!({ "running": false }), |run| status(&run));
        Response::json(StatusCode::OK, &status)
    }

    fn config(&self) -> Response {
        match self.tests.running() {
            Some(run) => Response::json(StatusCode::OK, run.plan.shown()),
            None => Response::error(StatusCode::NOT_FOUND, "no test is running"),
        }
    }

    fn result(&self) -> Response {
        match self.tests.last() {
            Some(report) => Response::written_json(StatusCode::OK, report.write()),
            None => Response::error(StatusCode::NOT_FOUND, "no test has ended yet"),
        }
    }

    fn change(&self, text: &[u8]) -> Response {
        let rate = match body(text, |body| body.number("rps", &SOME_RATE)) {
            Ok(rate) => rate,
            Err(problems) => return Response::bad(&problems),
        };
        let Some(run) = self.tests.running() else {
            return Response::error(StatusCode::NOT_FOUND, "no test is running");
        };
        if run.change_rate(rate).is_err() {
            let reason = format!("the profile is `{}`; only the rate of `constant` can be changed", run.plan.kind);
            return Response::error(StatusCode::CONFLICT, &reason);
        }
        self.tests.log.info("LoadGenerator", format_args!("Rate changed to {rate} RPS (test {})", run.id));
        Response::json(StatusCode::OK, &json!({ "status": "changed", "testId": run.id, "rps": rate }))
    }
}

fn conflict(id: Option<&str>) -> Response {
    let reason = "a test is running; stop it first (POST /test/stop)";
    Response::json(StatusCode::CONFLICT, &json!({ "status": 409, "error": reason, "testId": id }))
}

/// A test that is running, as it is shown.
fn status(run: &Run) -> Value {
    let progress = run.progress();
    let millis = |share| {
        let seconds = progress.latency.quantile(share).filter(|seconds| seconds.is_finite());
        seconds.map(|seconds| (seconds * 1e5).round() / 1e2)
    };
    json!({
        "running": true,
        "testId": run.id,
        "profile": run.plan.kind,
        "elapsedTime": (run.elapsed().as_secs_f64() * 10.0).floor() / 10.0,
        "duration": run.plan.duration.as_secs_f64(),
        "startsIn": run.starts_in().map(|ahead| (ahead.as_secs_f64() * 10.0).ceil() / 10.0),
        "requestsSent": progress.planned.sent,
        "success": progress.planned.success,
        "rateLimited": progress.planned.rate_limited,
        "errors": progress.planned.errors,
        "missed": progress.too_late + progress.no_room,
        "retries": progress.retried.sent,
        "inFlight": progress.in_flight,
        "currentRps": run.rate(),
        "targetRps": run.wanted_rate(),
        "p50Ms": millis(0.5),
        "p99Ms": millis(0.99),
    })
}

/// A small body, read field by field: what is wrong with it, or what `take` takes.
fn body<T>(text: &[u8], take: impl FnOnce(&mut Object<'_>) -> Option<T>) -> Result<T, Vec<Problem>> {
    let problems = Problems::default();
    let mut taken = None;
    match json::read(text) {
        Err(error) => problems.add("", format!("the body must be JSON: {error}")),
        Ok(value) => {
            if let Some(mut object) = Object::new("", value, &problems) {
                taken = take(&mut object);
                object.end();
            }
        }
    }
    let problems = problems.all();
    taken.filter(|_| problems.is_empty()).ok_or(problems)
}
