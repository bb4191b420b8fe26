//! What a fit of Prophet and its forecast cost: processor time at 3,600 points, the median of several runs.
//!
//! `cargo run --release -p tidegate-forecast --example prophet_cost`

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints figures to look at")]

use std::f64::consts::TAU;

use rustix::time::{ClockId, clock_gettime};
use tidegate_forecast::prophet::{Growth, Mode, Settings};
use tidegate_forecast::{History, Model, NotLearnt, ProphetModel, Season};

const POINTS: usize = 3_600;
const HORIZON: usize = 60;
const RUNS: usize = 11;

fn main() -> Result<(), NotLearnt> {
    println!(
        "{POINTS} points, 25 changepoints, 20 harmonics for each cycle, {HORIZON} steps; milliseconds of one core"
    );
    println!("{:<40}{:>8}{:>8}{:>8}{:>12}", "", "fit", "path", "sum", "1000 draws");
    for growth in [Growth::Flat, Growth::Held] {
        for mode in [Mode::Additive, Mode::Multiplicative] {
            for cycles in 0..=2 {
                row(Settings { growth, mode, ..Settings::default() }, cycles)?;
            }
        }
    }
    Ok(())
}

fn row(settings: Settings, cycles: usize) -> Result<(), NotLearnt> {
    let seasons = [60.0, 600.0].map(|period| Season { period, strength: 0.5 });
    let mut took = [const { Vec::new() }; 4];
    for run in 0..RUNS {
        let values = load(run as u64);
        let history = History { start: 1_780_000_000, step: 1, values: &values };
        let mut model = ProphetModel::new(settings);
        let begin = cpu_milliseconds();
        model.learn(history, &seasons[..cycles])?;
        let learnt = cpu_milliseconds();
        std::hint::black_box(model.path(history, HORIZON));
        let reported = cpu_milliseconds();
        std::hint::black_box(model.quantiles(history, HORIZON, &[0.1, 0.5, 0.9], 1_000, 1));
        let drawn = cpu_milliseconds();
        for (times, time) in
            took.iter_mut().zip([learnt - begin, reported - learnt, reported - begin, drawn - reported])
        {
            times.push(time);
        }
    }
    let [fit, path, sum, draws] = took.map(median);
    let name = format!("{:?}, {:?}, {cycles} cycles", settings.growth, settings.mode);
    println!("{name:<40}{fit:>8.1}{path:>8.2}{sum:>8.1}{draws:>12.1}");
    Ok(())
}

/// A burst of ten seconds each minute, a slow wave, and a bend in the level.
fn load(seed: u64) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let value = |step: usize| {
        let burst = if step % 60 < 10 { 400.0 } else { 0.0 };
        let level = if step < 2_000 { 100.0 } else { 100.0 + 0.05 * (step - 2_000) as f64 };
        let noise = 80.0 * (rng.f64() + rng.f64() + rng.f64() - 1.5);
        (level + burst + 50.0 * (TAU * step as f64 / 600.0).sin() + noise).max(0.0) as f32
    };
    (0..POINTS).map(value).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn cpu_milliseconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
