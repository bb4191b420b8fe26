//! How good forecasts would have been: the series is given value by value, as it came, and every few steps a forecast
//! is compared with what followed.

use crate::forecaster::{Forecast, Forecaster, LEVELS};
use crate::{History, Season, Settings, models};

/// What a backtest found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How many forecasts were compared.
    pub origins: usize,
    /// The mean distance of a value from the one before it: the unit of MASE.
    pub unit: f64,
    /// Each model, and last all of them together.
    pub scores: Vec<Score>,
    /// Of all of them together.
    pub quantiles: Vec<QuantileScore>,
    /// How many of all values lay from the 10 % to the 90 % quantile, both included: where many values are the same,
    /// such as nothing, these are more than 80 %.
    pub within_band: f64,
    /// The same as `quantiles` for the highest step of a horizon, of those in which nearly all steps are known.
    pub peaks: Vec<QuantileScore>,
    /// The mean distance of the highest step from the middle of what was expected, as a share of it.
    pub peak_error: f64,
    /// The cycles that were known at the end, the strongest first.
    pub seasons: Vec<Season>,
    /// Each forecast's first values, to be drawn.
    pub course: Vec<Course>,
}

impl Outcome {
    /// How good a model was; none without a model of this name.
    pub fn score(&self, name: &str) -> Option<&Score> {
        self.scores.iter().find(|score| score.name == name)
    }

    /// The best single simple model, of those that nearly always made a forecast. One that forecasts only where it is
    /// easy can't be compared.
    pub fn best_simple(&self) -> Option<&Score> {
        let simple = self.scores.iter().filter(|score| models::SIMPLE.contains(&score.name));
        simple.filter(|score| score.origins * 10 >= self.origins * 9).min_by(|a, b| a.mase.total_cmp(&b.mase))
    }
}

impl QuantileScore {
    /// Whether anything was compared: what always lay above a quantile has made a loss.
    pub fn is_judged(&self) -> bool {
        self.covered > 0.0 || self.pinball > 0.0
    }
}

/// How good one model was.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Which model; `combination` is all of them together.
    pub name: &'static str,
    /// The mean distance of what came from what was expected, in the unit of [`Outcome::unit`].
    pub mase: f64,
    /// How many forecasts it made.
    pub origins: usize,
    /// Its mean weight in the combination.
    pub weight: f64,
}

/// How good a quantile was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileScore {
    /// The probability that was promised.
    pub level: f64,
    /// How many of all values lay at or below it.
    pub covered: f64,
    /// The mean pinball loss: max(level · d, (level − 1) · d) for a value that lies d above the quantile.
    pub pinball: f64,
}

/// A forecast beside what came.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// The index of its first step in the series.
    pub index: usize,
    /// The expected values up to the next forecast.
    pub mean: Vec<f64>,
    /// The 10 % and the 90 % quantiles of them.
    pub band: (Vec<f64>, Vec<f64>),
}

impl Course {
    fn new(index: usize, forecast: &Forecast, steps: usize) -> Self {
        let first = |path: &[f64]| path[..steps.clamp(1, path.len())].to_vec();
        Self {
            index,
            mean: first(&forecast.mean),
            band: (first(forecast.quantile(0.1)), first(forecast.quantile(0.9))),
        }
    }
}

/// By this share two values may differ and count as the same: where load repeats exactly, rounding would decide what
/// lies below.
const SAME: f64 = 1e-6;

/// The name of all models together.
pub const COMBINATION: &str = "combination";

/// Feeds `history` to the forecaster and judges what it expects, from the value after the first `warm_up` on. None, if
/// nothing could be judged.
pub fn backtest(
    history: History<'_>,
    settings: Settings,
    warm_up: usize,
    mut forecaster: Forecaster,
) -> Option<Outcome> {
    let mut sums = Sums::default();
    for (index, value) in history.values.iter().enumerate() {
        let second = history.start + index as i64 * i64::from(history.step);
        if !value.is_nan() {
            forecaster.observe(second, f64::from(*value));
        }
        let reported = index + 1;
        if reported >= warm_up
            && reported % settings.stride.max(1) == 0
            && reported + settings.horizon <= history.values.len()
            && let Some(forecast) = forecaster.forecast()
        {
            // After a gap at the end the forecast begins where the known values end, and within one it is the same as
            // before.
            let begin = ((forecast.start - history.start) / i64::from(history.step)) as usize;
            if sums.course.last().is_none_or(|course| course.index < begin) {
                sums.judge(&forecast, &history.values[begin..begin + settings.horizon]);
                sums.course.push(Course::new(begin, &forecast, settings.stride));
                sums.seasons = forecast.seasons;
            }
        }
    }
    sums.outcome(unit(history))
}

fn unit(history: History<'_>) -> f64 {
    let known: Vec<f64> = history.known().map(|(_, value)| value).collect();
    let distance = known.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum::<f64>();
    distance / (known.len().max(2) - 1) as f64
}

#[derive(Default)]
struct Sums {
    origins: usize,
    models: Vec<ModelSum>,
    quantiles: [QuantileSum; LEVELS.len()],
    within_band: usize,
    peaks: [QuantileSum; LEVELS.len()],
    peak_error: f64,
    seasons: Vec<Season>,
    course: Vec<Course>,
}

#[derive(Clone, Copy)]
struct ModelSum {
    name: &'static str,
    distance: f64,
    steps: usize,
    origins: usize,
    weight: f64,
}

#[derive(Clone, Copy, Default)]
struct QuantileSum {
    covered: usize,
    count: usize,
    pinball: f64,
}

impl QuantileSum {
    fn add(&mut self, level: f64, expected: f64, came: f64) {
        let distance = came - expected;
        self.covered += usize::from(distance <= SAME * came.max(1.0));
        self.count += 1;
        self.pinball += (level * distance).max((level - 1.0) * distance);
    }

    fn score(self, level: f64) -> QuantileScore {
        let count = self.count.max(1) as f64;
        QuantileScore { level, covered: self.covered as f64 / count, pinball: self.pinball / count }
    }
}

impl Sums {
    fn judge(&mut self, forecast: &Forecast, came: &[f32]) {
        let known = || {
            came.iter().enumerate().filter(|(_, value)| !value.is_nan()).map(|(lead, value)| (lead, f64::from(*value)))
        };
        if known().count() == 0 {
            return;
        }
        self.origins += 1;
        for member in &forecast.members {
            self.add(member.name, member.path.as_deref(), member.weight, known());
        }
        self.add(COMBINATION, Some(&forecast.mean), 1.0, known());
        let highest = known().map(|(_, value)| value).fold(0.0, f64::max);
        // With more gaps than that the highest may be in one of them.
        let is_peak_known = known().count() * 10 >= came.len() * 9;
        for (index, level) in LEVELS.into_iter().enumerate() {
            known().for_each(|(lead, value)| self.quantiles[index].add(level, forecast.quantiles[index][lead], value));
            if is_peak_known {
                self.peaks[index].add(level, forecast.peak[index], highest);
            }
        }
        let band = forecast.quantile(0.1).iter().copied().zip(forecast.quantile(0.9).iter().copied());
        let band: Vec<(f64, f64)> = band.collect();
        let is_within = |(lead, value): &(usize, f64)| {
            let (low, high) = band[*lead];
            (low - SAME * low.max(1.0)..=high + SAME * high.max(1.0)).contains(value)
        };
        self.within_band += known().filter(is_within).count();
        if is_peak_known {
            self.peak_error += (highest - forecast.highest(0.5)).abs() / highest.max(1.0);
        }
    }

    fn add(
        &mut self,
        name: &'static str,
        path: Option<&[f64]>,
        weight: f64,
        known: impl Iterator<Item = (usize, f64)>,
    ) {
        let index = self.models.iter().position(|sum| sum.name == name).unwrap_or_else(|| {
            self.models.push(ModelSum { name, distance: 0.0, steps: 0, origins: 0, weight: 0.0 });
            self.models.len() - 1
        });
        let sum = &mut self.models[index];
        sum.weight += weight;
        if let Some(path) = path {
            sum.origins += 1;
            for (lead, value) in known {
                sum.distance += (value - path[lead]).abs();
                sum.steps += 1;
            }
        }
    }

    fn outcome(self, unit: f64) -> Option<Outcome> {
        let origins = self.origins;
        if origins == 0 {
            return None;
        }
        let score = |sum: ModelSum| Score {
            name: sum.name,
            mase: sum.distance / sum.steps.max(1) as f64 / unit.max(f64::MIN_POSITIVE),
            origins: sum.origins,
            weight: sum.weight / origins as f64,
        };
        let of = |sums: [QuantileSum; LEVELS.len()]| {
            LEVELS.iter().zip(sums).map(|(level, sum)| sum.score(*level)).collect::<Vec<_>>()
        };
        Some(Outcome {
            origins,
            unit,
            scores: self.models.into_iter().map(score).collect(),
            quantiles: of(self.quantiles),
            within_band: self.within_band as f64 / self.quantiles[0].count.max(1) as f64,
            peaks: of(self.peaks),
            peak_error: self.peak_error / self.peaks[0].count.max(1) as f64,
            seasons: self.seasons,
            course: self.course,
        })
    }
}
