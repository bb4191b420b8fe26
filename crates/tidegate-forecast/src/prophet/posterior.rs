//! What Prophet's fit makes as large as it can: the posterior density of its parameters.
//!
//! The model is that of Prophet's `prophet.stan`: `y ~ N(trend · (1 + X_m β) + X_a β, σ)` with the priors `k, m ~ N(0,
//! 5)`, `delta ~ Laplace(0, tau)`, `σ ~ N(0, 0.5)` where positive, and `β ~ N(0, sigmas)`. Densities are without their
//! constants, as Stan's are.

use augurs_prophet::optimizer::Data;

use super::trend::{self, Piece};

/// Twice the variance of the priors of `k` and `m`.
const TREND_SPREAD: f64 = 2.0 * 5.0 * 5.0;
/// Twice the variance of the prior of `σ`.
const NOISE_SPREAD: f64 = 2.0 * 0.5 * 0.5;

/// The parameters of Prophet's model, or a gradient by them.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The rate of the trend before the first changepoint.
    pub k: f64,
    /// The offset of the trend before the first changepoint.
    pub m: f64,
    /// The standard deviation of the noise.
    pub sigma: f64,
    /// By how much the rate changes at each changepoint.
    pub delta: Vec<f64>,
    /// The coefficients of the features.
    pub beta: Vec<f64>,
}

impl Params {
    pub(super) fn zero(changes: usize, features: usize) -> Self {
        Self { k: 0.0, m: 0.0, sigma: 0.0, delta: vec![0.0; changes], beta: vec![0.0; features] }
    }
}

/// The posterior density for some data.
pub struct Posterior<'a> {
    data: &'a Data,
    /// The rows of each piece of the trend begin at these indexes; the last is the number of rows.
    begins: Vec<usize>,
    /// Which columns of `X` the ones below are.
    order: Vec<usize>,
    /// `X` by rows: the additive columns first, then the multiplicative ones; those that are neither are left out.
    features: Vec<f64>,
    additive: usize,
}

impl<'a> Posterior<'a> {
    /// The columns are put into an order of their own: that in which they come differs from run to run, and so would
    /// the last digits.
    pub fn new(data: &'a Data) -> Self {
        let width = data.sigmas.len();
        let column = |index: usize| data.X.iter().skip(index).step_by(width.max(1));
        let mut order: Vec<usize> = (0..width).filter(|index| data.s_a[*index] + data.s_m[*index] > 0).collect();
        order.sort_by(|a, b| {
            data.s_m[*a]
                .cmp(&data.s_m[*b])
                .then_with(|| column(*a).partial_cmp(column(*b)).unwrap_or(std::cmp::Ordering::Equal))
        });
        let rows = data.y.len();
        let features = (0..rows).flat_map(|row| order.iter().map(move |index| data.X[row * width + index])).collect();
        let mut begins = vec![0];
        begins.extend(data.t_change.iter().map(|change| data.t.partition_point(|t| t < change)));
        begins.push(rows);
        let additive = order.iter().filter(|index| data.s_m[**index] == 0).count();
        Self { data, begins, order, features, additive }
    }

    /// The logarithm of the posterior density, up to a constant.
    pub fn log_density(&self, at: &Params) -> f64 {
        -self.smooth(at).0 - at.delta.iter().map(|delta| delta.abs()).sum::<f64>() / *self.data.tau
    }

    /// The negative logarithm of all but the prior of `delta`, which has a kink at zero, and its gradient.
    pub fn smooth(&self, at: &Params) -> (f64, Params) {
        self.with_priors(at, self.squares(at))
    }

    /// The same, from the sum of the squared residuals and minus half its gradient.
    pub(super) fn with_priors(&self, at: &Params, (squares, mut by): (f64, Params)) -> (f64, Params) {
        let precision = at.sigma.powi(-2);
        for slope in [&mut by.k, &mut by.m].into_iter().chain(&mut by.delta).chain(&mut by.beta) {
            *slope *= -precision;
        }
        let rows = self.data.y.len() as f64;
        let mut cost = rows * at.sigma.ln() + 0.5 * squares * precision + at.sigma * at.sigma / NOISE_SPREAD;
        by.sigma = (rows - squares * precision) / at.sigma + 2.0 * at.sigma / NOISE_SPREAD;
        cost += (at.k * at.k + at.m * at.m) / TREND_SPREAD;
        by.k += 2.0 * at.k / TREND_SPREAD;
        by.m += 2.0 * at.m / TREND_SPREAD;
        for ((beta, slope), scale) in at.beta.iter().zip(&mut by.beta).zip(&self.data.sigmas) {
            let narrow = scale.powi(-2);
            cost += 0.5 * beta * beta * narrow;
            *slope += beta * narrow;
        }
        (cost, by)
    }

    /// The standard deviation of the residuals.
    pub(super) fn deviation(&self, at: &Params) -> f64 {
        (self.squares(at).0 / self.data.y.len() as f64).sqrt()
    }

    /// The sum of the squared residuals, and minus half its gradient, in one pass over the rows.
    pub(super) fn squares(&self, at: &Params) -> (f64, Params) {
        let Data { y, t, cap, t_change, trend_indicator: kind, .. } = self.data;
        let beta: Vec<f64> = self.order.iter().map(|index| at.beta[*index]).collect();
        let (beta_a, beta_m) = beta.split_at(self.additive);
        let mut by_beta = vec![0.0; beta.len()];
        let (by_beta_a, by_beta_m) = by_beta.split_at_mut(self.additive);
        let pieces = trend::pieces(*kind, t_change, at.k, at.m, &at.delta);
        let mut by_piece = vec![Piece::default(); pieces.len()];
        let mut squares = 0.0;
        for (index, piece) in pieces.iter().enumerate() {
            let by_piece = &mut by_piece[index];
            for row in self.begins[index]..self.begins[index + 1] {
                let (features_a, features_m) = self.features(row);
                let trend = piece.at(*kind, t[row], cap[row]);
                let factor = 1.0 + dot(features_m, beta_m);
                let residual = y[row] - trend.value * factor - dot(features_a, beta_a);
                squares += residual * residual;
                by_piece.rate += residual * factor * trend.by.rate;
                by_piece.offset += residual * factor * trend.by.offset;
                add(by_beta_a, residual, features_a);
                add(by_beta_m, residual * trend.value, features_m);
            }
        }
        let mut by =
            Params { k: 0.0, m: 0.0, sigma: 0.0, delta: vec![0.0; at.delta.len()], beta: vec![0.0; at.beta.len()] };
        let first = trend::chain(*kind, t_change, &pieces, by_piece, &mut by.delta);
        (by.k, by.m) = (first.rate, first.offset);
        for (index, slope) in self.order.iter().zip(by_beta) {
            by.beta[*index] = slope;
        }
        (squares, by)
    }

    /// The indexes of the features that matter, in an order that depends on their values alone.
    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The features of a row, in that order: the additive ones, and the multiplicative ones.
    pub(super) fn features(&self, row: usize) -> (&[f64], &[f64]) {
        let width = self.order.len();
        self.features[row * width..][..width].split_at(self.additive)
    }

    /// The data it is for.
    pub(super) fn data(&self) -> &Data {
        self.data
    }
}

/// Four sums at once: the compiler may not reorder one.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 4];
    for (a, b) in a.zip(b) {
        for index in 0..4 {
            sums[index] += a[index] * b[index];
        }
    }
    sums.iter().sum::<f64>() + rest
}

pub(super) fn add(sum: &mut [f64], factor: f64, values: &[f64]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += factor * value;
    }
}
