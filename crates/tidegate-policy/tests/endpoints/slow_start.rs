//! The share of endpoints that have just become available.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balance, Balancer, BalancerSettings, EndpointState, Forced, Tried, Weight};

use super::{FAILURE, NOW, balanced, counts, pool, seconds};

const REQUESTS: u32 = 40_000;

fn settings(balance: Balance) -> BalancerSettings {
    BalancerSettings { balance, slow_start: seconds(10), ..BalancerSettings::default() }
}

/// The share of the requests that the last endpoint gets, by that of the first.
fn ratio(balancer: &Balancer, now: Timestamp) -> f64 {
    let counts = counts(balancer, REQUESTS, now);
    f64::from(counts[counts.len() - 1]) / f64::from(counts[0])
}

fn assert_close(share: f64, expected: f64, context: &str) {
    assert!((share - expected).abs() < 0.05, "{share} instead of {expected}: {context}");
}

#[test]
fn an_endpoint_that_joins_gets_a_tenth_and_then_linearly_more() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin] {
        let old = |name| (Arc::new(EndpointState::new(name)), Weight::ONE);
        let new = (Arc::new(EndpointState::joining("new", NOW)), Weight::ONE);
        let balancer = Balancer::new([old("a"), old("b"), new], settings(balance));
        for (after, expected) in [(0, 0.1), (2, 0.28), (5, 0.55), (9, 0.91), (10, 1.0), (100, 1.0)] {
            assert_close(ratio(&balancer, NOW + seconds(after)), expected, &format!("{balance:?} after {after} s"));
        }
    }
}

#[test]
fn every_way_back_begins_with_a_slow_start() {
    let balancer = pool(&[1, 1, 1], settings(Balance::LeastRequests));
    let share = |now| ratio(&balancer, now);
    assert_close(share(NOW), 1.0, "those of the first build need none");
    for _ in 0..5 {
        let in_flight = balancer.begin(2, NOW).expect("the last");
        balancer.end(in_flight, FAILURE, NOW);
    }
    assert_close(share(NOW + seconds(29)), 0.0, "it is ejected for 30 s");
    assert_close(share(NOW + seconds(30)), 0.1, "it returns by itself");
    assert_close(share(NOW + seconds(40)), 1.0, "10 s later");

    let now = NOW + seconds(100);
    balancer.checked(2, false, now);
    assert_close(share(now), 0.0, "it is unhealthy");
    balancer.checked(2, true, now);
    balancer.checked(2, true, now);
    assert_close(share(now + seconds(5)), 0.55, "it is healthy again");

    let now = NOW + seconds(200);
    balancer.force(2, Forced::Drain, now);
    balancer.force(2, Forced::Auto, now + seconds(1));
    assert_close(share(now + seconds(1)), 0.1, "it is no longer drained");
    balancer.force(2, Forced::Up, now + seconds(20));
    assert_close(share(now + seconds(20)), 1.0, "it was up already");
}

#[test]
fn when_all_begin_together_none_is_held_back() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin] {
        let new = |name, after| (Arc::new(EndpointState::joining(name, NOW + seconds(after))), Weight::ONE);
        let balancer = Balancer::new([new("a", 4), new("b", 1), new("c", 0)], settings(balance));
        assert_close(ratio(&balancer, NOW + seconds(5)), 1.0, "all are in their slow start");
        assert_close(1.0 / ratio(&balancer, NOW + seconds(10)), 0.64, "the last is not any more");
        balancer.force(2, Forced::Down, NOW + seconds(10));
        let counts = counts(&balancer, REQUESTS, NOW + seconds(10));
        assert_close(f64::from(counts[0]) / f64::from(counts[1]), 1.0, "the others alone are");
    }
}

#[test]
fn keys_stay_where_they_are_whatever_the_slow_start() {
    let balancer = pool(&[1, 1, 1], settings(Balance::Hash));
    let plain = balanced(&[1, 1, 1], Balance::Hash);
    balancer.force(1, Forced::Down, NOW);
    balancer.force(1, Forced::Auto, NOW);
    for key in 0..10_000 {
        let choose = |balancer: &Balancer| balancer.choose(NOW, key, key, &Tried::new());
        assert_eq!(choose(&balancer), choose(&plain));
    }
}

#[test]
fn under_load_a_starting_endpoint_holds_no_more_than_its_share() {
    let old = |name| (Arc::new(EndpointState::new(name)), Weight::ONE);
    let new = (Arc::new(EndpointState::joining("new", NOW)), Weight::ONE);
    let balancer = Balancer::new([old("a"), old("b"), old("c"), new], settings(Balance::LeastRequests));
    let mut rng = fastrand::Rng::with_seed(3);
    let mut held = std::collections::VecDeque::new();
    let mut now = NOW;
    for _ in 0..20_000 {
        now = now + Duration::from_micros(50);
        let index = balancer.choose(now, rng.u64(..), 0, &Tried::new()).expect("all are up");
        held.push_back(balancer.begin(index, now).expect("it was chosen"));
        if held.len() > 100 {
            balancer.end(held.pop_front().expect("one of a hundred"), super::success(5), now);
        }
    }
    let in_flight: Vec<u32> = balancer.snapshot(now).iter().map(|endpoint| endpoint.in_flight).collect();
    assert!(in_flight[3] < in_flight[0] / 2, "{in_flight:?}");
}
