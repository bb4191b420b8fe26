//! Timing in many short rounds.

use std::time::Instant;

/// Nanoseconds per step of `steps` steps.
pub(crate) fn time(steps: u64, run: impl FnOnce(u64)) -> f64 {
    let start = Instant::now();
    run(steps);
    start.elapsed().as_nanos() as f64 / steps as f64
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Two things side by side: the median of each, and the median of the rounds' ratios (ours to theirs).
pub(crate) struct Duel {
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
    pub(crate) ratio: f64,
}

/// Runs both in turn, who goes first changing each round. Each returns nanoseconds per step.
pub(crate) fn duel(rounds: usize, ours: impl Fn() -> f64, theirs: impl Fn() -> f64) -> Duel {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    let _warm = (ours(), theirs());
    for round in 0..rounds {
        if round % 2 == 0 {
            our_times.push(ours());
            their_times.push(theirs());
        } else {
            their_times.push(theirs());
            our_times.push(ours());
        }
    }
    let ratios = our_times.iter().zip(&their_times).map(|(ours, theirs)| ours / theirs).collect();
    Duel { ours: median(our_times), theirs: median(their_times), ratio: median(ratios) }
}
