use std::fmt;

use crate::History;

/// Short bursts, again and again.
pub(super) struct Bursts {
    /// The values of each.
    runs: Vec<Vec<f64>>,
    /// The longest, in steps.
    longest: usize,
}

/// How far back they are looked for.
const LOOKED_AT: usize = 600;
/// So many times the usual value is a burst, and at least so many requests more.
const TIMES: f64 = 1.8;
const MORE: f64 = 10.0;
/// So many make a habit, none longer than so many steps.
const FEWEST: usize = 3;
const LONGEST: usize = 10;

impl Bursts {
    /// Those of the newest part of a history, if it has that habit.
    pub(super) fn of(history: History<'_>) -> Option<Self> {
        let values: Vec<f64> = history.last(LOOKED_AT).known().map(|(_, value)| value).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let usual = *sorted.get(sorted.len() / 2)?;
        let high = (usual * TIMES).max(usual + MORE);
        let runs: Vec<Vec<f64>> =
            values.split(|value| *value <= high).filter(|run| !run.is_empty()).map(<[f64]>::to_vec).collect();
        let longest = runs.iter().map(Vec::len).max()?;
        (runs.len() >= FEWEST && longest <= LONGEST).then_some(Self { runs, longest })
    }

    /// How many requests the largest brings beyond this rate.
    pub(super) fn excess_over(&self, rate: f64) -> f64 {
        let excess = |run: &Vec<f64>| run.iter().map(|value| (value - rate).max(0.0)).sum::<f64>();
        self.runs.iter().map(excess).fold(0.0, f64::max)
    }
}

impl fmt::Display for Bursts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bursts of up to {} s came lately: a bucket lets them through", self.runs.len(), self.longest)
    }
}
