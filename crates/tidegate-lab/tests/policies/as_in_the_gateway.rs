//! What the gateway does, simulated runs do, too: each of these once was different.

use super::{SMALL, run, service};

/// A connection that is refused has cost its client what it took: the request could not have been sent otherwise.
#[test]
fn requests_to_a_dead_target_spend_what_they_took_at_limits() {
    let (_, outcome) = run(&format!(
        "{SMALL}gateway:
  upstreams: {{service: {{url: 'http://service'}}}}
  limits: {{each: {{algorithm: fixed, limit: 40, window: 1, key: ip}}}}
  common_limits: [each]
faults: [{{at: 0, for: 6, what: kill, target: service}}]
"
    ));
    let all = outcome.observation.total().all();
    assert_eq!((all.target_errors, all.rejected), (240, 360), "{all:?}");
}

/// The client gets what the last attempt has brought, and that is no rejection.
#[test]
fn a_retry_that_finds_no_slot_ends_with_the_last_response() {
    // Each retry comes 15 ms after the next request, which has the slot for another 15 ms.
    let policy = "{bulkhead: {limit: 1, queue: 5, wait: 5ms}, retry: {attempts: 2, base: 35ms, jitter: none, \
                  budget: {share: 1}}}";
    let text = service(policy, "faults: [{at: 0, for: 6, what: target, target: service, with: {errors: 1.0}}]");
    let (_, outcome) = run(&text.replace("rps: 100", "rps: 20").replace("5ms, workers: 4", "30ms, workers: 4"));
    let all = outcome.observation.total().all();
    assert_eq!((all.offered, all.rejected), (120, 0), "{all:?}");
    assert!(all.target_errors >= 119, "{all:?}");
}

#[test]
fn an_attempt_elsewhere_that_the_breaker_rejects_ends_with_the_first_failure() {
    let (_, outcome) = run("
duration: 6
gateway:
  upstreams: {service: {endpoints: ['http://one', 'http://two'], balance: round_robin, policy: one}}
  policies: {one: {breaker: {consecutive: 1, open: 60s}}}
targets: {one: {}, two: {}}
load: {profile: {type: constant, params: {rps: 100}}}
faults: [{at: 0, for: 6, what: kill, target: two}]
");
    let all = outcome.observation.total().all();
    assert_eq!((all.target_errors, all.good + all.rejected), (1, 599), "{all:?}");
}

/// One that responds with errors now and then is better than one that responds to nothing.
#[test]
fn a_retry_prefers_a_target_that_is_not_out() {
    let (scores, _) = run("
duration: 12
gateway:
  upstreams:
    service: {endpoints: ['http://one', 'http://two'], policy: one,
      ejection: {consecutive_failures: 1, time: 60s, statuses: [599]}}
  policies: {one: {attempt_timeout: 200ms, retry: {attempts: 2, base: 1ms, budget: {share: 1}}}}
targets: {one: {}, two: {}}
load: {profile: {type: constant, params: {rps: 100}}}
faults:
  - {at: 0, for: 12, what: target, target: one, with: {errors: 0.3}}
  - {at: 0, for: 12, what: freeze, target: two}
");
    assert!(scores.served.is_some_and(|served| (0.88..0.94).contains(&served)), "{scores:?}");
}

/// The policy in force for a request decides whether it may be sent twice. A key without a value does not count.
#[test]
fn an_idempotency_key_is_that_of_the_policy() {
    let with = |key: &str| {
        run(&format!(
            "
duration: 6
gateway:
  upstreams: {{a: {{url: 'http://a', policy: knows}}, b: {{url: 'http://b', policy: knows-none}}}}
  policies:
    knows: {{retry: {{base: 1ms, idempotency_key: x-key, budget: {{share: 9}}}}}}
    knows-none: {{retry: {{base: 1ms, budget: {{share: 9}}}}}}
  routes: [{{prefix: /api/test/a, upstream: a}}, {{upstream: b}}]
targets: {{a: {{}}, b: {{}}}}
load:
  requestOptions: {{method: POST}}
  profile: {{type: constant, params: {{rps: 100}}}}
  clients: [{{name: a, path: /api/test/a, headers: {{x-key: '{key}'}}}}, {{name: b, headers: {{x-key: '1'}}}}]
faults:
  - {{at: 0, for: 6, what: target, target: a, with: {{errors: 1.0}}}}
  - {{at: 0, for: 6, what: target, target: b, with: {{errors: 1.0}}}}
"
        ))
        .0
        .amplification
        .expect("with policies")
    };
    assert!((1.9..2.1).contains(&with("{n}")), "those of a three times, those of b once: {}", with("{n}"));
    assert!((with("") - 1.0).abs() < 1e-9, "{}", with(""));
}

/// An attempt that had to wait before, and had hardly any time left, says nothing about its target.
#[test]
fn attempts_with_too_little_time_are_not_held_against_a_target() {
    let with = |consecutive: u32| {
        let policy = format!(
            "{{timeout: 100ms, bulkhead: {{limit: 1, queue: 1, wait: 99ms}}, breaker: {{consecutive: {consecutive}}}}}"
        );
        run(&service(&policy, "faults: [{at: 1, for: 1, what: freeze, target: service}]")).0.open_after
    };
    // In a second about ten attempts last 100 ms, and another begins shortly before the end of each one's time.
    assert!(with(8).is_some());
    assert_eq!(with(14), None);
}

#[test]
fn headers_say_who_a_request_is_from_and_what_it_counts_by() {
    let with = |limit: &str, rest: &str| {
        let (_, outcome) = run(&format!(
            "
duration: 6
gateway:
  upstreams: {{service: {{url: 'http://service'}}}}
  limits: {{each: {{algorithm: fixed, limit: 20, window: 1, {limit}}}}}
  common_limits: [each]
  {rest}
targets: {{service: {{}}}}
load:
  requestOptions: {{headers: {{x-all: same}}}}
  profile: {{type: constant, params: {{rps: 100}}}}
  clients:
    - {{name: a, user: ann, headers: {{x-tenant: one}}}}
    - {{name: b, user: 'b{{n}}', count: 2, weight: 2, headers: {{x-tenant: two}}}}
"
        ));
        let all = outcome.observation.total().all();
        assert_eq!(all.good + all.rejected, 600, "{all:?}");
        all.good
    };
    let users = "identity: {trusted_headers: {user: x-user}}";
    for (limit, rest, keys) in [
        ("key: global", "", 1),
        ("key: 'header:x-all'", "", 1),
        ("key: 'header:x-tenant'", "", 2),
        ("key: ip", "", 3),
        ("key: user", users, 3),
        ("key: user, missing: share", "", 1),
    ] {
        assert_eq!(with(limit, rest), 120 * keys, "{limit}");
    }
}

/// Clients that come again after a 503, but not after a 429, see what the limit's status is.
#[test]
fn a_limits_status_is_the_one_that_clients_see() {
    let with = |status: u16| {
        let text = format!(
            "{SMALL}gateway:
  upstreams: {{service: {{url: 'http://service'}}}}
  limits: {{each: {{algorithm: fixed, limit: 40, window: 1, key: ip, status: {status}}}}}
  common_limits: [each]
"
        );
        let retry = "clients: [{name: a, retry: {retries: 1, base: 0.01, longest: 0.1, after: [5xx]}}], profile:";
        let all = run(&text.replace("profile:", retry)).1.observation.total().all();
        assert_eq!((all.target_errors, all.offered), (0, all.good + all.rejected), "{all:?}");
        all.offered
    };
    assert_eq!(with(429), 600);
    assert!(with(503) > 900, "{}", with(503));
}

#[test]
fn a_client_that_has_left_was_not_rejected() {
    let (_, outcome) = run(&format!(
        "{SMALL}gateway:
  upstreams: {{service: {{url: 'http://service'}}}}
  limits: {{each: {{algorithm: fixed, limit: 40, window: 1, key: ip}}}}
  common_limits: [each]
faults: [{{at: 0, for: 6, what: gateway_slow, delay: 0.4}}]
"
    )
    .replace("profile:", "requestOptions: {timeout: 0.2}, profile:"));
    let all = outcome.observation.total().all();
    assert_eq!((all.errors, all.rejected), (600, 0), "{all:?}");
}
