//! How requests are spread by weight.

use tidegate_policy::endpoints::{Balance, Forced, Tried};

use super::balance::{LOADS, Pool, VARIATIONS, Variation, WEIGHTS};
use super::{NOW, balanced, counts};

#[test]
fn endpoints_of_equal_speed_get_their_share_by_weight_at_any_load() {
    for (weights, variation) in WEIGHTS.into_iter().flat_map(|weights| VARIATIONS.map(|variation| (weights, variation)))
    {
        for in_flight in LOADS {
            let pool = Pool { weights: weights.to_vec(), variation, in_flight, ..Pool::default() };
            let spread = pool.run();
            // A hundred thousand requests leave a chance deviation of a percent.
            let bound = if variation == Variation::HeavyTail { 0.07 } else { 0.05 };
            let worst = spread.by_weight.iter().map(|share| (share - 1.0).abs()).fold(0.0, f64::max);
            assert!(worst < bound, "{pool:?}: {:?}", spread.by_weight);
        }
    }
}

#[test]
fn a_slow_endpoint_gets_less_than_its_share() {
    for weights in WEIGHTS {
        for (in_flight, most) in [(2.0, 0.5), (10.0, 0.25), (100.0, 0.12)] {
            let pool = Pool { weights: weights.to_vec(), in_flight, slowness: 10.0, ..Pool::default() };
            let spread = pool.run();
            assert!(spread.by_weight[0] < most, "{pool:?}: {:?}", spread.by_weight);
        }
    }
}

#[test]
fn an_endpoint_that_stops_responding_gets_a_handful_of_requests() {
    for weights in WEIGHTS {
        for (in_flight, most) in [(0.2, 5), (2.0, 8), (10.0, 20), (100.0, 100)] {
            let pool = Pool { weights: weights.to_vec(), in_flight, slowness: f64::INFINITY, ..Pool::default() };
            let spread = pool.run();
            assert!(spread.most_in_flight <= most, "{pool:?}: {}", spread.most_in_flight);
        }
    }
}

#[test]
fn round_robin_is_exact_over_every_cycle() {
    for weights in [&[1_u32, 1][..], &[1, 2, 3, 4], &[10, 20, 70], &[5, 1, 1], &[1_000, 1], &[0, 3, 0, 2], &[1; 100]] {
        let common = weights.iter().copied().filter(|weight| *weight > 0).min().expect("one");
        let common = if weights.iter().all(|weight| weight % common == 0) { common } else { 1 };
        let balancer = balanced(weights, Balance::RoundRobin);
        let cycle = weights.iter().sum::<u32>() / common;
        for _ in 0..3 {
            let expected: Vec<u32> = weights.iter().map(|weight| weight / common).collect();
            assert_eq!(counts(&balancer, cycle, NOW), expected, "{weights:?}");
        }
    }
}

#[test]
fn round_robin_never_gets_ahead_by_more_than_a_few_requests() {
    let many: Vec<u32> = (1..=100).map(|index| index * 997).collect();
    for weights in [&[5, 1, 1][..], &[1, 2, 3, 4], &[1_000_000, 1], &[1_000_000, 999_999, 3], &many] {
        let balancer = balanced(weights, Balance::RoundRobin);
        let sum: f64 = weights.iter().copied().map(f64::from).sum();
        let mut counts = vec![0.0; weights.len()];
        for turn in 1..=20_000_u32 {
            counts[balancer.choose(NOW, 0, 0, &Tried::new()).expect("all are up")] += 1.0;
            if turn % 7 == 0 {
                for (count, weight) in counts.iter().zip(weights) {
                    let due = f64::from(turn) * f64::from(*weight) / sum;
                    assert!((count - due).abs() < 4.0, "{count} instead of {due} after {turn}: {weights:?}");
                }
            }
        }
    }
}

#[test]
fn round_robin_keeps_the_weights_of_those_that_are_left() {
    let balancer = balanced(&[3, 2, 1], Balance::RoundRobin);
    balancer.force(0, Forced::Down, NOW);
    assert_eq!(counts(&balancer, 3_000, NOW), [0, 2_000, 1_000]);
}

#[test]
fn weights_far_apart_are_kept() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin] {
        let balancer = balanced(&[1_000_000, 1_000], balance);
        let counts = counts(&balancer, 1_001_000, NOW);
        assert!((900..1_100).contains(&counts[1]), "{balance:?}: {counts:?}");
    }
}

#[test]
fn a_reserve_gets_requests_only_when_no_other_endpoint_is_left() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin, Balance::Hash] {
        let balancer = balanced(&[1, 0, 1, 0], balance);
        let before = counts(&balancer, 1_000, NOW);
        assert_eq!((before[1], before[3]), (0, 0), "{balance:?}");
        balancer.force(0, Forced::Down, NOW);
        assert_eq!(counts(&balancer, 1_000, NOW), [0, 0, 1_000, 0], "{balance:?}");
        let mut tried = Tried::new();
        tried.insert(2);
        let chosen = balancer.choose(NOW, 1, 1, &tried);
        assert!(chosen == Some(1) || chosen == Some(3), "an endpoint not tried yet comes first: {chosen:?}");
        balancer.force(2, Forced::Down, NOW);
        let after = counts(&balancer, 1_000, NOW);
        assert!(after[1] > 400 && after[3] > 400, "{balance:?}: {after:?}");
        balancer.force(1, Forced::Down, NOW);
        balancer.force(3, Forced::Down, NOW);
        assert_eq!(balancer.choose(NOW, 1, 1, &Tried::new()), None, "all are down");
    }
}

#[test]
fn a_thousand_endpoints_share_requests_though_most_are_out() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin, Balance::Hash] {
        let balancer = balanced(&[1; 1_000], balance);
        for index in 0..990 {
            balancer.checked(index, false, NOW);
        }
        let counts = counts(&balancer, 10_000, NOW);
        assert!(counts[..990].iter().all(|count| *count == 0), "{balance:?}");
        assert!(counts[990..].iter().all(|count| *count > 300), "{balance:?}: {:?}", &counts[990..]);
    }
}

#[test]
fn a_thousand_endpoints_of_weights_from_none_to_the_largest_keep_them() {
    const WEIGHTS: [u32; 3] = [0, 1, 1_000_000];
    let weights: Vec<u32> = (0..1_000).map(|index| WEIGHTS[index % 3]).collect();
    for balance in Balance::ALL {
        let balancer = balanced(&weights, balance);
        // The heaviest share all requests, then the light ones, then the reserves.
        for kind in [2, 1, 0] {
            let counts = counts(&balancer, 10_000, NOW);
            let of_kind = |wanted: usize| counts.iter().skip(wanted).step_by(3);
            assert!(of_kind(kind).all(|count| (5..90).contains(count)), "{balance:?}, {kind}: {counts:?}");
            assert!((0..kind).all(|lighter| of_kind(lighter).sum::<u32>() < 100), "{balance:?}, {kind}: {counts:?}");
            assert_eq!(kind == 0, of_kind(0).any(|count| *count > 0), "reserves, {balance:?}");
            for index in (kind..1_000).step_by(3) {
                balancer.checked(index, false, NOW);
            }
        }
        let none_is_up = counts(&balancer, 10_000, NOW);
        assert!(none_is_up.iter().skip(2).step_by(3).all(|count| (5..90).contains(count)), "{balance:?}");
        for index in 0..1_000 {
            balancer.force(index, Forced::Down, NOW);
        }
        assert_eq!(balancer.choose(NOW, 1, 1, &Tried::new()), None, "{balance:?}");
    }
}

#[test]
fn a_pool_of_one_uses_it_unless_it_is_down() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin, Balance::Hash] {
        for weight in [0, 1] {
            let balancer = balanced(&[weight], balance);
            let mut tried = Tried::new();
            tried.insert(0);
            for forced in [Forced::Auto, Forced::Up, Forced::Drain] {
                balancer.force(0, forced, NOW);
                balancer.checked(0, false, NOW);
                assert_eq!(balancer.choose(NOW, 5, 5, &tried), Some(0));
            }
            balancer.force(0, Forced::Down, NOW);
            assert_eq!(balancer.choose(NOW, 5, 5, &tried), None);
        }
        assert_eq!(balanced(&[], balance).choose(NOW, 5, 5, &Tried::new()), None, "an empty pool");
    }
}
