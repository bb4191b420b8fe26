use crate::{History, Model, Season};

/// Steps are judged apart by how far ahead they are: near, and in three parts of the rest.
const BANDS: usize = 4;
/// How steeply a weight falls with the loss.
const STEEPNESS: i32 = 4;
/// For how many horizons a loss is remembered.
const MEMORY: f64 = 4.0;
/// How far back a model that has no record yet is tried, in horizons, and how often.
const TRIED_BACK: usize = 2;
const TRIALS: usize = 8;
/// With fewer values nothing is tried.
const FEWEST_KNOWN: usize = 10;

/// A model and its record.
pub(super) struct Member {
    model: Box<dyn Model>,
    horizon: usize,
    losses: [Loss; BANDS],
    /// How much of a loss is kept from one value to the next.
    keeping: f64,
    kind: Kind,
    learnt_at: Option<i64>,
}

/// Whether it can be tried on the past, which only those can that do not fit themselves to it.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Simple,
    Slow { every: usize },
}

/// A mean distance in which old values fade.
#[derive(Clone, Copy, Default)]
struct Loss {
    sum: f64,
    count: f64,
}

impl Loss {
    fn mean(self) -> Option<f64> {
        (self.count >= 0.5).then(|| self.sum / self.count)
    }
}

fn band(lead: usize, horizon: usize) -> usize {
    // 1/12, 1/4 and 1/2 of the horizon.
    [12, 4, 2].iter().filter(|part| lead * **part >= horizon).count()
}

impl Member {
    pub(super) fn simple(model: Box<dyn Model>, horizon: usize) -> Self {
        Self::new(model, horizon, Kind::Simple)
    }

    pub(super) fn slow(model: Box<dyn Model>, horizon: usize, every: usize) -> Self {
        Self::new(model, horizon, Kind::Slow { every })
    }

    fn new(model: Box<dyn Model>, horizon: usize, kind: Kind) -> Self {
        let keeping = 1.0 - 1.0 / (MEMORY * horizon as f64).max(40.0);
        Self { model, horizon, losses: Default::default(), keeping, kind, learnt_at: None }
    }

    pub(super) fn name(&self) -> &'static str {
        self.model.name()
    }

    /// Learns, if it is time. When the cycle is `changed` what was seen of the model under another one counts no more,
    /// and it is tried anew.
    pub(super) fn learn(&mut self, history: History<'_>, seasons: &[Season], changed: bool) {
        let end = history.end();
        if let (Kind::Slow { every }, Some(at)) = (self.kind, self.learnt_at) {
            let every = every as i64 * i64::from(history.step);
            if end - at < if changed { every / 4 } else { every } {
                return;
            }
        }
        self.learnt_at = Some(end);
        // One that can't learn keeps what it knew, and its record says what that is worth.
        let _reason = self.model.learn(history, seasons);
        if self.kind == Kind::Simple && (changed || self.losses.iter().all(|loss| loss.count == 0.0)) {
            self.try_on(history, seasons);
        }
    }

    /// Makes a record from forecasts of what is known already.
    fn try_on(&mut self, history: History<'_>, seasons: &[Season]) {
        self.losses = Default::default();
        for (before, after) in trials(history, seasons, self.horizon) {
            let Some(path) = self.path(before, self.horizon) else { continue };
            for (lead, (expected, came)) in path.iter().zip(after).enumerate() {
                if !came.is_nan() {
                    self.score(lead, f64::from(*came) - expected);
                }
            }
        }
    }

    /// What it would have forecast in the past, if that can be known.
    pub(super) fn trial(&self, history: History<'_>) -> Option<Vec<f64>> {
        if self.kind == Kind::Simple { self.path(history, self.horizon) } else { None }
    }

    pub(super) fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        let path = self.model.path(history, steps)?;
        path.iter().all(|value| value.is_finite()).then_some(path)
    }

    pub(super) fn score(&mut self, lead: usize, error: f64) {
        let loss = &mut self.losses[band(lead, self.horizon)];
        loss.sum += error.abs();
        loss.count += 1.0;
    }

    pub(super) fn forget_all(&mut self) {
        (self.losses, self.learnt_at) = (Default::default(), None);
    }

    /// A step of time: what was counts a little less.
    pub(super) fn forget(&mut self) {
        for loss in &mut self.losses {
            loss.sum *= self.keeping;
            loss.count *= self.keeping;
        }
    }

    fn loss(&self, band: usize) -> Option<f64> {
        self.losses[band].mean().or_else(|| {
            // Far steps are known last: until then near ones must do.
            let known = self.losses.iter().filter(|loss| loss.count >= 0.5);
            known.filter_map(|loss| loss.mean()).reduce(f64::max)
        })
    }
}

/// Moments of the recent past: what was known then, and what followed. Only those at which the cycle could have been
/// known as it is now.
pub(super) fn trials<'a>(
    history: History<'a>,
    seasons: &[Season],
    horizon: usize,
) -> impl Iterator<Item = (History<'a>, &'a [f32])> + use<'a> {
    let least = seasons.first().map_or(FEWEST_KNOWN, |season| (2.0 * season.period).ceil() as usize);
    let known = history.values.len();
    let reach = (TRIED_BACK * horizon).min(known.saturating_sub(least));
    let every = (reach / TRIALS).max(1);
    let backs = (1..=TRIALS).map(move |trial| trial * every).filter(move |back| *back <= reach);
    backs.map(move |back| {
        let (before, after) = history.values.split_at(known - back);
        (history.first(before.len()), &after[..horizon.min(back)])
    })
}

/// The weights of those that have a forecast, by band.
fn band_weights(members: &[Member], paths: &[Option<Vec<f64>>], band: usize) -> Vec<f64> {
    let losses = members.iter().zip(paths).map(|(member, path)| path.as_ref().and_then(|_| member.loss(band)));
    let losses: Vec<Option<f64>> = losses.collect();
    let best = losses.iter().flatten().copied().reduce(f64::min);
    let weight = |loss: &Option<f64>| match (loss, best) {
        // A best of nothing at all: those who are as good share, and the others are far off.
        (Some(loss), Some(best)) => ((best + 1e-9) / (loss + 1e-9)).powi(STEEPNESS),
        _ => 0.0,
    };
    let mut weights: Vec<f64> = losses.iter().map(weight).collect();
    if best.is_none() {
        weights = paths.iter().map(|path| f64::from(u8::from(path.is_some()))).collect();
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| if sum > 0.0 { weight / sum } else { 0.0 }).collect()
}

/// Each one's mean weight.
pub(super) fn weights(members: &[Member], paths: &[Option<Vec<f64>>]) -> Vec<f64> {
    let mut means = vec![0.0; members.len()];
    for band in 0..BANDS {
        for (mean, weight) in means.iter_mut().zip(band_weights(members, paths, band)) {
            *mean += weight / BANDS as f64;
        }
    }
    means
}

/// The mean of all that have a forecast, by their weights.
pub(super) fn combined(members: &[Member], paths: &[Option<Vec<f64>>], horizon: usize) -> Option<Vec<f64>> {
    paths.iter().flatten().next()?;
    let weights: Vec<Vec<f64>> = (0..BANDS).map(|band| band_weights(members, paths, band)).collect();
    let at = |lead: usize| {
        let shares = weights[band(lead, horizon)].iter().zip(paths);
        shares.filter_map(|(weight, path)| path.as_ref().map(|path| weight * path[lead])).sum::<f64>()
    };
    Some((0..horizon).map(at).collect())
}
