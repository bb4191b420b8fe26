//! Load after idle time, and with pauses in it: what is expected, in simulated time.
//!
//! Zeros were taken for load once. Forecasts of nothing that were followed by load had been wrong by a hundred times their unit, and so much
//! was then added to every forecast: 1,105 where 100 came, after 42 s of zeros; 6,226 where bursts of 350 came, after 10 s; 2,599 where a
//! sine of up to 180 came, after 75 s. And forecasts of nothing that were right for 300 s hid bursts of 350 for three minutes.
#![allow(clippy::cast_precision_loss, reason = "counts and places here are far below 2^52")]

#[path = "../../examples/table/generated.rs"]
#[allow(dead_code, reason = "the table of the docs uses all of it")]
mod generated;

mod course;
mod loads;

use course::{Told, told};
use loads::{Load, counted};

/// So many seconds of load, and so many times the highest of them nothing that is expected exceeds.
const KNOWN: usize = 30;
const MOST: f64 = 1.5;
/// For so many seconds it may lie below what has come.
const LONGEST_BELOW: usize = 60;
/// Below is by more than a tenth.
const BELOW: f64 = 0.9;

const LOADS: [Load; 9] = [
    Load::Constant(100.0),
    Load::Bursts { low: 100.0, high: 350.0, length: 5.0, period: 20.0 },
    Load::Bursts { low: 100.0, high: 350.0, length: 10.0, period: 60.0 },
    Load::Bursts { low: 0.0, high: 350.0, length: 5.0, period: 20.0 },
    Load::Sine { low: 20.0, high: 180.0, period: 60.0 },
    Load::Sine { low: 0.0, high: 180.0, period: 90.0 },
    Load::Step { low: 100.0, high: 350.0, after: 60.0 },
    Load::Step { low: 350.0, high: 100.0, after: 60.0 },
    Load::Ramp { low: 10.0, high: 200.0, seconds: 60.0 },
];

/// No more than this in a second is a health check by chance twice or thrice.
fn is_load(value: f64) -> bool {
    value > 3.0
}

/// What has come and will come again, as far as the last minute shows: bursts, once there was one; else the mean of its load.
fn has_come(load: Load, seconds: &[f64]) -> f64 {
    let lately: Vec<f64> = seconds.iter().rev().take(60).copied().filter(|value| is_load(*value)).collect();
    match load {
        Load::Bursts { .. } => lately.iter().copied().fold(0.0, f64::max),
        _ => lately.iter().sum::<f64>() / lately.len().max(1) as f64,
    }
}

/// The law, of one load as it came, by the second.
fn assert_sane(name: &str, load: Load, came: &[f64], interval: usize) {
    let mut below_since = None;
    for Told { at, predicted, high } in told(came, interval) {
        let (before, newest) = (&came[..at], &came[at - interval..at]);
        let highest = before.iter().copied().fold(0.0, f64::max);
        if before.iter().copied().filter(|value| is_load(*value)).count() >= KNOWN {
            assert!(predicted <= MOST * highest, "{name}: {predicted} after {at} s, where {highest} was the highest");
            assert!(high <= MOST * highest, "{name}: up to {high} after {at} s, where {highest} was the highest");
        }
        // A pause is not what has come.
        if newest.iter().any(|value| is_load(*value)) && predicted < BELOW * has_come(load, before) {
            let since = *below_since.get_or_insert(at);
            assert!(at - since <= LONGEST_BELOW, "{name}: {predicted} after {at} s, too low since {since} s");
        } else {
            below_since = None;
        }
    }
}

/// Evenly, and as counts of independent arrivals; told every 5 s, and more seldom.
fn assert_sane_either_way(name: &str, load: Load, came: &[f64], seed: u64) {
    assert_sane(&format!("{name}, evenly"), load, came, 5);
    let seldom = [10, 30][seed as usize % 2];
    assert_sane(&format!("{name}, counted, every {seldom} s"), load, &counted(came, seed), seldom);
}

#[test]
fn idle_time_before_load_is_neither_trend_nor_season() {
    for load in LOADS {
        for (seed, idle) in (0..).zip([0, 5, 10, 20, 42, 75, 120, 200, 300]) {
            let came: Vec<f64> = std::iter::repeat_n(0.0, idle).chain(load.seconds(0, 240)).collect();
            assert_sane_either_way(&format!("{load:?} after {idle} s"), load, &came, seed);
        }
    }
}

#[test]
fn a_pause_amid_load_is_neither_trend_nor_season() {
    for load in LOADS {
        for (seed, (before, pause)) in (100..).zip([(40, 5), (130, 10), (40, 20), (130, 42), (40, 75), (130, 120)]) {
            let mut came: Vec<f64> = load.seconds(0, before).collect();
            came.resize(before + pause, 0.0);
            came.extend(load.seconds(before, 200));
            assert_sane_either_way(&format!("{load:?}, a pause of {pause} s after {before} s"), load, &came, seed);
        }
    }
}

#[test]
fn pauses_at_odd_times_do_no_harm_either() {
    for load in LOADS {
        let mut came: Vec<f64> = vec![0.0; 10];
        for (seconds, pause) in [(50, 30), (90, 60), (35, 20), (120, 45), (60, 90), (45, 30), (150, 0)] {
            came.extend(load.seconds(came.len(), seconds));
            came.resize(came.len() + pause, 0.0);
        }
        assert_sane_either_way(&format!("{load:?}, many pauses"), load, &came, 200);
    }
}

/// Somebody asks now and then whether the service is well.
#[test]
fn a_request_now_and_then_is_idle_time_too() {
    for load in LOADS {
        let mut came: Vec<f64> = (0..300).map(|second| f64::from(u8::from(second % 10 == 3))).collect();
        came.extend(load.seconds(0, 240));
        assert_sane_either_way(&format!("{load:?} after a request every 10 s"), load, &came, 301);
    }
}

/// The other side: where bursts come from nothing, the zeros between them are what there is to learn.
#[test]
fn zeros_between_bursts_are_learnt_from_the_fourth_burst_on() {
    for (length, period, idle) in [(5, 20, 0), (5, 20, 75), (10, 60, 0), (10, 60, 42), (3, 10, 20)] {
        let load = Load::Bursts { low: 0.0, high: 350.0, length: f64::from(length), period: f64::from(period) };
        let (length, period) = (length as usize, period as usize);
        let came: Vec<f64> = std::iter::repeat_n(0.0, idle).chain(load.seconds(0, 6 * period)).collect();
        let mut forecaster = tidegate_forecast::Forecaster::new(tidegate_forecast::Settings::default());
        for (second, value) in came.iter().enumerate() {
            forecaster.observe(generated::START + second as i64, *value);
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

/// Load of which most seconds have none is sparse, not idle.
#[test]
fn sparse_load_is_expected_at_its_mean() {
    let random = &mut fastrand::Rng::with_seed(5);
    let mut forecaster = tidegate_forecast::Forecaster::new(tidegate_forecast::Settings::default());
    let mut sum = 0.0;
    for second in 0..1_200 {
        forecaster.observe(generated::START + second, generated::poisson(random, 0.2));
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
    for Told { at, predicted, .. } in told(&came, 5).into_iter().filter(|told| told.at >= 60 + 90) {
        let now = came[at - 1];
        assert!(
            predicted >= now + 40.0,
            "{predicted} after {at} s, where {now} is reached and 120 more come in a minute"
        );
    }
}
