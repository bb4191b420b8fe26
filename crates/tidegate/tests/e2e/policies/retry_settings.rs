//! Each setting of retries: with it something happens that does not happen without it.

use std::time::{Duration, Instant};

use tidegate_testkit::{Gateway, request};

use super::{gateway, metric, settable, statuses};

/// How long a request takes whose attempts all fail.
fn took(gateway: &Gateway) -> Duration {
    let began = Instant::now();
    assert_eq!(gateway.get("/").status, 500);
    began.elapsed()
}

#[test]
fn attempts() {
    let (upstream, _) = settable(500);
    for (attempts, expected) in [("attempts: 1", 1), ("", 3), ("attempts: 6", 6)] {
        let before = upstream.count();
        let gateway = gateway(&[upstream.address], &format!("retry: {{base: 0, {attempts}}}"));
        assert_eq!((gateway.get("/").status, upstream.count() - before), (500, expected), "{attempts}");
    }
}

/// Pauses are at least so long; how long they are beyond that is the machine's doing.
#[test]
fn base_factor_and_max() {
    let (upstream, _) = settable(500);
    for (settings, least) in [
        ("attempts: 2, base: 150ms", 150),
        ("attempts: 4, base: 20ms, factor: 4", 20 + 80 + 320),
        ("attempts: 4, base: 100ms, factor: 1", 300),
        ("attempts: 3, base: 100ms, max: 150ms", 250),
    ] {
        let gateway = gateway(&[upstream.address], &format!("retry: {{jitter: none, {settings}}}"));
        let took = took(&gateway);
        assert!(took >= Duration::from_millis(least), "{settings}: {took:?}");
    }
    // An hour, if they did not bound it.
    for settings in ["attempts: 2, base: 10ms, max: 10ms", "attempts: 3, base: 10ms, factor: 100, max: 20ms"] {
        let gateway = gateway(&[upstream.address], &format!("retry: {{jitter: none, {settings}}}"));
        took(&gateway);
    }
}

/// What each does is held by the laws of `tidegate-policy`: here, that the word reaches it.
#[test]
fn jitter() {
    let (upstream, _) = settable(500);
    let pause = Duration::from_millis(200);
    for (jitter, least) in [("none", 1.0), ("equal", 0.5), ("0.25", 0.75), ("decorrelated", 1.0)] {
        let policy = format!("retry: {{attempts: 2, base: 200ms, jitter: {jitter}}}");
        let took = took(&gateway(&[upstream.address], &policy));
        assert!(took >= pause.mul_f64(least), "{jitter}: {took:?}");
    }
    let gateway = gateway(&[upstream.address], "retry: {attempts: 10, base: 50ms, factor: 1, jitter: full}");
    let shortest = (0..3).map(|_| took(&gateway)).min().expect("three");
    assert!(shortest < 9 * Duration::from_millis(50), "27 pauses from nothing to 50 ms: {shortest:?}");
}

#[test]
fn the_budget() {
    let (upstream, _) = settable(500);
    // Three for ten requests.
    let gateway = gateway(&[upstream.address], "retry: {attempts: 2, base: 0, budget: {share: 0.3, floor: 0}}");
    assert_eq!(statuses(&gateway, 10), [500; 10]);
    let retries = || metric(&gateway, "tidegate_retries_total", "");
    assert_eq!((upstream.count(), retries()), (13, 3));
    assert_eq!(metric(&gateway, "tidegate_retries_denied_total", ",reason=\"budget\""), 7);
    assert_eq!(metric(&gateway, "tidegate_retry_budget_left", ""), 0);
    let gateway = super::gateway(&[upstream.address], "retry: {attempts: 2, base: 0, budget: {share: 0, floor: 0.5}}");
    let before = upstream.count();
    assert_eq!(statuses(&gateway, 10), [500; 10]);
    assert_eq!(upstream.count() - before, 15, "half a retry each second for ten seconds");
}

#[test]
fn an_idempotency_key_makes_any_method_safe() {
    let (upstream, _) = settable(503);
    let gateway = gateway(&[upstream.address], "retry: {base: 0, idempotency_key: Payment-Id}");
    let sent = |method: &str, headers: &[(&str, &str)]| {
        let before = upstream.count();
        assert_eq!(request(gateway.address, method, "/", headers, b"pay").status, 503);
        upstream.count() - before
    };
    assert_eq!(sent("POST", &[]), 1);
    assert_eq!(sent("PATCH", &[("payment-id", "")]), 1, "an empty key is none");
    assert_eq!(sent("POST", &[("idempotency-key", "7")]), 1, "it is another header");
    assert_eq!(sent("POST", &[("payment-id", "7")]), 3);
    assert_eq!(metric(&gateway, "tidegate_retries_denied_total", ",reason=\"unsafe\""), 3);
}
