//! Models together.

use tidegate_forecast::{Forecaster, Settings};

use crate::generated::{START, burst, poisson, walk};
use crate::{assert_sound, bursts, reported};

#[test]
fn before_the_first_value_nothing_is_expected_and_after_it_that() {
    let mut forecaster = Forecaster::new(Settings::default());
    assert_eq!(forecaster.forecast(), None);
    assert!(forecaster.observe(START, 70.0));
    let forecast = forecaster.forecast().expect("a forecast");
    assert_eq!((forecast.start, forecast.step), (START + 1, 1));
    assert!(forecast.mean.iter().all(|value| (value - 70.0).abs() < 1e-9), "{:?}", forecast.mean);
    assert_sound(&forecast, Settings::default());
}

#[test]
fn a_forecast_is_sound_from_the_first_value_on() {
    let random = &mut fastrand::Rng::with_seed(1);
    let settings = Settings { horizon: 30, ..Settings::default() };
    let mut forecaster = Forecaster::new(settings);
    for (second, value) in (START..).zip(bursts(random).take(400)) {
        forecaster.observe(second, value);
        assert_sound(&forecaster.forecast().expect("a forecast"), settings);
    }
}

/// A gateway that was started before its clients: the first of them are no reason to expect three times as many.
#[test]
fn load_that_begins_is_not_taken_for_restlessness() {
    for values in [&[0.0, 100.0][..], &[0.0, 0.0, 100.0], &[0.0, 100.0, 100.0]] {
        let forecast = reported(Settings::default(), values.iter().copied()).forecast().expect("a forecast");
        let upper = forecast.quantile(0.95).iter().copied().fold(0.0, f64::max);
        assert!((30.0..130.0).contains(&upper), "{upper} after {values:?}");
    }
}

#[test]
fn a_model_that_is_clearly_better_takes_over() {
    let random = &mut fastrand::Rng::with_seed(2);
    let weight = |forecaster: &Forecaster, names: &[&str]| {
        let members = forecaster.forecast().expect("a forecast").members;
        members.iter().filter(|member| names.contains(&member.name)).map(|member| member.weight).sum::<f64>()
    };
    let cycle = reported(Settings::default(), bursts(random).take(420));
    assert!(weight(&cycle, &["seasonal", "seasonal_level"]) > 0.9, "a cycle");
    let constant = reported(Settings::default(), (0..600).map(|_| poisson(random, 200.0)));
    assert!(weight(&constant, &["last"]) < 0.2, "noise around a level: {}", weight(&constant, &["last"]));
}

#[test]
fn a_cycle_is_followed_from_the_fourth_spike_on() {
    let at = |second: i64| burst((second - START) as f64, 60.0, 10.0, 100.0, 500.0);
    let random = &mut fastrand::Rng::with_seed(3);
    // Three minutes, and the fourth up to shortly before its spike.
    let forecaster = reported(Settings::default(), bursts(random).take(3 * 60 + 45));
    let forecast = forecaster.forecast().expect("a forecast");
    let wrong = (forecast.start..).zip(&forecast.mean).filter(|(second, mean)| (at(*second) - *mean).abs() > 50.0);
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.len() <= 2, "{wrong:?}");
}

#[test]
fn the_same_values_give_the_same_forecast() {
    let run = || {
        let random = &mut fastrand::Rng::with_seed(4);
        reported(Settings::default(), bursts(random).take(500)).forecast()
    };
    assert_eq!(run(), run());
}

#[test]
fn repeated_and_late_values_do_no_harm() {
    let values: Vec<f64> = bursts(&mut fastrand::Rng::with_seed(5)).take(600).collect();
    let plain = reported(Settings::default(), values.iter().copied());
    let mut repeated = Forecaster::new(Settings::default());
    for (second, value) in (START..).zip(&values) {
        repeated.observe(second, *value);
        repeated.observe(second, *value);
        repeated.observe(second - 7, values[(second - START).max(7) as usize - 7]);
    }
    assert_eq!(plain.forecast().map(|it| it.mean), repeated.forecast().map(|it| it.mean));
}

/// A value in any order, of any size, at any time. Small settings, so that there is time for many.
#[test]
fn no_input_makes_it_panic_or_forecast_nonsense() {
    let strange = [f64::NAN, f64::INFINITY, -1.0, -0.0, 0.0, 1e-300, 1e9, 2e9, f64::MAX, f64::MIN];
    let times = [i64::MIN, i64::MIN + 1, -(1 << 52), -1, 0, 1, 1 << 52, (1 << 52) + 1, i64::MAX - 1, i64::MAX];
    for seed in 0..20 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let settings = Settings {
            step: [1, 7, 300][random.usize(..3)],
            horizon: random.usize(1..15),
            stride: random.usize(1..40),
            kept: random.usize(1..150),
        };
        let mut forecaster = Forecaster::new(settings);
        let mut now = random.i64(-1_000_000..1_000_000);
        for _ in 0..5_000 {
            now = now.saturating_add(i64::from(settings.step) * [1, 1, 1, 1, 0, 2, -1, -30, 500][random.usize(..9)]);
            let second = if random.u8(..) == 0 { times[random.usize(..times.len())] } else { now };
            let value = if random.u8(..) < 8 { strange[random.usize(..strange.len())] } else { poisson(random, 40.0) };
            let is_used = forecaster.observe(second, value);
            assert!(!is_used || (0.0..=1e9).contains(&value), "{value}");
            if random.u8(..) < 8
                && let Some(forecast) = forecaster.forecast()
            {
                assert_sound(&forecast, settings);
            }
        }
    }
}

#[test]
fn settings_of_nothing_do_no_harm() {
    for settings in [
        Settings { step: 0, horizon: 0, stride: 0, kept: 0 },
        Settings { step: 1, horizon: 1, stride: 0, kept: 1 },
        Settings { step: 1, horizon: 500, stride: 1, kept: 3 },
    ] {
        let forecaster = reported(settings, walk(&mut fastrand::Rng::with_seed(6)).take(50));
        let settings = Settings { horizon: settings.horizon.max(1), ..settings };
        assert_sound(&forecaster.forecast().expect("a forecast"), settings);
    }
}
