//! Load that changes its ways.

use tidegate_forecast::{Forecaster, Settings};

use crate::generated::{START, burst, poisson, sine};

/// The mean distance of the next minute from what is expected.
fn distance(forecaster: &Forecaster, at: impl Fn(f64) -> f64) -> f64 {
    let forecast = forecaster.forecast().expect("a forecast");
    let came = (0..forecast.mean.len()).map(|lead| at((forecast.start - START) as f64 + lead as f64));
    came.zip(&forecast.mean).map(|(came, mean)| (came - mean).abs()).sum::<f64>() / forecast.mean.len() as f64
}

/// Feeds it seconds of `at`, as Poisson counts.
fn observe(
    forecaster: &mut Forecaster,
    seconds: std::ops::Range<u32>,
    random: &mut fastrand::Rng,
    at: impl Fn(f64) -> f64,
) {
    for second in seconds {
        forecaster.observe(START + i64::from(second), poisson(random, at(f64::from(second))));
    }
}

/// It took half an hour once: of all that was kept the best cycle was one of 180 s, a multiple of both.
#[test]
fn a_cycle_that_becomes_another_one_is_followed_after_five_minutes() {
    let random = &mut fastrand::Rng::with_seed(1);
    let before = |second| burst(second, 60.0, 10.0, 100.0, 500.0);
    let after = |second| burst(second, 45.0, 10.0, 100.0, 500.0);
    let mut forecaster = Forecaster::new(Settings::default());
    observe(&mut forecaster, 0..1_200, random, before);
    assert!(distance(&forecaster, before) < 15.0, "{}", distance(&forecaster, before));
    // Five minutes later, and from then on.
    observe(&mut forecaster, 1_200..1_500, random, after);
    for minutes in 25..40 {
        assert!(distance(&forecaster, after) < 30.0, "{} after {minutes} minutes", distance(&forecaster, after));
        observe(&mut forecaster, 60 * minutes..60 * minutes + 60, random, after);
    }
}

#[test]
fn a_cycle_that_ends_is_no_longer_expected_after_a_few_minutes() {
    let random = &mut fastrand::Rng::with_seed(2);
    let mut forecaster = Forecaster::new(Settings::default());
    observe(&mut forecaster, 0..1_200, random, |second| burst(second, 60.0, 10.0, 100.0, 500.0));
    observe(&mut forecaster, 1_200..1_620, random, |_| 100.0);
    let off = distance(&forecaster, |_| 100.0);
    assert!(off < 15.0, "{off}");
}

#[test]
fn another_level_is_followed_within_a_horizon() {
    let random = &mut fastrand::Rng::with_seed(3);
    let mut forecaster = Forecaster::new(Settings::default());
    observe(&mut forecaster, 0..900, random, |_| 100.0);
    observe(&mut forecaster, 900..960, random, |_| 400.0);
    let off = distance(&forecaster, |_| 400.0);
    assert!(off < 60.0, "{off}");
}

#[test]
fn a_rise_of_twenty_times_is_believed_at_its_second_value() {
    let random = &mut fastrand::Rng::with_seed(4);
    let mut forecaster = Forecaster::new(Settings::default());
    observe(&mut forecaster, 0..900, random, |_| 100.0);
    assert!(!forecaster.observe(START + 900, 2_000.0) && forecaster.observe(START + 901, 2_000.0));
    observe(&mut forecaster, 902..960, random, |_| 2_000.0);
    let off = distance(&forecaster, |_| 2_000.0);
    assert!(off < 300.0, "{off}");
}

#[test]
fn a_growing_cycle_grows_in_the_forecast() {
    let random = &mut fastrand::Rng::with_seed(5);
    let at = |second: f64| (1.0 + second / 1_200.0) * sine(second, 90.0, 100.0, 300.0);
    let mut forecaster = Forecaster::new(Settings::default());
    observe(&mut forecaster, 0..2_400, random, at);
    let off = distance(&forecaster, at);
    assert!(off < 60.0, "{off} of a level of 600");
}
