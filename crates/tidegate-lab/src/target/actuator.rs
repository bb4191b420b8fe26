use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate_serve::rest::{Request, Response};

use super::live_station::LiveStation;
use super::metrics::Metrics;

/// What is known of the service from outside. It responds however busy the workers are.
pub(super) fn respond(request: &Request, station: &LiveStation, metrics: &Metrics, is_stopping: bool) -> Response {
    let response = match request.path() {
        "/actuator/health" => Response::json(StatusCode::OK, &health(station)),
        "/actuator/health/readiness" if is_stopping => {
            Response::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "DOWN" }))
        }
        "/actuator/health/readiness" | "/actuator/health/liveness" => {
            Response::json(StatusCode::OK, &json!({ "status": "UP" }))
        }
        "/actuator/prometheus" => Response::metrics(metrics.page(&station.occupancy(), &station.faults.now())),
        _ => return Response::nothing_here(),
    };
    if matches!(request.method, Method::GET | Method::HEAD) { response } else { Response::only("GET, HEAD") }
}

fn health(station: &LiveStation) -> Value {
    let occupancy = station.occupancy();
    json!({
        "status": "UP",
        "workers": { "busy": occupancy.busy, "limit": occupancy.workers },
        "queue": { "length": occupancy.waiting, "limit": occupancy.most_waiting },
        "faults": station.faults.now().are_on(),
    })
}
