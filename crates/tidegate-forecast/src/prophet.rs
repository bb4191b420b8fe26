//! Prophet: a trend, cycles as Fourier series, and noise.
//!
//! The model is `augurs-prophet`'s. The search for the parameters is ours ([`MapOptimizer`]) instead of Stan's.

#![expect(clippy::cast_precision_loss, reason = "counts and times are far below 2⁵²")]

mod draws;
mod fit;
mod optimizer;
mod posterior;
mod quadratic;
mod search;
mod trend;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

pub use optimizer::MapOptimizer;
pub use posterior::{Params, Posterior};

use crate::{History, Model, NotLearnt, Season};
use fit::Fit;

/// Prophet, as a model of load.
///
/// It learns from the last [`Settings::window`] values, and predicts from the time alone: what came since it has learnt
/// changes nothing.
#[derive(Clone, Debug, Default)]
pub struct ProphetModel {
    settings: Settings,
    fit: Option<Fit>,
    cycles: Vec<Cycle>,
}

/// How Prophet is set. The scales of its priors are Prophet's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The shape of the trend.
    pub growth: Growth,
    /// How cycles and trend make a value.
    pub mode: Mode,
    /// How many values, gaps included, it learns from; older ones are not looked at. A fit takes time in proportion.
    pub window: usize,
    /// How many changepoints a trend has that is not flat, in the first 80 % of the window.
    pub changepoints: u32,
    /// How many of the cycles that were found it takes, the strongest first.
    pub most_seasons: usize,
    /// The most harmonics of one cycle. A burst of a sixth of its cycle needs 20 for its edges; a smooth cycle leaves
    /// the higher ones at zero.
    pub most_harmonics: u32,
    /// Whether it adds the cycles of the calendar (a day, a week, a year) that fit twice into the window, as Prophet
    /// does with daily data.
    pub calendar: bool,
}

/// The shape of a trend.
///
/// Measured on load per second with horizons of 60 and 300 s: where the level stays all three are equal; where it
/// wanders, rises or jumps, a flat trend is off by 1.2 to 5 times as much as a held one. Linear is off by as much as
/// held or up to 17 % more; on a steady rise, by 6 % less. On real series of five minutes none of them is the best
/// everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// A constant: the fit takes a third of the time, or less.
    Flat,
    /// Straight pieces between changepoints, as Prophet has it; the last one goes on without end.
    Linear,
    /// The same within the window; after it the trend stays where it was: load that has risen for a minute does not
    /// rise for an hour.
    Held,
}

/// How cycles and trend make a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Their sum.
    Additive,
    /// Cycles are shares of the trend.
    Multiplicative,
}

/// A cycle that the model has.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// What it is called in [`Components::cycles`].
    pub name: String,
    /// How long it is.
    pub seconds: f64,
    /// How many harmonics it has.
    pub harmonics: NonZeroU32,
}

/// The parts of expected values, before they are cut at zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// The trend.
    pub trend: Vec<f64>,
    /// Each cycle by its name; in multiplicative mode, as a share of the trend.
    pub cycles: BTreeMap<String, Vec<f64>>,
    /// How they make a value.
    pub mode: Mode,
}

impl Settings {
    /// From so many known values on it learns.
    pub const LEAST: usize = 10;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            growth: Growth::Held,
            mode: Mode::Additive,
            window: 3_600,
            changepoints: 25,
            most_seasons: 2,
            most_harmonics: 20,
            calendar: false,
        }
    }
}

impl ProphetModel {
    /// One that has not learnt yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, fit: None, cycles: Vec::new() }
    }

    /// The cycles it has learnt, without those of the calendar.
    pub fn cycles(&self) -> &[Cycle] {
        &self.cycles
    }

    /// The parts of the expected values at `count` times from `start` on, every `step` seconds.
    pub fn components(&self, start: i64, step: u32, count: usize) -> Option<Components> {
        self.fit.as_ref()?.components(times(start, step, count)?)
    }

    /// `count` possible paths after the end of this history. The same seed gives the same ones.
    pub fn draws(&self, history: History<'_>, steps: usize, count: usize, seed: u64) -> Option<Vec<Vec<f64>>> {
        let fit = self.fit.as_ref()?;
        let expected = fit.components(times(history.end(), history.step, steps)?)?;
        let seconds: Vec<f64> = times(history.end(), history.step, steps)?.map(|time| fit.since_origin(time)).collect();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut draw = || {
            let higher = fit.uncertainty.trend(&seconds, &mut rng);
            let value = |(index, higher)| bounded(expected.value(index, higher) + fit.uncertainty.noise(&mut rng));
            higher.into_iter().enumerate().map(value).collect()
        };
        Some((0..count).map(|_| draw()).collect())
    }

    /// For each of these levels, from 0 to 1, the path of that quantile over `count` draws (at least one).
    pub fn quantiles(
        &self,
        history: History<'_>,
        steps: usize,
        levels: &[f64],
        count: usize,
        seed: u64,
    ) -> Option<Vec<Vec<f64>>> {
        let draws = self.draws(history, steps, count.max(1), seed)?;
        let mut paths = vec![Vec::with_capacity(steps); levels.len()];
        let mut values = Vec::with_capacity(draws.len());
        for step in 0..steps {
            values.clear();
            values.extend(draws.iter().map(|path| path[step]));
            values.sort_unstable_by(f64::total_cmp);
            for (path, level) in paths.iter_mut().zip(levels) {
                path.push(draws::quantile(&values, *level));
            }
        }
        Some(paths)
    }

    /// Those of the cycles that the window shows at least twice, and that are longer than two steps.
    fn usable(&self, window: History<'_>, seasons: &[Season]) -> Vec<Cycle> {
        let longest = window.values.len() as f64 / 2.0;
        let usable = seasons.iter().filter(|season| (3.0..=longest).contains(&season.period));
        let cycle = |(index, season): (usize, &Season)| {
            let harmonics = ((season.period - 1.0) / 2.0) as u32;
            let harmonics = NonZeroU32::new(harmonics.min(self.settings.most_harmonics))?;
            let seconds = season.period * f64::from(window.step.max(1));
            Some(Cycle { name: format!("cycle {}", index + 1), seconds, harmonics })
        };
        usable.take(self.settings.most_seasons).enumerate().filter_map(cycle).collect()
    }
}

impl Model for ProphetModel {
    fn name(&self) -> &'static str {
        "prophet"
    }

    fn learn(&mut self, history: History<'_>, seasons: &[Season]) -> Result<(), NotLearnt> {
        let window = history.last(self.settings.window);
        let cycles = self.usable(window, seasons);
        self.fit = Some(Fit::new(&self.settings, window, &cycles)?);
        self.cycles = cycles;
        Ok(())
    }

    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        let expected = self.components(history.end(), history.step, steps)?;
        Some((0..steps).map(|index| bounded(expected.value(index, 0.0))).collect())
    }
}

impl Components {
    /// The expected value at an index, if the trend were higher by this.
    pub fn value(&self, index: usize, higher: f64) -> f64 {
        let trend = self.trend[index] + higher;
        let cycles: f64 = self.cycles.values().map(|cycle| cycle[index]).sum();
        match self.mode {
            Mode::Additive => trend + cycles,
            Mode::Multiplicative => trend * (1.0 + cycles),
        }
    }
}

fn times(start: i64, step: u32, count: usize) -> Option<impl Iterator<Item = i64>> {
    let step = i64::from(step.max(1));
    let end = i64::try_from(count).ok()?.checked_mul(step)?.checked_add(start)?;
    Some((start..end).step_by(usize::try_from(step).ok()?))
}

fn bounded(value: f64) -> f64 {
    value.clamp(0.0, f64::MAX)
}
