//! Load that comes after idle time, played by timestamps.
//!
//! A forecaster that got nothing but zeros for 42 s expected 1,105 requests a second for two minutes when 100
//! came, and as the high end for four. After 300 s of zeros it expected 135 where bursts of 350 came every 20 s, for
//! three minutes.

use serde_json::Value;

use crate::forecast::forecaster::{Forecaster, START, with_series};

const INTERVAL: usize = 5;

/// The response to each snapshot of this load: how many seconds of it were over, what is predicted, and the highest
/// of all that is forecast, the high end included.
fn reported(load: &[u64]) -> Vec<(usize, f64, f64)> {
    let forecaster = Forecaster::start(&[]);
    let mut responses = Vec::new();
    for (place, seconds) in load.chunks_exact(INTERVAL).enumerate() {
        let begin = place * INTERVAL;
        let advice = forecaster.advice(&with_series(START + begin as i64, seconds));
        let predicted = advice["predictedRps"].as_f64().expect("a rate");
        let forecast = forecaster.ask("GET", "/v1/forecast", "").json();
        let high = forecast["forecasts"][0]["high"].as_array().cloned().unwrap_or_default();
        let highest = high.iter().filter_map(Value::as_f64).fold(0.0, f64::max);
        responses.push((begin + INTERVAL, predicted, highest));
    }
    responses
}

fn after_idling(seconds: usize, load: impl Iterator<Item = u64>) -> Vec<u64> {
    std::iter::repeat_n(0, seconds).chain(load).collect()
}

#[test]
fn constant_load_after_idling_is_expected_as_it_is() {
    for idle in [0, 42, 300] {
        for (at, predicted, highest) in reported(&after_idling(idle, std::iter::repeat_n(100, 180))) {
            if at >= idle + 30 {
                assert!((95.0..=150.0).contains(&predicted), "{idle} s idle, after {at} s: {predicted}");
                assert!(highest <= 150.0, "{idle} s idle, after {at} s: up to {highest}");
            }
        }
    }
}

#[test]
fn bursts_after_idling_are_expected_a_minute_later_and_never_far_above() {
    for idle in [10, 300] {
        let bursts = (0..240).map(|second| if second % 20 >= 15 { 350 } else { 100 });
        for (at, predicted, highest) in reported(&after_idling(idle, bursts)) {
            if at >= idle + 30 {
                assert!(predicted <= 525.0 && highest <= 525.0, "{idle} s idle, after {at} s: {predicted}, {highest}");
            }
            // The first has come at 20 s.
            if at >= idle + 80 {
                assert!(predicted >= 315.0, "{idle} s idle, after {at} s: {predicted}");
            }
        }
    }
}
