use http::{Method, StatusCode};
use serde_json::json;
use tidegate_serve::rest::{Request as Asked, Response as Answer};

use super::http_service::Shared;

/// What is known of the service from outside. It answers however busy the workers are.
pub(super) fn answer(target: &Shared, asked: &Asked) -> Answer {
    let answer = match asked.path() {
        "/actuator/health" => Answer::json(StatusCode::OK, &health(target)),
        "/actuator/health/readiness" if target.is_stopping() => {
            Answer::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "DOWN" }))
        }
        "/actuator/health/readiness" | "/actuator/health/liveness" => {
            Answer::json(StatusCode::OK, &json!({ "status": "UP" }))
        }
        "/actuator/prometheus" => {
            Answer::metrics(target.metrics.page(&target.desk.standing(), &target.desk.faults.now()))
        }
        _ => return Answer::nothing_here(),
    };
    if matches!(asked.method, Method::GET | Method::HEAD) { answer } else { Answer::only("GET, HEAD") }
}

fn health(target: &Shared) -> serde_json::Value {
    let standing = target.desk.standing();
    json!({
        "status": "UP",
        "workers": { "busy": standing.busy, "limit": standing.workers },
        "queue": { "length": standing.waiting, "limit": standing.most_waiting },
        "faults": target.desk.faults.now().are_on(),
    })
}
