//! Cycles in a series: found from the data, their length to a fraction of a step.

mod fold;

use crate::History;
use fold::Foldable;

/// A cycle that repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Season {
    /// Its length in steps of the series; not always a whole number.
    pub period: f64,
    /// The share of the series' variance that it explains, from 0 to 1.
    pub strength: f64,
}

/// How many values are looked at as they are; longer histories also as means of several, for longer cycles.
const MOST_VALUES: usize = 4_096;
/// So often a cycle must have been seen. Twice may be chance.
const FEWEST_CYCLES: f64 = 2.5;
/// The shortest one, in steps: a cycle of two is a zigzag.
const SHORTEST: usize = 3;
/// How many lags are looked at closely.
const MOST_CANDIDATES: usize = 24;
/// A cycle explains at least this share of the variance, beyond what chance would.
const WEAKEST: f64 = 0.2;
/// A shorter cycle is preferred to a longer one that explains little more: twice a cycle is a cycle as well.
const ALMOST_AS_GOOD: f64 = 0.93;
/// So many cycles show a length roughly, and so many closely.
const FEW_CYCLES: usize = 8;
const MANY_CYCLES: usize = 64;
/// By so much of itself a length may be off at first.
const SHIFTED: f64 = 0.03;
/// The newest part: so many cycles, and not fewer values.
const LATE_CYCLES: f64 = 4.0;
const FEWEST_LATE: usize = 200;
/// A cycle holds there if it explains this share of what it does of the whole; another one must explain so much more of
/// the variance.
const STILL_HOLDS: f64 = 0.7;
const CLEARLY_MORE: f64 = 0.2;
/// More can't be distinguished in practice.
const MOST_SEASONS: usize = 2;

/// The cycles of a series, the strongest first.
///
/// The autocorrelation proposes lengths; folding the series by each, in small fractions of a step around it, shows how
/// much of the variance such a cycle explains. Lengths matter: with one that is wrong by a step, the tenth cycle is
/// wrong by ten.
pub fn seasons(history: History<'_>) -> Vec<Season> {
    let mut found = seasons_of(&even(history.last(MOST_VALUES), 1));
    let coarse = history.values.len().div_ceil(MOST_VALUES);
    if coarse > 1 {
        // Only what is too long to have been seen at full resolution.
        let known_up_to = MOST_VALUES as f64 / FEWEST_CYCLES;
        let longer = seasons_of(&even(history, coarse)).into_iter();
        let longer = longer.map(|season| Season { period: season.period * coarse as f64, ..season });
        found.extend(longer.filter(|season| season.period > known_up_to));
        found.sort_by(|a, b| b.strength.total_cmp(&a.strength));
        found.truncate(MOST_SEASONS);
    }
    of_late(history, &found).unwrap_or(found)
}

/// The cycles of the newest part, if the strongest is still the one that was known there, though all of the history has
/// found a much longer one. That is often a multiple that also fits what was before the cycle has become another one.
pub(crate) fn lasting(history: History<'_>, known: Season, found: &[Season]) -> Option<Vec<Season>> {
    let longer = found.first().filter(|longer| longer.period > 1.5 * known.period)?;
    let width = ((2.0 * LATE_CYCLES * known.period) as usize).max(FEWEST_LATE);
    let newer = seasons_of(&even(history.last(width), 1));
    let strongest = newer.first().filter(|newer| (newer.period - known.period).abs() < SHIFTED * known.period)?;
    let values = even(history.last((LATE_CYCLES * longer.period) as usize), 1);
    let values = Foldable::new(&values);
    let is_better = values.explained(longer.period) > values.explained(strongest.period) + CLEARLY_MORE;
    (!is_better).then_some(newer)
}

/// The cycles of the newest part, where the strongest one of all no longer holds there: all of a long history is slow
/// to forget a cycle that has become another one.
fn of_late(history: History<'_>, found: &[Season]) -> Option<Vec<Season>> {
    let before = found.first()?;
    let mut width = ((LATE_CYCLES * before.period) as usize).max(FEWEST_LATE);
    while width <= (history.values.len() / 2).min(MOST_VALUES) {
        let values = even(history.last(width), 1);
        let late = Foldable::new(&values);
        let still = late.explained(before.period);
        if still >= STILL_HOLDS * before.strength {
            return None;
        }
        let newer = seasons_of(&values);
        if newer.first().is_some_and(|newer| late.explained(newer.period) > still + CLEARLY_MORE) {
            return Some(newer);
        }
        // The new one may be longer.
        width *= 2;
    }
    None
}

/// The values without their trend, means of `width` each; NaN where nothing is known.
fn even(history: History<'_>, width: usize) -> Vec<f64> {
    // Whole groups up to the newest.
    let surplus = history.values.len() % width;
    let mean = |group: &[f32]| {
        let known = group.iter().filter(|value| !value.is_nan());
        let (count, sum) = known.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + f64::from(*value)));
        if count == 0 { f64::NAN } else { sum / f64::from(count) }
    };
    let mut values: Vec<f64> = history.values[surplus..].chunks(width).map(mean).collect();
    let (level, slope) = line(&values);
    for (index, value) in values.iter_mut().enumerate() {
        *value -= level + slope * index as f64;
    }
    values
}

/// The straight line through the known values: where it begins, and how it rises.
fn line(values: &[f64]) -> (f64, f64) {
    let known = || values.iter().enumerate().filter(|(_, value)| !value.is_nan()).map(|(x, y)| (x as f64, *y));
    let count = known().count() as f64;
    if count == 0.0 {
        return (0.0, 0.0);
    }
    let (mean_x, mean_y) = known().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let (xx, xy) = known()
        .fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + (x - mean_x) * (x - mean_x), xy + (x - mean_x) * (y - mean_y)));
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    (mean_y - slope * mean_x, slope)
}

fn seasons_of(values: &[f64]) -> Vec<Season> {
    let (mut values, mut found) = (values.to_vec(), Vec::new());
    let known = |values: &[f64]| values.iter().filter(|value| !value.is_nan()).map(|value| value * value).sum::<f64>();
    let all = known(&values);
    while found.len() < MOST_SEASONS
        && let Some(mut season) = strongest(&values)
    {
        let before = known(&values);
        values = Foldable::new(&values).without(season.period);
        // Of the whole, not of what earlier ones have left.
        season.strength = ((before - known(&values)) / all).clamp(0.0, 1.0);
        if !found.is_empty() && season.strength < WEAKEST / 4.0 {
            break;
        }
        found.push(season);
    }
    found
}

/// The cycle that explains most.
fn strongest(values: &[f64]) -> Option<Season> {
    let longest = (values.len() as f64 / FEWEST_CYCLES) as usize;
    if longest < SHORTEST {
        return None;
    }
    let candidates = peaks(&autocorrelation(values, longest + 1));
    let refined: Vec<Season> = candidates.into_iter().filter_map(|lag| refine(values, lag)).collect();
    let best = refined.iter().map(|season| season.strength).fold(0.0, f64::max);
    let good = refined.into_iter().filter(|season| season.strength >= best * ALMOST_AS_GOOD);
    good.min_by(|a, b| a.period.total_cmp(&b.period))
}

/// How much the series is like itself so many steps later, for each lag up to `longest`. A gap counts as the mean.
fn autocorrelation(values: &[f64], longest: usize) -> Vec<f64> {
    let filled: Vec<f64> = values.iter().map(|value| if value.is_nan() { 0.0 } else { *value }).collect();
    let power = filled.iter().map(|value| value * value).sum::<f64>();
    let mut likeness = vec![0.0; longest + 1];
    if power <= f64::EPSILON * filled.len() as f64 {
        return likeness;
    }
    for (lag, likeness) in likeness.iter_mut().enumerate() {
        let overlap = filled.len() - lag;
        let product: f64 = filled[lag..].iter().zip(&filled[..overlap]).map(|(a, b)| a * b).sum();
        *likeness = product / power * filled.len() as f64 / overlap as f64;
    }
    likeness
}

/// Lags at which it is more like itself than a little earlier or later, the most alike first.
fn peaks(likeness: &[f64]) -> Vec<usize> {
    let is_peak = |lag: &usize| {
        let here = likeness[*lag];
        here > 0.1 && here >= likeness[lag - 1] && likeness.get(lag + 1).is_none_or(|next| here >= *next)
    };
    let mut lags: Vec<usize> = (SHORTEST..likeness.len()).filter(is_peak).collect();
    lags.sort_by(|a, b| likeness[*b].total_cmp(&likeness[*a]));
    // Of a cycle and its multiples the shortest is wanted, which need not be the most alike by chance.
    let mut shortest = lags.clone();
    shortest.sort_unstable();
    shortest.retain(|lag| likeness[*lag] >= 0.5 * likeness[lags[0]]);
    shortest.truncate(MOST_CANDIDATES / 2);
    lags.truncate(MOST_CANDIDATES / 2);
    lags.extend(shortest);
    lags.sort_unstable();
    lags.dedup();
    lags
}

/// The best length within a step of `lag`, if it is a cycle at all: first by a few cycles, then closely by more of
/// them.
fn refine(values: &[f64], lag: usize) -> Option<Season> {
    let newest = |cycles: usize| &values[values.len().saturating_sub(lag * cycles)..];
    let (period, _) = best_length(Foldable::new(newest(FEW_CYCLES)), lag as f64, 1.0)?;
    let values = Foldable::new(newest(MANY_CYCLES));
    let (period, strength) = climbed(values, period, 2.0 / FEW_CYCLES as f64)?;
    // What a fold explains by chance grows with the number of its parts.
    let freedom = (values.known_count() as f64 - period).max(1.0);
    let chance = WEAKEST + 1.5 * (2.0 / freedom).sqrt();
    (strength >= chance).then_some(Season { period, strength })
}

/// The best length near `about`, and how much it explains. Where a cycle is smooth its likeness is flat around the peak
/// and noise may move that by a few steps: as long as the best lies at the border of what was tried, there may be a
/// better one beyond it.
fn climbed(values: Foldable<'_>, about: f64, reach: f64) -> Option<(f64, f64)> {
    let farthest = about * SHIFTED;
    let mut best = best_length(values, about, reach)?;
    let mut from = about;
    while (best.0 - from).abs() > 0.7 * reach && (best.0 - about).abs() < farthest {
        let next = best_length(values, best.0, reach)?;
        if next.1 <= best.1 {
            break;
        }
        (from, best) = (best.0, next);
    }
    Some(best)
}

/// The length within `reach` of `about` whose fold explains most of these values, and how much.
fn best_length(values: Foldable<'_>, about: f64, reach: f64) -> Option<(f64, f64)> {
    // Over all of the values a wrong length may be off by a quarter of a step.
    let fraction = (0.25 * about / values.len() as f64).min(0.25);
    let tries = (reach / fraction).ceil() as i32;
    let scored = (-tries..=tries).map(|at| {
        let period = about + f64::from(at) * fraction;
        (period, values.explained(period))
    });
    let scored: Vec<(f64, f64)> = scored.filter(|(period, _)| *period >= 2.0).collect();
    let best = scored.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
    // Between lengths that explain about the same the middle one is right, and a whole one is likelier. How alike is
    // chance, with few values.
    let alike = 0.001 + 0.5 / values.len() as f64;
    let like_best: Vec<f64> =
        scored.iter().filter(|(_, score)| *score >= best - alike).map(|(period, _)| *period).collect();
    let (least, most) = (like_best.first()?, like_best.last()?);
    let middle = like_best[like_best.len() / 2];
    let whole = middle.round();
    Some((if (*least..=*most).contains(&whole) { whole } else { middle }, best))
}
