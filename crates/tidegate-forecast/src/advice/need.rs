use crate::History;
use crate::forecaster::Forecast;

/// A stretch of the forecast that needs more than usual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rise {
    /// The first step, with some time before it.
    pub(super) begin: usize,
    /// The step after the last, with some time after it.
    pub(super) end: usize,
    /// Requests a second that it needs.
    pub(super) rate: f64,
}

/// The forecast may be wrong by so many steps about when.
const GUARD: usize = 2;
/// More than the usual rate by less than this is not a rise.
const NOTICEABLE: f64 = 1.01;
/// Rises that are closer are one.
const CLOSE: usize = 3;
/// The most of them that are reported.
const MOST_RISES: usize = 30;

/// The rate that a limit over `span` seconds must have at each step so that 19 of 20 times nothing is rejected.
///
/// What counts for such a limit is the sum over its span. The newest part of that sum is known already, and over many
/// steps chance evens out.
pub(super) fn need(forecast: &Forecast, history: History<'_>, span: f64) -> Vec<f64> {
    let steps = (span / f64::from(forecast.step)).round().clamp(1.0, 3_600.0) as usize;
    let upper = forecast.quantile(0.95);
    if steps == 1 {
        return upper.to_vec();
    }
    let mut known: Vec<f64> = history.last(steps - 1).known().map(|(_, value)| value).collect();
    let first = known.len();
    known.extend(&forecast.mean);
    let mut sums = vec![0.0];
    for value in &known {
        sums.push(sums[sums.len() - 1] + value);
    }
    let at = |index: usize| {
        let end = first + index + 1;
        let begin = end.saturating_sub(steps);
        let mean = (sums[end] - sums[begin]) / (end - begin) as f64;
        mean + (upper[index] - forecast.mean[index]).max(0.0) / (steps as f64).sqrt()
    };
    (0..forecast.mean.len()).map(at).collect()
}

/// Where more than the `usual` rate is needed.
pub(super) fn rises(needed: &[f64], usual: f64) -> Vec<Rise> {
    let mut rises: Vec<Rise> = Vec::new();
    for (index, rate) in needed.iter().enumerate().filter(|(_, rate)| **rate > usual * NOTICEABLE) {
        let (begin, end) = (index.saturating_sub(GUARD), (index + 1 + GUARD).min(needed.len()));
        match rises.last_mut() {
            Some(last) if begin <= last.end + CLOSE => {
                last.end = end;
                last.rate = last.rate.max(*rate);
            }
            _ => rises.push(Rise { begin, end, rate: *rate }),
        }
    }
    rises.truncate(MOST_RISES);
    rises
}
