//! How evenly requests are spread over endpoints by [`Balance::LeastRequests`], in simulated time.
//!
//! `cargo run --release -p tidegate-policy --example balance` prints the tables whose figures stand in the
//! documentation of `Balancer::choose`.

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints figures to look at")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balancer, BalancerSettings, EndpointState, InFlight, Outcome, Tried, Weight};

/// How the latency of endpoints varies around its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Variation {
    /// Not at all.
    Constant,
    /// Exponentially.
    Exponential,
    /// Log-normally with a heavy tail: one in a hundred takes six times the mean.
    HeavyTail,
}

/// A pool under load. Responses take as long as they take, however many are in flight.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) weights: Vec<u32>,
    pub(crate) variation: Variation,
    /// The mean latency of a usual endpoint, in seconds.
    pub(crate) latency: f64,
    /// Requests in flight in the whole pool, on average, if no endpoint is slow.
    pub(crate) in_flight: f64,
    /// How many times as long the first endpoint takes. If it is infinite, the endpoint freezes after a while.
    pub(crate) slowness: f64,
    pub(crate) requests: u32,
}

impl Default for Pool {
    fn default() -> Self {
        let variation = Variation::Exponential;
        Self { weights: vec![1; 4], variation, latency: 0.01, in_flight: 2.0, slowness: 1.0, requests: 100_000 }
    }
}

/// What became of a pool's requests.
pub(crate) struct Spread {
    /// Of each endpoint: its share of the requests, by its share of the weights.
    pub(crate) by_weight: Vec<f64>,
    /// The most that the first endpoint had in flight.
    pub(crate) most_in_flight: u32,
}

impl Pool {
    pub(crate) fn run(&self) -> Spread {
        let mut rng = fastrand::Rng::with_seed(42);
        let endpoint = |(index, weight): (usize, &u32)| {
            (Arc::new(EndpointState::new(&index.to_string())), Weight::new(*weight).expect("a weight"))
        };
        let balancer = Balancer::new(self.weights.iter().enumerate().map(endpoint), BalancerSettings::default());
        let mut counts = vec![0_u32; self.weights.len()];
        let mut most_in_flight = 0;
        let mut now = 0.0;
        let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let mut held: Vec<Option<(InFlight, Duration)>> = Vec::new();
        let warm_up = self.requests / 10;
        for request in 0..self.requests + warm_up {
            now += -(1.0 - rng.f64()).ln() * self.latency / self.in_flight;
            let at = Timestamp::from_nanos((now * 1e9) as u64);
            while let Some(Reverse((end, ended))) =
                ends.peek().copied().filter(|Reverse((end, _))| *end <= at.as_nanos())
            {
                ends.pop();
                if let Some((in_flight, took)) = held[ended as usize].take() {
                    balancer.end(in_flight, Outcome::Success { took }, Timestamp::from_nanos(end));
                }
            }
            let index = balancer.choose(at, rng.u64(..), 0, &Tried::new()).expect("none is down");
            counts[index] += u32::from(request >= warm_up);
            let took = self.took(index, request >= warm_up || self.slowness.is_finite(), &mut rng);
            let in_flight = balancer.begin(index, at).expect("it was chosen");
            most_in_flight = most_in_flight.max(balancer.endpoint(0).expect("the first").in_flight());
            held.push(Some((in_flight, took)));
            ends.push(Reverse(((at + took).as_nanos(), request)));
        }
        let sum: f64 = self.weights.iter().copied().map(f64::from).sum();
        let share =
            |(count, weight): (&u32, &u32)| f64::from(*count) / f64::from(self.requests) / (f64::from(*weight) / sum);
        Spread { by_weight: counts.iter().zip(&self.weights).map(share).collect(), most_in_flight }
    }

    fn took(&self, index: usize, is_slow: bool, rng: &mut fastrand::Rng) -> Duration {
        let factor = match self.variation {
            Variation::Constant => 1.0,
            Variation::Exponential => -(1.0 - rng.f64()).ln(),
            Variation::HeavyTail => {
                let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
                (normal - 0.5).exp()
            }
        };
        let slowness = if index == 0 && is_slow { self.slowness } else { 1.0 };
        Duration::try_from_secs_f64(self.latency * factor * slowness).unwrap_or(Duration::from_secs(1 << 30))
    }
}

pub(crate) const LOADS: [f64; 8] = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];
pub(crate) const VARIATIONS: [Variation; 3] = [Variation::Constant, Variation::Exponential, Variation::HeavyTail];
pub(crate) const WEIGHTS: [&[u32]; 4] = [&[1, 1, 1, 1], &[1, 2, 3, 4], &[1, 10], &[1, 1, 1, 10]];

/// One line: the weights, and a figure for each load.
fn line(weights: &[u32], figure: impl Fn(f64) -> String) {
    let figures: Vec<String> = LOADS.into_iter().map(figure).collect();
    println!("{:<16}{}", format!("{weights:?}"), figures.join("  "));
}

fn main() {
    println!("In flight in the whole pool, on average: {LOADS:?}");
    for (variation, latency) in VARIATIONS.into_iter().flat_map(|variation| [(variation, 0.01), (variation, 0.3)]) {
        println!("\n{variation:?}, {latency} s: share by weight of the first and the last");
        for weights in WEIGHTS {
            let pool = Pool { weights: weights.to_vec(), variation, latency, ..Pool::default() };
            line(weights, |in_flight| {
                let spread = Pool { in_flight, ..pool.clone() }.run();
                format!("{:.2} {:.2}", spread.by_weight[0], spread.by_weight[weights.len() - 1])
            });
        }
    }
    for (name, slowness) in [("3 times slower", 3.0), ("10 times slower", 10.0), ("frozen", f64::INFINITY)] {
        println!("\n{name}: share by weight of the first, and the most it had in flight");
        for weights in WEIGHTS {
            let pool = Pool { weights: weights.to_vec(), slowness, ..Pool::default() };
            line(weights, |in_flight| {
                let spread = Pool { in_flight, ..pool.clone() }.run();
                format!("{:.3} {:>3}", spread.by_weight[0], spread.most_in_flight)
            });
        }
    }
}
