//! Choice by key: even, stable, and little moved by changes.

use std::sync::Arc;

use tidegate_policy::endpoints::{Balance, Balancer, BalancerSettings, EndpointState, Forced, Tried, Weight};

use super::{NOW, balanced, counts, weight};

const KEYS: u64 = 50_000;

fn by_name(endpoints: &[(String, Weight)]) -> Balancer {
    let settings = BalancerSettings { balance: Balance::Hash, ..BalancerSettings::default() };
    let endpoint = |(name, weight): &(String, Weight)| (Arc::new(EndpointState::new(name)), *weight);
    Balancer::new(endpoints.iter().map(endpoint), settings)
}

fn numbered(count: usize) -> Vec<(String, Weight)> {
    (0..count).map(|index| (format!("app-{index}:8080"), Weight::ONE)).collect()
}

/// The name of each key's endpoint.
fn homes(balancer: &Balancer) -> Vec<String> {
    let home = |key| balancer.choose(NOW, 0, key, &Tried::new()).and_then(|index| balancer.endpoint(index));
    (0..KEYS).map(|key| home(key).expect("none is down").name().to_owned()).collect()
}

fn moved<'a>(before: &'a [String], after: &'a [String]) -> impl Iterator<Item = (&'a String, &'a String)> {
    before.iter().zip(after).filter(|(before, after)| before != after)
}

#[test]
fn keys_are_spread_by_weight() {
    for weights in [&[1_u32, 1, 1, 1][..], &[1, 2, 3, 4], &[1, 10], &[1; 50]] {
        let counts = counts(&balanced(weights, Balance::Hash), 200_000, NOW);
        let sum: f64 = weights.iter().copied().map(f64::from).sum();
        for (count, weight) in counts.iter().zip(weights) {
            let share = f64::from(*count) / 200_000.0 / (f64::from(*weight) / sum);
            assert!((share - 1.0).abs() < 0.06, "{share} of the share of {weights:?}: {counts:?}");
        }
    }
}

#[test]
fn the_same_key_goes_to_the_same_endpoint_whatever_the_order_of_the_list() {
    let mut endpoints = numbered(7);
    endpoints[3].1 = weight(5);
    let homes_before = homes(&by_name(&endpoints));
    endpoints.reverse();
    assert_eq!(homes_before, homes(&by_name(&endpoints)));
}

#[test]
fn removing_or_adding_an_endpoint_moves_few_other_keys() {
    for count in [2, 4, 10, 50] {
        let all = numbered(count);
        let before = homes(&by_name(&all));
        for gone in [0, count / 2, count - 1] {
            let mut left = all.clone();
            let (name, _) = left.remove(gone);
            let after = homes(&by_name(&left));
            let others = moved(&before, &after).filter(|(before, _)| **before != name).count();
            let share = others as f64 / KEYS as f64;
            assert!(share < 0.05, "{share} of the keys moved between two of {count} that stayed");
            let gained = moved(&after, &before).filter(|(_, after)| **after == name).count();
            assert!(gained.abs_diff(KEYS as usize / count) < KEYS as usize / count / 5, "its own keys: {gained}");
        }
    }
}

#[test]
fn while_an_endpoint_is_out_its_keys_are_spread_over_the_others_and_no_other_key_moves() {
    let balancer = by_name(&numbered(5));
    let before = homes(&balancer);
    balancer.force(2, Forced::Down, NOW);
    let during = homes(&balancer);
    let name = balancer.endpoint(2).expect("the third").name();
    assert!(moved(&before, &during).all(|(before, _)| before == name));
    for index in [0, 1, 3, 4] {
        let other = balancer.endpoint(index).expect("one of five").name();
        let taken = moved(&before, &during).filter(|(_, during)| *during == other).count();
        assert!((KEYS as usize / 20).abs_diff(taken) < KEYS as usize / 100, "{other} took {taken}");
    }
    balancer.force(2, Forced::Auto, NOW);
    assert_eq!(before, homes(&balancer));
}

#[test]
fn the_next_attempt_of_a_key_goes_to_the_endpoint_that_takes_over_when_the_first_is_out() {
    let balancer = by_name(&numbered(5));
    for key in 0..1_000 {
        let first = balancer.choose(NOW, 0, key, &Tried::new()).expect("none is down");
        let mut tried = Tried::new();
        tried.insert(first);
        let second = balancer.choose(NOW, 0, key, &tried);
        balancer.force(first, Forced::Down, NOW);
        assert_eq!(balancer.choose(NOW, 0, key, &Tried::new()), second);
        balancer.force(first, Forced::Auto, NOW);
    }
}

#[test]
fn every_endpoint_gets_keys_however_light() {
    let mut endpoints = numbered(3);
    endpoints[0].1 = Weight::MAX;
    let balancer = by_name(&endpoints);
    let mut found = vec![false; 3];
    for key in 0..2_000_000 {
        found[balancer.choose(NOW, 0, key, &Tried::new()).expect("none is down")] = true;
    }
    assert_eq!(found, [true; 3]);
}
