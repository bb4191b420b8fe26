//! Many threads at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_policy::endpoints::{Balance, BalancerSettings, Change, Outcome, Tried};

use super::{FAILURE, NOW, balanced, pool, seconds, success};

const THREADS: u64 = 4;

#[test]
fn what_begins_ends_whatever_the_threads_do() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin, Balance::Hash] {
        let balancer = balanced(&[1, 2, 3, 4], balance);
        let succeeded = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for seed in 0..THREADS {
                let (balancer, succeeded) = (&balancer, &succeeded);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let mut held = Vec::new();
                    for number in 0..50_000 {
                        let index =
                            balancer.choose(NOW, rng.u64(..), rng.u64(..), &Tried::new()).expect("none is down");
                        held.push(balancer.begin(index, NOW).expect("it was chosen"));
                        if held.len() > 8 {
                            let in_flight = held.swap_remove(rng.usize(0..8));
                            match number % 3 {
                                0 => drop(in_flight),
                                1 => assert_eq!(balancer.end(in_flight, Outcome::Ignored, NOW), None),
                                _ => {
                                    succeeded.fetch_add(1, Ordering::Relaxed);
                                    assert_eq!(balancer.end(in_flight, success(number % 50), NOW), None);
                                }
                            }
                        }
                    }
                });
            }
        });
        let snapshots = balancer.snapshot(NOW);
        assert!(snapshots.iter().all(|endpoint| endpoint.in_flight == 0), "{balance:?}");
        let counted: u64 = snapshots.iter().map(|endpoint| endpoint.successes).sum();
        assert_eq!(counted, u64::from(succeeded.load(Ordering::Relaxed)), "{balance:?}");
    }
}

#[test]
fn endpoints_that_fail_at_the_same_moment_are_never_ejected_all() {
    for round in 0..500 {
        let balancer = pool(&[1; 6], BalancerSettings::default());
        let fail = |index| balancer.end(balancer.begin(index, NOW).expect("one of six"), FAILURE, NOW);
        assert!((0..24).all(|number| fail(number % 6).is_none()), "four failures each");
        let (together, ejected) = (Barrier::new(6), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for index in 0..6 {
                let (together, ejected, fail) = (&together, &ejected, &fail);
                scope.spawn(move || {
                    together.wait();
                    match fail(index) {
                        Some(Change::Ejected { .. }) => drop(ejected.fetch_add(1, Ordering::Relaxed)),
                        Some(Change::NotEjected { .. }) => {}
                        other => panic!("{other:?}"),
                    }
                });
            }
        });
        assert_eq!(ejected.load(Ordering::Relaxed), 3, "round {round}");
        assert_eq!(balancer.step(NOW + seconds(30)).len(), 3, "all of them return");
    }
}

#[test]
fn threads_take_turns_exactly() {
    let balancer = balanced(&[1, 2, 3, 4], Balance::RoundRobin);
    let counts = [const { AtomicU32::new(0) }; 4];
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let index = balancer.choose(NOW, 0, 0, &Tried::new()).expect("none is down");
                    counts[index].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counts.map(AtomicU32::into_inner), [4_000, 8_000, 12_000, 16_000]);
}
