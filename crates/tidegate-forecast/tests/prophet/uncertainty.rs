//! What a fit leaves open.

use std::f64::consts::TAU;

use tidegate_forecast::prophet::{Growth, Settings};
use tidegate_forecast::{History, Model, ProphetModel, Season};

use super::noisy;

const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

fn truth(step: f64) -> f64 {
    300.0 + 100.0 * (TAU * step / 60.0).sin()
}

fn learnt(growth: Growth, values: &[f32]) -> ProphetModel {
    let mut model = ProphetModel::new(Settings { growth, ..Settings::default() });
    model.learn(history(values), &[Season { period: 60.0, strength: 0.9 }]).expect("enough values");
    model
}

fn history(values: &[f32]) -> History<'_> {
    History { start: 1_780_000_000, step: 1, values }
}

#[test]
fn the_same_seed_gives_the_same_quantiles_and_another_gives_others() {
    let values = noisy(900, 20.0, 1, truth);
    let model = learnt(Growth::Linear, &values);
    let quantiles = |seed| model.quantiles(history(&values), 60, &LEVELS, 200, seed).expect("it has learnt");
    assert_eq!(quantiles(1), quantiles(1));
    assert_ne!(quantiles(1), quantiles(2));
}

#[test]
fn quantiles_are_in_order_and_lie_around_the_path() {
    let values = noisy(900, 20.0, 2, truth);
    let model = learnt(Growth::Flat, &values);
    let quantiles = model.quantiles(history(&values), 60, &LEVELS, 2_000, 1).expect("it has learnt");
    let path = model.path(history(&values), 60).expect("it has learnt");
    for step in 0..60 {
        assert!(quantiles[0][step] < quantiles[1][step] && quantiles[1][step] < quantiles[2][step]);
        assert!((quantiles[1][step] - path[step]).abs() < 3.0, "{step}");
        // Of a normal distribution, 80 % lie within 1.28 standard deviations.
        assert!((quantiles[2][step] - path[step] - 1.28 * 20.0).abs() < 4.0, "{step}");
    }
}

/// The promise of an interval: so much of what comes lies within.
#[test]
fn eight_of_ten_values_that_come_lie_between_the_tenth_and_the_ninetieth_hundredth() {
    for growth in [Growth::Flat, Growth::Linear, Growth::Held] {
        let mut within = 0;
        for seed in 0..20 {
            let values = noisy(960, 20.0, 100 + seed, truth);
            let (past, future) = values.split_at(900);
            let quantiles = learnt(growth, past).quantiles(history(past), 60, &[0.1, 0.9], 500, seed);
            let quantiles = quantiles.expect("it has learnt");
            let inside =
                |(step, value): (usize, &f32)| (quantiles[0][step]..=quantiles[1][step]).contains(&f64::from(*value));
            within += future.iter().enumerate().filter(|index| inside(*index)).count();
        }
        let share = within as f64 / 1_200.0;
        assert!((0.74..0.86).contains(&share), "{growth:?}: {share}");
    }
}

#[test]
fn a_trend_that_has_bent_leaves_more_open_the_further_it_goes() {
    let values = noisy(900, 2.0, 3, |step| if step < 400.0 { 1_000.0 + step } else { 1_800.0 - step });
    let model = learnt(Growth::Linear, &values);
    let quantiles = model.quantiles(history(&values), 300, &[0.1, 0.9], 500, 1).expect("it has learnt");
    let width = |step: usize| quantiles[1][step] - quantiles[0][step];
    assert!(width(299) > 2.0 * width(0), "{} and {}", width(0), width(299));
}
