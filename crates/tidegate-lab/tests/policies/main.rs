//! Scenarios with the gateway's own configuration: what its policies do in simulated time, and what can be wrong.
#![allow(clippy::float_cmp, reason = "shares of whole numbers")]

mod as_in_the_gateway;

use tidegate_lab::report::{Kind, Run};
use tidegate_lab::{EventKind, Outcome, Report, Scenario, Scores, Variant, simulate};

const SMALL: &str = "
duration: 6
load: {profile: {type: constant, params: {rps: 100}}}
targets: {service: {service_time: 5ms, workers: 4}}
";

fn read(text: &str) -> Scenario {
    Scenario::read("policies", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The run with the configuration as it is written.
fn run(text: &str) -> (Scores, Outcome) {
    let scenario = read(text);
    let outcome = simulate(&scenario, Variant::all(&scenario)[0]);
    (Scores::of(&scenario, &outcome), outcome)
}

/// One service under this policy.
fn service(policy: &str, more: &str) -> String {
    format!(
        "{SMALL}gateway:\n  upstreams: {{service: {{url: 'http://service', policy: one}}}}\n  \
         policies: {{one: {policy}}}\n{more}\n"
    )
}

fn problems(text: &str) -> String {
    Scenario::read("policies", text).err().map_or_else(String::new, |invalid| invalid.to_string())
}

#[test]
fn requests_take_the_route_of_their_path() {
    let (scores, outcome) = run("
duration: 6
gateway:
  upstreams: {shop: {url: 'http://shop'}, provider: {url: 'http://provider'}}
  routes: [{prefix: /api/test/pay, upstream: provider}, {upstream: shop}]
targets: {shop: {}, provider: {}}
load:
  profile: {type: constant, params: {rps: 100}}
  clients: [{name: buyers}, {name: payers, path: /api/test/pay/now}]
faults: [{at: 0, for: 6, what: kill, target: provider}]
");
    let served: Vec<_> = scores.groups.iter().map(|group| (group.name.as_str(), group.served)).collect();
    assert_eq!(served, [("buyers", Some(1.0)), ("payers", Some(0.0))]);
    assert_eq!(outcome.events[0].text, "provider killed");
    let sent = scores.amplification.expect("with the gateway's own configuration");
    assert!((0.4..0.6).contains(&sent), "nothing was sent to the dead one: {sent}");
}

/// What the gateway rejects is no error of the target, and the breaker does not count it.
#[test]
fn an_open_breaker_rejects_until_its_probes_succeed() {
    let text = service(
        "{timeout: 200ms, breaker: {window: 10, open: 1s, probes: 2}}",
        "faults: [{at: 1, for: 2.5, what: freeze, target: service}]",
    );
    let (scores, outcome) = run(&text);
    let all = outcome.observation.total().all();
    // Five of the window's ten, 20 more that were on their way by then, and one probe at a time in vain: two of them.
    assert!((25..=32).contains(&all.target_errors), "{all:?}");
    assert!(all.rejected > 180, "{all:?}");
    assert_eq!(all.offered, all.good + all.target_errors + all.rejected);
    assert!(scores.open_after.is_some_and(|after| (0.2..0.3).contains(&after)), "{scores:?}");
    let events = outcome.events.iter().filter(|event| event.kind == EventKind::Breaker);
    let texts: Vec<&str> = events.map(|event| event.text.as_str()).collect();
    assert_eq!(
        texts.first(),
        Some(&"breaker of service (policy one) is open for 1 s: 5 of 10 attempts failed"),
        "{texts:?}"
    );
    assert_eq!(texts.last(), Some(&"breaker of service (policy one) is closed: all probes succeeded"), "{texts:?}");
}

#[test]
fn a_failed_attempt_is_repeated_elsewhere_within_the_budget() {
    let text = |budget: &str| {
        format!(
            "
duration: 6
gateway:
  upstreams:
    service: {{endpoints: ['http://one', 'http://two'], balance: round_robin, policy: one,
      ejection: {{consecutive_failures: 0, success_rate: false}}}}
  policies: {{one: {{retry: {{base: 10ms, budget: {budget}}}}}}}
targets: {{one: {{}}, two: {{}}}}
load: {{profile: {{type: constant, params: {{rps: 100}}}}}}
faults: [{{at: 0, for: 6, what: target, target: two, with: {{errors: 1.0}}}}]
"
        )
    };
    let (scores, _) = run(&text("{share: 1}"));
    assert_eq!(scores.served, Some(1.0), "the other one serves it");
    assert!(scores.amplification.is_some_and(|it| (1.45..1.55).contains(&it)), "{scores:?}");
    let (scores, _) = run(&text("{share: 0, floor: 0}"));
    assert!(scores.served.is_some_and(|it| (0.45..0.55).contains(&it)), "{scores:?}");
    assert_eq!(scores.amplification, Some(1.0));
}

/// A POST may not be sent twice: nobody knows whether the first one has arrived.
#[test]
fn only_requests_that_may_be_sent_twice_are_repeated() {
    let with = |method: &str, header: &str| {
        let text = service(
            "{retry: {base: 10ms, idempotency_key: x-key, budget: {share: 9}}}",
            "faults: [{at: 0, for: 6, what: target, target: service, with: {errors: 1.0}}]",
        );
        let options = format!("load: {{requestOptions: {{method: {method}, headers: {{{header}}}}}, profile:");
        run(&text.replace("load: {profile:", &options)).0.amplification
    };
    // The last ones are repeated when the fault is over.
    let is_thrice = |sent: Option<f64>| sent.is_some_and(|sent| sent > 2.99);
    assert!(is_thrice(with("GET", "a: b")) && is_thrice(with("POST", "x-key: '1'")));
    assert_eq!(with("POST", "a: b"), Some(1.0));
}

#[test]
fn a_bulkhead_bounds_what_is_in_flight_and_what_waits() {
    // Ten times slower than requests come: 100 a second, of which two workers serve 20.
    let small =
        service("{bulkhead: {limit: 2, queue: 3, wait: 10s}}", "").replace("5ms, workers: 4", "100ms, workers: 9");
    let (_, outcome) = run(&small);
    let all = outcome.observation.total().all();
    assert!((115..=125).contains(&all.good) && all.target_errors == 0, "20 a second, and those in flight: {all:?}");
    assert!(outcome.levels.busy.iter().all(|busy| *busy == Some(2)), "{:?}", outcome.levels.busy);
    let waits = outcome.observation.latency.max();
    assert!((240_000..=300_000).contains(&waits), "those before it take each slot once or twice: {waits} µs");
    // Without a queue nobody waits; with a short wait most leave it.
    let (_, outcome) = run(&small.replace("queue: 3, wait: 10s", "queue: 0").replace(", wait: 10s", ""));
    assert!(outcome.observation.latency.max() <= 101_000);
    let (_, outcome) = run(&small.replace("wait: 10s", "wait: 20ms"));
    assert!(outcome.observation.latency.max() <= 121_000, "{}", outcome.observation.latency.max());
}

#[test]
fn limits_of_clients_and_upstreams_are_the_gateways_own() {
    let (_, outcome) = run(&format!(
        "{SMALL}gateway:
  upstreams: {{service: {{url: 'http://service', limits: [provider]}}}}
  limits:
    each: {{algorithm: token, capacity: 1, fill_rate: 50, key: ip}}
    provider: {{algorithm: fixed, limit: 20, window: 1, key: global}}
  common_limits: [each]
"
    ));
    let all = outcome.observation.total().all();
    assert!((119..=121).contains(&all.good), "20 in each of six windows: {all:?}");
    assert_eq!(all.rejected, all.offered - all.good, "neither limit is an error of the target");
}

/// Clients that send again are no new requests, and their load is offered once more.
#[test]
fn clients_that_send_again_keep_their_request() {
    let text = service("{}", "faults: [{at: 0, for: 3, what: target, target: service, with: {errors: 1.0}}]");
    let retry = "retry: {retries: 2, base: 0.05, longest: 0.1, after: [5xx]}";
    let text = text.replace("load: {profile:", &format!("load: {{clients: [{{name: a, {retry}}}], profile:"));
    let (scores, outcome) = run(&text);
    let all = outcome.observation.total().all();
    assert_eq!(outcome.observation.requests(), 600);
    // Each of the first 300 is sent three times, but for the last ones, which succeed later.
    assert!((1_185..=1_200).contains(&all.offered), "{all:?}");
    assert!((300..=312).contains(&all.good) && all.good + all.target_errors == all.offered, "{all:?}");
    assert!(scores.served.is_some_and(|served| (0.5..0.52).contains(&served)), "{scores:?}");
    assert!(scores.amplification.is_some_and(|it| (1.95..=2.0).contains(&it)), "{scores:?}");
    let impatient = run(&text.replace("[5xx]", "[timeout]")).1;
    assert_eq!(impatient.observation.total().all().offered, 600, "there are no timeouts");
}

/// What the second attempt saves, what it costs, and that the first says nothing when it is left.
#[test]
fn a_request_without_a_response_gets_a_second_attempt_elsewhere() {
    let text = |policy: &str, more: &str| {
        format!(
            "
duration: 12
gateway:
  upstreams:
    service: {{endpoints: [{{url: 'http://one', weight: 9}}, 'http://two'], balance: round_robin, policy: one,
      limits: [few], ejection: {{consecutive_failures: 0, success_rate: false}}}}
  policies: {{one: {{attempt_timeout: 2s, breaker: {{consecutive: 1, open: 60s}}, {policy}}}}}
  limits: {{few: {{algorithm: concurrency, limit: 40, hold: 30, key: global}}}}
targets: {{one: {{}}, two: {{workers: 16}}}}
load: {{profile: {{type: constant, params: {{rps: 100}}}}{more}}}
faults: [{{at: 4, for: 6, what: slow, target: two, factor: 100}}]
"
        )
    };
    let hedge = "hedge: {quantile: 0.8, min_delay: 20ms}";
    let (with, outcome) = run(&text(&format!("retry: {{attempts: 2, budget: {{share: 1}}, {hedge}}}"), ""));
    assert_eq!((with.served, with.open_after), (Some(1.0), None), "{with:?}");
    // Of 1,200 requests 60 were sent to the slow one, and those twice.
    assert_eq!(with.amplification, Some(1.05), "{with:?}");
    assert_eq!(outcome.observation.latency.max(), 25_007, "the delay, and 5 ms");
    let (without, _) = run(&text("retry: {attempts: 2}", ""));
    assert!(without.amplification == Some(1.0) && without.latency.is_some_and(|it| it.p99 > 0.4), "{without:?}");
    // The budget, unsafe methods and a bulkhead that is full leave it out.
    for (policy, more) in [
        (format!("retry: {{attempts: 2, budget: {{share: 0, floor: 0}}, {hedge}}}"), ""),
        (format!("retry: {{attempts: 2, {hedge}}}"), ", requestOptions: {method: POST}"),
    ] {
        let (scores, _) = run(&text(&policy, more));
        assert_eq!(scores.amplification, Some(1.0), "{policy} {more}");
    }
}

/// Both attempts end with their request: neither a slot nor a worker stays taken.
#[test]
fn a_client_that_leaves_two_attempts_gives_everything_back() {
    let text = "
duration: 12
gateway:
  upstreams: {service: {endpoints: ['http://one', 'http://two'], policy: one, ejection: {consecutive_failures: 0}}}
  policies: {one: {bulkhead: {limit: 8}, retry: {attempts: 2, budget: {share: 1}, hedge: {min_delay: 20ms}}}}
targets: {one: {workers: 4, queue: 0}, two: {workers: 4, queue: 0}}
load: {requestOptions: {timeout: 0.2}, profile: {type: constant, params: {rps: 20}}}
faults:
  - {at: 4, for: 4, what: freeze, target: one}
  - {at: 4, for: 4, what: freeze, target: two}
";
    let (_, outcome) = run(text);
    let all = outcome.observation.total().all();
    assert_eq!(all.offered, all.good + all.rejected + all.errors + all.target_errors, "{all:?}");
    // Four requests are in flight, each twice, while nothing responds; no more than eight slots and workers are needed.
    assert_eq!((all.rejected, all.target_errors), (0, 0), "{all:?}");
    assert!((75..=85).contains(&all.errors), "all of four seconds: {all:?}");
}

/// A client that has left holds nothing: neither a slot nor a probe.
#[test]
fn a_client_that_leaves_gives_everything_back() {
    let text = service(
        "{breaker: {window: 10, open: 500ms, probes: 1, probe_timeout: 30s}, bulkhead: {limit: 5}}",
        "faults: [{at: 1, for: 2, what: freeze, target: service}]",
    );
    let text = text.replace("load: {profile:", "load: {requestOptions: {timeout: 0.2}, profile:");
    let (scores, outcome) = run(&text);
    let all = outcome.observation.total().all();
    assert_eq!(all.offered, all.good + all.rejected + all.errors + all.target_errors, "{all:?}");
    assert!(all.errors > 20 && all.target_errors == 0, "each slot is free again after 200 ms: {all:?}");
    assert_eq!(scores.open_after, None, "clients that leave say nothing about the service");
    let last = outcome.observation.rows.last().expect("seconds").all();
    assert_eq!(last.good, last.offered, "{last:?}");
}

#[test]
fn a_variant_is_another_run_with_parts_changed() {
    let text = service("{breaker: {window: 10}}", "variants: {bare: {policies: {one: {breaker: null}}}}");
    let text = format!(
        "{text}faults: [{{at: 1, for: 5, what: kill, target: service}}]\nexpect:\n  - refused > 50%\n  \
         - {{that: refused <= 0%, variant: bare}}\n  - {{that: served > 10%, variant: bare, live: true}}\n"
    );
    let scenario = read(&text);
    let runs: Vec<Run> = Variant::all(&scenario)
        .into_iter()
        .map(|variant| Run::of(&scenario, variant, &simulate(&scenario, variant), Kind::Simulated, None))
        .collect();
    let ids: Vec<String> = runs.iter().map(|run| run.variant.id(&scenario)).collect();
    assert_eq!(ids, ["policies/protected", "policies/bare"]);
    assert!(runs.iter().all(|run| run.expectations.len() == 1 && run.expectations[0].holds()), "{runs:?}");
    let mut report = Report::new(Kind::Simulated, None, None);
    report.push(scenario, runs);
    let report = report.to_json();
    let run = &report["scenarios"][0]["runs"][1];
    assert_eq!((&run["variant"], &run["algorithm"]), (&"bare".into(), &serde_json::Value::Null));
    assert!(run["groups"][0]["served"].is_number() && run["scores"]["amplification"].is_number(), "{run}");
    assert!(report["formulas"].to_string().contains("amplification"));
}

#[test]
fn what_is_wrong_is_reported_with_its_path() {
    let good = service("{}", "");
    assert_eq!(problems(&good), "");
    for (text, expected) in [
        (good.replace("http://service", "http://other"), "gateway.upstreams.service.url: must be http:// and the name"),
        (good.replace("'http://service'", "7"), "gateway.upstreams.service.url: must be http://"),
        (
            good.replace("policies: {one: {}}", "policies: {two: {}}"),
            "gateway.upstreams.service.policy: unknown policy",
        ),
        (good.replace("policies: {one: {}}", "policies: {one: {brake: 1}}"), "gateway.policies"),
        (
            good.replace("policies: {one: {}}", "policies: {one: {}}\n  redis: {url: 'redis://x'}"),
            "gateway.redis: can't",
        ),
        (format!("{good}limit: {{rate: 1}}\n"), "limit: can't be set together with `gateway`"),
        (format!("{good}variants: {{protected: {{}}}}\n"), "variants.protected: must have a name"),
        (format!("{good}variants: {{x: {{policies: {{one: {{timeout: 0s}}}}}}}}\n"), "variants.x.policies.one.timeout"),
        (format!("{good}variants: 7\n"), "variants: must be an object"),
        (format!("{good}variants: {{x: 7}}\n"), "variants.x: must be an object with changes of `gateway`, got 7"),
        (format!("{good}variants: {{x: {{}}}}\n"), "variants.x: changes nothing"),
        (format!("{good}variants: {{x: {{policies: {{one: {{retries: null}}}}}}}}\n"), "variants.x: changes nothing"),
        (format!("{good}variants: {{x: null}}\n"), "variants.x: must be an object with changes of `gateway`, got null"),
        (format!("{good}expect: [{{that: served > 1%, baseline: true}}]\n"), "expect[0].baseline: does not go with"),
        (
            good.replace("load: {", "load: {clients: [{name: a, path: /pay}], "),
            "load.clients[0].path: must be /api/test or below it: targets serve nothing else, got \"/pay\"",
        ),
        (good.replace("targets: {service:", "targets: {Ser vice:"), "targets.Ser vice: must have a name"),
        (
            good.replace("targets: {service: {service_time: 5ms, workers: 4}}", "targets: 4"),
            "targets: must be an object",
        ),
        (
            format!("{good}faults: [{{at: 1, for: 1, what: kill, target: 1}}]\n"),
            "must be the name of a target: service",
        ),
        (format!("{good}faults: [{{at: 1, for: 1, what: kill}}]\n"), "faults[0].target: is missing"),
        (format!("{good}expect: ['served{{x}} > 1%']\n"), "expect[0]: unknown group \"x\"; known groups: all"),
        (format!("{good}expect: [{{that: served > 1%, variant: other}}]\n"), "runs are: policies/protected"),
        (good.replace("load: {", "load: {clients: [{name: a, polite: true}], "), "load.clients[0].polite"),
    ] {
        let found = problems(&text);
        assert!(found.contains(expected), "expected {expected:?}, found {found:?} of\n{text}");
    }
    let wrong_target = problems(&good.replace("workers: 4", "workers: -4"));
    assert!(wrong_target.contains("workers") && !wrong_target.contains("unknown"), "{wrong_target}");
    let twice = good.replace("url: 'http://service'", "endpoints: ['http://service', 'http://service']");
    assert!(problems(&twice).contains("must have target `service` only once"), "{}", problems(&twice));
}

#[test]
fn figures_are_what_they_say() {
    let weighted = "
duration: 12
gateway:
  upstreams: {service: {endpoints: [{url: 'http://one', weight: 3}, 'http://two'], balance: round_robin, policy: one}}
  policies: {one: {timeout: 1s}}
targets: {one: {workers: 40}, two: {workers: 40}}
load: {profile: {type: constant, params: {rps: 100}}, clients: [{name: people}]}
";
    let (scores, _) = run(weighted);
    assert!(scores.spread.is_some_and(|spread| spread > 0.999), "{scores:?}");
    let slow = "faults: [{at: 6, for: 3, what: slow, target: one, factor: 10},
                         {at: 6, for: 3, what: slow, target: two, factor: 10}]";
    let (scores, _) = run(&format!("{weighted}{slow}\n"));
    assert!(scores.groups[0].slowdown.is_some_and(|it| (9.9..10.1).contains(&it)), "{scores:?}");
    assert_eq!(scores.failed_wait, None, "nothing failed");
    let (scores, _) = run(&format!("{weighted}{slow}\nobjective: 0.02\n"));
    assert!(scores.served.is_some_and(|it| (0.74..0.76).contains(&it)), "what takes longer is no use: {scores:?}");
    let dead = "faults: [{at: 6, for: 3, what: freeze, target: one}, {at: 6, for: 3, what: freeze, target: two}]";
    let (scores, _) = run(&format!("{weighted}{dead}\n"));
    // Those of the last second before its end got their response in time.
    assert!(scores.failed_wait.is_some_and(|it| (0.99..=1.0).contains(&it)), "{scores:?}");
    assert!(scores.served.is_some_and(|it| (0.75..0.77).contains(&it)), "three of twelve seconds: {scores:?}");
}
