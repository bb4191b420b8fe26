//! How far each algorithm is from the exact log: the same bursty traffic through all of them, in simulated time.
//!
//! `cargo run --release -p tidegate-policy --example compare` prints the table whose figures stand in the algorithms'
//! documentation.

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints figures to look at")]

use std::time::Duration;

use tidegate_policy::{
    Cost, Decision, FixedWindow, Gcra, LeakyBucket, Limiter, Rate, Rule, SlidingCounter, SlidingLog, Timestamp,
    TokenBucket,
};

const LIMIT: u64 = 100;
const WINDOW: Duration = Duration::from_secs(1);

/// What one algorithm made of the traffic.
pub(crate) struct Distance {
    pub(crate) rule: Rule,
    /// When the admitted ones went.
    pub(crate) went: Vec<Timestamp>,
    /// The most that went in any span as long as the window, by the limit.
    pub(crate) worst_window: f64,
    /// The share of requests that the exact log decided otherwise.
    pub(crate) unlike_the_log: f64,
}

/// An hour of bursts: 20 to 300 requests within a quarter of a second, at random moments, on average at half the limit.
pub(crate) fn bursts() -> Vec<Timestamp> {
    let mut rng = fastrand::Rng::with_seed(42);
    let mut burst = 0;
    let mut arrivals = Vec::new();
    while burst < 3_600_000_000_000 {
        burst += rng.u64(0..6_400_000_000);
        let length = rng.u64(1..250_000_000);
        arrivals.extend((0..rng.u64(20..=300)).map(|_| burst + rng.u64(0..length)));
    }
    arrivals.sort_unstable();
    arrivals.into_iter().map(Timestamp::from_nanos).collect()
}

/// Every algorithm at 100 a second, with as much burst as its numbers allow for that.
pub(crate) fn rules() -> Vec<Rule> {
    let rate = Rate::new(LIMIT, WINDOW).expect("a rate");
    vec![
        SlidingLog::new(LIMIT, WINDOW).expect("a limit").into(),
        SlidingCounter::new(LIMIT, WINDOW).expect("a limit").into(),
        FixedWindow::new(LIMIT, WINDOW).expect("a limit").into(),
        TokenBucket::new(rate, LIMIT).expect("a limit").into(),
        Gcra::new(rate, LIMIT).expect("a limit").into(),
        LeakyBucket::new(rate, LIMIT - 1).expect("a limit").into(),
    ]
}

/// When each request went, if it did.
fn run(rule: &Rule, arrivals: &[Timestamp]) -> Vec<Option<Timestamp>> {
    let mut state = Default::default();
    let went = |now: &Timestamp| match rule.check(&mut state, Cost::ONE, *now) {
        Decision::Admit { wait, .. } => Some(*now + wait),
        Decision::Reject { .. } => None,
    };
    arrivals.iter().map(went).collect()
}

/// The fullest span as long as the window: how many went in it, and when the last of them did.
fn worst_window(went: &[Timestamp]) -> (usize, Timestamp) {
    let mut start = 0;
    let counts = went.iter().enumerate().map(|(end, at)| {
        while at.since(went[start]) >= WINDOW {
            start += 1;
        }
        (end - start + 1, *at)
    });
    counts.max_by_key(|(count, _)| *count).unwrap_or_default()
}

pub(crate) fn measure(arrivals: &[Timestamp]) -> Vec<Distance> {
    let log = run(&rules()[0], arrivals);
    let distance = |rule: Rule| {
        let decided = run(&rule, arrivals);
        let unlike = decided.iter().zip(&log).filter(|(ours, exact)| ours.is_some() != exact.is_some()).count();
        let went: Vec<Timestamp> = decided.into_iter().flatten().collect();
        Distance {
            rule,
            worst_window: worst_window(&went).0 as f64 / LIMIT as f64,
            unlike_the_log: unlike as f64 / arrivals.len() as f64,
            went,
        }
    };
    rules().into_iter().map(distance).collect()
}

/// How many went in each twentieth of a second of the three around `middle`, as a strip.
fn strip(went: &[Timestamp], middle: Timestamp) -> String {
    let start = Timestamp::from_nanos(middle.as_nanos().saturating_sub(2_000_000_000));
    let mut counts = [0_usize; 60];
    for at in went.iter().filter(|at| **at >= start) {
        if let Some(count) = counts.get_mut((at.since(start).as_millis() / 50) as usize) {
            *count += 1;
        }
    }
    let bar = |count: &usize| [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][count.div_ceil(7).min(8)];
    counts.iter().map(bar).collect()
}

fn main() {
    let arrivals = bursts();
    let distances = measure(&arrivals);
    let fixed = distances.iter().find(|distance| matches!(distance.rule, Rule::FixedWindow(_)));
    let (_, worst_moment) = worst_window(&fixed.expect("it is measured").went);
    println!("An hour of bursts, {} requests, through a limit of {LIMIT} in {WINDOW:?}:\n", arrivals.len());
    println!("algorithm     admitted   worst window   unlike the log   three seconds of it");
    println!("{:<57}{}", "(what came)", strip(&arrivals, worst_moment));
    for distance in &distances {
        println!(
            "{:<13} {:>8} {:>12.2} × {:>14.1} %   {}",
            distance.rule.algorithm().name(),
            distance.went.len(),
            distance.worst_window,
            distance.unlike_the_log * 100.0,
            strip(&distance.went, worst_moment),
        );
    }
    println!(
        "\nworst window: the most that went in any {WINDOW:?}, by the limit; the log keeps it at 1 by \
         rejecting, leaky by delaying.\n\
         unlike the log: the share of requests that the exact log would have decided otherwise.\n\
         three seconds: around the fixed window's worst moment, where two bursts meet at the border of two windows."
    );
}
