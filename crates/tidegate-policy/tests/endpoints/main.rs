//! Pools of endpoints: every rule held to a naive model, a million seeded events; shares of requests by weight, by key
//! and in slow start; latency; threads.

#![allow(clippy::cast_precision_loss, reason = "shares of counts far below 2^53")]

mod attempts;
#[path = "../../examples/balance.rs"]
#[allow(dead_code, reason = "the example's own main")]
mod balance;
mod ejection;
mod keys;
mod latency;
mod laws;
mod model;
mod shares;
mod slow_start;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{
    Balance, Balancer, BalancerSettings, Cause, EndpointState, Forced, Outcome, Standing, Tried, Weight,
};

const NOW: Timestamp = Timestamp::from_nanos(1_790_000_000_000_000_000);

const FAILURE: Outcome = Outcome::Failure { cause: Cause::Status, took: None };

const fn success(millis: u64) -> Outcome {
    Outcome::Success { took: Duration::from_millis(millis) }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("a weight")
}

/// A pool of new endpoints with these weights, named by their indexes.
fn pool(weights: &[u32], settings: BalancerSettings) -> Balancer {
    let endpoint = |(index, weight): (usize, &u32)| {
        (Arc::new(EndpointState::new(&format!("10.0.0.{index}:80"))), Weight::new(*weight).expect("a weight"))
    };
    Balancer::new(weights.iter().enumerate().map(endpoint), settings)
}

fn balanced(weights: &[u32], balance: Balance) -> Balancer {
    pool(weights, BalancerSettings { balance, ..BalancerSettings::default() })
}

/// Gives an endpoint that is up another standing, in the usual way.
fn take_out(balancer: &Balancer, index: usize, standing: Standing) {
    match standing {
        Standing::Up => {}
        Standing::Unhealthy => drop(balancer.checked(index, false, NOW)),
        Standing::Ejected => {
            for _ in 0..5 {
                balancer.end(balancer.begin(index, NOW).expect("an index of the pool"), FAILURE, NOW);
            }
        }
        Standing::Drain => drop(balancer.force(index, Forced::Drain, NOW)),
        Standing::Down => drop(balancer.force(index, Forced::Down, NOW)),
    }
    assert_eq!(balancer.snapshot(NOW)[index].standing, standing);
}

/// How many of `requests` go to each endpoint, if each ends before the next.
fn counts(balancer: &Balancer, requests: u32, now: Timestamp) -> Vec<u32> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut counts = vec![0; balancer.len()];
    for _ in 0..requests {
        let index = balancer.choose(now, rng.u64(..), rng.u64(..), &Tried::new()).expect("none is down");
        counts[index] += 1;
    }
    counts
}
