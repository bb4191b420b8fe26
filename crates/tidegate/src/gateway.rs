//! `tidegate gateway`
#![allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "doc comments here are the text of --help")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tidegate_gateway::config::model::Config;
use tidegate_gateway::config::{self, InvalidConfig};
use tidegate_gateway::settings::Settings;
use tidegate_gateway::{Handle, Server};
use tidegate_serve::{Log, LogFormat, ShutdownHandle, Sink};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::environment;
use crate::service::{log_format, raise_files};
use crate::stop_signals::{CUT_OFF, StopSignals};

/// Run the gateway: a reverse proxy that limits
///
/// Without a file it has one upstream and one limit for all clients together (100 requests a minute), which can be
/// changed while it runs: POST /config/limits. Flags win over the environment, the environment over the file.
///
/// Environment: PORT or SERVER_PORT, TARGET_URL, REDIS_HOST, REDIS_PORT, REDIS_PASSWORD, REDIS_TLS, REDIS_CA,
/// ADMIN_OPEN, RATE_LIMIT_ALGORITHM, RATE_LIMIT_LIMIT, RATE_LIMIT_WINDOW, RATE_LIMIT_CAPACITY, RATE_LIMIT_FILL_RATE,
/// FORECASTER_URL, ADAPTIVE_MODE (true, false or shadow), ADAPTIVE_UPDATE_INTERVAL (seconds).
///
/// SIGHUP reads the configuration again and reopens the access log; SIGUSR1 only reopens the access log; SIGTERM and
/// Ctrl-C stop it after the requests in flight.
#[derive(Args)]
#[command(after_help = "Example: tidegate gateway --target-url http://127.0.0.1:3000 --listen 127.0.0.1:8082")]
pub(crate) struct Arguments {
    /// Configuration, YAML or JSON; `tidegate check FILE` reports what is wrong with one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where clients connect [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The service behind [default: http://127.0.0.1:8081]
    #[arg(long, value_name = "URL")]
    target_url: Option<String>,
    /// Share limits through Redis [default: keep them in memory]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Adapt the limit to what this forecaster recommends [default: don't]
    #[arg(long, value_name = "URL")]
    forecaster: Option<String>,
    /// Threads that serve [default: one per core]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// How events are written to standard output [default: text]
    #[arg(long, value_name = "LOG_FORMAT", value_parser = log_format())]
    log_format: Option<LogFormat>,
}

impl Arguments {
    /// File, environment and flags, in one.
    fn read(&self) -> Result<Config> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => config::read(path).with_context(|| path.display().to_string())?,
        };
        environment::overlay(&mut config, self.redis.as_deref())?;
        if let Some(address) = &self.listen {
            environment::set_listen(&mut config, address.clone());
        }
        if let Some(url) = &self.target_url {
            environment::set_target(&mut config, url)?;
        }
        if let Some(url) = &self.forecaster {
            config.adaptive.forecaster = Some(url.clone());
        }
        config.workers = self.workers.or(config.workers);
        config.log.format = self.log_format.unwrap_or(config.log.format);
        Ok(config)
    }
}

/// Lines of the event log that may wait to be written.
const EVENT_LINES: usize = 4_096;

/// Lines of the access log that may wait with them.
fn access_lines(settings: &Settings) -> usize {
    settings.access_log.as_ref().filter(|log| log.file.is_none()).map_or(0, |log| log.buffer)
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let checked = arguments.read().and_then(|config| Ok(Settings::check(&config)?));
    let settings = match checked {
        Ok(settings) => settings,
        Err(error) if error.is::<InvalidConfig>() => {
            eprintln!("tidegate: the configuration can't be used:\n{error:#}");
            return Ok(ExitCode::from(2));
        }
        Err(error) => return Err(error),
    };
    let sink = Sink::stdout(EVENT_LINES + access_lines(&settings)).context("standard output")?;
    let log = Log::new(sink.clone(), settings.log.format, settings.log.level);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve(arguments, settings, log));
    // Not by dropping it, which waits for a name server that does not respond, or for a file that is being read anew
    // and may never end.
    runtime.shutdown_background();
    sink.flush_and_close(Duration::from_secs(2));
    served
}

/// Serves to the end. The exit code shows whether a second stop signal cut requests off.
async fn serve(arguments: Arguments, settings: Settings, log: Log) -> Result<ExitCode> {
    // The server itself reports if these are too few for its connections.
    raise_files("Gateway", &log);
    let again = move || arguments.read().map_err(|error| InvalidConfig::Syntax(format!("{error:#}")));
    let server = Server::bind(settings, Box::new(again), log.clone()).await?;
    // Before the line that it is ready: a signal may follow it at once.
    let (stop, signals) = (ShutdownHandle::new(), Signals::new()?);
    let observer = stop.observer();
    let handle = server.handle();
    let Signals { hang_up, user1, stop: stop_signals } = signals;
    tokio::spawn(reload(hang_up, handle.clone()));
    tokio::spawn(reopen_logs(user1, handle.clone()));
    tokio::spawn(stop_on(stop_signals, handle.clone(), stop, log.clone()));
    log.info("Gateway", format_args!("tidegate {} starts; {}", env!("CARGO_PKG_VERSION"), server.summary()));
    let admin = server.admin_address().map(|address| format!("; admin on {address}")).unwrap_or_default();
    log.announce("Gateway", format_args!("listening on {}{admin}", server.addresses().join(", ")));
    server.run(observer).await?;
    log.info("Gateway", "stopped");
    Ok(if handle.is_hurried() { ExitCode::from(CUT_OFF) } else { ExitCode::SUCCESS })
}

/// How long the end may take after a second stop signal.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// The signals that a gateway obeys.
struct Signals {
    hang_up: Signal,
    user1: Signal,
    stop: StopSignals,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            stop: StopSignals::new()?,
        })
    }
}

/// SIGHUP reloads. Apart from the stop signal, which must not wait for it.
async fn reload(mut hang_up: Signal, handle: Handle) {
    while hang_up.recv().await.is_some() {
        // What went wrong has been logged.
        let _reloaded = handle.reload().await;
    }
}

/// SIGUSR1 opens the access log anew and changes nothing else, so that rotating it undoes no limit that was set while
/// it ran.
async fn reopen_logs(mut user1: Signal, handle: Handle) {
    while user1.recv().await.is_some() {
        handle.reopen_logs();
    }
}

/// SIGTERM and Ctrl-C stop, a second one stops at once.
async fn stop_on(mut stop_signals: StopSignals, handle: Handle, stop: ShutdownHandle, log: Log) {
    stop_signals.stop_service("Gateway", &stop, &log).await;
    handle.hurry();
    // Slots are given back in Redis; that has its own bound, and a third signal does not wait for it.
    tokio::select! {
        () = tokio::time::sleep(LAST_PATIENCE) => {}
        () = stop_signals.next() => {}
    }
    std::process::exit(CUT_OFF.into());
}
