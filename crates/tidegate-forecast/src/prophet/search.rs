//! The posterior as a search without bounds and without kinks sees it.

use std::cell::RefCell;

use argmin::core::{CostFunction, Error, Gradient};

use super::posterior::{Params, Posterior};
use super::quadratic::Quadratic;

/// The least noise, as a share of the largest value. A series that the model meets exactly has no highest density: it
/// grows without end as the noise goes to zero.
pub(super) const LEAST_NOISE: f64 = 1e-5;

/// The negative logarithm of the posterior per row, as a function of `[k, m, ln σ, u…, v…, β…]`.
///
/// The prior of `delta` has a kink at zero, where most of `delta` ends. Gradients are misleading there, and Stan's
/// optimizer stops early because of it. With `delta = u·v` and the penalty `(u² + v²) / 2 tau` there is no kink, and
/// the minimum is the same: for a given product the sum is least, `|delta| / tau`, where `|u| = |v|` (Hoff, "Lasso,
/// fractional norm and structured sparse estimation using a Hadamard product parametrization", 2017).
pub(super) struct Search<'a> {
    posterior: &'a Posterior<'a>,
    quadratic: Option<Quadratic>,
    jacobian: bool,
    /// The solver asks for the cost and the gradient at the same point one after the other, and often again.
    last: RefCell<Evaluation>,
}

#[derive(Default)]
struct Evaluation {
    at: Vec<f64>,
    cost: f64,
    slopes: Vec<f64>,
}

/// Where `delta`, `u`, `v` and `β` begin.
const BENDS: usize = 3;

impl<'a> Search<'a> {
    pub(super) fn new(posterior: &'a Posterior<'a>, jacobian: bool) -> Self {
        Self { posterior, quadratic: Quadratic::new(posterior), jacobian, last: RefCell::default() }
    }

    pub(super) fn params(&self, at: &[f64]) -> Params {
        let (u, v, beta) = self.parts(at);
        let mut params = Params {
            k: at[0],
            m: at[1],
            sigma: LEAST_NOISE + at[2].exp(),
            delta: u.iter().zip(v).map(|(u, v)| u * v).collect(),
            beta: vec![0.0; self.posterior.data().sigmas.len()],
        };
        for (index, value) in self.posterior.order().iter().zip(beta) {
            params.beta[*index] = *value;
        }
        params
    }

    /// Where these parameters are; `u` is never zero, for where both are the gradient is too.
    pub(super) fn index(&self, params: &Params) -> Vec<f64> {
        let least = 0.01 * *self.posterior.data().tau;
        let root = |delta: &f64| (delta.abs() + least).sqrt();
        let mut at = vec![params.k, params.m, (params.sigma - LEAST_NOISE).max(LEAST_NOISE).ln()];
        at.extend(params.delta.iter().map(root));
        at.extend(params.delta.iter().map(|delta| delta / root(delta)));
        at.extend(self.posterior.order().iter().map(|index| params.beta[*index]));
        at
    }

    fn parts<'b>(&self, at: &'b [f64]) -> (&'b [f64], &'b [f64], &'b [f64]) {
        let changes = self.posterior.data().t_change.len();
        let (u, rest) = at[BENDS..].split_at(changes);
        let (v, beta) = rest.split_at(changes);
        (u, v, beta)
    }

    fn evaluate(&self, at: &[f64]) -> Evaluation {
        let params = self.params(at);
        let squares = match &self.quadratic {
            Some(quadratic) => quadratic.squares(self.posterior.order(), &params),
            None => self.posterior.squares(&params),
        };
        let (mut cost, by) = self.posterior.with_priors(&params, squares);
        let mut slopes = vec![by.k, by.m, by.sigma * at[2].exp()];
        if self.jacobian {
            cost -= at[2];
            slopes[2] -= 1.0;
        }
        let tau = *self.posterior.data().tau;
        let (u, v, _) = self.parts(at);
        cost += u.iter().chain(v).map(|half| half * half).sum::<f64>() / (2.0 * tau);
        slopes.extend(u.iter().zip(v).zip(&by.delta).map(|((u, v), by)| v * by + u / tau));
        slopes.extend(u.iter().zip(v).zip(&by.delta).map(|((u, v), by)| u * by + v / tau));
        slopes.extend(self.posterior.order().iter().map(|index| by.beta[*index]));
        let rows = self.posterior.data().y.len() as f64;
        for slope in &mut slopes {
            *slope /= rows;
        }
        Evaluation { at: at.to_vec(), cost: cost / rows, slopes }
    }

    fn at<T>(&self, at: &[f64], take: impl Fn(&Evaluation) -> T) -> T {
        let mut last = self.last.borrow_mut();
        if last.at != at {
            *last = self.evaluate(at);
        }
        take(&last)
    }
}

impl CostFunction for &Search<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, at: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.at(at, |evaluation| evaluation.cost))
    }
}

impl Gradient for &Search<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, at: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(self.at(at, |evaluation| evaluation.slopes.clone()))
    }
}
