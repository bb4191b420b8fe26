//! A gateway, and the endpoints behind it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::event::Kind;
use crate::process::{Process, free_port};
use crate::scratch::Scratch;
use crate::{admin, tidegate, usage};

pub(crate) const WEIGHTS: [u32; 4] = [1, 1, 2, 4];

/// Longer than the idle timeout of connections to endpoints.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Site {
    gateway: Process,
    port: u16,
    admin: u16,
    targets: Vec<Target>,
}

struct Target {
    process: Process,
    port: u16,
}

/// An endpoint as the gateway shows it.
pub(crate) struct Endpoint {
    pub(crate) in_flight: u64,
    pub(crate) successes: u64,
    pub(crate) failures: u64,
    pub(crate) is_available: bool,
}

impl Site {
    pub(crate) fn start(scratch: &Scratch, has_retries: bool) -> Self {
        let targets: Vec<Target> = WEIGHTS
            .iter()
            .map(|_| {
                let port = free_port();
                Target { process: target(scratch, port), port }
            })
            .collect();
        let (port, admin) = (free_port(), free_port());
        let config = config(port, admin, &targets, has_retries);
        let gateway = tidegate::serve_unpinned(scratch, "endpoints", &config, port);
        Self { gateway, port, admin, targets }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// All endpoints, in the order of their weights.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        let shown = admin::endpoints(self.admin, "app").expect("the gateway responds to its operator");
        let find = |target: &Target| {
            let name = format!("127.0.0.1:{}", target.port);
            let found = shown.iter().find(|shown| shown["endpoint"] == name.as_str());
            Endpoint::read(found.expect("the gateway shows all its endpoints"))
        };
        self.targets.iter().map(find).collect()
    }

    pub(crate) fn endpoint(&self, number: usize) -> Endpoint {
        self.endpoints().swap_remove(number)
    }

    pub(crate) fn strike(&mut self, kind: Kind, victim: usize) {
        let process = &mut self.targets[victim].process;
        match kind {
            Kind::Killed => process.signal_now(Signal::KILL),
            Kind::Frozen => process.signal_now(Signal::STOP),
            Kind::Restarted => process.signal_now(Signal::TERM),
        }
        if kind != Kind::Frozen {
            process.wait_for_end();
        }
    }

    pub(crate) fn bring_back(&mut self, scratch: &Scratch, kind: Kind, victim: usize) {
        let target = &mut self.targets[victim];
        match kind {
            Kind::Frozen => target.process.signal_now(Signal::CONT),
            Kind::Killed | Kind::Restarted => target.process = self::target(scratch, target.port),
        }
    }
}

impl Endpoint {
    fn read(shown: &Value) -> Self {
        let count = |name: &str| shown[name].as_u64().unwrap_or(0);
        Self {
            in_flight: count("inFlight"),
            successes: count("successes"),
            failures: count("failures"),
            is_available: shown["state"] == "up",
        }
    }
}

/// A service with more workers than it needs, once it takes connections.
fn target(scratch: &Scratch, port: u16) -> Process {
    let mut command: Vec<OsString> = vec![tidegate::program()];
    let listen = format!("127.0.0.1:{port}");
    let options = ["target", "--listen", &listen, "--service-time", "5ms", "--workers", "200", "--queue", "1000"];
    command.extend(options.map(OsString::from));
    let mut process = Process::start_unpinned(scratch, &format!("target-{port}"), command);
    process.wait_for(port);
    process
}

/// What is done about failed attempts.
const POLICY: &str = "{timeout: 3s, attempt_timeout: 500ms, retry: {budget: {share: 0.5}}}";

fn config(port: u16, admin: u16, targets: &[Target], has_retries: bool) -> String {
    let mut endpoints = String::new();
    for (target, weight) in targets.iter().zip(WEIGHTS) {
        // Writing to memory can't fail.
        let _written = writeln!(endpoints, "      - {{url: \"http://127.0.0.1:{}\", weight: {weight}}}", target.port);
    }
    let policy = if has_retries { POLICY } else { "{timeout: 3s}" };
    format!(
        r#"listeners: [{{address: "127.0.0.1:{port}"}}]
admin: {{listen: "127.0.0.1:{admin}"}}
policies: {{app: {policy}}}
upstreams:
  app:
    policy: app
    health_check: {{path: /actuator/health, interval: 500ms}}
    ejection: {{time: 1s}}
    slow_start: 0s
    answer_timeout: 1s
    idle_timeout: 2s
    endpoints:
{endpoints}limits: {{default: {{{}}}}}
"#,
        tidegate::OPEN
    )
}

/// What the gateway holds without load.
pub(crate) struct Rest {
    pub(crate) descriptors: usize,
    pub(crate) in_flight: u64,
}

impl Rest {
    /// Checks come and go: the fewest descriptors that are seen within a second count.
    pub(crate) fn of(site: &Site) -> Self {
        let counts = (0..20).map(|_| {
            std::thread::sleep(PAUSE);
            usage::descriptors(site.gateway.id())
        });
        let descriptors = counts.min().expect("there are twenty");
        Self { descriptors, in_flight: site.endpoints().iter().map(|endpoint| endpoint.in_flight).sum() }
    }

    /// After a load: when everything is back, or had the time to be.
    pub(crate) fn after(site: &Site, before: &Self) -> Self {
        let start = Instant::now();
        loop {
            let rest = Self::of(site);
            if (rest.descriptors <= before.descriptors && rest.in_flight == 0) || start.elapsed() > PATIENCE {
                return rest;
            }
        }
    }
}
