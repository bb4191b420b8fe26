//! The buckets that upstreams' latencies are counted in: fine enough to see a latency double.

use std::time::Duration;

use crate::second::figure;

/// Upper bounds of latencies as metrics show them, in microseconds.
pub const SHOWN_MICROS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000,
];

/// Each of those is divided into so many, where it matters whether a latency has doubled.
const FINENESS: u32 = 4;

/// The bounds that latencies of upstreams are counted by: those of [`SHOWN_MICROS`] and, between any two of them,
/// some more at equal ratios.
pub fn latency_bounds() -> Vec<Duration> {
    let mut bounds = vec![Duration::from_micros(SHOWN_MICROS[0])];
    for pair in SHOWN_MICROS.windows(2) {
        let [lower, upper] = [pair[0], pair[1]].map(figure);
        let ratio = (upper / lower).powf(1.0 / f64::from(FINENESS));
        let between = (1..FINENESS).map(|step| Duration::from_secs_f64(lower * ratio.powf(f64::from(step)) / 1e6));
        bounds.extend(between);
        bounds.push(Duration::from_micros(pair[1]));
    }
    bounds
}

/// The same in seconds.
pub fn latency_bounds_seconds() -> Vec<f64> {
    latency_bounds().iter().map(|bound| figure(bound.as_nanos() as u64) / 1e9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shown_bound_is_one_and_a_latency_that_doubles_changes_its_bucket() {
        let (bounds, seconds) = (latency_bounds(), latency_bounds_seconds());
        assert_eq!(seconds.len(), 61);
        assert!(SHOWN_MICROS.iter().all(|micros| bounds.contains(&Duration::from_micros(*micros))));
        assert!(seconds.windows(2).all(|pair| pair[1] / pair[0] < 1.26));
    }
}
