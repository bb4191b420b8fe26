//! The squared residuals of a model that is linear in its parameters, as the quadratic form that they are.

use augurs_prophet::TrendIndicator;

use super::posterior::{Params, Posterior, add, dot};

/// The sum of squared residuals in the parameters `[k, m, delta…, β…]`: made in one pass over the rows, and from then
/// on it costs by the number of parameters, not of rows. A search takes hundreds of steps.
///
/// It loses the digits that the residuals have less than the values: of noise of 1e-5 of the largest value, six are
/// left.
pub(super) struct Quadratic {
    /// The sum of squares of the values.
    squares: f64,
    /// The columns of the model by the values.
    slopes: Vec<f64>,
    /// The columns by each other, row after row.
    gram: Vec<f64>,
}

impl Quadratic {
    /// None, if the model is not linear in its parameters.
    pub(super) fn new(posterior: &Posterior<'_>) -> Option<Self> {
        let data = posterior.data();
        if data.trend_indicator == TrendIndicator::Logistic || data.s_m.iter().any(|column| *column != 0) {
            return None;
        }
        let bends = data.trend_indicator == TrendIndicator::Linear;
        let mut columns = vec![0.0; 2 + data.t_change.len()];
        columns.resize(columns.len() + posterior.order().len(), 0.0);
        let width = columns.len();
        let mut form = Self { squares: 0.0, slopes: vec![0.0; width], gram: vec![0.0; width * width] };
        for (row, (y, t)) in data.y.iter().zip(&data.t).enumerate() {
            columns[1] = 1.0;
            if bends {
                columns[0] = *t;
                for (column, change) in columns[2..].iter_mut().zip(&data.t_change) {
                    *column = (t - change).max(0.0);
                }
            }
            columns[2 + data.t_change.len()..].copy_from_slice(posterior.features(row).0);
            form.squares += y * y;
            add(&mut form.slopes, *y, &columns);
            for (index, column) in columns.iter().enumerate() {
                add(&mut form.gram[index * width + index..][..width - index], *column, &columns[index..]);
            }
        }
        for index in 0..width {
            for other in 0..index {
                form.gram[index * width + other] = form.gram[other * width + index];
            }
        }
        Some(form)
    }

    /// As [`Posterior::squares`].
    pub(super) fn squares(&self, order: &[usize], at: &Params) -> (f64, Params) {
        let mut point = vec![at.k, at.m];
        point.extend(&at.delta);
        point.extend(order.iter().map(|feature| at.beta[*feature]));
        let rows = self.gram.chunks_exact(point.len());
        let slopes: Vec<f64> = self.slopes.iter().zip(rows).map(|(slope, row)| slope - dot(row, &point)).collect();
        let squares = self.squares - dot(&point, &self.slopes) - dot(&point, &slopes);
        let mut by = Params::zero(at.delta.len(), at.beta.len());
        (by.k, by.m) = (slopes[0], slopes[1]);
        let (delta, beta) = slopes[2..].split_at(at.delta.len());
        by.delta.copy_from_slice(delta);
        for (feature, slope) in order.iter().zip(beta) {
            by.beta[*feature] = *slope;
        }
        (squares.max(0.0), by)
    }
}
