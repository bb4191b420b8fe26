//! The estimate of an endpoint's latency.

use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balancer, BalancerSettings, Cause, Outcome};

use super::{NOW, pool, seconds, success};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn estimate(balancer: &Balancer, now: Timestamp) -> Option<Duration> {
    balancer.snapshot(now)[0].latency
}

fn sample(balancer: &Balancer, outcome: Outcome, now: Timestamp) {
    let in_flight = balancer.begin(0, now).expect("the first");
    assert_eq!(balancer.end(in_flight, outcome, now), None);
}

#[test]
fn it_rises_at_once_and_falls_with_time() {
    let balancer = pool(&[1, 1], BalancerSettings::default());
    assert_eq!(estimate(&balancer, NOW), None);
    sample(&balancer, success(100), NOW);
    assert_eq!(estimate(&balancer, NOW), Some(millis(100)));
    sample(&balancer, success(500), NOW);
    assert_eq!(estimate(&balancer, NOW), Some(millis(200)), "a quarter of the way up");
    sample(&balancer, success(40), NOW);
    assert_eq!(estimate(&balancer, NOW), Some(millis(190)), "a sixteenth of the way down");
    let later = NOW + seconds(10);
    sample(&balancer, success(90), later);
    assert_eq!(estimate(&balancer, later), Some(millis(140)), "half the way after 10 s");
}

#[test]
fn it_decays_while_nothing_is_in_flight() {
    let balancer = pool(&[1, 1], BalancerSettings::default());
    sample(&balancer, success(100), NOW);
    assert_eq!(estimate(&balancer, NOW + seconds(10)), Some(millis(50)));
    assert_eq!(estimate(&balancer, NOW + seconds(90)), Some(millis(10)));
    assert_eq!(estimate(&balancer, Timestamp::from_nanos(0)), Some(millis(100)), "a clock that steps back");
}

#[test]
fn silence_counts_while_something_is_in_flight() {
    let balancer = pool(&[1, 1], BalancerSettings::default());
    sample(&balancer, success(100), NOW);
    let start = NOW + seconds(5);
    let in_flight = balancer.begin(0, start).expect("the first");
    let measured = estimate(&balancer, start);
    assert_eq!(measured, Some(millis(100)), "the last sample is old, but nothing was asked since");
    assert_eq!(estimate(&balancer, start + millis(99)), Some(millis(100)));
    assert_eq!(estimate(&balancer, start + millis(300)), Some(millis(300)));
    assert_eq!(estimate(&balancer, start + seconds(3_600)), Some(seconds(1)), "up to ten times the estimate");
    drop(in_flight);
    assert_eq!(estimate(&balancer, start + seconds(5)), Some(millis(50)));
}

#[test]
fn a_failure_raises_it_and_never_lowers_it() {
    let balancer = pool(&[1, 1], BalancerSettings::default());
    let failure = |took| Outcome::Failure { cause: Cause::Timeout, took };
    sample(&balancer, success(100), NOW);
    sample(&balancer, failure(Some(millis(1))), NOW);
    sample(&balancer, failure(None), NOW);
    sample(&balancer, Outcome::Ignored, NOW);
    assert_eq!(estimate(&balancer, NOW), Some(millis(100)));
    sample(&balancer, failure(Some(millis(500))), NOW);
    assert_eq!(estimate(&balancer, NOW), Some(millis(200)));
}

#[test]
fn no_time_is_too_long_or_too_short() {
    let balancer = pool(&[1, 1], BalancerSettings::default());
    for took in [Duration::ZERO, Duration::MAX, Duration::ZERO, Duration::MAX, Duration::MAX] {
        for now in [Timestamp::MAX, Timestamp::from_nanos(0), NOW] {
            sample(&balancer, Outcome::Success { took }, now);
            assert!(estimate(&balancer, now).is_some());
            for random in [0, u64::MAX, 1 << 63] {
                assert!(balancer.choose(now, random, random, &Default::default()).is_some());
            }
        }
    }
}
