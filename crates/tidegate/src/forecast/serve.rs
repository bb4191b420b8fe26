//! `tidegate forecast serve`
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tidegate_forecast::Policy;
use tidegate_forecast::service::{Service as Forecasts, Settings};
use tidegate_serve::LogLevel;

use super::number;
use crate::load::BAD_INPUT;
use crate::service::{self, Service};

/// Advise gateways what their limits should be
///
/// A gateway (tidegate gateway --forecaster http://127.0.0.1:8090) sends what it sees to POST /v1/limit-config every
/// few seconds: the requests of each second, how many it rejected, how fast the target responds. The response has what
/// its limits should be, now and at which times of the next minute: raised ahead of a rise that the target can bear,
/// tightened ahead of one that it can't. /actuator/health and /actuator/prometheus (forecast errors, coverage, weights
/// of the models, time of a fit) are there as well. Everything else is in docs/forecast.md.
///
/// It listens on 127.0.0.1:8090, or at the port in PORT or SERVER_PORT of the environment.
///
/// Exit codes: 0 stopped · 2 the command line or the file of --state can't be used, and why · 1 other errors, such as a
/// port that is taken · 130 a second stop signal came before it had ended.
#[derive(Args)]
#[command(after_help = "Example: tidegate forecast serve --capacity 3200 --state forecast.json")]
pub(crate) struct Arguments {
    /// Requests a second that the target bears; without it that is learnt from how late and with how many errors it
    /// responds
    #[arg(long, value_name = "RPS", allow_negative_numbers = true, value_parser = rate)]
    capacity: Option<f64>,
    /// Never advise fewer requests a second [default: 5, or the capacity if that is lower]
    #[arg(long, value_name = "RPS", allow_negative_numbers = true, value_parser = rate)]
    floor: Option<f64>,
    /// How many seconds are forecast, 10 to 600
    #[arg(long, value_name = "SECONDS", default_value_t = 60, allow_negative_numbers = true)]
    #[arg(value_parser = number(10, 600))]
    horizon: u32,
    /// How many seconds of load are kept, 120 to 86400
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400, allow_negative_numbers = true)]
    #[arg(value_parser = number(120, 86_400))]
    history: u32,
    /// Keep what was learnt in this file, so that it survives a restart: written every 30 seconds and at the end. A
    /// file that is not a state of a forecaster keeps this one from starting
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Advise other numbers only, never another algorithm
    #[arg(long)]
    keep_algorithm: bool,
    #[command(flatten)]
    service: service::Arguments,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "must be requests a second from 0.001 to 1e9".to_owned())
}

const SERVICE: Service = Service { component: "Forecaster", port: 8090, log_level: LogLevel::Info };

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    // Before it listens: a port that closes again would look like a service that failed.
    let service = match arguments.service() {
        Ok(service) => service,
        Err(reason) => {
            eprintln!("tidegate: {reason}");
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    service::run(&arguments.service, &SERVICE, |context| async move {
        context.log.info(SERVICE.component, format_args!("{}", service.summary()));
        context.announce_ready();
        Ok(service.run(context.listener, context.log, context.shutdown).await?)
    })
}

impl Arguments {
    /// The service by these arguments. `Err` is what can't be used or read.
    fn service(&self) -> Result<Forecasts, String> {
        let usual = Policy::default().floor.min(self.capacity.unwrap_or(f64::INFINITY));
        let floor = self.floor.unwrap_or(usual);
        if let Some(capacity) = self.capacity.filter(|capacity| *capacity < floor) {
            return Err(format!("--floor: must be at most --capacity ({capacity}), got {floor}"));
        }
        let policy = Policy {
            capacity: self.capacity,
            floor,
            horizon: self.horizon as usize,
            kept: self.history as usize,
            may_switch: !self.keep_algorithm,
        };
        let settings = Settings { policy, state: self.state.clone() };
        Forecasts::new(settings).map_err(|reason| format!("--state: {reason}"))
    }
}
