//! What every small server has in common: where it listens, what it logs, how it stops.
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tidegate_serve::{Log, LogFormat, LogLevel, Shutdown, ShutdownHandle, Sink, raise_open_files};
use tokio::net::TcpListener;

use crate::environment;
use crate::stop_signals::{CUT_OFF, StopSignals};

/// The flags of every small server, to be flattened into its own.
#[derive(Args)]
// Without a group: clap names it by the type, which those it is flattened into are called as well.
#[group(skip)]
#[command(next_help_heading = "Service")]
pub(crate) struct Arguments {
    /// Where clients connect, an address and a port [default: 127.0.0.1 and the port above]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
    /// How events are written
    #[arg(long, value_name = "LOG_FORMAT", value_parser = log_format(), default_value = LogFormat::Text.name())]
    log_format: LogFormat,
    /// Write events to this file, too; at 10 MB it becomes FILE.1, and five such are kept
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
}

/// Reads the format of a log by its name.
pub(crate) fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    let named = |name: String| LogFormat::ALL.into_iter().find(|format| format.name() == name).unwrap_or_default();
    PossibleValuesParser::new(LogFormat::ALL.map(LogFormat::name)).map(named)
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let allowed = "must be an address and a port, such as 127.0.0.1:8081 or [::]:8081";
    text.parse().map_err(|_| allowed.to_owned())
}

/// What a server is called in its log, and its defaults.
pub(crate) struct Service {
    pub(crate) component: &'static str,
    pub(crate) port: u16,
    pub(crate) log_level: LogLevel,
}

/// What a server runs with.
pub(crate) struct Context {
    pub(crate) listener: TcpListener,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) log: Log,
    pub(crate) shutdown: Shutdown,
    component: &'static str,
}

impl Context {
    /// Logs that it is ready. To be called when it is: the one who started the server waits for this line.
    pub(crate) fn announce_ready(&self) {
        self.log.announce(self.component, format_args!("listening on http://{}", self.address));
    }
}

/// Lines of the log that may wait to be written.
const LOG_LINES: usize = 4_096;
/// How large a log file may become, and how many before it are kept.
const LOG_FILE_BYTES: u64 = 10_000_000;
const LOG_FILES: usize = 5;
/// How long the end may wait for the last lines.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Runs `serve` until it ends, which it does when `shutdown` fires. At a second stop signal it is dropped where it
/// is.
pub(crate) fn run<F>(arguments: &Arguments, service: &Service, serve: impl FnOnce(Context) -> F) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    let port = environment::port()?.unwrap_or(service.port);
    let address = arguments.listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let sink = Sink::stdout(LOG_LINES).context("standard output")?;
    let mut log = Log::new(sink.clone(), arguments.log_format, service.log_level);
    let file = arguments.log_file.as_deref().map(log_file).transpose()?;
    if let Some(file) = &file {
        log = log.and_file(file.clone());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(until_the_end(address, service, log, serve));
    // Not by dropping it, which waits for threads that may never end.
    runtime.shutdown_background();
    sink.flush_and_close(LOG_PATIENCE);
    if let Some(file) = file {
        file.flush_and_close(LOG_PATIENCE);
        if let Some(error) = file.last_write_error() {
            eprintln!("tidegate: --log-file: {} times, last: {error}", file.write_errors());
        }
    }
    served
}

/// A file for events that rotates.
pub(crate) fn log_file(path: &Path) -> Result<Sink> {
    Sink::rotating(path, LOG_LINES, LOG_FILE_BYTES, LOG_FILES).with_context(|| path.display().to_string())
}

async fn until_the_end<F>(
    address: SocketAddr,
    service: &Service,
    log: Log,
    serve: impl FnOnce(Context) -> F,
) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    let component = service.component;
    open_many_files(component, &log);
    let listener = TcpListener::bind(address).await.with_context(|| format!("can't listen on {address}"))?;
    let address = listener.local_addr()?;
    // Before the line that it is ready: a signal may follow it at once.
    let (mut stop_signals, stop) = (StopSignals::new()?, ShutdownHandle::new());
    let context = Context { listener, address, log: log.clone(), shutdown: stop.observer(), component };
    tokio::select! {
        served = serve(context) => {
            log.info(component, "stopped");
            served.map(|()| ExitCode::SUCCESS)
        }
        () = stop_signals.stop_service(component, &stop, &log) => Ok(ExitCode::from(CUT_OFF)),
    }
}

/// Lets the process have as many sockets as it may. Few of them are reported.
pub(crate) fn open_many_files(component: &str, log: &Log) {
    if let Some(most) = raise_files(component, log).filter(|most| *most < 4_096) {
        log.warn(component, format_args!("only {most} file descriptors can be open at once"));
    }
}

/// Lets the process have as many file descriptors open as it may, and returns how many those are.
pub(crate) fn raise_files(component: &str, log: &Log) -> Option<u64> {
    match raise_open_files() {
        Ok(files) => Some(files.now),
        Err(error) => {
            log.warn(component, format_args!("the limit of open file descriptors can't be raised: {error}"));
            None
        }
    }
}
