//! How good each model was, as bars, and how good the quantiles.

use super::LEFT;
use super::canvas::{Anchor, Canvas};
use crate::backtest::{COMBINATION, Outcome, Score};

const ROW: f64 = 22.0;
/// Where bars begin, and the longest ends.
const BARS: (f64, f64) = (LEFT + 108.0, 520.0);
/// The columns of the table of quantiles.
const COLUMNS: [f64; 3] = [752.0, 858.0, 964.0];

/// Shown for a figure that is not known.
const NONE: &str = "–";

/// Draws them below `top`, and returns where they end.
pub(super) fn draw(canvas: &mut Canvas, outcome: &Outcome, top: f64) -> f64 {
    let head = top + 8.0;
    canvas.text(LEFT, head, Anchor::Start, "head", "Error of each model (MASE) and its weight");
    let longest = outcome.scores.iter().map(|score| score.mase).fold(1e-6, f64::max);
    for (row, score) in outcome.scores.iter().enumerate() {
        let mase = (outcome.unit > 0.0).then_some(score.mase);
        bar(canvas, score, mase.map(|mase| (mase, longest)), head + ROW * (row + 1) as f64);
    }
    for (column, name) in COLUMNS.into_iter().zip(["quantile", "steps below", "peaks below"]) {
        canvas.text(column, head, Anchor::End, "head", name);
    }
    for (row, (step, peak)) in outcome.quantiles.iter().zip(&outcome.peaks).enumerate() {
        let y = head + ROW * (row + 1) as f64;
        let peak = if peak.is_judged() { percent(peak.covered) } else { NONE.to_owned() };
        for (column, share) in COLUMNS.into_iter().zip([percent(step.level), percent(step.covered), peak]) {
            canvas.text(column, y, Anchor::End, "label", &share);
        }
    }
    head + ROW * outcome.scores.len().max(outcome.quantiles.len()) as f64
}

/// A model's error, if it is known, beside the largest.
fn bar(canvas: &mut Canvas, score: &Score, error: Option<(f64, f64)>, y: f64) {
    let is_all = score.name == COMBINATION;
    let (class, words) = if is_all { ("best", "strong") } else { ("bar", "label") };
    canvas.text(LEFT, y, Anchor::Start, words, score.name);
    if score.origins == 0 {
        canvas.text(BARS.0, y, Anchor::Start, "small", "made no forecast");
        return;
    }
    let share = error.map_or(0.0, |(mase, longest)| (mase / longest).clamp(0.0, 1.0));
    let length = (BARS.1 - BARS.0) * share;
    canvas.rect(BARS.0, y - 11.0, length.max(1.0), 14.0, class);
    let weight = if is_all { String::new() } else { format!(" · {}", percent(score.weight)) };
    let reported = error.map_or_else(|| NONE.to_owned(), |(mase, _)| format!("{mase:.3}"));
    canvas.text(BARS.0 + length + 8.0, y, Anchor::Start, words, &format!("{reported}{weight}"));
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
