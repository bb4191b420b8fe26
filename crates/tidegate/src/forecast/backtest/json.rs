//! A backtest for machines.

use serde_json::{Value, json};
use tidegate_forecast::backtest::QuantileScore;
use tidegate_forecast::plot::moment;

use super::Tested;

/// All series, with the fields of the documentation.
pub(super) fn of(all: &[Tested]) -> serde_json::Result<String> {
    let series: Vec<Value> = all.iter().map(one).collect();
    let all = json!({
        "format": "tidegate-forecast-backtest/1",
        "version": env!("CARGO_PKG_VERSION"),
        "series": series,
    });
    serde_json::to_string_pretty(&all).map(|text| text + "\n")
}

fn one(tested: &Tested) -> Value {
    let (history, settings, outcome) = (tested.series.history(), tested.settings, &tested.outcome);
    let models = outcome.scores.iter().map(|score| {
        let mase = tested.mase(score.name);
        json!({ "name": score.name, "mase": mase, "weight": score.weight, "forecasts": score.origins })
    });
    let seasons = outcome.seasons.iter().map(|season| {
        let seconds = season.period * f64::from(history.step);
        json!({ "periodSteps": season.period, "periodSeconds": seconds, "strength": season.strength })
    });
    let peak_error = outcome.peaks.iter().all(QuantileScore::is_judged).then_some(outcome.peak_error);
    json!({
        "name": tested.name,
        "startedAt": history.is_dated().then(|| moment(history.start)),
        "stepSeconds": history.step,
        "steps": history.values.len(),
        "knownSteps": history.known_count(),
        "horizon": settings.horizon,
        "stride": settings.stride,
        "warmUp": tested.warm_up,
        "kept": settings.kept,
        "forecasts": outcome.origins,
        "unit": outcome.unit,
        "models": models.collect::<Vec<_>>(),
        "quantiles": quantiles(&outcome.quantiles),
        "withinBand": outcome.within_band,
        "highestStep": { "quantiles": quantiles(&outcome.peaks), "error": peak_error },
        "cycles": seasons.collect::<Vec<_>>(),
    })
}

fn quantiles(scores: &[QuantileScore]) -> Value {
    let score = |score: &QuantileScore| {
        let known = |figure: f64| score.is_judged().then_some(figure);
        json!({ "level": score.level, "covered": known(score.covered), "pinball": known(score.pinball) })
    };
    scores.iter().map(score).collect()
}
