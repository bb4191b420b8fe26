//! Prophet as a model of load.

use std::f64::consts::TAU;

use tidegate_forecast::prophet::{Growth, Mode, Settings};
use tidegate_forecast::{History, Model, NotLearnt, ProphetModel, Season};

use super::noisy;

fn history(values: &[f32]) -> History<'_> {
    History { start: 1_780_000_000, step: 1, values }
}

fn season(period: f64) -> Season {
    Season { period, strength: 0.5 }
}

fn learnt(settings: Settings, values: &[f32], seasons: &[Season]) -> ProphetModel {
    let mut model = ProphetModel::new(settings);
    model.learn(history(values), seasons).expect("enough values");
    model
}

fn path(model: &ProphetModel, values: &[f32], steps: usize) -> Vec<f64> {
    model.path(history(values), steps).expect("it has learnt")
}

/// The root of the mean squared difference of a path and what comes after `from` steps.
fn error(path: &[f64], from: usize, truth: impl Fn(f64) -> f64) -> f64 {
    let squares = path.iter().enumerate().map(|(step, value)| (value - truth((from + step) as f64)).powi(2));
    (squares.sum::<f64>() / path.len() as f64).sqrt()
}

const LINEAR: Growth = Growth::Linear;

#[test]
fn a_trend_and_a_cycle_are_recovered() {
    let truth = |step: f64| 200.0 + 0.05 * step + 80.0 * (TAU * step / 60.0).sin() + 20.0 * (TAU * step / 20.0).cos();
    let values = noisy(1800, 10.0, 1, truth);
    let model = learnt(Settings { growth: LINEAR, ..Settings::default() }, &values, &[season(60.0)]);
    let error = error(&path(&model, &values, 120), values.len(), truth);
    assert!(error < 4.0, "{error}");
    let parts = model.components(1_780_000_000, 1, values.len()).expect("it has learnt");
    let slope = (parts.trend[1700] - parts.trend[100]) / 1600.0;
    assert!((slope - 0.05).abs() < 0.005, "{slope}");
}

#[test]
fn a_cycle_that_grows_with_the_trend_is_recovered() {
    let truth = |step: f64| (100.0 + 0.1 * step) * (1.0 + 0.5 * (TAU * step / 90.0).sin());
    let values = noisy(1800, 5.0, 2, truth);
    let settings = Settings { growth: LINEAR, mode: Mode::Multiplicative, ..Settings::default() };
    let error = error(&path(&learnt(settings, &values, &[season(90.0)]), &values, 90), values.len(), truth);
    assert!(error < 5.0, "{error}");
}

#[test]
fn cycles_of_seconds_and_of_minutes_are_predicted_to_the_noise() {
    let burst = |period: f64| move |step: f64| if step % period < period / 6.0 { 500.0 } else { 100.0 };
    let sine = |period: f64| move |step: f64| 300.0 + 200.0 * (TAU * step / period).sin();
    for (period, seed) in [(37.0, 3), (60.0, 4), (300.0, 5), (41.7, 6)] {
        let values = noisy(1800, 10.0, seed, sine(period));
        let model = learnt(Settings::default(), &values, &[season(period)]);
        let error = error(&path(&model, &values, 60), values.len(), sine(period));
        assert!(error < 5.0, "a sine of {period} s: {error}");
    }
    // Twenty harmonics can't follow the edges wholly; a constant would be wrong by 149.
    for (period, most) in [(37.0, 15.0), (60.0, 50.0)] {
        let values = noisy(1800, 10.0, 7, burst(period));
        let error =
            error(&path(&learnt(Settings::default(), &values, &[season(period)]), &values, 120), 1800, burst(period));
        assert!(error < most, "a burst every {period} s: {error}");
    }
}

#[test]
fn two_cycles_at_once_and_minutes_as_steps() {
    let truth = |step: f64| 300.0 + 100.0 * (TAU * step / 60.0).sin() + 80.0 * (TAU * step / 1440.0).cos();
    let values = noisy(3600, 10.0, 8, truth);
    let history = History { start: 1_780_000_000, step: 60, values: &values };
    let mut model = ProphetModel::default();
    model.learn(history, &[season(60.0), season(1440.0)]).expect("enough values");
    let path = model.path(history, 120).expect("it has learnt");
    let error = error(&path, values.len(), truth);
    assert!(error < 5.0, "{error}");
    assert_eq!(model.cycles().len(), 2);
}

#[test]
fn the_calendars_cycles_are_taken_if_asked_for() {
    let truth = |day: f64| 100.0 + 30.0 * (TAU * day / 7.0).sin();
    let values = noisy(400, 3.0, 9, truth);
    let history = History { start: 1_780_000_000, step: 86_400, values: &values };
    let mut model = ProphetModel::new(Settings { calendar: true, ..Settings::default() });
    model.learn(history, &[]).expect("enough values");
    let error = error(&model.path(history, 28).expect("it has learnt"), values.len(), truth);
    assert!(error < 2.0, "{error}");
}

#[test]
fn the_same_history_gives_the_same_path_to_the_last_digit() {
    let truth = |step: f64| 300.0 + 100.0 * (TAU * step / 60.0).sin() + 80.0 * (TAU * step / 400.0).cos();
    let values = noisy(1200, 30.0, 10, truth);
    for growth in [Growth::Flat, Growth::Linear, Growth::Held] {
        let once = || {
            let settings = Settings { growth, ..Settings::default() };
            path(&learnt(settings, &values, &[season(60.0), season(400.0)]), &values, 60)
        };
        let first = once();
        assert!((0..5).all(|_| once() == first));
    }
}

#[test]
fn a_path_begins_where_the_history_ends_even_if_it_has_grown() {
    let truth = |step: f64| 300.0 + 200.0 * (TAU * step / 60.0).sin();
    let values = noisy(1830, 10.0, 11, truth);
    let model = learnt(Settings::default(), &values[..1800], &[season(60.0)]);
    assert_eq!(path(&model, &values[..1800], 90)[30..], path(&model, &values, 60));
}

#[test]
fn only_the_window_is_learnt_from() {
    let mut values = vec![9_000.0; 5_000];
    values.extend(noisy(3_600, 10.0, 12, |_| 100.0));
    let path = path(&learnt(Settings::default(), &values, &[]), &values, 10);
    assert!(path.iter().all(|value| (value - 100.0).abs() < 2.0), "{path:?}");
}

#[test]
fn gaps_are_skipped() {
    let truth = |step: f64| 300.0 + 200.0 * (TAU * step / 60.0).sin();
    let mut values = noisy(1800, 10.0, 13, truth);
    for (step, value) in values.iter_mut().enumerate() {
        if step % 7 < 2 || (600..900).contains(&step) {
            *value = f32::NAN;
        }
    }
    let error = error(&path(&learnt(Settings::default(), &values, &[season(60.0)]), &values, 60), values.len(), truth);
    assert!(error < 5.0, "{error}");
}

/// Load that has risen for ten minutes would be thirteen times as high after two hours of the same.
#[test]
fn a_held_trend_follows_a_rise_and_does_not_run_away() {
    let values = noisy(600, 5.0, 19, |step| 100.0 + step);
    let held = path(&learnt(Settings::default(), &values, &[]), &values, 7_200);
    assert!(held.iter().all(|value| (value - 700.0).abs() < 10.0), "{:?}", &held[..5]);
    let linear = path(&learnt(Settings { growth: LINEAR, ..Settings::default() }, &values, &[]), &values, 7_200);
    assert!(linear[7_199] > 7_000.0);
}

#[test]
fn nothing_predicted_is_negative() {
    let values = noisy(1800, 1.0, 14, |step| if step % 60.0 < 5.0 { 500.0 } else { 0.0 });
    let model = learnt(Settings::default(), &values, &[season(60.0)]);
    assert!(path(&model, &values, 600).iter().all(|value| *value >= 0.0));
    let falling = noisy(600, 1.0, 15, |step| 600.0 - step);
    let model = learnt(Settings { growth: LINEAR, ..Settings::default() }, &falling, &[]);
    assert!(path(&model, &falling, 600).iter().all(|value| *value >= 0.0));
}

#[test]
fn any_history_is_borne() {
    let mut odd = noisy(600, 10.0, 16, |_| 100.0);
    odd[300] = f32::INFINITY;
    odd[301] = -50.0;
    let mut spike = vec![0.0; 600];
    spike[300] = f32::MAX;
    let mut gappy = vec![f32::NAN; 3600];
    gappy.iter_mut().step_by(300).for_each(|value| *value = 5.0);
    let ramp: Vec<f32> = (0..600_u16).map(f32::from).collect();
    let saw: Vec<f32> = (0..600_u16).map(|step| f32::from(step % 37)).collect();
    let histories = [
        vec![0.0; 600],
        vec![7.0; 600],
        vec![f32::MAX; 100],
        vec![1e9; 100],
        vec![1e-30; 100],
        odd,
        spike,
        gappy,
        ramp,
        saw,
    ];
    let odd_seasons = [f64::NAN, f64::INFINITY, -5.0, 0.0, 1.0, 2.0, 3.0, 1e18, 37.0, 37.0, 18.5];
    for growth in [Growth::Flat, Growth::Linear, Growth::Held] {
        for mode in [Mode::Additive, Mode::Multiplicative] {
            for (index, values) in histories.iter().enumerate() {
                for seasons in [&[][..], &odd_seasons.map(season)] {
                    let settings = Settings { growth, mode, most_seasons: 4, ..Settings::default() };
                    let model = learnt(settings, values, seasons);
                    let path = path(&model, values, 60);
                    assert!(path.iter().all(|value| (0.0..=f64::MAX).contains(value)), "{index}: {path:?}");
                    let quantiles = model.quantiles(history(values), 60, &[0.1, 0.9], 50, 1).expect("it has learnt");
                    assert!(quantiles.iter().flatten().all(|value| (0.0..=f64::MAX).contains(value)));
                }
            }
        }
    }
}

#[test]
fn a_constant_is_predicted_as_it_is() {
    for (level, growth) in [(0.0, Growth::Flat), (7.0, Growth::Flat), (7.0, Growth::Linear), (1e9, Growth::Linear)] {
        let values = vec![level; 600];
        let settings = Settings { growth, ..Settings::default() };
        let path = path(&learnt(settings, &values, &[season(60.0)]), &values, 60);
        let level = f64::from(level);
        assert!(path.iter().all(|value| (value - level).abs() <= 1e-9 * level), "{level}: {path:?}");
    }
}

#[test]
fn too_little_is_rejected_and_what_was_learnt_is_kept() {
    let too_short = Err(NotLearnt::TooShort { least: Settings::LEAST });
    let mut model = ProphetModel::default();
    for values in [&[][..], &[1.0], &[1.0, 2.0], &[1.0, 2.0, 3.0], &[f32::NAN; 600]] {
        assert_eq!(model.learn(history(values), &[]), too_short);
        assert_eq!(model.path(history(values), 5), None);
        assert_eq!(model.quantiles(history(values), 5, &[0.5], 10, 1), None);
    }
    let values = noisy(100, 1.0, 17, |_| 50.0);
    model.learn(history(&values), &[]).expect("enough values");
    let before = model.path(history(&values), 5);
    assert_eq!(model.learn(history(&values[..3]), &[]), too_short);
    assert_eq!(model.path(history(&values), 5), before);
}

#[test]
fn times_at_the_end_of_time_are_borne() {
    let values = noisy(100, 1.0, 18, |_| 50.0);
    for start in [i64::MIN, -5, 0, i64::MAX - 100] {
        let history = History { start, step: 1, values: &values };
        let mut model = ProphetModel::default();
        model.learn(history, &[season(10.0)]).expect("enough values");
        let path = model.path(history, 5);
        assert_eq!(path.is_some(), start < i64::MAX - 100, "{start}");
    }
}
