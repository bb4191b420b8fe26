//! Loads of every kind, by the second.

use crate::generated::{burst, poisson, sine};

/// A load without idle time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    Constant(f64),
    /// High for `length` at the end of each period.
    Bursts {
        low: f64,
        high: f64,
        length: f64,
        period: f64,
    },
    Sine {
        low: f64,
        high: f64,
        period: f64,
    },
    /// From the first to the second after so many seconds.
    Step {
        low: f64,
        high: f64,
        after: f64,
    },
    /// Rises evenly for so many seconds, and stays.
    Ramp {
        low: f64,
        high: f64,
        seconds: f64,
    },
}

impl Load {
    /// Whole requests.
    pub(crate) fn at(self, second: f64) -> f64 {
        let rate: f64 = match self {
            Self::Constant(rate) => rate,
            Self::Bursts { low, high, length, period } => burst(second, period, length, low, high),
            Self::Sine { low, high, period } => sine(second, period, low, high),
            Self::Step { low, high, after } => {
                if second < after {
                    low
                } else {
                    high
                }
            }
            Self::Ramp { low, high, seconds } => low + (high - low) * (second / seconds).min(1.0),
        };
        rate.round()
    }

    pub(crate) fn seconds(self, from: usize, count: usize) -> impl Iterator<Item = f64> {
        (from..from + count).map(move |second| self.at(second as f64))
    }
}

/// As it is counted where requests come independently.
pub(crate) fn counted(load: &[f64], seed: u64) -> Vec<f64> {
    let random = &mut fastrand::Rng::with_seed(seed);
    load.iter().map(|mean| if *mean > 0.0 { poisson(random, *mean) } else { 0.0 }).collect()
}
