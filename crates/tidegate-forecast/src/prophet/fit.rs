//! One fit of Prophet, and what can be asked of it.

use std::sync::{Arc, OnceLock};

use augurs_prophet::{
    FeatureMode, GrowthType, Optimizer, PositiveFloat, PredictionData, Prophet, ProphetOptions, Seasonality,
    SeasonalityOption, TrainingData,
    optimizer::{Data, Error, InitialParams, OptimizeOpts, OptimizedParams},
};

use super::draws::{Bends, Uncertainty};
use super::{Components, Cycle, Growth, MapOptimizer, Mode, Settings};
use crate::{History, NotLearnt};

const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// The most steps of a search, so that a fit to 3,600 values is bounded: by about 0.2 s, and 0.4 s in multiplicative
/// mode, where the squares are summed anew in each step. Usual load takes a few hundred; the hardest series seen (a
/// bend without any noise; in multiplicative mode, one spike a thousand times as high as the rest) would take more, and
/// are left short of the optimum.
const MOST_STEPS: u32 = 4_000;
const MOST_STEPS_MULTIPLICATIVE: u32 = 1_500;

/// A fit. Times within are seconds since `origin`: of small numbers sines are more exact than of seconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    prophet: Prophet<Recorder>,
    origin: i64,
    /// The time after which the trend stays at a level, if it does.
    held: Option<(i64, f64)>,
    mode: Mode,
    pub(super) uncertainty: Uncertainty,
}

/// Keeps what the optimizer has found, which `Prophet` doesn't show.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<OnceLock<OptimizedParams>>);

impl Optimizer for Recorder {
    fn optimize(&self, init: &InitialParams, data: &Data, opts: &OptimizeOpts) -> Result<OptimizedParams, Error> {
        let found = MapOptimizer.optimize(init, data, opts)?;
        Ok(self.0.get_or_init(|| found).clone())
    }
}

impl Fit {
    /// Fits to the finite values of a history.
    pub(super) fn new(settings: &Settings, history: History<'_>, cycles: &[Cycle]) -> Result<Self, NotLearnt> {
        let step = i64::from(history.step.max(1));
        let finite = history.known().filter(|(_, value)| value.is_finite());
        let (times, values): (Vec<i64>, Vec<f64>) = finite.map(|(index, value)| (index as i64 * step, value)).unzip();
        let (Some(first), Some(last), true) = (times.first(), times.last(), times.len() >= Settings::LEAST) else {
            return Err(NotLearnt::TooShort { least: Settings::LEAST });
        };
        let (end, span) = (*last, (last - first) as f64);
        let highest = values.iter().fold(0.0, |highest: f64, value| highest.max(value.abs()));
        let scale = if highest > 0.0 { highest } else { 1.0 };

        let failed = |error: augurs_prophet::Error| NotLearnt::Failed(error.to_string());
        let recorder = Recorder::default();
        let mut prophet = Prophet::new(options(settings), recorder.clone());
        for cycle in cycles {
            let days = PositiveFloat::try_new(cycle.seconds / SECONDS_OF_A_DAY);
            let days = days.map_err(|error| NotLearnt::Failed(error.to_string()))?;
            prophet.add_seasonality(cycle.name.clone(), Seasonality::new(days, cycle.harmonics)).map_err(failed)?;
        }
        let data = TrainingData::new(times, values).map_err(failed)?;
        let steps = match settings.mode {
            Mode::Additive => MOST_STEPS,
            Mode::Multiplicative => MOST_STEPS_MULTIPLICATIVE,
        };
        prophet.fit(data, OptimizeOpts { iter: Some(steps), ..OptimizeOpts::default() }).map_err(failed)?;
        let found = recorder.0.get().ok_or_else(|| NotLearnt::Failed("nothing was found".to_owned()))?;
        let uncertainty = Uncertainty {
            noise: *found.sigma_obs * scale,
            bends: (settings.growth != Growth::Flat).then(|| bends(&found.delta, scale, end as f64, span)),
        };
        let mut fit = Self { prophet, origin: history.start, held: None, mode: settings.mode, uncertainty };
        if settings.growth == Growth::Held {
            let level = fit.prophet.predict(PredictionData::new(vec![end])).map_err(failed)?.trend.point[0];
            fit.held = Some((end, level));
        }
        Ok(fit)
    }

    /// The parts of what is expected at some times, in seconds since 1970.
    pub(super) fn components(&self, times: impl Iterator<Item = i64>) -> Option<Components> {
        let seconds = times.map(|time| time.checked_sub(self.origin)).collect::<Option<Vec<i64>>>()?;
        let predictions = self.prophet.predict(PredictionData::new(seconds)).ok()?;
        let mut trend = predictions.trend.point;
        if let Some((end, level)) = self.held {
            let later = predictions.ds.partition_point(|second| *second <= end);
            trend[later..].fill(level);
        }
        // Prophet's own sum of the cycles is in the order of a hash map, which differs from run to run, and so do its
        // last digits.
        let cycles = predictions.seasonalities.into_iter().map(|(name, cycle)| (name, cycle.point)).collect();
        Some(Components { trend, cycles, mode: self.mode })
    }

    /// Seconds since the time that this fit counts from.
    pub(super) fn since_origin(&self, time: i64) -> f64 {
        time.saturating_sub(self.origin) as f64
    }
}

/// The trend goes on changing as often as there are changepoints in the history, by as much as it did on average.
fn bends(delta: &[f64], scale: f64, end: f64, span: f64) -> Bends {
    let count = delta.len().max(1) as f64;
    let size = delta.iter().map(|delta| delta.abs()).sum::<f64>() / count;
    Bends { from: end, rate: count / span, size: size * scale / span }
}

fn options(settings: &Settings) -> ProphetOptions {
    let calendar = if settings.calendar { SeasonalityOption::Auto } else { SeasonalityOption::Manual(false) };
    ProphetOptions {
        growth: match settings.growth {
            Growth::Flat => GrowthType::Flat,
            Growth::Linear | Growth::Held => GrowthType::Linear,
        },
        seasonality_mode: match settings.mode {
            Mode::Additive => FeatureMode::Additive,
            Mode::Multiplicative => FeatureMode::Multiplicative,
        },
        n_changepoints: settings.changepoints,
        yearly_seasonality: calendar,
        weekly_seasonality: calendar,
        daily_seasonality: calendar,
        // Its own intervals come from a generator that can't be seeded.
        uncertainty_samples: 0,
        ..ProphetOptions::default()
    }
}
