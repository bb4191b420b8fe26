//! The density, its gradient, and its maximum.

use augurs_prophet::{Optimizer, TrendIndicator, optimizer};
use fastrand::Rng;
use tidegate_forecast::prophet::{MapOptimizer, Params, Posterior};

use super::normal;

const KINDS: [TrendIndicator; 3] = [TrendIndicator::Linear, TrendIndicator::Logistic, TrendIndicator::Flat];

/// What the columns of `X` are: additive, multiplicative or (as Prophet's dummy column) neither.
const MIXED: [(i32, i32); 6] = [(1, 0), (0, 1), (1, 0), (0, 0), (0, 1), (1, 0)];
const ADDITIVE: [(i32, i32); 6] = [(1, 0); 6];

fn problem(kind: TrendIndicator, columns: [(i32, i32); 6], rows: usize, rng: &mut Rng) -> optimizer::Data {
    let positive = |value: f64| value.try_into().expect("a positive number");
    let t: Vec<f64> = (0..rows).map(|row| row as f64 / (rows - 1) as f64).collect();
    let t_change: Vec<f64> = (1..=4).map(|index| t[index * rows / 6]).collect();
    optimizer::Data {
        T: rows as i32,
        y: t.iter().map(|t| 0.4 + 0.3 * (t - 0.4).abs() + 0.1 * normal(rng)).collect(),
        cap: (0..rows).map(|_| 1.0 + rng.f64()).collect(),
        t,
        S: 4,
        t_change,
        trend_indicator: kind,
        K: 6,
        s_a: columns.iter().map(|column| column.0).collect(),
        s_m: columns.iter().map(|column| column.1).collect(),
        X: (0..rows * 6).map(|_| normal(rng)).collect(),
        sigmas: (0..6).map(|_| positive(0.1 + rng.f64())).collect(),
        tau: positive(0.05),
    }
}

fn anywhere(rng: &mut Rng) -> Params {
    Params {
        k: 2.0 + 0.3 * normal(rng),
        m: 0.3 * normal(rng),
        sigma: 0.1 + rng.f64(),
        delta: (0..4).map(|_| 0.2 * normal(rng)).collect(),
        beta: (0..6).map(|_| 0.2 * normal(rng)).collect(),
    }
}

/// Each parameter in turn.
fn coordinates(params: &mut Params) -> Vec<&mut f64> {
    let Params { k, m, sigma, delta, beta } = params;
    [k, m, sigma].into_iter().chain(delta).chain(beta).collect()
}

/// Prophet's Stan program, line by line and with the whole matrix of changepoints.
fn as_stan_writes_it(data: &optimizer::Data, at: &Params) -> f64 {
    let mut squares = 0.0;
    let mut gamma = Vec::new();
    let (mut rate, mut offset) = (at.k, at.m);
    for (change, delta) in data.t_change.iter().zip(&at.delta) {
        gamma.push((change - offset) * (1.0 - rate / (rate + delta)));
        offset += gamma[gamma.len() - 1];
        rate += delta;
    }
    for row in 0..data.y.len() {
        let t = data.t[row];
        let passed: Vec<usize> = (0..data.t_change.len()).filter(|index| t >= data.t_change[*index]).collect();
        let rate = at.k + passed.iter().map(|index| at.delta[*index]).sum::<f64>();
        let trend = match data.trend_indicator {
            TrendIndicator::Linear => {
                rate * t + at.m + passed.iter().map(|index| -data.t_change[*index] * at.delta[*index]).sum::<f64>()
            }
            TrendIndicator::Logistic => {
                let offset = at.m + passed.iter().map(|index| gamma[*index]).sum::<f64>();
                data.cap[row] / (1.0 + (-rate * (t - offset)).exp())
            }
            TrendIndicator::Flat => at.m,
        };
        let sum = |which: &[i32]| -> f64 {
            (0..6).map(|column| data.X[row * 6 + column] * f64::from(which[column]) * at.beta[column]).sum()
        };
        squares += (data.y[row] - trend * (1.0 + sum(&data.s_m)) - sum(&data.s_a)).powi(2);
    }
    let mut density = -(data.y.len() as f64) * at.sigma.ln() - squares / (2.0 * at.sigma * at.sigma);
    density -= (at.k / 5.0).powi(2) / 2.0 + (at.m / 5.0).powi(2) / 2.0 + (at.sigma / 0.5).powi(2) / 2.0;
    density -= at.delta.iter().map(|delta| delta.abs() / *data.tau).sum::<f64>();
    density - at.beta.iter().zip(&data.sigmas).map(|(beta, sigma)| (beta / **sigma).powi(2) / 2.0).sum::<f64>()
}

#[test]
fn the_density_is_that_of_prophets_stan_program() {
    let mut rng = Rng::with_seed(1);
    for kind in KINDS {
        for columns in [MIXED, ADDITIVE] {
            let data = problem(kind, columns, 50, &mut rng);
            let at = anywhere(&mut rng);
            let (ours, theirs) = (Posterior::new(&data).log_density(&at), as_stan_writes_it(&data, &at));
            assert!((ours - theirs).abs() < 1e-9 * theirs.abs(), "{kind:?}: {ours} against {theirs}");
        }
    }
}

#[test]
fn the_gradient_is_the_limit_of_differences() {
    let mut rng = Rng::with_seed(2);
    for kind in KINDS {
        for columns in [MIXED, ADDITIVE] {
            for _ in 0..20 {
                let data = problem(kind, columns, 40, &mut rng);
                let posterior = Posterior::new(&data);
                let mut at = anywhere(&mut rng);
                let mut gradient = posterior.smooth(&at).1;
                for (index, slope) in coordinates(&mut gradient).into_iter().enumerate() {
                    let mut moved = |by: f64| {
                        *coordinates(&mut at)[index] += by;
                        let cost = posterior.smooth(&at).0;
                        *coordinates(&mut at)[index] -= by;
                        cost
                    };
                    let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                    let error = (difference - *slope).abs();
                    assert!(error < 1e-5 * (1.0 + slope.abs()), "{kind:?} {index}: {slope} against {difference}");
                }
            }
        }
    }
}

fn highest(data: &optimizer::Data, seed: f64) -> Params {
    let init = optimizer::InitialParams {
        k: seed,
        m: 0.3,
        delta: vec![0.0; 4],
        beta: vec![0.0; 6],
        sigma_obs: 1.0.try_into().expect("a positive number"),
    };
    let found = MapOptimizer.optimize(&init, data, &optimizer::OptimizeOpts::default()).expect("a fit");
    Params { k: found.k, m: found.m, sigma: *found.sigma_obs, delta: found.delta, beta: found.beta }
}

/// At the optimum of a function with a kink, the slope of its smooth part is held by the kink where `delta` is zero,
/// and met by it elsewhere.
#[test]
fn where_the_search_ends_nothing_pulls_further() {
    let mut rng = Rng::with_seed(3);
    for kind in KINDS {
        for columns in [MIXED, ADDITIVE] {
            let data = problem(kind, columns, 400, &mut rng);
            let posterior = Posterior::new(&data);
            let found = highest(&data, 0.5);
            let by = posterior.smooth(&found).1;
            let smooth = [by.k, by.m, by.sigma].into_iter().chain(by.beta);
            for slope in smooth {
                assert!(slope.abs() < 0.05, "{kind:?}: a slope of {slope} is left");
            }
            let kink = 1.0 / *data.tau;
            for (delta, slope) in found.delta.iter().zip(by.delta) {
                let pull =
                    if delta.abs() < 1e-4 { (slope.abs() - kink).max(0.0) } else { slope + kink * delta.signum() };
                assert!(pull.abs() < 0.05 * kink, "{kind:?}: delta {delta} is pulled by {pull}");
            }
        }
    }
}

#[test]
fn no_point_near_the_end_of_the_search_is_higher() {
    let mut rng = Rng::with_seed(4);
    for kind in KINDS {
        let data = problem(kind, MIXED, 400, &mut rng);
        let posterior = Posterior::new(&data);
        let found = highest(&data, 0.5);
        let reached = posterior.log_density(&found);
        for _ in 0..1000 {
            let mut near = found.clone();
            let far = 10_f64.powf(-1.0 - 5.0 * rng.f64());
            for value in coordinates(&mut near) {
                *value += far * normal(&mut rng) * if rng.bool() { 1.0 } else { 0.0 };
            }
            near.sigma = near.sigma.abs();
            let there = posterior.log_density(&near);
            assert!(there < reached + 1e-3, "{kind:?}: {there} is higher than {reached}");
        }
    }
}

#[test]
fn from_another_start_the_search_ends_at_the_same_point() {
    let mut rng = Rng::with_seed(5);
    for kind in [TrendIndicator::Linear, TrendIndicator::Flat] {
        let data = problem(kind, ADDITIVE, 400, &mut rng);
        let posterior = Posterior::new(&data);
        let (one, other) = (posterior.log_density(&highest(&data, 0.0)), posterior.log_density(&highest(&data, 3.0)));
        assert!((one - other).abs() < 1e-3, "{kind:?}: {one} and {other}");
    }
}

/// Prophet keeps its features in a hash map: the columns come in another order each time.
#[test]
fn the_order_of_the_columns_changes_no_digit() {
    let mut rng = Rng::with_seed(6);
    let data = problem(TrendIndicator::Linear, MIXED, 200, &mut rng);
    let turned = |values: &[f64]| -> Vec<f64> {
        values.chunks(6).flat_map(|row| row.iter().rev().copied().collect::<Vec<f64>>()).collect()
    };
    let mut other = data.clone();
    other.X = turned(&data.X);
    other.sigmas.reverse();
    other.s_a.reverse();
    other.s_m.reverse();
    let (one, other) = (highest(&data, 0.5), highest(&other, 0.5));
    assert_eq!(one.delta, other.delta);
    assert_eq!(one.beta, turned(&other.beta));
}

/// Without a bound on the noise the density would grow without end.
#[test]
fn a_series_without_noise_is_met_and_the_noise_stays_positive() {
    let mut rng = Rng::with_seed(7);
    let mut data = problem(TrendIndicator::Linear, ADDITIVE, 200, &mut rng);
    for row in 0..200 {
        data.y[row] = 0.5 + 0.3 * data.t[row] + 0.1 * data.X[row * 6];
    }
    let found = highest(&data, 0.0);
    assert!(found.sigma > 0.0 && found.sigma < 1e-3, "{found:?}");
    assert!((found.beta[0] - 0.1).abs() < 1e-3 && (found.k - 0.3).abs() < 1e-2, "{found:?}");
}
