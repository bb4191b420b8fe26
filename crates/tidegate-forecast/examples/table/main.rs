//! How good forecasts are: each model and all of them together, on generated load by the second and on files of real
//! load.
//!
//! `make forecast-table DATA=DIR` prints the table of docs/forecast.md; files in DIR that are not of 5-minute steps are
//! left out. It ends with 1 if the combination is more than 5 % worse than the best single simple model somewhere, or
//! less than 30 % better than the last value where there is a cycle.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints figures to look at")]

mod generated;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use tidegate_forecast::backtest::{COMBINATION, Outcome, backtest};
use tidegate_forecast::{Forecaster, Series, Settings, series_from_csv};

/// So much worse than the best the combination may be, and so much better than the last value it must be.
const WORSE: f64 = 1.05;
const BETTER: f64 = 0.7;
/// What is below a hundredth of the distance between neighbours is as good as nothing: where the best is never wrong,
/// shares say little.
const NOTHING: f64 = 0.01;
const SEED: u64 = 7;

/// A row of the table.
struct Row {
    name: String,
    is_periodic: bool,
    outcome: Outcome,
}

impl Row {
    fn new(name: String, is_periodic: bool, series: &Series) -> Option<Self> {
        let settings = Settings::for_step(series.step());
        let warm_up = settings.warm_up();
        let outcome = backtest(series.history(), settings, warm_up, Forecaster::with_prophet(settings))?;
        Some(Self { name, is_periodic, outcome })
    }

    fn mase(&self, name: &str) -> f64 {
        self.outcome.score(name).map_or(f64::NAN, |score| score.mase)
    }

    fn best(&self) -> f64 {
        self.outcome.best_simple().map_or(f64::NAN, |score| score.mase)
    }

    /// What it breaks of what the combination promises.
    fn broken(&self) -> Option<String> {
        let (together, best, last) = (self.mase(COMBINATION), self.best(), self.mase("last"));
        if together > best * WORSE && together > best + NOTHING {
            return Some(format!("{}: the combination is worse than the best single model", self.name));
        }
        let is_worse = self.is_periodic && together > last * BETTER;
        is_worse.then(|| format!("{}: the combination is hardly better than the last value", self.name))
    }

    fn line(&self) -> String {
        let outcome = &self.outcome;
        let mut cells = vec![self.name.clone()];
        for score in &outcome.scores {
            // In brackets: not compared, as it rarely made a forecast.
            let is_compared = score.origins * 10 >= outcome.origins * 9;
            cells.push(match score.origins {
                0 => "–".to_owned(),
                _ if is_compared => format!("{:.3}", score.mase),
                _ => format!("({:.3})", score.mase),
            });
        }
        let together = self.mase(COMBINATION);
        let ratio = |other: f64| if other < NOTHING { "–".to_owned() } else { format!("{:.2}", together / other) };
        cells.extend([ratio(self.best()), ratio(self.mase("last"))]);
        let peak =
            outcome.peaks.iter().find(|score| (score.level - 0.9).abs() < 1e-9).map_or(f64::NAN, |it| it.covered);
        cells.push(format!("{:.0} %", 100.0 * outcome.within_band));
        cells.push(format!("{:.0} %", 100.0 * peak));
        format!("| {} |", cells.join(" | "))
    }
}

fn header(row: &Row) -> String {
    let models = row.outcome.scores.iter().map(|score| score.name);
    let more = ["/ best", "/ last", "in 10–90 %", "peak ≤ 90 %"];
    let names: Vec<&str> = ["series"].into_iter().chain(models).chain(more).collect();
    format!("| {} |\n|---{}", names.join(" | "), "|---:".repeat(names.len() - 1)) + "|"
}

/// The files of a directory that have steps of five minutes, in the order of their names.
fn files(directory: &Path) -> std::io::Result<Vec<(String, Series)>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        match series_from_csv(&path, None) {
            Ok(series) if series.step() == 300 => {
                found.push((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), series));
            }
            Ok(series) => eprintln!("{}: has steps of {} s, left out", path.display(), series.step()),
            Err(reason) => eprintln!("{reason}, left out"),
        }
    }
    Ok(found)
}

fn main() -> ExitCode {
    let started = Instant::now();
    let mut broken = Vec::new();
    let mut print_row = |row: Option<Row>, is_first: bool| {
        let Some(row) = row else { return };
        if is_first {
            println!("{}", header(&row));
        }
        println!("{}", row.line());
        broken.extend(row.broken());
    };
    for (index, it) in generated::all(SEED).into_iter().enumerate() {
        print_row(Row::new(it.name.to_owned(), it.is_periodic, &it.series), index == 0);
    }
    if let Some(directory) = std::env::args_os().nth(1).filter(|directory| !directory.is_empty()) {
        match files(Path::new(&directory)) {
            Ok(files) => files.into_iter().for_each(|(name, series)| print_row(Row::new(name, false, &series), false)),
            Err(error) => {
                eprintln!("{}: can't be read: {error}", Path::new(&directory).display());
                return ExitCode::from(2);
            }
        }
    }
    eprintln!("{:.1} s", started.elapsed().as_secs_f64());
    for reason in &broken {
        eprintln!("{reason}");
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
