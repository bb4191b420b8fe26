use super::{TUNED_ON, best_of, newest};
use crate::{History, Model, NotLearnt, Season};

/// A level and a trend that fades (Gardner and McKenzie):
///
/// level ← α · value + (1 − α) · (level + φ · trend), trend ← β · (level − level before) + (1 − β) · φ · trend, and h
/// steps later level + (φ + φ² + … + φʰ) · trend.
///
/// Without the fading a rise of a minute would go on for ever.
#[derive(Clone, Debug)]
pub struct DampedHolt {
    horizon: usize,
    smoothing: Smoothing,
}

#[derive(Clone, Copy, Debug)]
struct Smoothing {
    alpha: f64,
    beta: f64,
    phi: f64,
}

#[derive(Clone, Copy)]
struct Level {
    level: f64,
    trend: f64,
}

const FEWEST: usize = 30;

impl DampedHolt {
    /// One for forecasts of so many steps.
    pub fn new(horizon: usize) -> Self {
        Self { horizon, smoothing: Smoothing { alpha: 0.3, beta: 0.05, phi: 0.9 } }
    }
}

impl Smoothing {
    fn tries() -> impl Iterator<Item = Self> {
        [0.1, 0.3, 0.6, 0.9].into_iter().flat_map(|alpha| {
            [0.02, 0.1, 0.3]
                .into_iter()
                .flat_map(move |beta| [0.8, 0.95, 0.99].into_iter().map(move |phi| Self { alpha, beta, phi }))
        })
    }

    fn walk(self, values: &[f64]) -> impl Iterator<Item = Level> {
        let first = Level { level: values.first().copied().unwrap_or(0.0), trend: 0.0 };
        values.iter().scan(first, move |state, value| {
            let before = state.level;
            state.level = self.alpha * value + (1.0 - self.alpha) * (before + self.phi * state.trend);
            state.trend = self.beta * (state.level - before) + (1.0 - self.beta) * self.phi * state.trend;
            Some(*state)
        })
    }

    /// φ + φ² + … + φʰ.
    fn faded(self, steps: usize) -> f64 {
        self.phi * (1.0 - self.phi.powf(steps as f64)) / (1.0 - self.phi)
    }
}

impl Model for DampedHolt {
    fn name(&self) -> &'static str {
        "holt"
    }

    fn learn(&mut self, history: History<'_>, _seasons: &[Season]) -> Result<(), NotLearnt> {
        let values = newest(history, TUNED_ON);
        if values.len() < FEWEST {
            return Err(NotLearnt::TooShort { least: FEWEST });
        }
        let best = best_of(&values, self.horizon, Smoothing::tries(), |smoothing, values, leads, expect| {
            let faded: Vec<f64> = leads.iter().map(|lead| smoothing.faded(*lead)).collect();
            for (at, now) in smoothing.walk(values).enumerate() {
                for (lead, faded) in leads.iter().zip(&faded) {
                    expect(at, *lead, now.level + faded * now.trend);
                }
            }
        });
        self.smoothing = best.unwrap_or(self.smoothing);
        Ok(())
    }

    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        let values = newest(history, TUNED_ON);
        if values.len() < FEWEST {
            return None;
        }
        let now = self.smoothing.walk(&values).last()?;
        Some((1..=steps).map(|step| (now.level + self.smoothing.faded(step) * now.trend).max(0.0)).collect())
    }
}
