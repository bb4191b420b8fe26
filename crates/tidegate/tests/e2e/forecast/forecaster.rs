use std::process::Command;

use serde_json::{Value, json};

use tidegate_testkit::{Directory, Gateway, Response, request, tidegate};

/// `tidegate forecast serve` on a free port.
pub(crate) struct Forecaster(pub(crate) Gateway);

pub(crate) const START: i64 = 1_763_344_800;

impl Forecaster {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(|command| {
            command.args(arguments);
        })
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut Command)) -> Self {
        let directory = Directory::new();
        let mut command = tidegate();
        command.args(["forecast", "serve", "--listen", "127.0.0.1:0"]);
        change(&mut command);
        let config = directory.0.join("none");
        Self(Gateway::launch(command, config, directory))
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Response {
        request(self.0.address, method, path, &[("host", "localhost")], body.as_bytes())
    }

    pub(crate) fn advice(&self, snapshot: &Value) -> Value {
        let response = self.ask("POST", "/v1/limit-config", &snapshot.to_string());
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    /// Tells a load second by second, in snapshots of five seconds; the last response.
    pub(crate) fn tell(&self, load: &[u64]) -> Value {
        let mut last = Value::Null;
        for (place, seconds) in load.chunks(5).enumerate() {
            let start = START + 5 * place as i64;
            last = self.advice(&with_series(start, seconds));
        }
        last
    }
}

/// The least that a snapshot has.
pub(crate) fn snapshot(timestamp: f64, observed: f64) -> Value {
    json!({ "timestamp": timestamp, "observedRps": observed, "algorithm": "fixed", "limit": 100, "window": 1 })
}

pub(crate) fn with_series(start: i64, seconds: &[u64]) -> Value {
    let end = start + seconds.len() as i64;
    let mut snapshot = snapshot(end as f64, seconds.iter().sum::<u64>() as f64 / seconds.len() as f64);
    snapshot["series"] = json!({ "start": start, "step": 1, "offered": seconds });
    snapshot
}

/// 60 a second, and 250 in the last five of twenty.
pub(crate) fn spikes(seconds: usize) -> Vec<u64> {
    (0..seconds).map(|second| if second % 20 >= 15 { 250 } else { 60 }).collect()
}

/// The limit that an advice has for so many seconds from its snapshot: of a window of a second, or of the bucket that
/// takes its place.
pub(crate) fn limit_after(advice: &Value, seconds: f64) -> f64 {
    let steps = advice["schedule"].as_array().cloned().unwrap_or_default();
    let step = steps.iter().rev().find(|step| step["after"].as_f64().is_some_and(|after| after <= seconds));
    let numbers = step.unwrap_or(advice);
    numbers["limit"].as_f64().or(numbers["fillRate"].as_f64()).expect("a limit")
}
