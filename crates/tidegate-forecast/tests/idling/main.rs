//! Load after idle time, and with pauses in it: what is expected, in simulated time.
//!
//! Zeros were taken for load once. Forecasts of nothing that were followed by load had been wrong by a hundred times
//! their unit, and so much was then added to every forecast: 1,105 where 100 came, after 42 s of zeros; 6,226 where
//! bursts of 350 came, after 10 s; 2,599 where a sine of up to 180 came, after 75 s. And forecasts of nothing that were
//! right for 300 s hid bursts of 350 for three minutes.
#![allow(clippy::cast_precision_loss, reason = "counts and indexes here are far below 2^52")]

#[path = "../../examples/table/generated.rs"]
#[allow(dead_code, reason = "the table of the docs uses all of it")]
mod generated;

mod course;
mod forecasts;
mod loads;

use course::{Expected, expected, found};
use loads::{Load, counted};
use tidegate_forecast::{Numbers, Windowed};

/// So many seconds of load, and so many times the highest of them nothing that is expected exceeds.
const KNOWN: usize = 30;
const MOST: f64 = 1.5;
/// For so many seconds it may lie below what has come.
const LONGEST_BELOW: usize = 60;
/// Below is by more than a tenth.
const BELOW: f64 = 0.9;

const CONSTANT: Load = Load::Constant(100.0);
const BURSTS: Load = Load::Bursts { low: 100.0, high: 350.0, length: 5.0, period: 20.0 };
const BURSTS_FROM_NOTHING: Load = Load::Bursts { low: 0.0, high: 350.0, length: 5.0, period: 20.0 };
const LOADS: [Load; 11] = [
    CONSTANT,
    Load::Constant(20.0),
    Load::Constant(5.0),
    BURSTS,
    Load::Bursts { low: 100.0, high: 350.0, length: 10.0, period: 60.0 },
    BURSTS_FROM_NOTHING,
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

/// What has come and will come again, as far as the last minute shows: the mean of bursts, once there was one; else the
/// mean of its load.
fn has_come(load: Load, seconds: &[f64]) -> f64 {
    let lately = || seconds.iter().rev().take(60).copied().filter(|value| is_load(*value));
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let bursts: Vec<f64> = match load {
        Load::Bursts { low, high, .. } => lately().filter(|value| *value > f64::midpoint(low, high)).collect(),
        Load::Constant(_) | Load::Sine { .. } | Load::Step { .. } | Load::Ramp { .. } => Vec::new(),
    };
    if bursts.is_empty() { mean(lately().collect()) } else { mean(bursts) }
}

/// The law, of one load as it came, by the second.
fn assert_sane(name: &str, load: Load, came: &[f64], interval: usize) {
    // For how many seconds of load it has been below.
    let mut below = None;
    for Expected { at, predicted, high } in expected(came, interval) {
        let (before, newest) = (&came[..at], &came[at - interval..at]);
        let highest = before.iter().copied().fold(0.0, f64::max);
        if before.iter().copied().filter(|value| is_load(*value)).count() >= KNOWN {
            assert!(predicted <= MOST * highest, "{name}: {predicted} after {at} s, where {highest} was the highest");
            assert!(high <= MOST * highest, "{name}: up to {high} after {at} s, where {highest} was the highest");
        }
        // A pause is not what has come: nothing follows from what is expected in it.
        let seconds = newest.iter().filter(|value| is_load(**value)).count();
        if seconds > 0 {
            let is_below = predicted < BELOW * has_come(load, before);
            below = is_below.then(|| below.map_or(0, |known| known + seconds));
            let known = below.unwrap_or(0);
            assert!(known <= LONGEST_BELOW, "{name}: {predicted} after {at} s, too low for {known} s of load");
        }
    }
}

/// As counts of independent arrivals, given more seldom.
fn assert_sane_counted(name: &str, load: Load, came: &[f64], seed: u64) {
    let seldom = [10, 30][seed as usize % 2];
    assert_sane(&format!("{name}, counted, every {seldom} s"), load, &counted(came, seed), seldom);
}

#[test]
fn idle_time_before_load_is_neither_trend_nor_season() {
    for load in LOADS {
        let after = |idle: usize| std::iter::repeat_n(0.0, idle).chain(load.seconds(0, 240)).collect::<Vec<f64>>();
        for idle in [0, 5, 10, 20, 42, 75, 150, 300] {
            assert_sane(&format!("{load:?} after {idle} s"), load, &after(idle), 5);
        }
        for (seed, idle) in [(0, 42), (1, 300)] {
            assert_sane_counted(&format!("{load:?} after {idle} s"), load, &after(idle), seed);
        }
    }
}

#[test]
fn a_pause_amid_load_is_neither_trend_nor_season() {
    for load in LOADS {
        let with = |before: usize, pause: usize| {
            let mut came: Vec<f64> = load.seconds(0, before).collect();
            came.resize(before + pause, 0.0);
            came.extend(load.seconds(before, 200));
            came
        };
        for (before, pause) in [(40, 5), (130, 10), (40, 20), (130, 42), (40, 75), (130, 120)] {
            let name = format!("{load:?}, a pause of {pause} s after {before} s");
            assert_sane(&name, load, &with(before, pause), 5);
        }
        assert_sane_counted(&format!("{load:?}, a pause of 42 s after 130 s"), load, &with(130, 42), 100);
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
        assert_sane(&format!("{load:?}, many pauses"), load, &came, 5);
        assert_sane_counted(&format!("{load:?}, many pauses"), load, &came, 200);
    }
}

/// Clients that come and go: neither a rhythm nor a reason to expect more than ever came, or less.
#[test]
fn load_that_comes_and_goes_at_random_is_expected_as_it_is() {
    for load in [CONSTANT, BURSTS, BURSTS_FROM_NOTHING, Load::Constant(20.0)] {
        for seed in 0..4 {
            let random = &mut fastrand::Rng::with_seed(seed);
            let mut came = Vec::new();
            while came.len() < 900 {
                came.extend(load.seconds(came.len(), random.usize(20..=60)));
                came.resize(came.len() + random.usize(5..=20), 0.0);
            }
            let name = format!("{load:?} at random {seed}");
            if seed < 2 {
                assert_sane(&name, load, &came, 5);
            } else {
                assert_sane_counted(&name, load, &came, seed);
            }
        }
    }
}

/// Somebody asks every ten seconds whether the service is well.
fn checked(seconds: usize) -> Vec<f64> {
    (0..seconds).map(|second| f64::from(u8::from(second % 10 == 3))).collect()
}

#[test]
fn a_request_now_and_then_is_idle_time_too() {
    for load in LOADS {
        let came: Vec<f64> = checked(300).into_iter().chain(load.seconds(0, 240)).collect();
        assert_sane(&format!("{load:?} after a request every 10 s"), load, &came, 5);
        assert_sane_counted(&format!("{load:?} after a request every 10 s"), load, &came, 301);
    }
}

/// Health checks were load once until the load had as many steps as they had, and for ever where it was below 50 a
/// second.
#[test]
fn an_hour_of_health_checks_is_idle_time() {
    for load in [CONSTANT, BURSTS, Load::Constant(30.0)] {
        let came: Vec<f64> = checked(3_600).into_iter().chain(load.seconds(0, 240)).collect();
        assert_sane(&format!("{load:?} after an hour of health checks"), load, &came, 5);
    }
    let load = Load::Constant(5.0);
    let came: Vec<f64> = checked(3_600).into_iter().chain(load.seconds(0, 240)).collect();
    assert_sane_counted(&format!("{load:?} after an hour of health checks"), load, &came, 401);
}

/// Idle time made zero the usual value once: all that came was one long burst.
#[test]
fn bursts_get_a_bucket_after_idle_time() {
    let mut check = vec![0.0; 300];
    check[7] = 1.0;
    let pause = std::iter::repeat_n(38.0, 10).chain(std::iter::repeat_n(0.0, 310)).collect();
    for (name, idle) in [("idle", vec![0.0; 300]), ("a health check", check), ("a pause", pause)] {
        let load = Load::Bursts { low: 38.0, high: 100.0, length: 4.0, period: 20.0 };
        let came: Vec<f64> = idle.into_iter().chain(load.seconds(0, 240)).collect();
        let limit = Numbers::Window { algorithm: Windowed::Fixed, limit: 1_000, window: 60.0 };
        let last = found(&came, 5, &limit).pop().expect("a recommendation");
        assert_eq!(last.advice.numbers.algorithm(), "token", "{name}: {}", last.advice.reason);
    }
}
