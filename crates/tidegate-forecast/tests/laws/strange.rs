//! Mad values, as a broken or hostile counter sends them.
//!
//! They were believed once: after a single one of 1e9 the next minute was expected at 6e8, the 90 % quantile of the
//! highest second stayed above 1e9 for eight minutes, and the cycle was lost for the hour in which the value was
//! remembered.

use tidegate_forecast::{Forecast, Forecaster, Settings};

use crate::bursts;
use crate::generated::{START, poisson, walk};

fn kinds() -> Vec<(&'static str, Vec<f64>)> {
    let random = &mut fastrand::Rng::with_seed(1);
    vec![
        ("burst", bursts(random).take(2_000).collect()),
        ("constant", (0..2_000).map(|_| poisson(random, 200.0)).collect()),
        ("walk", walk(random).take(2_000).collect()),
    ]
}

/// The largest share by which one forecast is higher or lower than the other: its mean, each quantile, or its highest
/// step.
fn apart(one: &Forecast, other: &Forecast) -> f64 {
    let pairs = one.mean.iter().zip(&other.mean).chain(one.peak.iter().zip(&other.peak));
    let pairs = pairs.chain(one.quantiles.iter().flatten().zip(other.quantiles.iter().flatten()));
    pairs.map(|(a, b)| (a - b).abs() / a.max(*b).max(50.0)).fold(0.0, f64::max)
}

/// The law: whatever the single value is, no forecast after it differs by more than a tenth from what it would be had
/// the value been missing.
#[test]
fn a_single_mad_value_changes_no_forecast() {
    for (name, values) in kinds() {
        let mads = [100.0 * values[900], 1e9];
        let mut missing = Forecaster::new(Settings::default());
        let mut reported = mads.map(|_| Forecaster::new(Settings::default()));
        for (index, value) in values.iter().enumerate().take(1_300) {
            let second = START + index as i64;
            if index == 900 {
                let is_believed = |(reported, mad): (&mut Forecaster, f64)| reported.observe(second, mad);
                assert!(!reported.iter_mut().zip(mads).any(is_believed), "{name}");
                continue;
            }
            missing.observe(second, *value);
            for (reported, mad) in reported.iter_mut().zip(mads) {
                reported.observe(second, *value);
                if index > 900 && index % 50 == 1 {
                    let (one, other) = (reported.forecast().expect("one"), missing.forecast().expect("one"));
                    assert!(apart(&one, &other) < 0.1, "{name}, {mad}, {index}: {}", apart(&one, &other));
                }
            }
        }
    }
}

#[test]
fn one_in_fifty_values_being_mad_does_not_make_it_run_away_until_they_have_become_usual() {
    for (name, values) in kinds() {
        let mut forecaster = Forecaster::new(Settings::default());
        let highest = values.iter().copied().fold(0.0, f64::max);
        for (index, value) in values.iter().enumerate().take(1_200) {
            // Four of them: a sixth would be believed, as a spike that comes every minute must be.
            let value = if index > 1_000 && index % 50 == 0 { 1e9 } else { *value };
            forecaster.observe(START + index as i64, value);
            let forecast = forecaster.forecast().filter(|_| index > 1_000).map_or(0.0, |it| it.highest(0.95));
            assert!(forecast < 3.0 * highest, "{name}, {index}: {forecast}");
        }
    }
}

#[test]
fn a_spike_of_a_single_second_every_minute_is_learnt() {
    let random = &mut fastrand::Rng::with_seed(2);
    let mut forecaster = Forecaster::new(Settings::default());
    for second in 0..1_800 {
        let mean = if second % 60 == 59 { 900.0 } else { 20.0 };
        forecaster.observe(START + second, poisson(random, mean));
    }
    let forecast = forecaster.forecast().expect("one");
    assert!((forecast.mean[59] - 900.0).abs() < 150.0, "{:?}", forecast.mean);
    assert!(forecast.mean[..59].iter().all(|value| (value - 20.0).abs() < 15.0), "{:?}", forecast.mean);
}

#[test]
fn a_single_mad_time_loses_no_history() {
    let (_, values) = kinds().swap_remove(0);
    for time in [START + 1_000_000, START * 1_000, 1 << 52, 0, -5, i64::MAX, i64::MIN] {
        let mut forecaster = Forecaster::new(Settings::default());
        for (index, value) in values.iter().enumerate().take(300) {
            if index == 250 {
                assert!(!forecaster.observe(time, *value), "{time} was believed");
            }
            assert!(forecaster.observe(START + index as i64, *value));
        }
        assert_eq!(forecaster.history().known_count(), 300, "{time}");
    }
}

#[test]
fn a_clock_that_was_set_ahead_is_believed_at_its_second_value() {
    let mut forecaster = Forecaster::new(Settings::default());
    (0..700).for_each(|second| assert!(forecaster.observe(START + second, 100.0)));
    assert!(!forecaster.observe(START * 2, 100.0) && forecaster.observe(START * 2 + 1, 100.0));
    assert_eq!(forecaster.history().known_count(), 1);
}
