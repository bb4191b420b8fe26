use super::{TUNED_ON, best_of, newest};
use crate::{History, Model, NotLearnt, Season};

/// A mean that forgets: level ← level + α · (value − level), and the level is what will be.
///
/// How fast it forgets is tuned: α is the one of a few whose forecasts were best over the last ten minutes of steps.
#[derive(Clone, Debug)]
pub struct Ewma {
    horizon: usize,
    alpha: f64,
}

const ALPHAS: [f64; 7] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 0.9];
const FEWEST: usize = 20;

impl Ewma {
    /// One for forecasts of so many steps.
    pub fn new(horizon: usize) -> Self {
        Self { horizon, alpha: 0.1 }
    }
}

/// The level after each value. It begins as the plain mean of what there is, so that the first value does not weigh for
/// ever.
pub(super) fn levels(alpha: f64, values: &[f64]) -> impl Iterator<Item = f64> {
    values.iter().enumerate().scan(0.0, move |level, (index, value)| {
        let share = alpha.max(1.0 / (index + 1) as f64);
        *level += share * (value - *level);
        Some(*level)
    })
}

impl Model for Ewma {
    fn name(&self) -> &'static str {
        "ewma"
    }

    fn learn(&mut self, history: History<'_>, _seasons: &[Season]) -> Result<(), NotLearnt> {
        let values = newest(history, TUNED_ON);
        if values.len() < FEWEST {
            return Err(NotLearnt::TooShort { least: FEWEST });
        }
        let best = best_of(&values, self.horizon, ALPHAS.into_iter(), |alpha, values, leads, expect| {
            for (at, level) in levels(alpha, values).enumerate() {
                for lead in leads {
                    expect(at, *lead, level);
                }
            }
        });
        self.alpha = best.unwrap_or(self.alpha);
        Ok(())
    }

    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        let level = levels(self.alpha, &newest(history, TUNED_ON)).last()?;
        Some(vec![level.max(0.0); steps])
    }
}
