//! Load and idle time, second by second: what a forecaster makes of them.

use tidegate_forecast::{Forecast, Forecaster, Settings};

use crate::course::{Expected, expected};
use crate::generated::{START, poisson};
use crate::loads::Load;

/// Feeds it seconds; NaN is an unknown one.
fn observe(forecaster: &mut Forecaster, from: usize, came: &[f64]) {
    for (second, value) in (START + from as i64..).zip(came).filter(|(_, value)| !value.is_nan()) {
        forecaster.observe(second, *value);
    }
}

/// A constant 100 is expected, no less and not half as much more.
fn assert_constant(name: &str, forecast: &Forecast) {
    let (middle, high) = (forecast.highest(0.5), forecast.highest(0.95));
    assert!(middle >= 90.0 && high <= 150.0, "{name}: {middle}, up to {high}");
}

/// For so many seconds each: load, none, load and so on.
fn on_and_off(seconds: &[usize]) -> Vec<f64> {
    let part = |(index, count): (usize, &usize)| std::iter::repeat_n(if index % 2 == 0 { 100.0 } else { 0.0 }, *count);
    seconds.iter().enumerate().flat_map(part).collect()
}

#[test]
fn a_restart_in_idle_time_or_after_it_changes_nothing() {
    for came in [on_and_off(&[0, 300, 120]), on_and_off(&[90, 120, 120]), on_and_off(&[0, 60, 90, 45, 120])] {
        let load = came.len() - 120;
        for restart in [load - 40, load - 1, load + 3, load + 30] {
            let mut before = Forecaster::new(Settings::default());
            observe(&mut before, 0, &came[..restart]);
            let mut after = Forecaster::new(Settings::default());
            after.restore(before.history());
            for second in restart..came.len() {
                observe(&mut after, second, &came[second..=second]);
                if second >= load.max(restart) + 30 {
                    let name = format!("load from {load} s on, restarted at {restart} s, after {second} s");
                    assert_constant(&name, &after.forecast().expect("a forecast"));
                }
            }
        }
    }
}

#[test]
fn seconds_of_a_pause_that_are_not_known_are_part_of_it() {
    for unknown in [0..30, 10..50, 30..60, 1..59] {
        let mut came = on_and_off(&[90, 60, 90]);
        came[90 + unknown.start..90 + unknown.end].fill(f64::NAN);
        let mut forecaster = Forecaster::new(Settings::default());
        observe(&mut forecaster, 0, &came[..155]);
        for second in 155..came.len() {
            observe(&mut forecaster, second, &came[second..=second]);
            let name = format!("{unknown:?} unknown, after {second} s");
            assert_constant(&name, &forecaster.forecast().expect("a forecast"));
        }
    }
}

#[test]
fn of_load_that_has_stopped_nothing_is_expected() {
    let came = on_and_off(&[120, 1_200]);
    let mut forecaster = Forecaster::new(Settings::default());
    for second in 0..came.len() {
        observe(&mut forecaster, second, &came[second..=second]);
        if second >= 130 {
            let high = forecaster.forecast().expect("a forecast").highest(0.95);
            assert!(high < 10.0, "up to {high} after {second} s");
        }
    }
}

/// Jobs that run every five minutes, and nothing else.
#[test]
fn bursts_five_minutes_apart_are_a_season() {
    let load = Load::Bursts { low: 0.0, high: 200.0, length: 10.0, period: 300.0 };
    let came: Vec<f64> = load.seconds(0, 4 * 300 + 270).collect();
    let mut forecaster = Forecaster::new(Settings::default());
    observe(&mut forecaster, 0, &came);
    let forecast = forecaster.forecast().expect("a forecast");
    let (quiet, burst) = (&forecast.mean[..18], &forecast.mean[22..28]);
    assert!(quiet.iter().all(|mean| *mean < 20.0), "{quiet:?}");
    assert!(burst.iter().all(|mean| (*mean - 200.0).abs() < 20.0), "{burst:?}");
}

/// A pause long after the last of a rhythm is one like any other.
#[test]
fn a_rhythm_that_has_ended_explains_no_pause() {
    let rhythm = Load::Bursts { low: 0.0, high: 100.0, length: 5.0, period: 20.0 };
    let came: Vec<f64> = rhythm.seconds(0, 200).chain(on_and_off(&[600, 40, 10])).collect();
    let mut forecaster = Forecaster::new(Settings::default());
    observe(&mut forecaster, 0, &came);
    let forecast = forecaster.forecast().expect("a forecast");
    let mean = forecast.mean.iter().sum::<f64>() / forecast.mean.len() as f64;
    assert!((90.0..=110.0).contains(&mean), "{mean}");
}

/// The other side: where bursts come from nothing, the zeros between them are what there is to learn.
#[test]
fn zeros_between_bursts_are_learnt_from_the_fourth_burst_on() {
    for (length, period, idle) in [(5, 20, 0), (5, 20, 75), (10, 60, 0), (10, 60, 42), (3, 10, 20)] {
        let load = Load::Bursts { low: 0.0, high: 350.0, length: f64::from(length), period: f64::from(period) };
        let (length, period) = (length as usize, period as usize);
        let came: Vec<f64> = std::iter::repeat_n(0.0, idle).chain(load.seconds(0, 6 * period)).collect();
        let mut forecaster = Forecaster::new(Settings::default());
        for (second, value) in came.iter().enumerate() {
            forecaster.observe(START + second as i64, *value);
            let of_load = (second + 1).saturating_sub(idle);
            // In the quiet time before the fourth burst and later ones.
            if of_load >= 3 * period && of_load % period == period - length - 1 {
                let forecast = forecaster.forecast().expect("a forecast");
                let name = format!("{length} s of {period} s after {idle} s, at {of_load}");
                for (lead, mean) in forecast.mean.iter().enumerate() {
                    let expected = load.at((of_load + lead) as f64);
                    let beside = [-1.0, 1.0].map(|side| load.at((of_load + lead) as f64 + side));
                    let is_edge = beside.iter().any(|value| (value - expected).abs() > 1.0);
                    assert!(is_edge || (mean - expected).abs() < 70.0, "{name}: {mean} in {lead} s, not {expected}");
                }
            }
        }
    }
}

/// Load with mostly empty seconds is sparse, not idle.
#[test]
fn sparse_load_is_expected_at_its_mean() {
    let random = &mut fastrand::Rng::with_seed(5);
    let mut forecaster = Forecaster::new(Settings::default());
    let mut sum = 0.0;
    for second in 0..1_200 {
        forecaster.observe(START + second, poisson(random, 0.2));
        if second >= 600 && second % 20 == 0 {
            sum += forecaster.forecast().expect("a forecast").mean.iter().sum::<f64>() / 60.0 / 30.0;
        }
    }
    assert!((0.1..=0.3).contains(&sum), "{sum} a second, not 0.2");
}

/// A rise may still be expected to go on.
#[test]
fn a_rise_after_idling_is_raised_ahead_of() {
    let load = Load::Ramp { low: 50.0, high: 650.0, seconds: 300.0 };
    let came: Vec<f64> = std::iter::repeat_n(0.0, 60).chain(load.seconds(0, 300)).collect();
    for Expected { at, predicted, .. } in expected(&came, 5).into_iter().filter(|expected| expected.at >= 60 + 90) {
        let now = came[at - 1];
        assert!(
            predicted >= now + 40.0,
            "{predicted} after {at} s, where {now} is reached and 120 more come in a minute"
        );
    }
}
