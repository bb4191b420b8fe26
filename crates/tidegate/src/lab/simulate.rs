//! `tidegate lab simulate`
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tidegate_lab::report::{Kind, Run};
use tidegate_lab::{Report, Scenario, Variant, simulate};

use super::out::Out;
use super::{scenarios, table};
use crate::load::BAD_INPUT;
use crate::{has_colours, print};

/// An expectation does not hold.
pub(super) const NOT_AS_EXPECTED: u8 = 99;

/// Run scenarios in simulated time: the same load through every algorithm, judged by the exact definition of the limit
///
/// What decides is what decides in the gateway, the load's times are those of `tidegate load`, and the target's workers
/// and queue are those of `tidegate target`; only the clock is missing. The same seed gives the same report, to the
/// last digit.
///
/// For each scenario a table, and with --out a page for people (report.html, one file that needs nothing else) and all
/// figures for machines (report.json). `tidegate lab scenarios` lists what comes with it; a file of your own is named
/// by its path.
///
/// Exit codes: 0 all is as the scenarios expect · 99 something is not · 2 a scenario can't be used, and why · 1 other
/// errors.
#[derive(Args)]
#[command(after_help = "Example: tidegate lab simulate spikes attack --out report\n\n\
    tidegate lab scenarios spikes > mine.yaml; tidegate lab simulate mine.yaml")]
pub(crate) struct Arguments {
    #[command(flatten)]
    choice: scenarios::Choice,
    /// Write report.html and report.json into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let scenarios = match arguments.choice.scenarios() {
        Ok(scenarios) => scenarios,
        Err(reason) => {
            eprintln!("tidegate: {reason}");
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let out = arguments.out.as_deref().map(Out::open).transpose()?;
    let has_colours = has_colours();
    let mut report = Report::new(Kind::Simulated, arguments.choice.seed, None);
    for (index, scenario) in scenarios.into_iter().enumerate() {
        let runs = runs(&scenario);
        let gap = if index == 0 { "" } else { "\n" };
        print(format!("{gap}{}", table::of(&scenario, &runs, has_colours)).as_bytes())?;
        report.push(scenario, runs);
    }
    print(format!("\n{}", table::verdict(&report, has_colours)).as_bytes())?;
    if let Some(out) = out {
        out.write(&report.to_json())?;
    }
    Ok(if report.is_passed() { ExitCode::SUCCESS } else { ExitCode::from(NOT_AS_EXPECTED) })
}

fn runs(scenario: &Scenario) -> Vec<Run> {
    let one = |variant: Variant| Run::of(scenario, variant, &simulate(scenario, variant), Kind::Simulated, None);
    Variant::all(scenario).into_iter().map(one).collect()
}
