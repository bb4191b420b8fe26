//! `tidegate lab scenarios`, and which ones other commands run.
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tidegate_lab::{SCENARIOS, Scenario, Variant};

use crate::load::BAD_INPUT;
use crate::print;

/// List the scenarios that come with it, or print one as a file to begin with
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print this one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(name) = &arguments.name {
        let Some((_, text)) = SCENARIOS.iter().find(|(known, _)| known == name) else {
            eprintln!("tidegate: {}", unknown(name));
            return Ok(ExitCode::from(BAD_INPUT));
        };
        print(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = String::new();
    for (name, text) in SCENARIOS {
        let scenario = Scenario::read(name, text)?;
        let (runs, seconds) = (Variant::all(&scenario).len(), scenario.duration().as_secs_f64());
        let _infallible = writeln!(page, "{name:<18}{:<48}{seconds:>5.0} s × {runs:>2} runs", scenario.title);
    }
    print(page.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Which scenarios are run, to be flattened into a command's flags.
#[derive(Args)]
// Without a group: clap names it by the type.
#[group(skip)]
pub(super) struct Choice {
    /// Scenarios by name, or files [default: all that come with it]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Another seed than the scenarios' own
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Only these algorithms
    #[arg(long, value_name = "NAME")]
    algorithm: Vec<String>,
}

impl Choice {
    /// The scenarios that are meant. `Err` says what can't be read.
    pub(super) fn scenarios(&self) -> Result<Vec<Scenario>, String> {
        let mut scenarios = chosen(&self.names, self.seed, &self.algorithm)?;
        let has_none = |scenario: &Scenario| !self.algorithm.is_empty() && scenario.algorithms.is_empty();
        if self.names.is_empty() {
            // Of all that there are, those that have one of the algorithms.
            scenarios.retain(|scenario| !has_none(scenario));
        }
        match scenarios.iter().find(|scenario| has_none(scenario) || Variant::all(scenario).is_empty()) {
            Some(empty) => Err(format!("{}: there is nothing to run: it has none of these algorithms", empty.name)),
            None => Ok(scenarios),
        }
    }
}

/// The scenarios of these names or files; all that come with it, if none is named. Only with these algorithms, if some
/// are.
fn chosen(names: &[String], seed: Option<u64>, algorithms: &[String]) -> Result<Vec<Scenario>, String> {
    let one = |name: &String| match SCENARIOS.iter().find(|(known, _)| known == name) {
        Some((name, text)) => Scenario::read(name, text).map_err(|error| error.to_string()),
        None if Path::new(name).is_file() => Scenario::open(Path::new(name)).map_err(|error| error.to_string()),
        None => Err(unknown(name)),
    };
    let all: Vec<String> = SCENARIOS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names = if names.is_empty() { &all } else { names };
    let scenarios = names.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let seeded = |scenario: Scenario| match seed {
        None => Ok(scenario),
        Some(seed) => scenario.with_seed(seed).map_err(|error| error.to_string()),
    };
    let limited =
        |scenario: Scenario| if algorithms.is_empty() { Ok(scenario) } else { scenario.with_algorithms(algorithms) };
    scenarios.into_iter().map(|scenario| seeded(scenario).and_then(limited)).collect()
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    format!("{name:?} is neither a file nor a scenario; there are: {}", names.join(", "))
}
