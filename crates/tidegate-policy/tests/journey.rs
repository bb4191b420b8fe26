//! The way of a request through its policies: the order of the steps, time, and when attempts are repeated.

use std::time::Duration;

use fastrand::Rng;
use tidegate_policy::Timestamp;
use tidegate_policy::journey::{FailedAttempt, Journey, NoRetry, RetryTerms, Step, Terms};
use tidegate_policy::retry::{Backoff, Jitter};

const NOW: Timestamp = Timestamp::from_nanos(1_790_000_000_000_000_000);
const FAILED: FailedAttempt = FailedAttempt { is_retryable: true, is_repeatable: true, retry_after: None };

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn retry(attempts: u32) -> RetryTerms {
    let backoff = Backoff::new(millis(100), millis(1_000), 2.0, Jitter::None).expect("valid");
    RetryTerms { attempts, backoff }
}

fn everything() -> Terms {
    Terms {
        timeout: Some(millis(10_000)),
        attempt_timeout: Some(millis(2_000)),
        has_breaker: true,
        has_limits: true,
        bulkhead: Some(millis(200)),
        retry: Some(retry(3)),
    }
}

#[test]
fn the_breaker_is_asked_first_then_limits_delay_then_the_bulkhead_is_entered() {
    let attempt = |within| Step::Attempt { within: Some(millis(within)) };
    for (terms, wait, expected) in [
        (Terms::default(), 0, vec![Step::Attempt { within: None }]),
        (
            Terms { has_limits: true, ..Terms::default() },
            5,
            vec![Step::Check, Step::Delay(millis(5)), Step::Attempt { within: None }],
        ),
        (everything(), 0, vec![Step::Ask, Step::Check, Step::Enter(millis(200)), attempt(2_000)]),
        (
            everything(),
            5,
            vec![
                Step::Ask,
                Step::Check,
                Step::Delay(millis(5)),
                Step::Enter(millis(200)),
                Step::AskAgain,
                attempt(2_000),
            ],
        ),
        (
            Terms { timeout: Some(millis(100)), ..everything() },
            0,
            vec![Step::Ask, Step::Check, Step::Enter(millis(100)), attempt(100)],
        ),
    ] {
        let mut journey = Journey::new(terms, NOW);
        let steps: Vec<Step> = (0..expected.len())
            .map(|_| {
                let step = journey.next(NOW);
                if step == Step::Check {
                    journey.admitted(millis(wait));
                }
                step
            })
            .collect();
        assert_eq!(steps, expected);
    }
}

/// A call that waited while the breaker opened must not be sent.
#[test]
fn after_a_wait_the_breaker_is_asked_again() {
    let mut journey = Journey::new(Terms { has_limits: false, ..everything() }, NOW);
    assert_eq!([journey.next(NOW), journey.next(NOW)], [Step::Ask, Step::Enter(millis(200))]);
    journey.waited();
    assert_eq!(journey.next(NOW), Step::AskAgain);
    assert!(matches!(journey.next(NOW), Step::Attempt { .. }));
}

/// Only the breaker has to know: the slot and what was taken at limits are still held.
#[test]
fn an_attempt_that_could_not_be_sent_goes_elsewhere_with_what_it_holds() {
    let mut journey = Journey::new(everything(), NOW);
    while !matches!(journey.next(NOW), Step::Attempt { .. }) {}
    for _ in 0..5 {
        journey.elsewhere();
        assert_eq!(journey.next(NOW), Step::AskAgain);
        assert!(matches!(journey.next(NOW), Step::Attempt { .. }));
    }
    // All of that was one attempt of three, and the first pause is the first.
    for pause in [100, 200] {
        assert_eq!(journey.failed(FAILED, NOW, 0, || true), Ok(()));
        assert_eq!(journey.next(NOW), Step::Pause(millis(pause)));
        while !matches!(journey.next(NOW), Step::Attempt { .. }) {}
    }
    assert_eq!(journey.attempts(), 8);
    assert_eq!(journey.failed(FAILED, NOW, 0, || true), Err(NoRetry::Exhausted));
}

/// Its own queue or a shaper took the rest: that is not the upstream's doing.
#[test]
fn an_attempt_with_less_than_half_of_its_time_is_short() {
    let journey = |timeout, attempt| {
        let terms = Terms { timeout: Some(millis(timeout)), attempt_timeout: attempt, ..Terms::default() };
        Journey::new(terms, NOW)
    };
    for (journey, within, is_short) in [
        (journey(1_000, None), 1_000, false),
        (journey(1_000, None), 500, false),
        (journey(1_000, None), 499, true),
        (journey(5_000, Some(millis(1_000))), 500, false),
        (journey(5_000, Some(millis(1_000))), 499, true),
        (journey(100, Some(millis(1_000))), 60, false),
    ] {
        assert_eq!(journey.is_short(millis(within)), is_short, "{journey:?} {within}");
    }
    assert!(!Journey::new(Terms::default(), NOW).is_short(millis(1)));
}

/// The attempts of a journey: when each began, and how long it may take.
fn attempts(journey: &mut Journey, lasts: Duration, failed: FailedAttempt) -> (Vec<(u64, Option<u64>)>, NoRetry) {
    let (mut now, mut begun) = (NOW, Vec::new());
    loop {
        match journey.next(now) {
            Step::Attempt { within } => {
                let began = now.since(NOW).as_millis() as u64;
                begun.push((began, within.map(|within| within.as_millis() as u64)));
                now = now + within.map_or(lasts, |within| within.min(lasts));
                if let Err(why) = journey.failed(failed, now, 0, || true) {
                    return (begun, why);
                }
            }
            Step::Pause(pause) => now = now + pause,
            step => panic!("{step:?}"),
        }
    }
}

#[test]
fn attempts_are_repeated_within_their_number_and_the_time() {
    let terms = Terms { timeout: Some(millis(7_000)), attempt_timeout: Some(millis(2_000)), ..Terms::default() };
    for (terms, failed, lasts, expected, why) in [
        (Terms { retry: None, ..terms }, FAILED, 10, vec![(0, Some(2_000))], NoRetry::NotRetryable),
        (
            Terms { retry: Some(retry(3)), ..terms },
            FAILED,
            10,
            vec![(0, Some(2_000)), (110, Some(2_000)), (320, Some(2_000))],
            NoRetry::Exhausted,
        ),
        (
            Terms { retry: Some(retry(9)), ..terms },
            FAILED,
            9_999,
            vec![(0, Some(2_000)), (2_100, Some(2_000)), (4_300, Some(2_000)), (6_700, Some(300))],
            NoRetry::NoTime,
        ),
        (
            Terms { retry: Some(retry(3)), ..terms },
            FailedAttempt { retry_after: Some(millis(3_000)), ..FAILED },
            10,
            vec![(0, Some(2_000)), (3_010, Some(2_000)), (6_020, Some(980))],
            NoRetry::Exhausted,
        ),
        (
            Terms { retry: Some(retry(3)), ..terms },
            FailedAttempt { retry_after: Some(millis(7_000)), ..FAILED },
            10,
            vec![(0, Some(2_000))],
            NoRetry::NoTime,
        ),
        (
            Terms { retry: Some(retry(3)), ..terms },
            FailedAttempt { is_repeatable: false, ..FAILED },
            10,
            vec![(0, Some(2_000))],
            NoRetry::NotRepeatable,
        ),
        (
            Terms { retry: Some(retry(3)), ..terms },
            FailedAttempt { is_retryable: false, ..FAILED },
            10,
            vec![(0, Some(2_000))],
            NoRetry::NotRetryable,
        ),
    ] {
        let mut journey = Journey::new(terms, NOW);
        assert_eq!(attempts(&mut journey, millis(lasts), failed), (expected, why));
    }
}

#[test]
fn the_budget_is_asked_last_and_its_word_is_final() {
    let mut journey = Journey::new(Terms { retry: Some(retry(3)), ..Terms::default() }, NOW);
    journey.next(NOW);
    let not_repeatable = FailedAttempt { is_repeatable: false, ..FAILED };
    assert_eq!(journey.failed(not_repeatable, NOW, 0, || unreachable!()), Err(NoRetry::NotRepeatable));
    assert_eq!(journey.failed(FAILED, NOW, 0, || false), Err(NoRetry::NoBudget));
}

/// Whatever the terms and the times: no attempt after the time is over, none beyond the number, no step twice.
#[test]
fn a_journey_ends_in_time_whatever_happens() {
    let mut rng = Rng::with_seed(1);
    let (mut timed_out, mut repeated) = (0, 0);
    for _ in 0..100_000 {
        let maybe = |rng: &mut Rng, most: u64| rng.bool().then(|| millis(rng.u64(1..most)));
        let attempts = rng.u32(1..6);
        let terms = Terms {
            timeout: maybe(&mut rng, 3_000),
            attempt_timeout: maybe(&mut rng, 1_000),
            has_breaker: rng.bool(),
            has_limits: rng.bool(),
            bulkhead: maybe(&mut rng, 500),
            retry: rng.bool().then(|| retry(attempts)),
        };
        let (mut journey, mut now) = (Journey::new(terms, NOW), NOW);
        loop {
            let left = terms.timeout.map(|timeout| timeout.saturating_sub(now.since(NOW)));
            let bounded = |span: Duration| left.is_none_or(|left| span <= left);
            match journey.next(now) {
                Step::Ask | Step::AskAgain => assert!(terms.has_breaker),
                Step::Check => journey.admitted(millis(rng.u64(0..300))),
                Step::Delay(delay) => {
                    assert!(bounded(delay));
                    now = now + delay;
                }
                Step::Enter(wait) => {
                    assert!(bounded(wait));
                    now = now + wait;
                    journey.waited();
                }
                Step::Attempt { within } => {
                    assert!(within.is_none_or(|within| bounded(within) && !within.is_zero()));
                    assert_eq!(within.is_some(), terms.timeout.is_some() || terms.attempt_timeout.is_some());
                    now = now + within.unwrap_or(millis(500));
                    if journey.failed(FAILED, now, rng.u64(..), || true).is_err() {
                        break;
                    }
                    repeated += 1;
                }
                Step::Pause(pause) => {
                    assert!(left.is_none_or(|left| pause < left));
                    now = now + pause;
                }
                Step::TimedOut => {
                    timed_out += 1;
                    break;
                }
            }
        }
        assert!(journey.attempts() <= terms.retry.map_or(1, |retry| retry.attempts));
    }
    assert!(timed_out > 1_000 && repeated > 10_000, "{timed_out} {repeated}");
}

/// It is there to save time.
#[test]
fn an_attempt_beside_another_passes_the_same_policies_and_waits_nowhere() {
    let mut journey = Journey::new(everything(), NOW);
    assert_eq!([(); 3].map(|()| journey.next(NOW)), [Step::Ask, Step::Check, Step::Enter(millis(200))]);
    assert_eq!((journey.next(NOW), journey.attempts()), (Step::Attempt { within: Some(millis(2_000)) }, 1));
    let later = NOW + millis(9_000);
    assert_eq!(journey.hedge(later), Ok(()));
    assert_eq!([(); 3].map(|()| journey.next(later)), [Step::Ask, Step::Check, Step::Enter(Duration::ZERO)]);
    assert_eq!((journey.next(later), journey.attempts()), (Step::Attempt { within: Some(millis(1_000)) }, 2));
    // It counts like any other: of three attempts one is left, and that one may wait again.
    assert_eq!(journey.failed(FAILED, later, 0, || true), Ok(()));
    assert_eq!(journey.next(later), Step::Pause(millis(200)));
    let later = later + millis(200);
    assert_eq!([(); 3].map(|()| journey.next(later)), [Step::Ask, Step::Check, Step::Enter(millis(200))]);
    assert_eq!((journey.next(later), journey.attempts()), (Step::Attempt { within: Some(millis(800)) }, 3));
    assert_eq!(journey.hedge(later), Err(NoRetry::Exhausted));
}

#[test]
fn an_attempt_beside_another_is_given_up_at_any_step() {
    for steps in 0..5 {
        let mut journey = Journey::new(everything(), NOW);
        while !matches!(journey.next(NOW), Step::Attempt { .. }) {}
        journey.hedge(NOW).expect("it is permitted");
        for _ in 0..steps {
            if journey.next(NOW) == Step::Check {
                journey.admitted(millis(if steps == 3 { 50 } else { 0 }));
            }
        }
        journey.go_without_hedge();
        assert_eq!(journey.attempts(), 1, "it was not made");
        assert_eq!(journey.failed(FAILED, NOW, 0, || true), Ok(()));
        let rest = [(); 4].map(|()| journey.next(NOW));
        assert_eq!(rest, [Step::Pause(millis(100)), Step::Ask, Step::Check, Step::Enter(millis(200))], "{steps} steps");
    }
}

#[test]
fn an_attempt_beside_another_needs_retries_and_time() {
    let begun = |terms| {
        let mut journey = Journey::new(terms, NOW);
        while !matches!(journey.next(NOW), Step::Attempt { .. }) {}
        journey
    };
    assert_eq!(begun(Terms { retry: None, ..everything() }).hedge(NOW), Err(NoRetry::NotRetryable));
    assert_eq!(begun(Terms { retry: Some(retry(1)), ..everything() }).hedge(NOW), Err(NoRetry::Exhausted));
    assert_eq!(begun(everything()).hedge(NOW + millis(10_000)), Err(NoRetry::NoTime));
}
