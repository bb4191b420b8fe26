use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate_serve::rest::{Answer, Asked};

use super::desk::Desk;
use super::metrics::Metrics;

/// What is known of the service from outside. It responds however busy the workers are.
pub(super) fn respond(asked: &Asked, desk: &Desk, metrics: &Metrics, is_stopping: bool) -> Answer {
    let response = match asked.path() {
        "/actuator/health" => Answer::json(StatusCode::OK, &health(desk)),
        "/actuator/health/readiness" if is_stopping => {
            Answer::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "DOWN" }))
        }
        "/actuator/health/readiness" | "/actuator/health/liveness" => {
            Answer::json(StatusCode::OK, &json!({ "status": "UP" }))
        }
        "/actuator/prometheus" => Answer::metrics(metrics.page(&desk.occupancy(), &desk.faults.now())),
        _ => return Answer::nothing_here(),
    };
    if matches!(asked.method, Method::GET | Method::HEAD) { response } else { Answer::only("GET, HEAD") }
}

fn health(desk: &Desk) -> Value {
    let occupancy = desk.occupancy();
    json!({
        "status": "UP",
        "workers": { "busy": occupancy.busy, "limit": occupancy.workers },
        "queue": { "length": occupancy.waiting, "limit": occupancy.most_waiting },
        "faults": desk.faults.now().are_on(),
    })
}
