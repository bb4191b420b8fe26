//! The estimate of an endpoint's latency.

use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balancer, BalancerSettings, Cause, InFlight, Outcome, Tried};

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

/// Two endpoints; the first has responded with the head of a long stream. Returns the pool, the stream and the time.
fn with_a_stream() -> (Balancer, InFlight, Timestamp) {
    let balancer = pool(&[1, 1], BalancerSettings::default());
    let stream = balancer.begin(0, NOW).expect("the first");
    let now = NOW + millis(10);
    stream.responded(Some(millis(10)), now);
    (balancer, stream, now)
}

/// The share of the first endpoint in 1,000 requests, 20 ms apart. Each ends after 10 ms, before the next begins.
fn share_at_low_load(balancer: &Balancer, now: Timestamp) -> f64 {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut chosen = 0.0;
    for number in 0..1_000 {
        let at = now + number * millis(20);
        let index = balancer.choose(at, rng.u64(..), 0, &Tried::new()).expect("none is down");
        let in_flight = balancer.begin(index, at).expect("it was chosen");
        balancer.end(in_flight, success(10), at + millis(10));
        chosen += f64::from(u8::from(index == 0));
    }
    chosen / 1_000.0
}

/// An endpoint with an event stream or a WebSocket was taken for silent as long as that was open. After ten times its
/// latency it lost every request at low load, so no response came that could have proved it alive.
#[test]
fn an_open_stream_is_not_silence() {
    let (balancer, _stream, now) = with_a_stream();
    assert_eq!(estimate(&balancer, now + seconds(10)), Some(millis(5)), "it decays, as if nothing were open");
    let share = share_at_low_load(&balancer, now + seconds(60));
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn a_request_that_ends_without_a_response_is_no_longer_silence() {
    let connect = Outcome::Failure { cause: Cause::Connect, took: None };
    let rejected = Outcome::Failure { cause: Cause::Status, took: Some(millis(1)) };
    for outcome in [Outcome::Ignored, connect, rejected] {
        let (balancer, _stream, now) = with_a_stream();
        sample(&balancer, outcome, now + seconds(1));
        let share = share_at_low_load(&balancer, now + seconds(60));
        assert!((0.45..0.55).contains(&share), "{share} after {outcome:?}");
    }
}

#[test]
fn an_endpoint_that_was_slow_once_is_measured_again_though_a_stream_is_open() {
    let (balancer, _stream, now) = with_a_stream();
    sample(&balancer, success(4_000), now);
    let share = |after| share_at_low_load(&balancer, now + seconds(after));
    assert!(share(1) < 0.01, "it takes 100 times as long as the other");
    let share = share(600);
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn an_endpoint_that_freezes_while_a_stream_is_open_is_found() {
    let (balancer, _stream, now) = with_a_stream();
    let start = now + seconds(60);
    let _stuck = balancer.begin(0, start).expect("the first");
    assert_eq!(estimate(&balancer, start + millis(50)), Some(millis(50)));
    assert_eq!(estimate(&balancer, start + seconds(60)), Some(millis(100)));
    assert!(share_at_low_load(&balancer, start + seconds(1)) < 0.01);
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

/// It would have taken longer than that, so it is slow, but nothing has failed.
#[test]
fn an_attempt_that_was_overtaken_raises_it_and_counts_neither_way() {
    let balancer = pool(&[1, 1], BalancerSettings::default());
    sample(&balancer, success(100), NOW);
    for (took, expected) in [(millis(1), millis(100)), (millis(500), millis(200))] {
        let in_flight = balancer.begin(0, NOW).expect("the first");
        in_flight.overtaken(took, NOW);
        drop(in_flight);
        assert_eq!(estimate(&balancer, NOW), Some(expected));
    }
    let snapshot = balancer.snapshot(NOW).remove(0);
    assert_eq!((snapshot.successes, snapshot.failures, snapshot.in_flight), (1, 0, 0));
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
