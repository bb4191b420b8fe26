//! Several models together, each weighed by how well it did lately.

mod accuracy;
mod cycles;
mod idle;
mod member;
mod outliers;
mod pending;
mod spread;

pub use accuracy::Accuracy;

use std::collections::VecDeque;

use crate::models::{DampedHolt, Ewma, LastValue, SeasonalLevel, SeasonalMean};
use crate::{History, Model, ProphetModel, Season, Series};
use cycles::Cycles;
pub(crate) use idle::Load;
use idle::{Idle, Kind};
use member::{Member, combined, trials, weights};
use outliers::OutlierFilter;
use pending::Pending;
use spread::{Spread, most};

/// The settings of a forecaster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seconds from one value to the next.
    pub step: u32,
    /// Steps that are forecast.
    pub horizon: usize,
    /// Steps from one forecast that is scored to the next.
    pub stride: usize,
    /// Values that are kept.
    pub kept: usize,
}

impl Default for Settings {
    /// A minute ahead by seconds, of an hour kept.
    fn default() -> Self {
        Self { step: 1, horizon: 60, stride: 5, kept: 3_600 }
    }
}

impl Settings {
    /// What suits a series with steps of so many seconds: by seconds a minute ahead, of an hour kept; by minutes and
    /// more an hour of five-minute steps ahead, of two weeks kept.
    pub fn for_step(step: u32) -> Self {
        match step {
            0..60 => Self { step, ..Self::default() },
            _ => Self { step, horizon: 12, stride: 6, kept: 4_096 },
        }
    }

    /// After how many values forecasts are worth being judged: five horizons by the second; where cycles are days, two
    /// of them.
    pub fn warm_up(self) -> usize {
        if self.step < 60 { 300 } else { 600 }
    }
}

/// A series and its models. It is handed values, and returns what it expects.
///
/// Every few steps each model makes a forecast that is kept until it is known how good it was. A model's weight is its
/// recent loss to the power of −4, apart for near and far steps: where one model is clearly better it counts alone,
/// where several are alike their mean is better than each. How wide the quantiles are follows from how wrong these very
/// forecasts were, and so does how far the highest step of a horizon usually lies above the highest of the forecast.
pub struct Forecaster {
    settings: Settings,
    series: Series,
    outliers: OutlierFilter,
    idle: Idle,
    members: Vec<Member>,
    cycles: Cycles,
    /// The end of the history of the last forecast that is scored.
    origin: Option<i64>,
    pending: VecDeque<Pending>,
    spread: Spread,
    accuracy: Accuracy,
}

/// What is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// When the first step begins, in seconds since 1970.
    pub start: i64,
    /// Seconds from one step to the next.
    pub step: u32,
    /// The expected value of each step.
    pub mean: Vec<f64>,
    /// For each of [`LEVELS`] the value of each step below which the actual one lies with that probability.
    pub quantiles: Vec<Vec<f64>>,
    /// For each of [`LEVELS`] the same of the highest step of all.
    pub peak: Vec<f64>,
    /// What each model expects, and how much it counts.
    pub members: Vec<MemberForecast>,
    /// The cycles that were found.
    pub seasons: Vec<Season>,
}

/// What one model expects.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberForecast {
    /// Which model.
    pub name: &'static str,
    /// Its share of the forecast, from 0 to 1: the mean over all steps.
    pub weight: f64,
    /// What it expects; none if it can't forecast yet.
    pub path: Option<Vec<f64>>,
}

/// The probabilities for which quantiles are given.
pub const LEVELS: [f64; 5] = [0.1, 0.25, 0.5, 0.9, 0.95];

impl Forecast {
    /// The index of a probability in [`LEVELS`].
    fn level(level: f64) -> usize {
        LEVELS.iter().position(|known| (known - level).abs() < 1e-9).unwrap_or(LEVELS.len() / 2)
    }

    /// The quantile of each step. `level` is one of [`LEVELS`].
    pub fn quantile(&self, level: f64) -> &[f64] {
        &self.quantiles[Self::level(level)]
    }

    /// The quantile of the highest step. `level` is one of [`LEVELS`].
    pub fn highest(&self, level: f64) -> f64 {
        self.peak[Self::level(level)]
    }
}

impl Forecaster {
    /// One with the simple models. Settings are at least 1 each.
    pub fn new(settings: Settings) -> Self {
        let Settings { step, horizon, stride, kept } = settings;
        let settings =
            Settings { step: step.max(1), horizon: horizon.max(1), stride: stride.max(1), kept: kept.max(1) };
        let horizon = settings.horizon;
        let mut forecaster = Self {
            settings,
            series: Series::new(settings.step, settings.kept),
            outliers: OutlierFilter::default(),
            idle: Idle::default(),
            members: Vec::new(),
            cycles: Cycles::default(),
            origin: None,
            pending: VecDeque::new(),
            spread: Spread::new(horizon),
            accuracy: Accuracy::default(),
        };
        forecaster.add_simple(LastValue);
        forecaster.add_simple(Ewma::new(horizon));
        forecaster.add_simple(DampedHolt::new(horizon));
        forecaster.add_simple(SeasonalMean::default());
        forecaster.add_simple(SeasonalLevel::default());
        forecaster
    }

    /// The same, and Prophet, which learns once in a horizon, or in a sixty-fourth of what is kept if that is longer.
    pub fn with_prophet(settings: Settings) -> Self {
        let every = settings.horizon.max(settings.kept / 64);
        Self::new(settings).with_slow(ProphetModel::default(), every)
    }

    fn add_simple(&mut self, model: impl Model + 'static) {
        self.members.push(Member::simple(Box::new(model), self.settings.horizon));
    }

    /// One model more, which is slow to learn: it does so once in `every` steps, and counts when it has been seen to be
    /// good.
    #[must_use]
    pub fn with_slow(mut self, model: impl Model + 'static, every: usize) -> Self {
        self.members.push(Member::slow(Box::new(model), self.settings.horizon, every));
        self
    }

    /// A value came, for this second. Those that come late fill gaps, and teach nothing about forecasts. `false` if it
    /// can't be used: not a number from 0 on, older than all that is kept, or so far above all others that the next one
    /// must confirm it.
    pub fn observe(&mut self, second: i64, value: f64) -> bool {
        let end = self.series.history().end();
        if !self.series.takes(second, value) {
            return false;
        }
        if !self.outliers.accepts(self.series.history(), self.settings.kept, second, value) {
            return false;
        }
        self.series.put(second, value);
        if second < end && (self.idle.is_now() || !self.pending.is_empty()) {
            return true;
        }
        match self.idle.meet(self.series.history(), second, value) {
            Kind::Load { is_first, before } => {
                if is_first {
                    self.origin = None;
                }
                for (second, value) in before.into_iter().chain([(second, value)]) {
                    self.score(second, value);
                }
            }
            Kind::Undecided => {}
            Kind::Idle { before } => {
                let seconds = before.into_iter().map(|(second, _)| second).chain([second]);
                seconds.for_each(|second| self.skip(second));
                return true;
            }
        }
        let end = self.series.history().end();
        let stride = (self.settings.stride * self.settings.step as usize) as i64;
        if self.origin.is_none_or(|origin| end - origin >= stride) {
            self.originate(end);
        }
        true
    }

    /// How good were the forecasts of this value?
    fn score(&mut self, second: i64, value: f64) {
        self.members.iter_mut().for_each(Member::forget);
        self.accuracy.forget();
        for pending in &mut self.pending {
            let Some(lead) = pending.lead(second, self.settings.step) else { continue };
            for (member, path) in self.members.iter_mut().zip(&pending.paths) {
                if let Some(expected) = path.as_ref().and_then(|path| path.get(lead)) {
                    member.score(lead, value - expected);
                }
            }
            self.spread.score(lead, pending.mean[lead], value);
            self.accuracy.score(pending.mean[lead], pending.high[lead], value);
            pending.saw(value);
        }
        while let Some(oldest) = self.pending.front()
            && oldest.is_over(second, self.settings.step)
        {
            if let Some((expected, came)) = oldest.peaks() {
                self.spread.score_peak(expected, came);
            }
            self.pending.pop_front();
        }
    }

    /// Idle time: what was expected of it is neither right nor wrong.
    fn skip(&mut self, second: i64) {
        let is_expected = |pending: &&mut Pending| pending.lead(second, self.settings.step).is_some();
        self.pending.iter_mut().filter(is_expected).for_each(Pending::idled);
    }

    /// Makes a forecast that will be scored.
    fn originate(&mut self, end: i64) {
        self.origin = Some(end);
        if self.idle.learn(self.series.history()) {
            // It was judged by how it foresaw nothing.
            self.forget_scores();
        }
        let load = self.idle.load(self.series.history());
        let history = load.history();
        let changed = self.cycles.look(history, self.settings.stride);
        for member in &mut self.members {
            member.learn(history, self.cycles.found(), changed);
        }
        if changed {
            let tried = self.tried_spread(history);
            if tried.is_much_narrower_than(&self.spread) {
                // What was expected before the cycle was known says nothing about what is expected from here on.
                self.spread = tried;
                self.pending.clear();
            }
        }
        let paths = self.paths(history);
        if let Some(mean) = self.expected(&paths, &load) {
            let (mut quantiles, _) = self.spread.around(&mean, &load);
            let high = quantiles.swap_remove(Forecast::level(0.9));
            self.pending.push_back(Pending::new(end, mean, high, paths));
        }
    }

    /// How wrong the models would have been lately, with the cycle as it is known now. How wrong they were before they
    /// knew it says nothing.
    fn tried_spread(&self, history: History<'_>) -> Spread {
        let mut spread = Spread::new(self.settings.horizon);
        for (before, after) in trials(history, self.cycles.found(), self.settings.horizon) {
            let paths: Vec<_> = self.members.iter().map(|member| member.trial(before)).collect();
            let Some(mean) = combined(&self.members, &paths, self.settings.horizon) else { continue };
            for (lead, came) in after.iter().enumerate().filter(|(_, came)| !came.is_nan()) {
                spread.score(lead, mean[lead], f64::from(*came));
            }
        }
        spread
    }

    /// Forgets how good forecasts were.
    fn forget_scores(&mut self) {
        self.pending.clear();
        self.spread = Spread::new(self.settings.horizon);
        self.accuracy = Accuracy::default();
        self.members.iter_mut().for_each(Member::forget_all);
    }

    /// Forgets all that came, and what was learnt from it about models; not what models have learnt.
    pub fn forget(&mut self) {
        self.series = Series::new(self.settings.step, self.settings.kept);
        self.outliers = OutlierFilter::default();
        self.idle = Idle::default();
        (self.cycles, self.origin) = (Cycles::default(), None);
        self.forget_scores();
    }

    /// Takes over what was known before a restart.
    pub fn restore(&mut self, history: History<'_>) {
        for (index, value) in history.known() {
            self.series.put(history.start + index as i64 * i64::from(history.step), value);
        }
        let history = self.series.history();
        let end = history.end();
        // In idle time there is nothing to learn but that.
        if !history.values.is_empty() && !self.idle.restore(history) {
            self.originate(end);
        }
    }

    fn paths(&self, history: History<'_>) -> Vec<Option<Vec<f64>>> {
        self.members.iter().map(|member| member.path(history, self.settings.horizon)).collect()
    }

    /// What all models together expect.
    fn expected(&self, paths: &[Option<Vec<f64>>], load: &Load<'_>) -> Option<Vec<f64>> {
        if self.idle.is_now() {
            // What models say of the load counts when it comes again.
            let (_, last) = load.history().known().next_back()?;
            return Some(vec![last; self.settings.horizon]);
        }
        let most = most(load);
        let mean = combined(&self.members, paths, self.settings.horizon)?;
        Some(mean.into_iter().map(|value| value.min(most)).collect())
    }

    /// What is expected from now on; none before the first value.
    pub fn forecast(&self) -> Option<Forecast> {
        let load = self.load();
        let history = load.history();
        let paths = self.paths(history);
        let mean = self.expected(&paths, &load)?;
        let (quantiles, peak) = self.spread.around(&mean, &load);
        let weights = weights(&self.members, &paths);
        let members = self.members.iter().zip(paths).zip(weights);
        let members = members.map(|((member, path), weight)| MemberForecast { name: member.name(), weight, path });
        Some(Forecast {
            start: history.end(),
            step: self.settings.step,
            mean,
            quantiles,
            peak,
            members: members.collect(),
            seasons: self.cycles.found().to_vec(),
        })
    }

    /// How good forecasts were lately.
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// What of it is load.
    pub(crate) fn load(&self) -> Load<'_> {
        self.idle.load(self.series.history())
    }

    /// What is known.
    pub fn history(&self) -> History<'_> {
        self.series.history()
    }
}
