//! `tidegate forecast backtest`
#![allow(clippy::doc_markdown, clippy::cast_precision_loss, reason = "doc comments here are the text of --help")]

mod json;
mod page;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use tidegate_forecast::backtest::{Outcome, backtest};
use tidegate_forecast::{Forecaster, Series, Settings, plot, series_from_csv};

use super::number;
use crate::load::{BAD_INPUT, is_same};
use crate::print;
use words::{count, counted};

/// Report how good forecasts of a recorded series would have been
///
/// The forecaster gets the values one by one, as they came; every few steps it forecasts, and that is compared with
/// what followed. Nothing of the future is known to it.
///
/// MASE is the mean distance of what came from what was expected, where 1 is the mean distance of a value from the one
/// before it: below 1 it would do to know the next value. The combination is what is used; each of its models alone
/// stands beside it. A quantile is good if as many values were at or below it as it promises, and of two that are, the
/// one with less pinball loss is sharper.
///
/// A file is CSV: times in the first column (seconds, or dates such as 2026-01-19T16:30:00Z), values in the last or the
/// one that --column names. The usual distance of two times is the step; where it is longer there is a gap. With one
/// column there is a value a second. Lines may come in any order; of several for one step the last counts.
///
/// Exit codes: 0 done · 2 a file or an argument can't be used, and why · 1 other errors, such as a file that can't be
/// written.
#[derive(Args)]
#[command(after_help = "Example: tidegate forecast backtest requests.csv --plot requests.svg\n\n\
    requests.csv: time,requests\n              2026-01-19T16:30:00Z,112\n              2026-01-19T16:30:01Z,98")]
pub(crate) struct Arguments {
    /// Series to be forecast, each for itself
    #[arg(value_name = "FILE.csv", required = true)]
    files: Vec<PathBuf>,
    /// The column that has the values: its name, or its number from 1 on [default: the last]
    #[arg(long, value_name = "COLUMN")]
    column: Option<String>,
    /// How many steps each forecast looks ahead [default: 60, or 12 where a step is a minute or more]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(1, 10_000))]
    horizon: Option<u32>,
    /// How many steps there are from one forecast to the next [default: 5, or 6 where a step is a minute or more; at
    /// least 1/200 of the horizon]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(1, 1_000_000))]
    stride: Option<u32>,
    /// How many values are only learnt from, before forecasts are judged [default: 300, or 600 where a step is a minute
    /// or more, but at most half of the series]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0, 1_000_000))]
    warm_up: Option<u32>,
    /// How many values are remembered; cycles longer than two fifths of that are not seen [default: 3600, or 4096 where
    /// a step is a minute or more]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(10, 1_000_000))]
    kept: Option<u32>,
    /// Draw the series, the forecasts and the models' errors into this file, as SVG; for one series
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A series, and how it shall be forecast.
struct Task {
    file: PathBuf,
    series: Series,
    settings: Settings,
    warm_up: usize,
}

/// A series and what became of its forecasts.
struct Tested {
    name: String,
    series: Series,
    settings: Settings,
    warm_up: usize,
    outcome: Outcome,
}

impl Tested {
    /// A model's error; none if it made no forecast, or if all values are the same, so that there is no unit.
    fn mase(&self, name: &str) -> Option<f64> {
        let score = self.outcome.score(name).filter(|score| score.origins > 0 && self.outcome.unit > 0.0)?;
        Some(score.mase)
    }

    /// A model's error as a share of another one; no number without that one.
    fn ratio(&self, name: &str, other: Option<f64>) -> f64 {
        match (self.mase(name), other) {
            (Some(mase), Some(other)) if other > 0.0 => mase / other,
            _ => f64::NAN,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let tasks = match arguments.tasks() {
        Ok(tasks) => tasks,
        Err(reason) => return Ok(bad_input(&reason)),
    };
    for out in arguments.outputs() {
        probe(out).with_context(|| format!("can't write {}", out.display()))?;
    }
    let has_colours = crate::has_colours();
    let mut all = Vec::new();
    for (index, task) in tasks.into_iter().enumerate() {
        let tested = match task.test() {
            Ok(tested) => tested,
            Err(reason) => return Ok(bad_input(&reason)),
        };
        let gap = if index == 0 { "" } else { "\n" };
        print(format!("{gap}{}", page::of(&tested, has_colours)).as_bytes())?;
        all.push(tested);
    }
    if all.len() > 1 {
        print(format!("\n{}", page::overview(&all, has_colours)).as_bytes())?;
    }
    if let (Some(out), [tested]) = (&arguments.plot, all.as_slice()) {
        write(out, &plot::svg(&tested.name, tested.series.history(), &tested.outcome))?;
    }
    if let Some(out) = &arguments.json {
        write(out, &json::of(&all)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn bad_input(reason: &str) -> ExitCode {
    eprintln!("tidegate: {reason}");
    ExitCode::from(BAD_INPUT)
}

/// Whether a file can be written: found out now, not after a long series. Leaves everything as it was.
fn probe(path: &Path) -> std::io::Result<()> {
    // A link to nothing is something.
    let is_new = path.symlink_metadata().is_err();
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    if is_new { fs::remove_file(path) } else { Ok(()) }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}

/// Forecasts that may wait to be judged: each is kept until its last step has come.
const MOST_AT_ONCE: usize = 200;

impl Arguments {
    fn outputs(&self) -> impl Iterator<Item = &PathBuf> {
        self.plot.iter().chain(&self.json)
    }

    /// What can't be meant.
    fn contradiction(&self) -> Option<String> {
        if self.plot.is_some() && self.files.len() > 1 {
            return Some(format!("--plot draws one series, and there are {} files", self.files.len()));
        }
        if self.plot.is_some() && self.plot == self.json {
            return Some("--plot and --json name the same file".to_owned());
        }
        let lost = self.outputs().find(|out| self.files.iter().any(|file| is_same(file, out)))?;
        Some(format!("{} is one of the series, and would be overwritten", lost.display()))
    }

    /// All series, read and checked before the first is forecast.
    fn tasks(&self) -> Result<Vec<Task>, String> {
        match self.contradiction() {
            Some(reason) => Err(reason),
            None => self.files.iter().map(|file| self.task(file)).collect(),
        }
    }

    fn task(&self, file: &Path) -> Result<Task, String> {
        let series = series_from_csv(file, self.column.as_deref())?;
        let usual = Settings::for_step(series.step());
        let given = |number: Option<u32>, usual: usize| number.map_or(usual, |number| number as usize);
        let horizon = given(self.horizon, usual.horizon);
        let least = horizon.div_ceil(MOST_AT_ONCE);
        let stride = given(self.stride, usual.stride.max(least));
        if stride < least {
            return Err(format!("--stride: must be at least {least} with forecasts of {horizon} steps, got {stride}"));
        }
        let warm_up = given(self.warm_up, usual.warm_up().min(series.history().values.len() / 2));
        let settings = Settings { horizon, stride, kept: given(self.kept, usual.kept), ..usual };
        let task = Task { file: file.to_owned(), series, settings, warm_up };
        task.check().map_err(|reason| format!("{}: {reason}", file.display()))?;
        Ok(task)
    }
}

impl Task {
    /// Whether there is a step at which a forecast is made and after which enough of them follow.
    fn check(&self) -> Result<(), String> {
        let Settings { horizon, stride, .. } = self.settings;
        let (steps, first) = (self.series.history().values.len(), self.warm_up.max(1));
        let last = steps.saturating_sub(horizon);
        if first > last {
            let learnt = if first == 1 { "the first is".to_owned() } else { format!("the first {} are", count(first)) };
            let (steps, more) = (counted(steps, "step"), count(horizon));
            return Err(format!("has {steps}, too few: {learnt} only learnt from, and a forecast is of {more} more"));
        }
        if first.next_multiple_of(stride) > last {
            let (stride, first, last) = (count(stride), count(first), count(last));
            return Err(format!(
                "--stride is {stride}: no forecast falls on the steps {first} to {last}, after which enough follow"
            ));
        }
        Ok(())
    }

    fn test(self) -> Result<Tested, String> {
        let Self { file, series, settings, warm_up } = self;
        let history = series.history();
        let outcome = backtest(history, settings, warm_up, Forecaster::with_prophet(settings)).ok_or_else(|| {
            let unknown = counted(history.values.len() - history.known_count(), "unknown step");
            format!("{}: has {unknown}, and no known one that a forecast could be compared with", file.display())
        })?;
        let name = file.file_name().map_or_else(|| file.to_string_lossy(), |name| name.to_string_lossy()).into_owned();
        Ok(Tested { name, series, settings, warm_up, outcome })
    }
}
