//! `tidegate demo`
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

mod figures;
mod keep_running;
mod lines;
mod panel;
mod ports;
mod screen;
mod texts;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Result, anyhow};
use clap::Args;
use clap::builder::PossibleValuesParser;
use tidegate_lab::live::{self, LoadService};
use tidegate_lab::report::{Kind, Run, live_time};
use tidegate_lab::{DEMO, Report, Scenario, Variant};
use tidegate_serve::Log;

use crate::lab::live::{and_then, exit_code, play, setting, stop_on_interrupt};
use crate::lab::out::Out;
use crate::lab::table;
use crate::{has_colours, print};
use ports::Ports;
use view::View;

/// See it work: all services in this process, five scenarios in three minutes, and a report
///
/// A target, the gateway before it, a forecaster and a load generator are started on the loopback, at ports 8081, 8082,
/// 8090 and 8080; where one is taken, another port is used and printed. Nothing else is needed: limits are kept
/// in memory, and where a scenario asks for Redis a stand-in for it that can hang.
///
/// normal: a load below the limit · spikes: without adaptation, and with limits that are raised before a spike comes ·
/// attack: without a limit, and with one · outage: the store hangs, then the forecaster dies · provider: a service
/// behind the gateway dies, with a circuit breaker and without.
///
/// On a terminal what flows and what is rejected is drawn while it happens; elsewhere it is printed as lines.
/// report.html and report.json have all of it afterwards. With --keep everything is left running on the same ports, to
/// be tried by hand. Ctrl-C ends everything and still writes the report of what was run.
///
/// Exit codes: 0 all is as expected, also when Ctrl-C ends what --keep left running · 99 something is not · 98 a run is
/// INVALID: this machine was too busy to send the load on time · 2 bad input · 130 stopped by Ctrl-C before the end · 1
/// other errors.
#[derive(Args)]
#[command(after_help = "Example: tidegate demo spikes --keep")]
pub(crate) struct Arguments {
    /// Play only these parts, in this order [default: all]
    #[arg(value_name = "PART", value_parser = PossibleValuesParser::new(DEMO.map(|(name, _)| name)))]
    parts: Vec<String>,
    /// Leave all services running afterwards, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Write report.html and report.json into this directory
    #[arg(long, value_name = "DIR", default_value = "demo-report")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let scenarios = parts(&arguments.parts)?;
    let out = Out::open(&arguments.out)?;
    let is_stopped = stop_on_interrupt()?;
    let (ports, taken) = Ports::find()?;
    let seconds = texts::wall_time(live_time(&scenarios), scenarios.iter().map(|it| Variant::all(it).len()).sum());
    print(texts::opening(&ports, &taken, seconds).as_bytes())?;
    let load = LoadService::start(ports.load, &Log::discard()).map_err(|reason| anyhow!(reason))?;
    let (report, printed) = play_all(scenarios, &ports, &is_stopped);
    // First what nobody could make again, then what could not be printed.
    out.write(&report.to_json())?;
    printed?;
    if is_stopped.load(Relaxed) {
        return Ok(exit_code(&report, true));
    }
    if arguments.keep {
        // Its log is to be seen from now on.
        drop(load);
        keep_running::keep(&ports, &is_stopped)?;
    } else {
        print(texts::what_next().as_bytes())?;
    }
    Ok(exit_code(&report, false))
}

/// The parts of these names; all of them, if none is named.
fn parts(names: &[String]) -> Result<Vec<Scenario>> {
    let all = DEMO.map(|(name, _)| name.to_owned());
    let names = if names.is_empty() { &all[..] } else { names };
    let once = |(index, name): (usize, &String)| names[..index].iter().all(|before| before != name);
    let names = names.iter().enumerate().filter(|named| once(*named)).map(|(_, name)| name);
    let texts = names.filter_map(|name| DEMO.into_iter().find(|(known, _)| known == name));
    Ok(texts.map(|(name, text)| Scenario::read(name, text)).collect::<Result<_, _>>()?)
}

/// Runs everything, and prints each run when it is over. Beside the report, whether all of it could be printed.
fn play_all(scenarios: Vec<Scenario>, ports: &Ports, is_stopped: &AtomicBool) -> (Report, Result<()>) {
    let mut report = Report::new(Kind::Demo, None, Some(setting()));
    let (count, mut printed, mut tables) = (scenarios.len(), Ok(()), String::new());
    play(
        scenarios,
        &mut report,
        is_stopped,
        |index, scenario, variant| {
            let part = texts::part(index, count, scenario, variant);
            let run = play_one(scenario, variant, &part, ports, is_stopped);
            and_then(&mut printed, || print(texts::verdict(scenario, &run, has_colours()).as_bytes()));
            run
        },
        |scenario, runs| {
            tables.push('\n');
            tables.push_str(&table::of(scenario, runs, has_colours()));
        },
    );
    let verdict = table::verdict(&report, has_colours());
    and_then(&mut printed, || print(format!("{tables}\n{verdict}").as_bytes()));
    (report, printed)
}

fn play_one(scenario: &Scenario, variant: Variant, part: &str, ports: &Ports, is_stopped: &AtomicBool) -> Run {
    let mut view = View::open(scenario, variant, part);
    let log = Log::discard();
    let played = live::run(scenario, variant, &ports.addresses, &log, is_stopped, &mut |moment| view.show(moment));
    drop(view);
    played.map_or_else(
        |reason| Run::skipped(scenario, variant, reason),
        |live| Run::of(scenario, variant, &live.outcome, Kind::Demo, live.fault),
    )
}
