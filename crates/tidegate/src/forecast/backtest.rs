//! `tidegate forecast backtest`
#![allow(clippy::doc_markdown, clippy::cast_precision_loss, reason = "doc comments here are the text of --help")]

mod json;
mod page;
mod words;

use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use tidegate_forecast::backtest::{Outcome, backtest};
use tidegate_forecast::{Forecaster, Series, Settings, plot, series_from_csv};

use crate::load::{BAD_INPUT, is_same};
use crate::print;

/// Tell how good forecasts of a recorded series would have been
///
/// The values are told to the forecaster one by one, as they came; every few steps it says what it expects, and that is compared with what
/// followed. Nothing of the future is known to it.
///
/// MASE is the mean distance of what came from what was expected, where 1 is the mean distance of a value from the one before it: below
/// 1 it would do to know the next value. The combination is what is used; each of its models alone stands beside it. A quantile is good if as
/// many values were at or below it as it promises, and of two that are, the one with less pinball loss is sharper.
///
/// A file is CSV: times in the first column (seconds, or dates such as 2026-01-19T16:30:00Z), values in the last or the one that --column
/// names. The usual distance of two times is the step; where it is longer there is a gap. With one column there is a value a second.
///
/// Exit codes: 0 done · 2 a file or an argument can't be used, and why · 1 other errors, such as a file that can't be written.
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
    #[arg(long, value_name = "N", value_parser = number(1, 10_000))]
    horizon: Option<u32>,
    /// How many steps there are from one forecast to the next [default: 5, or 6 where a step is a minute or more]
    #[arg(long, value_name = "N", value_parser = number(1, 1_000_000))]
    stride: Option<u32>,
    /// How many values are only learnt from, before forecasts are judged [default: 300, or 600 where a step is a minute or more; at most
    /// half of the series]
    #[arg(long, value_name = "N", value_parser = number(0, 1_000_000))]
    warm_up: Option<u32>,
    /// How many values are remembered; cycles longer than two fifths of that are not seen [default: 3600, or 4096 where a step is a minute
    /// or more]
    #[arg(long, value_name = "N", value_parser = number(10, 1_000_000))]
    kept: Option<u32>,
    /// Draw the series, the forecasts and the models' errors into this file, as SVG; for one series
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn number(least: i64, most: i64) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(least..=most)
}

/// A series and what became of its forecasts.
struct Tested {
    name: String,
    series: Series,
    settings: Settings,
    warm_up: usize,
    outcome: Outcome,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(reason) = arguments.contradiction() {
        eprintln!("tidegate: {reason}");
        return Ok(ExitCode::from(BAD_INPUT));
    }
    // Found out now, not after a long series.
    for out in arguments.outputs() {
        fs::OpenOptions::new().append(true).create(true).open(out).with_context(|| out.display().to_string())?;
    }
    let has_colours =
        std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut all = Vec::new();
    for (place, file) in arguments.files.iter().enumerate() {
        let tested = match arguments.test(file) {
            Ok(tested) => tested,
            Err(reason) => {
                eprintln!("tidegate: {reason}");
                return Ok(ExitCode::from(BAD_INPUT));
            }
        };
        let gap = if place == 0 { "" } else { "\n" };
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

    fn test(&self, file: &Path) -> Result<Tested, String> {
        let series = series_from_csv(file, self.column.as_deref())?;
        let usual = Settings::for_step(series.step());
        let given = |number: Option<u32>, usual: usize| number.map_or(usual, |number| number as usize);
        let settings = Settings {
            horizon: given(self.horizon, usual.horizon),
            stride: given(self.stride, usual.stride),
            kept: given(self.kept, usual.kept),
            ..usual
        };
        let least = settings.horizon.div_ceil(MOST_AT_ONCE);
        if settings.stride < least {
            let (stride, horizon) = (settings.stride, settings.horizon);
            return Err(format!("--stride is {stride}; with forecasts of {horizon} steps at least {least} is allowed"));
        }
        let steps = series.history().values.len();
        let warm_up = given(self.warm_up, usual.warm_up().min(steps / 2));
        let outcome =
            backtest(series.history(), settings, warm_up, Forecaster::with_prophet(settings)).ok_or_else(|| {
                let (file, horizon) = (file.display(), settings.horizon);
                format!("{file}: has {steps} steps, too few: the first {warm_up} are only learnt from, and a forecast is of {horizon} more")
            })?;
        let name = file.file_name().map_or_else(|| file.to_string_lossy(), |name| name.to_string_lossy()).into_owned();
        Ok(Tested { name, series, settings, warm_up, outcome })
    }
}
