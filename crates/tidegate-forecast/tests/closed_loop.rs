//! An adviser and a limit in simulated time: load comes by a profile, a limit of one second admits or rejects, and
//! every few seconds a snapshot brings new numbers and their schedule.
#![allow(clippy::cast_precision_loss, clippy::float_cmp, reason = "whole numbers, far below 2^52")]

use tidegate_forecast::{Adviser, Forecaster, Numbers, Offered, Policy, ProphetModel, Snapshot, Windowed};

/// What happened in one second.
#[derive(Clone, Copy, Debug)]
struct Second {
    offered: u64,
    rejected: u64,
    limit: u64,
}

const START: i64 = 1_763_344_800;
const BASE: u64 = 100;

fn per_second(limit: u64) -> Numbers {
    Numbers::Window { algorithm: Windowed::Fixed, limit, window: 1.0 }
}

/// By the second a bucket is a window of its rate, but for what it holds.
fn limit_of(numbers: &Numbers) -> u64 {
    numbers.rate().round() as u64
}

/// Runs `load` (requests of each second) against a limit that follows the advice; it is asked for every `interval`
/// seconds.
fn run(policy: Policy, interval: usize, load: &[u64]) -> Vec<Second> {
    let mut adviser = Adviser::new(policy, Forecaster::new(policy.settings()).with_slow(ProphetModel::default(), 30));
    let mut plan = vec![BASE; load.len()];
    let mut seconds: Vec<Second> = Vec::new();
    for (now, offered) in load.iter().enumerate() {
        if now > 0 && now % interval == 0 {
            let snapshot = snapshot(&seconds, interval, plan[now]);
            let advice = adviser.advise(&snapshot).advice;
            // What the gateway does: the numbers from now on, then each step at its time, then back.
            let until = (now as f64 + advice.valid_for).round() as usize;
            for (second, limit) in plan.iter_mut().enumerate().skip(now) {
                let after = second as f64 - now as f64;
                let step = advice.schedule.iter().rev().find(|step| step.after <= after + 1e-6);
                *limit = match step {
                    _ if second >= until => BASE,
                    Some(step) => limit_of(&step.numbers),
                    None => limit_of(&advice.numbers),
                };
            }
        }
        let rejected = offered.saturating_sub(plan[now]);
        seconds.push(Second { offered: *offered, rejected, limit: plan[now] });
    }
    seconds
}

fn snapshot(seconds: &[Second], interval: usize, limit: u64) -> Snapshot {
    let new = &seconds[seconds.len() - interval..];
    let sum = |of: fn(&Second) -> u64| new.iter().map(of).sum::<u64>() as f64;
    let (offered, rejected) = (sum(|second| second.offered), sum(|second| second.rejected));
    Snapshot {
        timestamp: (START + seconds.len() as i64) as f64,
        observed: offered / interval as f64,
        rejected: if offered > 0.0 { rejected / offered } else { 0.0 },
        latency: Some(0.005),
        errors: 0.0,
        numbers: per_second(limit),
        base: per_second(BASE),
        source: "default".to_owned(),
        interval: Some(interval as f64),
        ceiling: None,
        series: Some(Offered {
            start: START + (seconds.len() - interval) as i64,
            values: new.iter().map(|second| Some(second.offered as f64)).collect(),
        }),
    }
}

/// Spikes at the end of each period.
fn spikes(base: u64, spike: u64, length: usize, period: usize, count: usize) -> Vec<u64> {
    (0..period * count).map(|second| if second % period >= period - length { spike } else { base }).collect()
}

fn policy(capacity: f64) -> Policy {
    Policy { capacity: Some(capacity), ..Policy::default() }
}

fn rejected(seconds: &[Second]) -> u64 {
    seconds.iter().map(|second| second.rejected).sum()
}

#[test]
fn from_the_fourth_spike_on_the_limit_is_raised_before_each() {
    for (length, period, interval) in [(5, 20, 5), (5, 30, 5), (10, 60, 10), (2, 10, 2), (3, 17, 5), (10, 40, 30)] {
        let seconds = run(policy(400.0), interval, &spikes(60, 250, length, period, 10));
        let late = &seconds[3 * period..];
        let without: u64 = late.iter().map(|second| second.offered.saturating_sub(BASE)).sum();
        let name = format!("{length} s of {period} s, asked every {interval} s");
        assert!(rejected(late) * 5 <= without, "{name}: {} of {without} rejected", rejected(late));
        for spike in 4..=10 {
            let first = spike * period - length;
            let before = seconds[first - 1];
            assert!(before.limit >= 250, "{name}: before spike {spike} the limit is {before:?}");
        }
        // And between them it is the operator's: a raise ends.
        let usual = late.iter().filter(|second| second.offered == 60 && second.limit == BASE).count();
        let quiet = late.iter().filter(|second| second.offered == 60).count();
        assert!(
            usual * 3 >= quiet || period < 15,
            "{name}: {usual} of {quiet} quiet seconds have the operator's limit"
        );
    }
}

#[test]
fn spikes_that_can_t_be_borne_get_what_the_target_can_do_and_never_more() {
    let (capacity, period, length) = (250, 20, 5);
    let seconds = run(policy(250.0), 5, &spikes(60, 1_000, length, period, 10));
    assert!(seconds.iter().all(|second| second.limit <= capacity), "never above the capacity");
    let spikes: Vec<&Second> = seconds[3 * period..].iter().filter(|second| second.offered == 1_000).collect();
    let admitted: u64 = spikes.iter().map(|second| second.offered - second.rejected).sum();
    assert!(admitted as f64 >= 0.95 * (capacity * spikes.len() as u64) as f64, "{admitted} admitted");
}

#[test]
fn normal_load_is_left_alone() {
    let mut random = fastrand::Rng::with_seed(3);
    let load: Vec<u64> = (0..600).map(|_| random.u64(70..=95)).collect();
    let seconds = run(policy(400.0), 5, &load);
    assert_eq!(rejected(&seconds), 0);
}

#[test]
fn a_single_mad_second_is_forgotten() {
    let mut load = vec![60; 400];
    load[200] = 1_000_000;
    let seconds = run(policy(400.0), 5, &load);
    assert!(seconds[..200].iter().all(|second| second.limit == BASE));
    let raised = seconds[201..].iter().filter(|second| second.limit > BASE).count();
    assert!(raised <= 120, "{raised} seconds with another limit because of one");
    assert!(seconds[340..].iter().all(|second| second.limit == BASE));
}
