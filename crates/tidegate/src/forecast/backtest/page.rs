//! A backtest on a terminal.

use std::fmt::Write as _;

use tidegate_forecast::backtest::{COMBINATION, QuantileScore};
use tidegate_forecast::plot::moment;
use tidegate_forecast::{Settings, span};

use super::Tested;
use super::words::{NONE, count, counted, figure, mase, percent};

struct Page {
    text: String,
    has_colours: bool,
}

impl Page {
    fn plain(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn bold(&mut self, line: &str) {
        let line = line.trim_end();
        if self.has_colours { self.plain(&format!("\x1b[1m{line}\x1b[0m")) } else { self.plain(line) }
    }
}

/// All about one series.
pub(super) fn of(tested: &Tested, has_colours: bool) -> String {
    let mut page = Page { text: String::new(), has_colours };
    write_series(&mut page, tested);
    page.plain("");
    write_models(&mut page, tested);
    page.plain("");
    write_quantiles(&mut page, tested);
    page.plain("");
    write_cycles(&mut page, tested);
    page.text
}

fn write_series(page: &mut Page, tested: &Tested) {
    let history = tested.series.history();
    let step = f64::from(history.step);
    page.bold(&tested.name);
    let gaps = match history.values.len() - history.known_count() {
        0 => String::new(),
        gaps => format!(", {} of them unknown", count(gaps)),
    };
    let steps = counted(history.values.len(), "step");
    let when = if history.is_dated() {
        format!("{} to {}", moment(history.start), moment(history.end()))
    } else {
        format!("{} in all", span(history.values.len() as f64 * step))
    };
    page.plain(&format!("  {steps} of {}{gaps}, {when}", span(step)));
    page.plain(&format!("  {}", forecasts(tested)));
}

/// `164 forecasts of 60 steps (1 min), one every 5 steps (5 s) after the first 300`
fn forecasts(tested: &Tested) -> String {
    let Settings { horizon, stride, .. } = tested.settings;
    let length = |steps: usize| span(steps as f64 * f64::from(tested.settings.step));
    let (forecasts, ahead) = (counted(tested.outcome.origins, "forecast"), counted(horizon, "step"));
    let every = if stride == 1 { "step".to_owned() } else { counted(stride, "step") };
    let after = match tested.warm_up {
        0 => String::new(),
        1 => " after the first".to_owned(),
        warm_up => format!(" after the first {}", count(warm_up)),
    };
    format!("{forecasts} of {ahead} ({}), one every {every} ({}){after}", length(horizon), length(stride))
}

fn write_models(page: &mut Page, tested: &Tested) {
    let outcome = &tested.outcome;
    page.bold(&format!("{:<18}{:>8}{:>10}{:>10}{:>10}", "Model", "MASE", "to last", "weight", "forecasts"));
    let last = tested.mase("last");
    for score in &outcome.scores {
        let is_all = score.name == COMBINATION;
        let (error, to_last) = (tested.mase(score.name), tested.ratio(score.name, last));
        let (error, to_last) = (mase(error), percent(to_last));
        let weight = if is_all { String::new() } else { percent(score.weight) };
        let share = if is_all { String::new() } else { percent(score.origins as f64 / outcome.origins as f64) };
        let line = format!("  {:<16}{error:>8}{to_last:>10}{weight:>10}{share:>10}", score.name);
        if is_all { page.bold(&line) } else { page.plain(&line) }
    }
    page.plain(&if outcome.unit > 0.0 {
        format!("  A MASE of 1 is {}, the mean distance of a value from the one before it.", figure(outcome.unit))
    } else {
        "  MASE is undefined: no value differs from the one before it.".to_owned()
    });
}

fn write_quantiles(page: &mut Page, tested: &Tested) {
    let outcome = &tested.outcome;
    page.bold(&format!(
        "{:<18}{:>8}{:>14}{:>20}{:>14}",
        "Quantiles", "steps", "pinball loss", "highest step", "pinball loss"
    ));
    let cells = |score: &QuantileScore| {
        if score.is_judged() {
            (format!("≤ {:>5.1} %", 100.0 * score.covered), figure(score.pinball))
        } else {
            (NONE.to_owned(), NONE.to_owned())
        }
    };
    for (step, peak) in outcome.quantiles.iter().zip(&outcome.peaks) {
        let level = percent(step.level);
        let ((step, loss), (peak, peak_loss)) = (cells(step), cells(peak));
        page.plain(&format!("  {level:<14}{step:>10}{loss:>14}{peak:>20}{peak_loss:>14}"));
    }
    page.plain(&format!("  Between 10 % and 90 % lay {} of all steps.", percent(outcome.within_band)));
    page.plain(&if outcome.peaks.iter().all(QuantileScore::is_judged) {
        format!("  The highest step of a forecast was {} off on the average.", percent(outcome.peak_error))
    } else {
        "  No forecast's highest step is known: each has too many unknown steps.".to_owned()
    });
}

fn write_cycles(page: &mut Page, tested: &Tested) {
    if tested.outcome.seasons.is_empty() {
        page.plain("No cycle was known at the end.");
    }
    for season in &tested.outcome.seasons {
        let steps = format!("{:.2}", season.period);
        let steps = steps.trim_end_matches('0').trim_end_matches('.');
        let length = span(season.period * f64::from(tested.settings.step));
        page.plain(&format!(
            "A cycle of {length} ({steps} steps) explains {} of the variance.",
            percent(season.strength)
        ));
    }
}

/// Several series, a row each.
pub(super) fn overview(all: &[Tested], has_colours: bool) -> String {
    let mut page = Page { text: String::new(), has_colours };
    let width = all.iter().map(|tested| tested.name.chars().count()).max().unwrap_or(0).clamp(12, 40);
    let mut head = format!("{:<width$}", "All");
    for name in
        ["forecasts", "last", "best model", "", "combination", "to best", "to last", "in 10–90 %", "peak ≤ 90 %"]
    {
        let cell = if name == "best model" { 16 } else { 12 };
        let _infallible = if name.is_empty() { write!(head, "{name:>8}") } else { write!(head, "{name:>cell$}") };
    }
    page.bold(&head);
    for tested in all {
        let outcome = &tested.outcome;
        let best = outcome.best_simple().map(|score| score.name).filter(|best| tested.mase(best).is_some());
        let (best_error, last) = (best.and_then(|best| tested.mase(best)), tested.mase("last"));
        let ratio = |other: Option<f64>| percent(tested.ratio(COMBINATION, other));
        let peak = outcome.peaks.iter().find(|score| (score.level - 0.9).abs() < 1e-9 && score.is_judged());
        let name: String = tested.name.chars().take(width).collect();
        page.plain(&format!(
            "{name:<width$}{:>12}{:>12}{:>16}{:>8}{:>12}{:>12}{:>12}{:>12}{:>12}",
            count(outcome.origins),
            mase(last),
            best.unwrap_or(NONE),
            mase(best_error),
            mase(tested.mase(COMBINATION)),
            ratio(best_error),
            ratio(last),
            percent(outcome.within_band),
            percent(peak.map_or(f64::NAN, |score| score.covered)),
        ));
    }
    page.text
}
