//! Finds the parameters of the highest posterior density, instead of Stan's optimizer.

use argmin::core::{Executor, State, TerminationReason, TerminationStatus};
use argmin::solver::{linesearch::MoreThuenteLineSearch, quasinewton::LBFGS};
use augurs_prophet::{
    Optimizer, PositiveFloat, TrendIndicator,
    optimizer::{Data, Error, InitialParams, OptimizeOpts, OptimizedParams},
};

use super::posterior::{Params, Posterior};
use super::search::{LEAST_NOISE, Search};

/// L-BFGS on the posterior density of Prophet's model; as Stan's `optimize`, on the parameters' own scale unless the
/// Jacobian is asked for.
///
/// Of the options only `jacobian` and `iter` are heeded: the others are about Stan's way to the optimum, which is the
/// same.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapOptimizer;

/// The search ends when a step gains less than this, in the density's logarithm per row. Then it is within about 1e-4
/// of the highest on real series; Stan's own end, by its default tolerances, is further away.
const LEAST_GAIN: f64 = 1e-12;
/// About as many as there are parameters: trends with changepoints are badly conditioned, and a short memory (Stan's is
/// 5) takes many times the steps.
const MEMORY: usize = 100;
const MOST_STEPS: u64 = 10_000;
/// How often the search begins anew where a line search has given up.
const MOST_ROUNDS: usize = 4;

impl Optimizer for MapOptimizer {
    fn optimize(&self, init: &InitialParams, data: &Data, opts: &OptimizeOpts) -> Result<OptimizedParams, Error> {
        let mut params =
            Params { k: init.k, m: init.m, sigma: LEAST_NOISE, delta: init.delta.clone(), beta: init.beta.clone() };
        if !is_met_by_the_start(data) {
            let posterior = Posterior::new(data);
            params.sigma = posterior.deviation(&params).max(LEAST_NOISE);
            let search = Search::new(&posterior, opts.jacobian.unwrap_or(false));
            params = highest(&search, &params, opts.iter.map_or(MOST_STEPS, u64::from))?;
        }
        Ok(OptimizedParams {
            k: params.k,
            m: params.m,
            sigma_obs: PositiveFloat::try_new(params.sigma).map_err(Error::custom)?,
            delta: params.delta,
            beta: params.beta,
            trend: Vec::new(),
        })
    }
}

/// A series of equal values needs no search; Python's `prophet` makes the same exception.
fn is_met_by_the_start(data: &Data) -> bool {
    data.trend_indicator != TrendIndicator::Logistic
        && data.y.windows(2).all(|pair| pair[0].total_cmp(&pair[1]).is_eq())
}

fn highest(search: &Search<'_>, from: &Params, mut steps: u64) -> Result<Params, Error> {
    let failed = |error: argmin::core::Error| Error::string(error.to_string());
    let mut at = search.index(from);
    for _ in 0..MOST_ROUNDS {
        let solver = LBFGS::new(MoreThuenteLineSearch::new(), MEMORY)
            .with_tolerance_grad(0.0)
            .and_then(|solver| solver.with_tolerance_cost(LEAST_GAIN))
            .map_err(failed)?;
        let run = Executor::new(search, solver)
            .ctrlc(false)
            .configure(|state| state.param(at.clone()).max_iters(steps))
            .run()
            .map_err(failed)?;
        if let Some(best) = run.state().get_best_param() {
            at.clone_from(best);
        }
        steps = steps.saturating_sub(run.state().get_iter());
        // It ends like this where a line search has found nothing lower.
        if !matches!(
            run.state().get_termination_status(),
            TerminationStatus::Terminated(TerminationReason::SolverExit(_))
        ) {
            break;
        }
    }
    let params = search.params(&at);
    let finite = [params.k, params.m].iter().chain(&params.delta).chain(&params.beta).all(|value| value.is_finite());
    if finite { Ok(params) } else { Err(Error::static_str("no finite parameters were found")) }
}
