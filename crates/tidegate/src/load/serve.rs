//! `tidegate load serve`
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tidegate_load::service::{self as generator, AllowedHosts, Plans, Settings};
use tidegate_serve::LogLevel;

use super::outcome::BAD_INPUT;
use crate::service::{self, Service};

/// Run the load generator as a service: tests are started and seen over HTTP
///
/// POST /test/start with a plan starts a test, POST /test/stop ends it, GET /test/status shows it, GET /test/config its
/// plan, PATCH /test with {"rps": 200} changes the rate of a constant one, GET /test/result has the result of the last
/// one. Metrics: /actuator/prometheus. One test runs at a time.
///
/// It sends only to this machine unless other hosts are allowed: anyone who reaches the service could turn it against
/// others.
///
/// Port 8080. Environment: PORT or SERVER_PORT.
#[derive(Args)]
#[command(after_help = "Example: tidegate load serve --allow-host service-c --plans plans/\n         \
    curl -X POST --data @plan.json http://127.0.0.1:8080/test/start")]
pub(crate) struct Arguments {
    /// A host that tests may send to, besides this machine; `*` allows all
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Plans that can be started by name: {"plan": "spikes"} is DIR/spikes.json
    #[arg(long, value_name = "DIR")]
    plans: Option<PathBuf>,
    /// Trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    service: service::Arguments,
}

impl Arguments {
    /// What would only show when somebody starts a test.
    fn check(&self) -> Result<(), String> {
        for host in &self.allow_host {
            let is_address = host.parse::<IpAddr>().is_ok();
            let is_name =
                !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            if !(host == "*" || is_address || is_name) {
                return Err(format!("--allow-host: must be a name or an address without a port, or `*`, got {host:?}"));
            }
        }
        if let Some(plans) = self.plans.as_ref().filter(|plans| !plans.is_dir()) {
            return Err(format!("--plans: must be a directory, got {}", plans.display()));
        }
        if let Some(ca) = &self.ca {
            tidegate_serve::tls::certificates(ca).map_err(|error| format!("--ca {error}"))?;
        }
        Ok(())
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Err(reason) = arguments.check() {
        eprintln!("tidegate: {reason}");
        return Ok(ExitCode::from(BAD_INPUT));
    }
    let Arguments { allow_host, plans, ca, service } = arguments;
    let settings = Settings { hosts: AllowedHosts(allow_host), plans: Plans(plans), ca };
    let about = Service { component: "LoadGenerator", port: 8080, log_level: LogLevel::Info };
    service::run(&service, &about, |context| async move {
        context.announce_ready();
        Ok(generator::run(context.listener, settings, context.log, context.shutdown).await?)
    })
}
