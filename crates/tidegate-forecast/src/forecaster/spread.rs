use super::LEVELS;
use super::idle::Load;
use crate::History;
use crate::quantile::{Newest, Sorted, normal};

/// How wrong forecasts were: of single steps, near and far apart, and of the highest step of a horizon.
///
/// Distances are counted in √(expected + 1), which is what they grow with where requests come independently: a forecast
/// of 500 is not wrong by the same number as one of 5.
pub(super) struct Spread {
    horizon: usize,
    steps: [Newest; BANDS],
    peaks: Newest,
}

const BANDS: usize = 2;
const REMEMBERED: usize = 2_000;
const REMEMBERED_PEAKS: usize = 100;
/// From so many on they are believed.
const ENOUGH: usize = 60;
const ENOUGH_PEAKS: usize = 12;
const MUCH_NARROWER: f64 = 0.7;
const FEWEST_DISTANCES: usize = 5;
/// So many times what came at most is expected at most.
const MOST: f64 = 1.5;
/// Where fewer came in every step, what is rarely exceeded is bounded as if so many had come: chance is more than half
/// of it.
const FEW: f64 = 5.0;
/// The median distance of two independent values with deviation 1.
const INDEPENDENT: f64 = 0.95;

fn unit(expected: f64) -> f64 {
    (expected.max(0.0) + 1.0).sqrt()
}

impl Spread {
    pub(super) fn new(horizon: usize) -> Self {
        Self { horizon, steps: [const { REMEMBERED }; BANDS].map(Newest::new), peaks: Newest::new(REMEMBERED_PEAKS) }
    }

    /// Whether forecasts with a newly found cycle are much closer than those before it. A false cycle does not pass
    /// this test.
    pub(super) fn is_much_narrower_than(&self, other: &Self) -> bool {
        match (self.typical(), other.typical()) {
            (Some(this), Some(other)) => this < MUCH_NARROWER * other,
            (this, None) => this.is_some(),
            (None, Some(_)) => false,
        }
    }

    /// The mean distance of a step.
    fn typical(&self) -> Option<f64> {
        let distances = self.steps.iter().flat_map(Newest::iter).map(f64::abs);
        let (count, sum) = distances.fold((0_u32, 0.0), |(count, sum), distance| (count + 1, sum + distance));
        (count > 0).then(|| sum / f64::from(count))
    }

    fn band(&self, lead: usize) -> usize {
        usize::from(lead * 6 >= self.horizon)
    }

    pub(super) fn score(&mut self, lead: usize, expected: f64, came: f64) {
        let band = self.band(lead);
        self.steps[band].push((came - expected) / unit(expected));
    }

    pub(super) fn score_peak(&mut self, expected: f64, came: f64) {
        self.peaks.push((came - expected) / unit(expected));
    }

    /// The quantiles of each step and of the highest, for each of the levels.
    pub(super) fn around(&self, mean: &[f64], load: &Load<'_>) -> (Vec<Vec<f64>>, Vec<f64>) {
        let guess = restlessness(load.history());
        let highest = mean.iter().copied().fold(0.0, f64::max);
        let bounds = Bounds::new(load, highest, above(0.5, guess, mean.len()));
        let known: Vec<Option<Sorted>> =
            self.steps.iter().map(|newest| (newest.len() >= ENOUGH).then(|| newest.sorted())).collect();
        let step = |level: f64, lead: usize| {
            let seen = known[self.band(lead)].as_ref().and_then(|sorted| sorted.quantile(level));
            let value = mean[lead] + seen.unwrap_or(normal(level) * guess) * unit(mean[lead]);
            value.min(bounds.of(level)).max(0.0)
        };
        let quantiles = LEVELS.map(|level| (0..mean.len()).map(|lead| step(level, lead)).collect::<Vec<f64>>());
        // Single steps are known sooner than highest ones. Between 10 % and 90 % lie 2.56 deviations.
        let seen = known.iter().rev().flatten().next();
        let width = |sorted: &Sorted| Some((sorted.quantile(0.9)? - sorted.quantile(0.1)?) / 2.56);
        let deviation = seen.and_then(width).unwrap_or(guess);
        let peaks = (self.peaks.len() >= ENOUGH_PEAKS).then(|| self.peaks.sorted());
        let peak = std::array::from_fn::<f64, { LEVELS.len() }, _>(|index| {
            let level = LEVELS[index];
            let seen = peaks.as_ref().and_then(|sorted| sorted.quantile(level));
            let usual = above(level, deviation, mean.len());
            // No step reaches above the highest one: neither do its quantiles.
            let of_steps = quantiles[index].iter().copied().fold(0.0, f64::max);
            (highest + seen.unwrap_or(usual) * unit(highest)).min(bounds.of(level)).max(of_steps)
        });
        (quantiles.into(), peak.into())
    }
}

/// By how many units the highest of some independent steps lies above their mean: about √(2 ln n) deviations.
fn above(level: f64, deviation: f64, steps: usize) -> f64 {
    deviation * (0.8 * (2.0 * (steps.max(2) as f64).ln()).sqrt() + 0.5 * normal(level))
}

/// What quantiles may be at most.
///
/// How wrong forecasts were is known in units of what was expected. Where that was little and much came, as before the
/// first burst or a step, it was by so many units that with a high forecast more would be likely than ever came.
struct Bounds {
    /// Of what is as likely to be exceeded as not.
    middle: f64,
    /// Of what is rarely exceeded.
    upper: f64,
}

impl Bounds {
    /// `highest` is the highest step that is expected; by so many units may come more than that and all that came.
    fn new(load: &Load<'_>, highest: f64, units: f64) -> Self {
        let least = highest.max(load.highest());
        let middle = if load.is_distinct() { least + units * unit(least) } else { f64::INFINITY };
        Self { middle: middle.min(most(load)), upper: most(load).max(MOST * FEW) }
    }

    fn of(&self, level: f64) -> f64 {
        if level > 0.5 { self.upper } else { self.middle }
    }
}

/// The most that is expected of a load: a rise goes on, but nobody knows how far. Where steps are too long to separate
/// idle time from load, nothing bounds it: all that came before may have been idle time.
pub(super) fn most(load: &Load<'_>) -> f64 {
    if load.is_distinct() { MOST * load.highest() } else { f64::INFINITY }
}

/// How far values lie from their neighbours, in the same unit; at least as far as if requests came independently.
fn restlessness(history: History<'_>) -> f64 {
    let known: Vec<f64> = history.last(120).known().map(|(_, value)| value).collect();
    let mut distances: Vec<f64> =
        known.windows(2).map(|pair| (pair[1] - pair[0]).abs() / unit(f64::midpoint(pair[0], pair[1]))).collect();
    // As long as there are few, the first of them says little: load that begins is not restless.
    distances.resize(distances.len().max(FEWEST_DISTANCES), INDEPENDENT);
    distances.sort_by(f64::total_cmp);
    (distances[distances.len() / 2] / INDEPENDENT).max(1.0)
}
