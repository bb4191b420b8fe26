//! `tidegate load run`
#![allow(clippy::doc_markdown, rustdoc::invalid_html_tags, reason = "doc comments here are the text of --help")]

use std::fs;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use tidegate_load::service::write_metrics;
use tidegate_load::{Ended, NotStarted, Overrides, Plan, Run};
use tidegate_serve::rest::{self, Bounds, Request, Response};
use tidegate_serve::{Exposition, Log, LogFormat, LogLevel, Process, ShutdownHandle};
use tokio::net::TcpListener;

use super::outcome::{BAD_INPUT, conclude, is_same};
use super::progress::Display;
use crate::service;
use crate::stop_signals::{CUT_OFF, StopSignals};

/// Send load by a plan, and report what became of it
///
/// An open model: requests are sent when the plan wants them, whether those before got a response or not, and latency
/// counts from the time a request should have been sent. What could not be sent in time is counted as missed.
///
/// Progress goes to standard error, the summary to standard output.
///
/// Exit codes: 0 good · 99 a threshold does not hold · 98 the result is INVALID · 2 a bad plan · 130 stopped by Ctrl-C
/// · 1 other errors.
///
/// Environment: CONFIG_FILE instead of PLAN.
#[derive(Args)]
#[command(after_help = "Example: tidegate load run plan.json --json result.json\n\n\
    plan.json: {\"limiterUrl\": \"http://127.0.0.1:8082/api/test\", \"duration\": 30,\n            \
    \"profile\": {\"type\": \"constant\", \"params\": {\"rps\": 200}},\n            \
    \"thresholds\": [\"p99{2xx}<50ms\", \"errors<1%\"]}")]
pub(crate) struct Arguments {
    /// The plan, a JSON file [default: what CONFIG_FILE names]
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Write the result to this file, as JSON; `tidegate load merge` puts several together
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Send to this URL instead of the plan's
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Send for so many seconds instead of the plan's
    #[arg(long, value_name = "SECONDS", value_parser = number, allow_negative_numbers = true)]
    duration: Option<f64>,
    /// Send so many a second; only where the profile has a single rate (constant, poisson)
    #[arg(long, value_name = "RPS", value_parser = number, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Another seed for everything that is random
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Send only a part of the plan's requests, such as 2/3: others send the rest at the same time
    #[arg(long, value_name = "I/N")]
    part: Option<String>,
    /// Begin at this time, in seconds since 1970, so that several instances begin together
    #[arg(long, value_name = "TIME", value_parser = number, allow_negative_numbers = true)]
    start_at: Option<f64>,
    /// Something that must hold, besides the plan's own: p99<50ms, p99{2xx}<50ms, errors<1%, rate_limited<5%
    #[arg(long, value_name = "EXPRESSION")]
    threshold: Vec<String>,
    /// Trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show metrics for Prometheus at this address (/actuator/prometheus)
    #[arg(long, value_name = "ADDR", value_parser = service::address)]
    metrics: Option<SocketAddr>,
    /// How many seconds the metrics stay up after the end, for a last scrape
    #[arg(long, value_name = "SECONDS", default_value_t = 15, requires = "metrics")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=86_400))]
    linger: u64,
    /// Write start, end, bursts and errors to this file; at 10 MB it becomes FILE.1
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// How events are written to it
    #[arg(
        long,
        value_name = "LOG_FORMAT",
        value_parser = service::log_format(),
        default_value = LogFormat::Text.name()
    )]
    log_format: LogFormat,
    /// Print nothing before the end
    #[arg(long, short)]
    quiet: bool,
}

/// A finite number.
fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| "must be a number".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = arguments.plan.clone().or_else(|| std::env::var_os("CONFIG_FILE").map(PathBuf::from));
    let Some(path) = path else {
        eprintln!("tidegate: no plan: name a file, or set CONFIG_FILE");
        return Ok(ExitCode::from(BAD_INPUT));
    };
    let plan = match Plan::open(&path, &arguments.overrides()) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("tidegate: {} can't be used:\n{error}", path.display());
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    if let Some(out) = arguments.json.as_deref().filter(|out| is_same(&path, out)) {
        eprintln!("tidegate: --json {} is the plan, and would be overwritten", out.display());
        return Ok(ExitCode::from(BAD_INPUT));
    }
    // Found out now, not after an hour.
    if let Some(out) = &arguments.json {
        fs::OpenOptions::new().append(true).create(true).open(out).with_context(|| out.display().to_string())?;
    }
    let log = log(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(to_the_end(arguments, plan, log.clone()));
    runtime.shutdown_background();
    if let Some(sink) = log.sink() {
        sink.flush_and_close(Duration::from_secs(2));
    }
    ended
}

impl Arguments {
    fn overrides(&self) -> Overrides {
        Overrides {
            url: self.url.clone(),
            duration: self.duration,
            rate: self.rate,
            seed: self.seed,
            part: self.part.clone(),
            start_at: self.start_at,
            thresholds: self.threshold.clone(),
        }
    }
}

fn log(arguments: &Arguments) -> Result<Log> {
    match &arguments.log_file {
        None => Ok(Log::discard()),
        Some(path) => {
            let sink = service::log_file(path)?;
            Ok(Log::new(sink, arguments.log_format, LogLevel::Info))
        }
    }
}

async fn to_the_end(arguments: &Arguments, plan: Plan, log: Log) -> Result<ExitCode> {
    service::open_many_files("LoadGenerator", &log);
    let mut stop_signals = StopSignals::new()?;
    let listener = match arguments.metrics {
        None => None,
        Some(address) => Some(TcpListener::bind(address).await.with_context(|| format!("can't listen on {address}"))?),
    };
    let (ca, its_log) = (arguments.ca.clone(), log);
    let starting = tokio::task::spawn_blocking(move || Run::start(plan, ca.as_deref(), its_log));
    let started = tokio::select! {
        started = starting => started?,
        // A name server that does not respond may keep it for long.
        () = stop_signals.next() => return Ok(ExitCode::from(CUT_OFF)),
    };
    let (run, watching) = match started {
        Ok(started) => started,
        Err(error @ NotStarted::Plan(_)) => {
            eprintln!("tidegate: the plan can't be carried out:\n{error}");
            return Ok(ExitCode::from(BAD_INPUT));
        }
        Err(error) => return Err(error).context("the test can't be started"),
    };
    let stop = ShutdownHandle::new();
    if let Some(listener) = listener {
        tokio::spawn(metrics(listener, Arc::clone(&run), stop.observer()));
    }
    let mut display = Display::new(&run, arguments.quiet, std::io::stderr().is_terminal());
    let mut ending = tokio::task::spawn_blocking(move || watching.join());
    let mut tick = tokio::time::interval(Duration::from_millis(500));
    let report = loop {
        tokio::select! {
            ended = &mut ending => break ended?,
            _ = tick.tick() => display.show(&run),
            () = stop_signals.next() => run.stop(),
        }
    };
    display.end();
    let report = report
        .map_err(|_| anyhow::anyhow!("the test has failed: its report was lost"))?
        .context("the test has failed")?;
    let code = conclude(&report, arguments.json.as_deref())?;
    if let Some(address) = arguments.metrics.filter(|_| arguments.linger > 0) {
        if !arguments.quiet {
            eprintln!(
                "metrics stay at http://{address}/actuator/prometheus for {} s; Ctrl-C ends that",
                arguments.linger
            );
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(arguments.linger)) => {}
            () = stop_signals.next() => {}
        }
    }
    Ok(if report.ended() == Ended::Stopped { ExitCode::from(CUT_OFF) } else { code })
}

/// Shows metrics of this run until the process ends.
async fn metrics(listener: TcpListener, run: Arc<Run>, shutdown: tidegate_serve::Shutdown) {
    let process = Arc::new(Process::new());
    let response = move |request: Request| {
        let (run, process) = (Arc::clone(&run), Arc::clone(&process));
        async move {
            match request.path() {
                "/actuator/health" => Response::json(http::StatusCode::OK, &serde_json::json!({ "status": "UP" })),
                "/actuator/prometheus" => {
                    let progress = run.progress();
                    let mut page = Exposition::new();
                    write_metrics(&mut page, &progress, (!run.is_over()).then_some(&*run));
                    process.write(&mut page);
                    Response::metrics(page)
                }
                _ => Response::nothing_here(),
            }
        }
    };
    rest::serve(listener, Bounds { connections: 64, ..Bounds::default() }, shutdown, response).await;
}
