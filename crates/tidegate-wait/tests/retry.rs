//! Retries and breakers around calls, on a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_wait::policy::breaker::{BreakerSettings, Phase, Transition};
use tidegate_wait::policy::retry::{Backoff, BudgetSettings, Jitter, RetryBudget};
use tidegate_wait::{Again, CallError, CircuitBreaker, RetryPolicy, retry, retry_blocking};
use tokio::time::Instant;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn policy(attempts: u32) -> RetryPolicy {
    RetryPolicy::new(attempts, Backoff::new(millis(100), millis(1_000), 2.0, Jitter::None).expect("valid"))
}

/// Fails so many times, then succeeds; counts its attempts.
fn failing(times: u32, attempts: &AtomicU32) -> impl FnMut() -> std::future::Ready<Result<u32, u32>> {
    move || {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed) + 1;
        std::future::ready(if attempt <= times { Err(attempt) } else { Ok(attempt) })
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_follow_each_other_with_their_pauses() {
    for (times, expected, pauses) in
        [(0, Ok(1), 0), (1, Ok(2), 100), (2, Ok(3), 300), (3, Err(3), 300), (9, Err(3), 300)]
    {
        let (attempts, start) = (AtomicU32::new(0), Instant::now());
        assert_eq!(retry(&policy(3), |_| true, failing(times, &attempts)).await, expected);
        assert_eq!((attempts.load(Ordering::Relaxed), start.elapsed()), (times.min(2) + 1, millis(pauses)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_not_worth_it_is_returned_at_once() {
    let attempts = AtomicU32::new(0);
    assert_eq!(retry(&policy(5), |error: &u32| *error < 2, failing(9, &attempts)).await, Err(2));
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_wants_to_be_left_alone_is() {
    let (attempts, start) = (AtomicU32::new(0), Instant::now());
    let again = |error: &u32| if *error == 1 { Again::After(millis(700)) } else { Again::Yes };
    assert_eq!(retry(&policy(3), again, failing(2, &attempts)).await, Ok(3));
    assert_eq!(start.elapsed(), millis(900));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_again_beyond_the_timeout() {
    let (attempts, start) = (AtomicU32::new(0), Instant::now());
    let policy = policy(10).with_timeout(millis(800));
    assert_eq!(retry(&policy, |_| true, failing(99, &attempts)).await, Err(4));
    assert_eq!(start.elapsed(), millis(700), "100 + 200 + 400; another 800 would be too long");
    let again = |_: &u32| Again::After(millis(800));
    assert_eq!(retry(&policy, again, failing(99, &AtomicU32::new(0))).await, Err(1));
}

#[tokio::test(start_paused = true)]
async fn a_budget_bounds_the_retries_of_all() {
    let budget = Arc::new(RetryBudget::new(BudgetSettings { share: 0.5, floor: 0.0 }).expect("valid"));
    let policy = policy(10).with_budget(Arc::clone(&budget));
    let attempts = AtomicU32::new(0);
    for _ in 0..100 {
        assert!(retry(&policy, |_| true, failing(9_999, &attempts)).await.is_err());
    }
    assert!((100..=150).contains(&attempts.load(Ordering::Relaxed)), "{attempts:?}");
}

#[test]
fn threads_try_again_likewise() {
    let mut left = 2;
    let backoff = Backoff::new(Duration::ZERO, Duration::ZERO, 1.0, Jitter::None).expect("valid");
    let result = retry_blocking(
        &RetryPolicy::new(3, backoff),
        |_: &u32| true,
        || {
            left -= 1;
            if left > 0 { Err(left) } else { Ok("done") }
        },
    );
    assert_eq!(result, Ok("done"));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_around_calls_opens_rejects_and_closes() {
    let changes = Arc::new(AtomicU32::new(0));
    let listener = Arc::clone(&changes);
    let settings = BreakerSettings {
        failures: None,
        consecutive: Some(2),
        open: Duration::from_secs(30),
        probes: 1,
        ..BreakerSettings::default()
    };
    let count = move |_: &Transition| {
        listener.fetch_add(1, Ordering::Relaxed);
    };
    let breaker = CircuitBreaker::with_listener(settings, count).expect("valid");
    let call =
        |result: Result<u32, &'static str>| breaker.call(|error| *error != "mine", move || async move { result });
    for _ in 0..9 {
        assert_eq!(call(Err("mine")).await, Err(CallError::Failed("mine")), "it does not count");
    }
    for _ in 0..2 {
        assert_eq!(call(Err("its own")).await, Err(CallError::Failed("its own")));
    }
    let Err(CallError::Open(rejected)) = call(Ok(1)).await else { panic!("it is open") };
    assert_eq!(rejected.retry_after, Some(Duration::from_secs(30)));
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(call(Ok(1)).await, Ok(1));
    assert_eq!(breaker.breaker().snapshot(tidegate_wait::Clock::start().now()).phase, Phase::Closed);
    assert_eq!(changes.load(Ordering::Relaxed), 3, "open, half-open, closed");
}

/// A call that is dropped says nothing: the slot of a probe is free again.
#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_does_not_block_the_breaker() {
    let settings = BreakerSettings { failures: None, consecutive: Some(1), probes: 1, ..BreakerSettings::default() };
    let breaker = CircuitBreaker::new(settings).expect("valid");
    assert!(breaker.call(|()| true, || async { Err::<(), _>(()) }).await.is_err());
    tokio::time::advance(Duration::from_secs(30)).await;
    let hangs = breaker.call(|(): &()| true, std::future::pending::<Result<(), ()>>);
    assert!(tokio::time::timeout(millis(10), hangs).await.is_err());
    assert_eq!(breaker.call(|(): &()| true, || async { Ok(1) }).await, Ok(1));
}
