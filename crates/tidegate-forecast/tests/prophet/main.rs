//! What is promised of Prophet here: the search finds the highest posterior density, and the model of load built on it
//! bears any history.

#![expect(clippy::cast_precision_loss, reason = "small counts")]

mod model;
mod posterior;
mod uncertainty;

use fastrand::Rng;

/// Values of each step, with noise of this standard deviation.
fn noisy(count: usize, noise: f64, seed: u64, value: impl Fn(f64) -> f64) -> Vec<f32> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(|step| (value(step as f64) + noise * normal(&mut rng)) as f32).collect()
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}
