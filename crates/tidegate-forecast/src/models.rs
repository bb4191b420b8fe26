//! The simple models: no fit, or a handful of tries.

mod ewma;
mod holt;
mod last;
mod seasonal;

pub use ewma::Ewma;
pub use holt::DampedHolt;
pub use last::LastValue;
pub use seasonal::{SeasonalLevel, SeasonalMean};

use crate::History;

/// What they are called.
pub const SIMPLE: [&str; 5] = ["last", "ewma", "holt", "seasonal", "seasonal_level"];

/// How much of the newest history smoothing is tuned on.
const TUNED_ON: usize = 600;

/// The known values of the newest part of a history; a gap is left out, as if time had stood still.
fn newest(history: History<'_>, count: usize) -> Vec<f64> {
    history.last(count).known().map(|(_, value)| value).collect()
}

/// Of several ways to smooth, the one whose forecasts of the next `horizon` values were best, by the mean distance.
/// `smooth` walks over the values and says, after each, what it expects so many steps later.
fn best_of<S: Copy>(
    values: &[f64],
    horizon: usize,
    tries: impl Iterator<Item = S>,
    expect: impl Fn(S, &[f64], &[usize], &mut dyn FnMut(usize, usize, f64)),
) -> Option<S> {
    let leads = [1, horizon.div_ceil(2), horizon.max(1)];
    let loss = |try_: S| {
        let mut sum = 0.0;
        expect(try_, values, &leads, &mut |at, lead, expected| {
            if let Some(came) = values.get(at + lead) {
                sum += (came - expected).abs();
            }
        });
        sum
    };
    tries.map(|try_| (try_, loss(try_))).min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(try_, _)| try_)
}
