//! What holds for series, cycles, models and forecasts, whatever comes. Simulated time, fixed seeds.
#![allow(clippy::cast_precision_loss, reason = "counts and indexes here are far below 2^52")]

#[path = "../../examples/table/generated.rs"]
#[allow(dead_code, reason = "the table of the docs uses all of it")]
mod generated;

mod files;
mod following;
mod forecasts;
mod models;
mod pictures;
mod quantiles;
mod seasons;
mod series;
mod strange;

use tidegate_forecast::{Forecast, Forecaster, Series, Settings};

/// A forecaster that got these values, one a second from [`generated::START`] on.
fn reported(settings: Settings, values: impl IntoIterator<Item = f64>) -> Forecaster {
    let mut forecaster = Forecaster::new(settings);
    for (second, value) in (generated::START..).zip(values) {
        forecaster.observe(second, value);
    }
    forecaster
}

/// A burst of 500 for 10 s of each minute, else 100, as it is counted.
fn bursts(random: &mut fastrand::Rng) -> impl Iterator<Item = f64> {
    (0..).map(|second| generated::poisson(random, generated::burst(f64::from(second), 60.0, 10.0, 100.0, 500.0)))
}

/// The series without a share of its values.
fn with_gaps(series: &Series, share: f64, random: &mut fastrand::Rng) -> Series {
    let mut rest = Series::new(series.step(), 1_000_000);
    let history = series.history();
    for (index, value) in history.known() {
        if random.f64() >= share {
            rest.put(history.start + index as i64 * i64::from(history.step), value);
        }
    }
    rest
}

/// What every forecast is, whatever it got.
fn assert_sound(forecast: &Forecast, settings: Settings) {
    let is_sound = |value: &f64| value.is_finite() && *value >= 0.0;
    assert_eq!(forecast.mean.len(), settings.horizon);
    assert!(forecast.mean.iter().all(is_sound), "{:?}", forecast.mean);
    assert!(forecast.quantiles.iter().all(|path| path.len() == settings.horizon && path.iter().all(is_sound)));
    for pair in forecast.quantiles.windows(2) {
        assert!(pair[0].iter().zip(&pair[1]).all(|(low, high)| low <= high), "quantiles cross");
    }
    assert!(forecast.peak.iter().all(is_sound) && forecast.peak.is_sorted(), "{:?}", forecast.peak);
    for (highest, path) in forecast.peak.iter().zip(&forecast.quantiles) {
        assert!(path.iter().all(|step| step <= highest), "a step lies above the highest one: {highest} {path:?}");
    }
    let weights: f64 = forecast.members.iter().map(|member| member.weight).sum();
    assert!((weights - 1.0).abs() < 1e-9, "weights are {weights} together");
    for member in &forecast.members {
        assert!(member.path.is_some() || member.weight == 0.0, "{} has a weight and no forecast", member.name);
    }
}
