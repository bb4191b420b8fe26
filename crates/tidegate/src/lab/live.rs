//! `tidegate lab run`
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use tidegate_input::Utc;
use tidegate_lab::live::{self, ListenAddresses};
use tidegate_lab::report::{Kind, Run, Setting, Status, live_time};
use tidegate_lab::{Report, Scenario, Variant};
use tidegate_serve::{Log, system_name};

use super::out::Out;
use super::simulate::NOT_AS_EXPECTED;
use super::{scenarios, table};
use crate::load::BAD_INPUT;
use crate::{has_colours, is_drawn_on, print};

/// Stopped by Ctrl-C.
pub(super) const STOPPED: u8 = 130;
/// A run proves nothing.
const INVALID: u8 = 98;

/// Run scenarios live: real sockets, a real gateway before a real target, a real Redis where a scenario asks for one
///
/// Everything is started for each run on free ports of the loopback, and ended with it. The load begins with a second,
/// so that windows begin with it. Redis is `redis-server`; where it is not installed, the runs that need it are
/// skipped, which is reported and counts as a failure.
///
/// Tables go to standard output, progress to standard error. Ctrl-C ends the run under way; the report has what was run
/// until then.
///
/// Exit codes: 0 all is as the scenarios expect · 99 something is not, or was not run · 98 a run is INVALID: the load
/// generator itself was late · 2 a scenario can't be used, and why · 130 stopped by Ctrl-C · 1 other errors.
#[derive(Args)]
#[command(after_help = "Example: tidegate lab run boundary --out report")]
pub(crate) struct Arguments {
    #[command(flatten)]
    choice: scenarios::Choice,
    /// Write report.html and report.json into this directory
    #[arg(long, value_name = "DIR", default_value = "lab-report")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let scenarios = match arguments.choice.scenarios() {
        Ok(scenarios) => scenarios,
        Err(reason) => {
            eprintln!("tidegate: {reason}");
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let out = Out::open(&arguments.out)?;
    let is_stopped = stop_on_interrupt()?;
    let has_colours = has_colours();
    let mut report = Report::new(Kind::Live, arguments.choice.seed, Some(setting()));
    eprintln!("{} s of load; Ctrl-C ends it and still writes the report", live_time(&scenarios).as_secs());
    let (mut printed, mut gap) = (Ok(()), "");
    play(
        scenarios,
        &mut report,
        &is_stopped,
        |_, scenario, variant| run_one(scenario, variant, &is_stopped),
        |scenario, runs| {
            let table = format!("{}{}", std::mem::replace(&mut gap, "\n"), table::of(scenario, runs, has_colours));
            and_then(&mut printed, || print(table.as_bytes()));
        },
    );
    and_then(&mut printed, || print(format!("\n{}", table::verdict(&report, has_colours)).as_bytes()));
    // First what could not be made again, then what could not be reported.
    out.write(&report.to_json())?;
    printed?;
    Ok(exit_code(&report, is_stopped.load(Relaxed)))
}

/// Does this too, if all went well until now.
pub(crate) fn and_then(so_far: &mut Result<()>, next: impl FnOnce() -> Result<()>) {
    if so_far.is_ok() {
        *so_far = next();
    }
}

/// Runs everything, each scenario (by its index) in all its variants, until it is stopped. Calls `show` after each
/// scenario.
pub(crate) fn play(
    scenarios: Vec<Scenario>,
    report: &mut Report,
    is_stopped: &AtomicBool,
    mut one: impl FnMut(usize, &Scenario, Variant) -> Run,
    mut show: impl FnMut(&Scenario, &[Run]),
) {
    for (index, scenario) in scenarios.into_iter().enumerate() {
        let mut runs = Vec::new();
        for variant in Variant::all(&scenario) {
            runs.push(if is_stopped.load(Relaxed) {
                Run::skipped(&scenario, variant, "stopped before".to_owned())
            } else {
                one(index, &scenario, variant)
            });
        }
        show(&scenario, &runs);
        report.push(scenario, runs);
        if is_stopped.load(Relaxed) {
            report.interrupt();
            break;
        }
    }
}

/// Where and when this is.
pub(crate) fn setting() -> Setting {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Setting { created_at: Utc::now().with_seconds().to_string(), cpus, system: system_name() }
}

/// What came of live runs, as a shell sees it.
pub(crate) fn exit_code(report: &Report, is_stopped: bool) -> ExitCode {
    let has = |status: Status| report.runs().any(|(_, run)| run.status() == status);
    match () {
        () if is_stopped => ExitCode::from(STOPPED),
        () if report.is_passed() => ExitCode::SUCCESS,
        () if has(Status::Invalid) && !has(Status::Failed) && !has(Status::Skipped) => ExitCode::from(INVALID),
        () => ExitCode::from(NOT_AS_EXPECTED),
    }
}

fn run_one(scenario: &Scenario, variant: Variant, is_stopped: &AtomicBool) -> Run {
    let id = variant.id(scenario);
    let mut progress = Progress::new(&id);
    let made = live::run(scenario, variant, &ListenAddresses::default(), &Log::discard(), is_stopped, &mut |moment| {
        progress.show(moment.share());
    });
    progress.end();
    made.map_or_else(
        |reason| Run::skipped(scenario, variant, reason),
        |live| Run::of(scenario, variant, &live.outcome, Kind::Live, live.fault),
    )
}

/// A line that shows how far a run is, on a terminal.
struct Progress<'a> {
    id: &'a str,
    shown: Option<u64>,
    is_seen: bool,
}

impl<'a> Progress<'a> {
    fn new(id: &'a str) -> Self {
        Self { id, shown: None, is_seen: is_drawn_on(&std::io::stderr()) }
    }

    fn show(&mut self, share: f64) {
        let percent = (share * 100.0) as u64;
        if self.is_seen && self.shown.replace(percent) != Some(percent) {
            eprint!("\r{:<40}{percent:>3} %", self.id);
            let _shown = std::io::stderr().flush();
        }
    }

    fn end(&self) {
        if self.is_seen {
            // Also what the terminal has written there, such as ^C.
            eprint!("\r\x1b[K");
        }
    }
}

/// Is set by Ctrl-C or SIGTERM. What runs ends by itself then, and leaves nothing behind: no Redis, no socket.
pub(crate) fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_stopped);
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut stop_signals = crate::stop_signals::StopSignals::new()?;
            let _heard = ready.send(());
            stop_signals.next().await;
            flag.store(true, Relaxed);
            anyhow::Ok(())
        })
    })?;
    is_ready.recv_timeout(Duration::from_secs(5)).context("signals can't be listened to")?;
    Ok(is_stopped)
}
