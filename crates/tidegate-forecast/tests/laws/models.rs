//! What holds for every simple model.

use tidegate_forecast::models::{DampedHolt, Ewma, LastValue, SeasonalLevel, SeasonalMean};
use tidegate_forecast::{Model, Season, Series};

use crate::generated::{START, burst, by_second};

const HORIZON: usize = 30;

fn all() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(LastValue),
        Box::new(Ewma::new(HORIZON)),
        Box::new(DampedHolt::new(HORIZON)),
        Box::<SeasonalMean>::default(),
        Box::<SeasonalLevel>::default(),
    ]
}

fn cycle(period: f64) -> [Season; 1] {
    [Season { period, strength: 0.9 }]
}

/// What each expects after this series.
fn paths(series: &Series, period: f64) -> Vec<(&'static str, Option<Vec<f64>>)> {
    let path = |mut model: Box<dyn Model>| {
        let _reason = model.learn(series.history(), &cycle(period));
        (model.name(), model.path(series.history(), HORIZON))
    };
    all().into_iter().map(path).collect()
}

#[test]
fn what_is_constant_stays_constant() {
    for value in [0.0, 1.0, 123.456, 1e9] {
        for (name, path) in paths(&by_second(vec![value; 200]), 20.0) {
            let path = path.expect(name);
            assert!(path.iter().all(|expected| (expected - value).abs() <= 1e-6 * value), "{name}: {value}, {path:?}");
        }
    }
}

#[test]
fn without_values_there_is_no_forecast() {
    for (name, path) in paths(&Series::new(1, 100), 20.0) {
        assert_eq!(path, None, "{name}");
    }
}

#[test]
fn no_model_is_negative_or_infinite_whatever_it_has_seen() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut series = Series::new(1, 1_000);
        let (length, gaps) = (random.usize(1..200), random.f64());
        for second in 0..length {
            let height = [0.0, 1e-30, 1.0, 1e3, 1e9][random.usize(..5)];
            if random.f64() >= gaps {
                series.put(START + second as i64, height * random.f64());
            }
        }
        let period = [2.0, 2.5, 3.0, 17.3, 1e3, 1e6][random.usize(..6)];
        for (name, path) in paths(&series, period) {
            let path = path.unwrap_or_default();
            assert!(path.iter().all(|value| value.is_finite() && *value >= 0.0), "seed {seed}, {name}: {path:?}");
        }
    }
}

#[test]
fn a_falling_trend_ends_at_nothing() {
    let falling = by_second((0..100).map(|second| 1_000.0 - 10.0 * f64::from(second)));
    for (name, path) in paths(&falling, 20.0) {
        assert!(path.expect(name).iter().all(|value| *value >= 0.0), "{name}");
    }
}

#[test]
fn the_trend_of_holt_fades() {
    let series = by_second((0..300).map(|second| 100.0 + 2.0 * f64::from(second)));
    let mut model = DampedHolt::new(HORIZON);
    model.learn(series.history(), &[]).expect("long enough");
    let path = model.path(series.history(), 2_000).expect("a path");
    let rises: Vec<f64> = path.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(rises.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9), "each step rises no more than the one before");
    assert!(rises[0] > 1.0 && rises[rises.len() - 1] < 0.01 * rises[0], "{} … {}", rises[0], rises[rises.len() - 1]);
}

#[test]
fn a_cycle_without_noise_is_repeated_exactly() {
    let at = |second: usize| burst(second as f64, 60.0, 10.0, 100.0, 500.0);
    // Every position in the cycle is an end once.
    for end in 600..660 {
        let series = by_second((0..end).map(at));
        for (name, path) in paths(&series, 60.0).into_iter().filter(|(name, _)| name.starts_with("seasonal")) {
            let expected: Vec<f64> = (end..end + HORIZON).map(at).collect();
            let path = path.expect(name);
            assert!(path.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9), "{name}: {path:?}");
        }
    }
}

#[test]
fn a_cycle_of_a_fractional_length_is_wrong_at_its_edges_alone() {
    let at = |second: f64| burst(second, 37.4, 7.4, 80.0, 300.0);
    let is_edge = |second: f64| (at(second - 1.0) - at(second + 1.0)).abs() > 1.0;
    for end in 600..640_u32 {
        let series = by_second((0..end).map(|second| at(f64::from(second))));
        let (name, path) = paths(&series, 37.4).swap_remove(3);
        for (lead, expected) in path.expect(name).into_iter().enumerate() {
            let second = f64::from(end) + lead as f64;
            assert!(is_edge(second) || (expected - at(second)).abs() < 1e-9, "{name}: {expected} at {second}");
        }
    }
}
