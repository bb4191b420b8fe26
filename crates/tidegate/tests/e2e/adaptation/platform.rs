use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use tidegate_testkit::load_run::{Ran, Running};
use tidegate_testkit::{Directory, Gateway, pause, request, tidegate, wait_for};

/// The operator's limit, in requests a second.
pub(crate) const BASE: u64 = 100;
/// What comes between spikes.
pub(crate) const QUIET: u64 = 60;
/// How many requests the limit lets through at once, besides its rate.
pub(crate) const AT_ONCE: u64 = 20;

/// A target, a gateway before it and, if it adapts, a forecaster.
pub(crate) struct Platform {
    pub(crate) gateway: Gateway,
    pub(crate) forecaster: Option<Gateway>,
    target: Gateway,
}

/// The settings of the parts.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// Requests a second that the target is set to bear; the gateway's ceiling.
    pub(crate) capacity: u64,
    pub(crate) adaptive: bool,
    /// How long a period of the load is, in seconds.
    pub(crate) period: u64,
    /// How many requests the target lets wait.
    pub(crate) queue: u64,
    /// Whether the operator's limit is a window of a second, or a bucket that lets little through at once.
    pub(crate) is_window: bool,
}

impl Setting {
    pub(crate) fn with_capacity(capacity: u64) -> Self {
        let period =
            std::env::var("TIDEGATE_ADAPT_PERIOD").map_or(8, |text| text.parse().expect("a number of seconds"));
        Self { capacity, adaptive: true, period, queue: 64, is_window: false }
    }

    pub(crate) fn spike(self) -> u64 {
        self.period / 4
    }
}

fn launch(arguments: &[&str]) -> Gateway {
    let directory = Directory::new();
    let mut command = tidegate();
    command.args(arguments).args(["--listen", "127.0.0.1:0"]);
    let config = directory.0.join("none");
    Gateway::launch(command, config, directory)
}

impl Platform {
    pub(crate) fn start(setting: Setting) -> Self {
        // 400 requests a second.
        let queue = setting.queue.to_string();
        let target = launch(&["target", "--service-time", "5ms", "--workers", "2", "--queue", &queue]);
        let capacity = setting.capacity.to_string();
        let forecaster = setting.adaptive.then(|| launch(&["forecast", "serve", "--capacity", &capacity]));
        let adaptive = forecaster.as_ref().map_or_else(String::new, |forecaster| {
            let address = forecaster.address;
            let (ceiling, interval) = (setting.capacity, setting.period / 4);
            format!(
                "adaptive: {{forecaster: \"http://{address}\", interval: {interval}, ceiling: {ceiling}, history: \
                 1000}}\n"
            )
        });
        let limit = if setting.is_window {
            format!("{{algorithm: fixed, limit: {BASE}, window: 1}}")
        } else {
            format!("{{algorithm: token, capacity: {AT_ONCE}, fillRate: {BASE}}}")
        };
        let gateway = Gateway::start(&format!(
            "upstreams: {{b: {{url: \"http://{}\"}}}}\nlimits: {{default: {limit}}}\n{adaptive}",
            target.address
        ));
        Self { gateway, forecaster, target }
    }

    /// Starts `spikes` of `rate` requests a second, each after a quiet time.
    pub(crate) fn load(&self, setting: Setting, rate: u64, spikes: u64) -> Running {
        let params = json!({
            "baseRps": QUIET, "spikeRps": rate, "spikeDuration": setting.spike(), "spikePeriod": setting.period,
        });
        self.send(&json!({ "type": "burst", "params": params }), setting.period * spikes)
    }

    pub(crate) fn send(&self, profile: &Value, seconds: u64) -> Running {
        let url = format!("http://{}/api/test", self.gateway.address);
        let plan = json!({ "limiterUrl": url, "duration": seconds, "profile": profile, "lagBudget": 1 });
        Running::start(&plan, |command| {
            command.arg("--quiet");
        })
    }

    pub(crate) fn history(&self) -> Vec<Value> {
        let response = request(self.gateway.address, "GET", "/config/history", &[("host", "localhost")], b"");
        response.json()["entries"].as_array().cloned().expect("entries")
    }

    /// The limit in force at a time, in requests a second, by what adaptation did.
    pub(crate) fn limit_at(&self, unix: f64) -> f64 {
        let mut rate = BASE as f64;
        for entry in self.history() {
            let at = entry["timestamp"].as_f64().expect("a time");
            let is_change =
                !matches!(entry["verdict"].as_str(), None | Some("shadow" | "deferred" | "frozen" | "refused"));
            if at <= unix && is_change {
                rate = entry["to"]["fillRate"].as_f64().unwrap_or(rate);
            }
        }
        rate
    }

    /// What the target rejected or failed.
    pub(crate) fn target_errors(&self) -> f64 {
        self.target.metric("target_refused_requests_total").expect("a count")
    }
}

/// What became of the requests of a second, by when they were due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    /// From the start of the load.
    pub(crate) at: u64,
    pub(crate) sent: u64,
    pub(crate) success: u64,
    pub(crate) rejected: u64,
    pub(crate) errors: u64,
}

pub(crate) fn seconds(ran: &Ran) -> Vec<Second> {
    let series = ran.result["series"].as_array().unwrap_or_else(|| panic!("no series: {} {}", ran.stdout, ran.stderr));
    let read = |entry: &Value| {
        let count = |name: &str| entry["honest"][name].as_u64().expect("a count");
        Second {
            at: entry["second"].as_u64().expect("a second"),
            sent: count("sent"),
            success: count("success"),
            rejected: count("rateLimited"),
            errors: count("errors"),
        }
    };
    series.iter().map(read).collect()
}

/// When the load began, in seconds since 1970.
pub(crate) fn began(ran: &Ran) -> f64 {
    let text = ran.result["startedAt"].as_str().expect("a time");
    tidegate_input::moment::unix_nanos(text).expect("a time") as f64 / 1e9
}

/// How long a run of so many seconds may take.
pub(crate) fn patience(seconds: u64) -> Duration {
    Duration::from_secs(seconds + 30)
}

/// Waits for a moment of the load; nothing else can make one come.
pub(crate) fn wait_for_second(start: Instant, second: u64) {
    let due = start + Duration::from_secs(second);
    pause(due.saturating_duration_since(Instant::now()));
}

/// A listener at an address that somebody has just left.
pub(crate) fn listen_at(address: SocketAddr) -> TcpListener {
    let listener = wait_for(Duration::from_secs(10), || TcpListener::bind(address).ok());
    listener.unwrap_or_else(|| panic!("{address} can't be had"))
}
