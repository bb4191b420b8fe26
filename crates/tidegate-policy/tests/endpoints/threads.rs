//! Many threads at once.

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
fn threads_that_see_the_same_failures_never_eject_more_than_half() {
    for round in 0..200 {
        let balancer = pool(&[1; 6], BalancerSettings::default());
        let ejected = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (balancer, ejected) = (&balancer, &ejected);
                scope.spawn(move || {
                    for number in 0..60 {
                        let in_flight = balancer.begin((number + thread) as usize % 6, NOW).expect("one of six");
                        match balancer.end(in_flight, FAILURE, NOW) {
                            Some(Change::Ejected { .. }) => drop(ejected.fetch_add(1, Ordering::Relaxed)),
                            Some(Change::NotEjected { .. }) | None => {}
                            other => panic!("{other:?}"),
                        }
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
