//! A backtest on a terminal.

use std::fmt::Write as _;

use tidegate_forecast::backtest::{COMBINATION, QuantileScore};
use tidegate_forecast::span;
use tidegate_serve::Utc;

use super::Tested;
use super::words::{count, figure, percent};

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
    tell_what(&mut page, tested);
    page.plain("");
    tell_models(&mut page, tested);
    page.plain("");
    tell_quantiles(&mut page, tested);
    page.plain("");
    tell_cycles(&mut page, tested);
    page.text
}

fn tell_what(page: &mut Page, tested: &Tested) {
    let history = tested.series.history();
    let step = f64::from(history.step);
    page.bold(&tested.name);
    let gaps = match history.values.len() - history.known_count() {
        0 => String::new(),
        gaps => format!(", {} of them unknown", count(gaps)),
    };
    let moment = |second: i64| Utc::from_unix(u64::try_from(second).unwrap_or(0)).with_seconds();
    page.plain(&format!(
        "  {} steps of {}{gaps}, {} to {}",
        count(history.values.len()),
        span(step),
        moment(history.start),
        moment(history.end())
    ));
    let settings = tested.settings;
    page.plain(&format!(
        "  {} forecasts of {} steps ({}), one every {} steps ({}) after the first {}",
        count(tested.outcome.origins),
        settings.horizon,
        span(settings.horizon as f64 * step),
        settings.stride,
        span(settings.stride as f64 * step),
        count(tested.warm_up),
    ));
}

fn tell_models(page: &mut Page, tested: &Tested) {
    let outcome = &tested.outcome;
    page.bold(&format!("{:<18}{:>8}{:>10}{:>10}{:>10}", "Model", "MASE", "to last", "weight", "spoke"));
    let last = outcome.score("last").map_or(f64::NAN, |score| score.mase);
    for score in &outcome.scores {
        let is_all = score.name == COMBINATION;
        let (mase, to_last) = match score.origins {
            0 => ("–".to_owned(), "–".to_owned()),
            _ if last > 0.0 => (format!("{:.3}", score.mase), percent(score.mase / last)),
            _ => (format!("{:.3}", score.mase), "–".to_owned()),
        };
        let weight = if is_all { String::new() } else { percent(score.weight) };
        let spoke = if is_all { String::new() } else { percent(score.origins as f64 / outcome.origins as f64) };
        let line = format!("  {:<16}{mase:>8}{to_last:>10}{weight:>10}{spoke:>10}", score.name);
        if is_all { page.bold(&line) } else { page.plain(&line) }
    }
    page.plain(&format!(
        "  A MASE of 1 is {}, the mean distance of a value from the one before it.",
        figure(outcome.unit)
    ));
}

fn tell_quantiles(page: &mut Page, tested: &Tested) {
    let outcome = &tested.outcome;
    page.bold(&format!(
        "{:<18}{:>8}{:>14}{:>20}{:>14}",
        "Quantiles", "steps", "pinball loss", "highest step", "pinball loss"
    ));
    let covered = |score: &QuantileScore| format!("≤ {:>5.1} %", 100.0 * score.covered);
    for (step, peak) in outcome.quantiles.iter().zip(&outcome.peaks) {
        page.plain(&format!(
            "  {:<14}{:>10}{:>14}{:>20}{:>14}",
            percent(step.level),
            covered(step),
            figure(step.pinball),
            covered(peak),
            figure(peak.pinball)
        ));
    }
    page.plain(&format!("  Between 10 % and 90 % lay {} of all steps.", percent(outcome.within_band)));
    page.plain(&format!("  The highest step of a forecast was {} off on the average.", percent(outcome.peak_error)));
}

fn tell_cycles(page: &mut Page, tested: &Tested) {
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
        let mase = |name: &str| outcome.score(name).map_or(f64::NAN, |score| score.mase);
        let (best, best_mase) = outcome.best_simple().map_or(("–", f64::NAN), |score| (score.name, score.mase));
        let (all, last) = (mase(COMBINATION), mase("last"));
        let ratio = |other: f64| if other > 0.0 { percent(all / other) } else { "–".to_owned() };
        let peak =
            outcome.peaks.iter().find(|score| (score.level - 0.9).abs() < 1e-9).map_or(f64::NAN, |it| it.covered);
        let name: String = tested.name.chars().take(width).collect();
        page.plain(&format!(
            "{name:<width$}{:>12}{last:>12.3}{best:>16}{best_mase:>8.3}{all:>12.3}{:>12}{:>12}{:>12}{:>12}",
            count(outcome.origins),
            ratio(best_mase),
            ratio(last),
            percent(outcome.within_band),
            percent(peak),
        ));
    }
    page.text
}
