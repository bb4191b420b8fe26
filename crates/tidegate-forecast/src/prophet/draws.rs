//! Paths drawn from what a fit leaves open, as Prophet draws them: the trend goes on changing as often and as much as
//! it did, and the noise stays.

use std::f64::consts::TAU;

use fastrand::Rng;

/// What a fit leaves open, on the scale of the series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uncertainty {
    /// The standard deviation of the noise.
    pub(super) noise: f64,
    /// How the trend changes; none, if it is flat.
    pub(super) bends: Option<Bends>,
}

/// A Poisson process of changepoints, whose changes follow a Laplace distribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bends {
    /// When the learnt ones end, in seconds.
    pub(super) from: f64,
    /// Changepoints in a second.
    pub(super) rate: f64,
    /// The mean size of a change of the slope.
    pub(super) size: f64,
}

impl Uncertainty {
    /// How far one possible trend is from the expected one at each of these times, which rise.
    pub(super) fn trend(&self, seconds: &[f64], rng: &mut Rng) -> Vec<f64> {
        let Some(bends) = self.bends else { return vec![0.0; seconds.len()] };
        let mut next = bends.from + exponential(rng) / bends.rate;
        let (mut slope, mut offset) = (0.0, 0.0);
        let value = |second: &f64| {
            while next <= *second {
                let change = laplace(rng) * bends.size;
                slope += change;
                offset -= change * next;
                next += exponential(rng) / bends.rate;
            }
            slope * second + offset
        };
        seconds.iter().map(value).collect()
    }

    pub(super) fn noise(&self, rng: &mut Rng) -> f64 {
        self.noise * normal(rng)
    }
}

/// With mean 1.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// With scale 1.
fn laplace(rng: &mut Rng) -> f64 {
    if rng.bool() { exponential(rng) } else { -exponential(rng) }
}

/// By Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (TAU * rng.f64()).cos()
}

/// The quantile of values in order, between the two that are nearest.
pub(super) fn quantile(sorted: &[f64], level: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let rank = level.clamp(0.0, 1.0) * last as f64;
    let below = (rank as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (rank - below as f64)
}
