use crate::{History, Model, NotLearnt, Season};

/// The mean of the same moment in the cycles before, recent ones first.
#[derive(Clone, Debug, Default)]
pub struct SeasonalMean {
    season: Option<Season>,
}

/// The same, and on top of it how far the newest values lie above or below their cycle, which fades.
#[derive(Clone, Debug, Default)]
pub struct SeasonalLevel {
    season: Option<Season>,
    following: Following,
}

/// How the distance from the cycle is followed: how much the newest value counts, and how much of it is left after a
/// step.
#[derive(Clone, Copy, Debug, Default)]
struct Following {
    alpha: f64,
    fading: f64,
}

/// Cycles that count, and how much less each earlier one does.
const CYCLES: usize = 10;
const FORGETTING: f64 = 0.85;
/// How many of the newest values that distance is taken from.
const NEWEST: usize = 40;
const ALPHAS: [f64; 4] = [0.1, 0.3, 0.6, 0.95];
const FADINGS: [f64; 5] = [0.5, 0.8, 0.9, 0.97, 0.995];

/// What the cycles before had at an index, which may lie beyond the end of the history. Nearest values, not something
/// between two: the edges of a burst are sharp.
fn seasonal(history: History<'_>, season: Season, index: usize) -> Option<f64> {
    let (mut sum, mut weights, mut weight, mut seen) = (0.0, 0.0, 1.0, 0);
    let mut back = 1.0;
    while seen < CYCLES {
        let earlier = (index as f64 - back * season.period).round();
        back += 1.0;
        if earlier < 0.0 {
            break;
        }
        let Some(value) = history.values.get(earlier as usize) else { continue };
        seen += 1;
        if !value.is_nan() {
            sum += weight * f64::from(*value);
            weights += weight;
        }
        weight *= FORGETTING;
    }
    (weights > 0.0).then(|| sum / weights)
}

/// The cycle over the next `steps`; where it was never known, what it has on the average.
fn cycle(history: History<'_>, season: Season, steps: usize) -> Option<Vec<f64>> {
    let end = history.values.len();
    let path: Vec<Option<f64>> = (end..end + steps).map(|index| seasonal(history, season, index)).collect();
    let known: Vec<f64> = path.iter().flatten().copied().collect();
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)?;
    Some(path.into_iter().map(|value| value.unwrap_or(mean)).collect())
}

/// How far each of the newest values before `end` lies from its cycle.
fn distances(history: History<'_>, season: Season, end: usize) -> Vec<f64> {
    let distance = |index: usize| {
        let value = history.values.get(index).filter(|value| !value.is_nan())?;
        Some(f64::from(*value) - seasonal(history, season, index)?)
    };
    (end.saturating_sub(NEWEST)..end).filter_map(distance).collect()
}

/// The distance now, by these of the newest values.
fn level(distances: &[f64], alpha: f64) -> f64 {
    distances.iter().fold(0.0, |level, distance| level + alpha * (distance - level))
}

impl Model for SeasonalMean {
    fn name(&self) -> &'static str {
        "seasonal"
    }

    fn learn(&mut self, _history: History<'_>, seasons: &[Season]) -> Result<(), NotLearnt> {
        self.season = seasons.first().copied();
        self.season.map(|_| ()).ok_or(NotLearnt::NoSeason)
    }

    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        cycle(history, self.season?, steps)
    }
}

impl Model for SeasonalLevel {
    fn name(&self) -> &'static str {
        "seasonal_level"
    }

    fn learn(&mut self, history: History<'_>, seasons: &[Season]) -> Result<(), NotLearnt> {
        self.season = seasons.first().copied();
        let season = self.season.ok_or(NotLearnt::NoSeason)?;
        self.following = tuned(history, season);
        Ok(())
    }

    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        let season = self.season?;
        let Following { alpha, fading } = self.following;
        let mut level = level(&distances(history, season, history.values.len()), alpha);
        let path = cycle(history, season, steps)?.into_iter();
        Some(
            path.map(|usual| {
                level *= fading;
                (usual + level).max(0.0)
            })
            .collect(),
        )
    }
}

/// How the distance from the cycle is best followed, by how it would have been at some moments of the recent past.
fn tuned(history: History<'_>, season: Season) -> Following {
    const MOMENTS: usize = 16;
    const LEADS: [usize; 4] = [1, 4, 10, 20];
    let end = history.values.len();
    let every = (end / 2 / MOMENTS).max(1);
    let mut losses = [[0.0; FADINGS.len()]; ALPHAS.len()];
    for moment in (1..=MOMENTS).filter_map(|back| end.checked_sub(back * every)) {
        let distances = distances(history, season, moment);
        for (losses, alpha) in losses.iter_mut().zip(ALPHAS) {
            let level = level(&distances, alpha);
            for lead in LEADS {
                let index = moment + lead - 1;
                let (Some(value), Some(usual)) = (history.values.get(index), seasonal(history, season, index)) else {
                    continue;
                };
                if !value.is_nan() {
                    for (loss, fading) in losses.iter_mut().zip(FADINGS) {
                        *loss += (f64::from(*value) - usual - level * fading.powf(lead as f64)).abs();
                    }
                }
            }
        }
    }
    let tries = ALPHAS.iter().zip(losses).flat_map(|(alpha, losses)| {
        FADINGS.into_iter().zip(losses).map(|(fading, loss)| (Following { alpha: *alpha, fading }, loss))
    });
    tries.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(following, _)| following).unwrap_or_default()
}
