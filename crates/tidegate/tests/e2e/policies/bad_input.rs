//! Policies that can't work, or hardly mean what they say.

use tidegate_testkit::{Directory, tidegate};

/// What `tidegate check` says about a policy, and whether it is valid.
fn checked(policy: &str, upstream: &str, more: &str) -> (bool, String) {
    let directory = Directory::new();
    let file = directory.file(
        "gateway.yaml",
        &format!(
            "policies: {{p: {{{policy}}}}}\n\
             upstreams: {{app: {{url: \"http://127.0.0.1:1\", policy: p, {upstream}}}}}\n{more}"
        ),
    );
    let output = tidegate().arg("check").arg(&file).output().expect("the binary starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn what_contradicts_itself_is_an_error_with_its_path() {
    for (policy, message) in [
        ("breaker: {probes: 0}", "policies.p.breaker.probes: must be between 1 and 1000, got 0"),
        (
            "breaker: {window: 10, minimum: 11}",
            "policies.p.breaker.minimum: must be at most the calls of `window`, which are 10, got 11",
        ),
        ("breaker: {window: 0}", "policies.p.breaker.window: must be between 1 and 100000 calls, got 0"),
        ("breaker: {window: 0s}", "policies.p.breaker.window: must be above 0"),
        ("breaker: {window: \"60\"}", "a number of attempts (100) or a time with its unit"),
        ("breaker: {window: -1}", "a number of attempts (100) or a time with its unit"),
        ("breaker: {failures: 0}", "policies.p.breaker.failures: must be between 0.0001 and 1, got 0"),
        ("breaker: {failures: 1.5}", "policies.p.breaker.failures: must be between 0.0001 and 1, got 1.5"),
        ("breaker: {slow_calls: 0.5}", "policies.p.breaker.slow_calls: must be left out without `slow`"),
        ("breaker: {growth: 2, open: 10m}", "policies.p.breaker.max_open: must be at least `open`"),
        ("breaker: {on: []}", "policies.p.breaker.on: must have at least one of connect, timeout, reset"),
        ("breaker: {on: [3xx]}", "policies.p.breaker.on[0]: must be connect, timeout, reset, 4xx, 5xx or a status"),
        ("retry: {base: 5s, max: 1s}", "policies.p.retry.base: must be at most `max`, which is 1s, got 5s"),
        ("retry: {attempts: 0}", "policies.p.retry.attempts: must be between 1 and 10, got 0"),
        ("retry: {factor: 0.5}", "policies.p.retry.factor: must be between 1 and 100, got 0.5"),
        ("retry: {jitter: 1.5}", "`full`, `equal`, `decorrelated`, `none`, or a share from above 0 to 1"),
        ("retry: {jitter: some}", "`full`, `equal`, `decorrelated`, `none`, or a share from above 0 to 1"),
        ("retry: {on: [always]}", "policies.p.retry.on[0]: must be connect, timeout, reset, 4xx, 5xx or a status"),
        ("retry: {idempotency_key: a b}", "policies.p.retry.idempotency_key: must be the name of a header"),
        ("retry: {budget: {share: 11}}", "policies.p.retry.budget.share: must be between 0 and 10, got 11"),
        ("retry: {hedge: {quantile: 1}}", "policies.p.retry.hedge.quantile: must be between 0.5 and 0.999, got 1"),
        ("retry: {hedge: {min_delay: 2d}}", "policies.p.retry.hedge.min_delay: must be between 0s and 1d, got \"2d\""),
        (
            "retry: {attempts: 1, hedge: {}}",
            "policies.p.retry.hedge: needs `attempts` of 2 or more, because it is the second attempt; got 1",
        ),
        ("retry: {hedge: {delay: 1s}}", "policies.p.retry.hedge.delay: unknown field `delay`"),
        ("bulkhead: {limit: 0}", "policies.p.bulkhead.limit: must be between 1 and 1000000, got 0"),
        ("bulkhead: {queue: 5}", "missing field `limit`"),
        ("bulkhead: {limit: 5, wait: 1s}", "policies.p.bulkhead.wait: must be left out without `queue`"),
        ("timeout: 0", "policies.p.timeout: must be between 1ms and 1d, got \"0s\""),
        ("hedge: 1s", "unknown field `hedge`"),
    ] {
        let (is_valid, text) = checked(policy, "", "");
        assert!(!is_valid && text.contains(message), "{policy}: {text}");
        let path = message.split(':').next().unwrap_or_default();
        assert!(text.matches(path).count() == 1 || !path.starts_with("policies"), "once: {text}");
    }
    let (is_valid, text) = checked("timeout: 1s", "", "routes: [{policy: other}]\n");
    assert!(!is_valid && text.contains("routes[0].policy: unknown policy \"other\"; known policies: p"), "{text}");
}

#[test]
fn what_is_valid_and_hardly_meant_is_a_warning_with_its_path() {
    for (policy, message) in [
        ("", "policies.p: does nothing: it has no timeout, no retry, no breaker and no bulkhead"),
        (
            "timeout: 5s, attempt_timeout: 2s, retry: {attempts: 3}",
            "policies.p.timeout: is too short for 3 attempts that time out, with the least pauses between them: they \
             take 6s",
        ),
        (
            "timeout: 6s, attempt_timeout: 2s, retry: {attempts: 3, jitter: none}",
            "policies.p.timeout: is too short for 3 attempts that time out, with the least pauses between them: they \
             take 6.6s",
        ),
        (
            "timeout: 5s, retry: {attempts: 3}",
            "policies.p.timeout: without `attempt_timeout`, one attempt at upstream `app` may take all of it: timeouts \
             are never repeated",
        ),
        (
            "timeout: 2s, attempt_timeout: 2s",
            "policies.p.attempt_timeout: has no effect: `timeout` ends attempts after 2s",
        ),
        (
            "attempt_timeout: 2s, breaker: {slow: 2s}",
            "policies.p.breaker.slow: has no effect: a timeout ends attempts after 2s",
        ),
        (
            "breaker: {slow: 60s}",
            "policies.p.breaker.slow: has no effect: `answer_timeout` of upstream `app` ends attempts after 60s",
        ),
        (
            "retry: {attempts: 1}",
            "policies.p.retry.attempts: 1 means that no failed attempt is repeated: `retry` has no effect",
        ),
        (
            "attempt_timeout: 2m",
            "policies.p.attempt_timeout: has no effect: `answer_timeout` of upstream `app` ends attempts after 60s",
        ),
        (
            "timeout: 1s, bulkhead: {limit: 5, queue: 5, wait: 1s}",
            "policies.p.bulkhead.wait: has no effect: `timeout` ends waits after 1s",
        ),
        (
            "retry: {budget: {share: 0, floor: 0}}",
            "policies.p.retry.budget: may leave no retries: `share` and `floor` are 0, or nearly",
        ),
        (
            "attempt_timeout: 1s, retry: {hedge: {min_delay: 1s}}",
            "policies.p.retry.hedge.min_delay: has no effect: an attempt at upstream `app` ends after 1s",
        ),
        (
            "retry: {hedge: {}}, bulkhead: {limit: 1}",
            "policies.p.retry.hedge: has no effect: the first attempt has the only slot of the bulkhead",
        ),
        (
            "bulkhead: {limit: 5000}",
            "policies.p.bulkhead.limit: is never reached: upstream `app` has at most 4096 connections",
        ),
    ] {
        let (is_valid, text) = checked(policy, "", "");
        assert!(is_valid && text.contains(message), "{policy}: {text}");
    }
    let unused = "policies: {q: {timeout: 1s}}\nupstreams: {app: {url: \"http://127.0.0.1:1\"}}\n";
    let directory = Directory::new();
    let output = tidegate().arg("check").arg(directory.file("gateway.yaml", unused)).output().expect("it starts");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains("policies.q: is in force for no route"), "{text}");
}

/// The policy table's provider row: what 002 asks for fits together.
#[test]
fn the_providers_policy_is_valid_without_a_warning() {
    let policy = "attempt_timeout: 2s, timeout: 7s, retry: {attempts: 3, base: 200ms, max: 2s, jitter: 0.3, \
                  on: [timeout, reset, 5xx, 429], idempotency_key: idempotency-key, budget: {share: 0.2, floor: 10}}, \
                  breaker: {window: 50, failures: 0.5, slow: 1900ms, slow_calls: 0.5, open: 30s, probes: 5}, \
                  bulkhead: {limit: 20, queue: 20, wait: 200ms}";
    let (is_valid, text) = checked(policy, "", "");
    assert!(is_valid && !text.contains("policies.p"), "{text}");
}
