//! Ejection as an operator sees it. The laws hold every case; these are the ones to read.

use std::num::NonZeroU32;

use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{
    Balancer, BalancerSettings, Cause, Change, EjectionSettings, Forced, Outcome, Reason, Standing, Tried,
};

use super::{FAILURE, NOW, pool, seconds, success, take_out};

const REASON: Reason = Reason::ConsecutiveFailures { last: Cause::Status };

fn request(balancer: &Balancer, index: usize, outcome: Outcome, now: Timestamp) -> Option<Change> {
    balancer.end(balancer.begin(index, now).expect("an index of the pool"), outcome, now)
}

fn fail(balancer: &Balancer, index: usize, times: u32, now: Timestamp) -> Option<Change> {
    (0..times).filter_map(|_| request(balancer, index, FAILURE, now)).last()
}

#[test]
fn five_failures_in_a_row_eject_an_endpoint_each_time_for_longer() {
    let balancer = pool(&[1; 4], BalancerSettings::default());
    assert_eq!(fail(&balancer, 0, 4, NOW), None);
    request(&balancer, 0, success(5), NOW);
    assert_eq!(fail(&balancer, 0, 4, NOW), None, "a success begins a new row");
    let ejected = |length, in_a_row| Change::Ejected { index: 0, reason: REASON, length: seconds(length), in_a_row };
    assert_eq!(fail(&balancer, 0, 1, NOW), Some(ejected(30, 1)));

    let returned = NOW + seconds(30);
    assert_eq!(balancer.snapshot(returned)[0].standing, Standing::Up);
    assert_eq!(balancer.step(returned), [Change::Returned { index: 0 }]);
    assert_eq!(fail(&balancer, 0, 5, returned), Some(ejected(60, 2)));

    let calm = returned + seconds(60) + seconds(10);
    assert_eq!(fail(&balancer, 0, 5, calm), Some(ejected(60, 2)), "10 s without trouble count for one");
}

/// Event streams never end, so nothing came between failures that were days apart.
#[test]
fn failures_far_apart_are_not_in_a_row() {
    for (apart, ejects) in [(seconds(300), true), (seconds(301), false)] {
        let balancer = pool(&[1, 1], BalancerSettings::default());
        let mut now = NOW;
        let changes: Vec<_> = (0..20)
            .filter_map(|_| {
                now = now + apart;
                fail(&balancer, 0, 1, now)
            })
            .collect();
        assert_eq!(!changes.is_empty(), ejects, "{changes:?}");
    }
}

#[test]
fn an_ejection_never_lasts_longer_than_the_longest() {
    let balancer = pool(&[1; 2], BalancerSettings::default());
    let mut now = NOW;
    let mut lengths = Vec::new();
    for _ in 0..12 {
        let Some(Change::Ejected { length, .. }) = fail(&balancer, 0, 5, now) else { panic!("not ejected") };
        lengths.push(length.as_secs());
        now = now + length;
    }
    assert_eq!(lengths, [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]);
    let snapshot = &balancer.snapshot(now + seconds(95))[0];
    assert_eq!((snapshot.ejections, snapshot.ejections_in_a_row), (12, 1), "and the way back is no longer than that");
}

#[test]
fn at_most_half_are_ejected() {
    let balancer = pool(&[1; 5], BalancerSettings::default());
    assert!(matches!(fail(&balancer, 0, 5, NOW), Some(Change::Ejected { .. })));
    assert!(matches!(fail(&balancer, 1, 5, NOW), Some(Change::Ejected { .. })));
    assert_eq!(fail(&balancer, 2, 5, NOW), Some(Change::NotEjected { index: 2, reason: REASON }));
    assert!((0..1_000).all(|random| balancer.choose(NOW, random << 54, 0, &Tried::new()) > Some(1)));
}

fn with_share(weights: &[u32], max_share: f64) -> Balancer {
    let ejection = EjectionSettings { max_share, ..EjectionSettings::default() };
    pool(weights, BalancerSettings { ejection: Some(ejection), ..BalancerSettings::default() })
}

const OUT: [Standing; 4] = [Standing::Unhealthy, Standing::Ejected, Standing::Drain, Standing::Down];

/// With one endpoint unhealthy, the other was ejected after five failures. Then none was up, and requests were spread
/// over both again.
#[test]
fn the_last_available_endpoint_is_never_ejected() {
    for max_share in [0.0, 0.5, 1.0] {
        for standing in OUT {
            let balancer = with_share(&[1, 1], max_share);
            take_out(&balancer, 1, standing);
            assert_eq!(fail(&balancer, 0, 100, NOW), Some(Change::NotEjected { index: 0, reason: REASON }));
            assert!((0..1_000).all(|random| balancer.choose(NOW, random << 54, 0, &Tried::new()) == Some(0)));
        }
        let balancer = with_share(&[1; 5], max_share);
        for index in 0..5 {
            fail(&balancer, index, 5, NOW);
        }
        let up = balancer.snapshot(NOW).iter().filter(|endpoint| endpoint.standing == Standing::Up).count();
        assert!(up > 0, "a largest share of {max_share} leaves none");
    }
    let only = pool(&[1], BalancerSettings::default());
    assert_eq!(fail(&only, 0, 100, NOW), None, "there is nothing to report of a pool of one");
}

#[test]
fn whatever_is_out_counts_for_the_largest_share() {
    let ejected = |balancer: &Balancer, index| matches!(fail(balancer, index, 5, NOW), Some(Change::Ejected { .. }));
    for standing in OUT {
        let balancer = with_share(&[1; 8], 0.5);
        take_out(&balancer, 0, standing);
        take_out(&balancer, 1, standing);
        let found = [2, 3, 4].map(|index| ejected(&balancer, index));
        assert_eq!(found, [true, true, false], "half of eight are out");
    }
    // While most are drained for an update, a sick one among the rest is still taken out.
    let balancer = with_share(&[1; 5], 0.5);
    for index in 0..3 {
        take_out(&balancer, index, Standing::Drain);
    }
    assert!(ejected(&balancer, 3), "none is ejected yet, and another is up");
    assert!(!ejected(&balancer, 4));
}

#[test]
fn what_began_before_an_ejection_says_nothing_about_the_time_after_it() {
    let balancer = pool(&[1; 4], BalancerSettings::default());
    let old: Vec<_> = (0..100).filter_map(|_| balancer.begin(0, NOW)).collect();
    assert!(matches!(fail(&balancer, 0, 5, NOW), Some(Change::Ejected { .. })));
    let later = NOW + seconds(31);
    for in_flight in old {
        assert_eq!(balancer.end(in_flight, FAILURE, later), None);
    }
    assert_eq!(balancer.snapshot(later)[0].failures, 105);
}

#[test]
fn an_endpoint_that_succeeds_less_often_than_the_others_is_ejected() {
    let run = |rates: [u32; 5]| {
        let ejection = EjectionSettings { consecutive_failures: NonZeroU32::new(1_000), ..EjectionSettings::default() };
        let balancer = pool(&[1; 5], BalancerSettings { ejection: Some(ejection), ..BalancerSettings::default() });
        balancer.step(NOW);
        for (index, rate) in rates.into_iter().enumerate() {
            for number in 0..100 {
                request(&balancer, index, if number < rate { success(5) } else { FAILURE }, NOW);
            }
        }
        balancer.step(NOW + seconds(10)).into_iter().map(|change| match change {
            Change::Ejected { index, .. } => index,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(run([100, 100, 100, 100, 70]).collect::<Vec<_>>(), [4]);
    assert_eq!(run([100, 100, 100, 100, 96]).count(), 0, "95 % of the mean are tolerated");
    assert_eq!(run([90, 75, 80, 99, 70]).count(), 0, "all of them vary");
    assert_eq!(run([60, 60, 60, 60, 60]).count(), 0, "none is worse than the others");
}

#[test]
fn an_endpoint_that_left_the_pool_settles_and_ejects_nobody() {
    let old = pool(&[1; 3], BalancerSettings::default());
    let on_first: Vec<_> = (0..10).filter_map(|_| old.begin(0, NOW)).collect();
    let on_last: Vec<_> = (0..10).filter_map(|_| old.begin(2, NOW)).collect();
    let stays = [1, 2].map(|index| (old.endpoint(index).expect("one of three").clone(), Default::default()));
    let new = Balancer::new(stays, BalancerSettings::default());
    let end = |requests: Vec<_>| requests.into_iter().find_map(|in_flight| new.end(in_flight, FAILURE, NOW));
    assert_eq!(end(on_first), None);
    assert!(matches!(end(on_last), Some(Change::Ejected { index: 1, .. })), "its index in the new pool");
    assert_eq!(old.snapshot(NOW).iter().map(|endpoint| endpoint.in_flight).sum::<u32>(), 0);
}

#[test]
fn an_index_beyond_the_pool_does_nothing() {
    let balancer = pool(&[1; 2], BalancerSettings::default());
    assert!(balancer.begin(2, NOW).is_none());
    assert_eq!(balancer.checked(2, false, NOW), None);
    assert_eq!(balancer.forget_checks(usize::MAX, NOW), None);
    assert_eq!(balancer.force(2, Forced::Down, NOW), None);
    assert!(balancer.endpoint(2).is_none() && balancer.weight(2).is_none());
}
