//! `tidegate check`: everything that is invalid is reported at once, with its path.

use super::check_command::check;

/// Each of `paths` is reported, and nothing that is secret.
fn assert_reported(config: &str, paths: &[&str]) {
    let outcome = check(config);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    let is_missing = |path: &&&str| !outcome.out.contains(&format!("gateway.yaml: {path}: "));
    let missing: Vec<&&str> = paths.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:#?} in\n{}", outcome.out);
    assert!(!outcome.out.contains("short"), "secrets are not repeated");
}

const OF_THE_GATEWAY: &str = "listeners: [{address: nowhere}]
workers: 0
connections: {max: 0, max_head_bytes: 5, head_timeout: 0}
trusted_proxies: [10.0.0.0/8, somewhere]
admin: {token: short, listen: here}
access_log: {buffer: 0}
redis: {url: \"http://x\", namespace: \"a b\"}
resolver: {servers: [10.0.0.2, dns.example], timeout: 0, attempts: 0, min_ttl: 5s, max_ttl: 2s}
identity:
  default_tier: \"a b\"
  api_keys: {keys: [{user: ann}, {key: a, sha256: b, user: bob}]}
  jwt: {secret: short}
  trusted_headers: {}
";

const OF_TRAFFIC: &str = "limits:
  one: {algorithm: magic}
  two: {algorithm: fixed, limit: 0, window: 1}
  three: {algorithm: fixed, limit: 1, window: 1, key: shoe size}
  four: {algorithm: fixed, limit: 1, window: 1, status: 200, cost: 0, max_keys: 0}
  five: {algorithm: token, capacity: 1}
  six: {algorithm: fixed, limit: 1, window: 1, tiers: {pro: {limit: 0, window: 1}}}
  seven: {algorithm: leaky, capacity: 1, fill_rate: 1, soft: true}
  eight: {algorithm: fixed, limit: 1, window: 1, state: memory, soft: 99999999}
  'no good': {algorithm: fixed, limit: 1, window: 1}
common_limits: [eight, eight, nothing]
upstreams:
  app: {url: \"ftp://x\", connect_timeout: 1000d, limits: [nothing]}
  web: {url: \"http://user@host\"}
  raw: {url: \"http://host:8081\", max_connections: 0, ca: /nonexistent}
routes:
  - {upstream: nowhere}
  - {prefix: here, upstream: raw}
  - {path: /a, prefix: /b, upstream: raw}
  - {name: same, upstream: raw, limits: [nothing]}
  - {name: same, upstream: raw}
  - {name: lost}
";

const PATHS_OF_THE_GATEWAY: [&str; 20] = [
    "listeners[0].address",
    "workers",
    "connections.max",
    "connections.max_head_bytes",
    "connections.head_timeout",
    "trusted_proxies[1]",
    "admin.token",
    "admin.listen",
    "access_log.buffer",
    "redis.url",
    "redis.namespace",
    "resolver.servers[1]",
    "resolver.timeout",
    "resolver.attempts",
    "resolver.min_ttl",
    "identity.default_tier",
    "identity.api_keys.keys[0]",
    "identity.api_keys.keys[1]",
    "identity.jwt.secret",
    "identity.trusted_headers",
];

const PATHS_OF_TRAFFIC: [&str; 24] = [
    "limits.one.algorithm",
    "limits.two.limit",
    "limits.three.key",
    "limits.four.status",
    "limits.four.cost",
    "limits.four.max_keys",
    "limits.five.fillRate",
    "limits.six.tiers.pro.limit",
    "limits.seven.soft",
    "limits.eight.soft",
    "limits.no good",
    "common_limits[1]",
    "common_limits[2]",
    "upstreams.app.url",
    "upstreams.app.connect_timeout",
    "upstreams.app.limits[0]",
    "upstreams.web.url",
    "upstreams.raw.max_connections",
    "routes[0].upstream",
    "routes[1].prefix",
    "routes[2].path",
    "routes[3].limits[0]",
    "routes[4].name",
    "routes[5].upstream",
];

#[test]
fn invalid_settings_of_the_gateway_are_reported_with_their_paths() {
    assert_reported(OF_THE_GATEWAY, &PATHS_OF_THE_GATEWAY);
}

#[test]
fn invalid_limits_upstreams_and_routes_are_reported_with_their_paths() {
    assert_reported(OF_TRAFFIC, &PATHS_OF_TRAFFIC);
}

#[test]
fn everything_invalid_is_reported_at_once() {
    let paths: Vec<&str> = PATHS_OF_THE_GATEWAY.into_iter().chain(PATHS_OF_TRAFFIC).collect();
    assert_reported(&format!("{OF_THE_GATEWAY}{OF_TRAFFIC}"), &paths);
}

/// A file with these settings of the only upstream.
fn upstream(settings: &str) -> String {
    format!("upstreams: {{app: {{{settings}}}}}\n")
}

/// Each line names the setting, what is expected and what was found.
#[test]
fn invalid_settings_of_endpoints_are_reported_with_their_range_and_what_was_found() {
    let one = "endpoints: [\"http://127.0.0.1:1\"]";
    for (settings, reported) in [
        ("endpoints: []".into(), "upstreams.app.endpoints: must have between 1 and 1000 endpoints, got 0"),
        (
            "endpoints: [{url: \"http://127.0.0.1:1\", weight: 1000001}]".into(),
            "upstreams.app.endpoints[0].weight: must be between 0 and 1000000, got 1000001",
        ),
        (
            "endpoints: [\"http://a:1\", \"http://a:1/x\"]".into(),
            "upstreams.app.endpoints[1]: must differ from earlier endpoints in host or port, got \"http://a:1/x\"",
        ),
        (format!("url: \"http://127.0.0.1:1\", {one}"), "upstreams.app.url: must be left out with `endpoints`"),
        ("slow_start: 1s".into(), "upstreams.app: must have `url` or `endpoints`"),
        (format!("{one}, slow_start: 2d"), "upstreams.app.slow_start: must be between 0s and 1d, got \"2d\""),
        (
            format!("{one}, ejection: {{max_share: 1.5}}"),
            "upstreams.app.ejection.max_share: must be between 0 and 1, got 1.5",
        ),
        (
            format!("{one}, ejection: {{interval: 500ms}}"),
            "upstreams.app.ejection.interval: must be between 1s and 1h, got \"500ms\"",
        ),
        (
            format!("{one}, ejection: {{time: 2s, max_time: 1s}}"),
            "upstreams.app.ejection.time: must be at most `max_time`, which is \"1s\", got \"2s\"",
        ),
        (
            format!("{one}, ejection: {{statuses: [503, 99]}}"),
            "upstreams.app.ejection.statuses: must be statuses between 200 and 599, got 99",
        ),
        (
            format!("{one}, ejection: {{consecutive_failures: 1000001}}"),
            "upstreams.app.ejection.consecutive_failures: must be between 0 and 1000000, got 1000001",
        ),
        (
            format!("{one}, health_check: {{interval: 10ms}}"),
            "upstreams.app.health_check.interval: must be between 100ms and 1h, got \"10ms\"",
        ),
        (
            format!("{one}, health_check: {{unhealthy: 0}}"),
            "upstreams.app.health_check.unhealthy: must be between 1 and 100, got 0",
        ),
        (
            format!("{one}, health_check: {{path: /, method: POST}}"),
            "upstreams.app.health_check.method: must be GET, HEAD or OPTIONS, got \"POST\"",
        ),
        (
            format!("{one}, health_check: {{path: health}}"),
            "upstreams.app.health_check.path: must begin with `/` and be a valid path, got \"health\"",
        ),
        (
            format!("{one}, health_check: {{path: /, statuses: []}}"),
            "upstreams.app.health_check.statuses: must have at least one status; leave it out for 200 to 299",
        ),
        (
            format!("{one}, health_check: {{statuses: [200]}}"),
            "upstreams.app.health_check.statuses: must be left out without `path`",
        ),
    ] {
        let outcome = check(&upstream(&settings));
        assert_eq!(outcome.code, 2, "{settings}: {outcome:?}");
        assert!(outcome.out.contains(&format!("gateway.yaml: {reported}\n")), "{settings}: {}", outcome.out);
    }
}

#[test]
fn one_endpoint_in_two_spellings_is_an_error() {
    for (first, second) in [("http://Localhost:1", "http://LOCALHOST:1"), ("http://[::1]", "http://[0:0::1]:80")] {
        let outcome = check(&upstream(&format!("endpoints: [{first:?}, {second:?}]")));
        let reported = format!("endpoints[1]: must differ from earlier endpoints in host or port, got {second:?}\n");
        assert!(outcome.code == 2 && outcome.out.contains(&reported), "{outcome:?}");
    }
}

#[test]
fn settings_of_endpoints_that_have_no_effect_are_warnings() {
    let with = |settings: &str| upstream(&format!("url: \"http://127.0.0.1:1\", {settings}"));
    let resolver = |host: &str| format!("{}resolver: {{servers: [127.0.0.1]}}\n", upstream(&format!("url: {host:?}")));
    for (config, warning) in [
        (with("hash_key: ip"), "upstreams.app.hash_key: has no effect without `balance: hash`"),
        (with("balance: hash, slow_start: 1s"), "upstreams.app.slow_start: has no effect with `balance: hash`"),
        (resolver("http://[::1]:1"), "resolver.servers: has no effect: no endpoint has a host name"),
    ] {
        let outcome = check(&config);
        assert_eq!(outcome.code, 0, "{config}: {outcome:?}");
        assert!(outcome.out.contains(&format!("gateway.yaml: warning: {warning}\n")), "{config}: {}", outcome.out);
    }
    for config in [with("balance: hash, hash_key: ip, slow_start: 0s"), resolver("http://localhost:1")] {
        let outcome = check(&config);
        assert!(outcome.code == 0 && !outcome.out.contains("warning"), "{config}: {outcome:?}");
    }
}

/// The most that there may be, and one more.
#[test]
fn a_thousand_endpoints_and_a_weight_of_a_million_are_the_most() {
    let endpoints = |count: u32| {
        let urls = (1..=count).map(|port| format!("{{url: \"http://127.0.0.1:{port}\", weight: 1000000}}"));
        upstream(&format!("endpoints: [{}]", urls.collect::<Vec<_>>().join(", ")))
    };
    let outcome = check(&endpoints(1_000));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let outcome = check(&endpoints(1_001));
    assert_eq!(outcome.code, 2, "{outcome:?}");
    let reported = "gateway.yaml: upstreams.app.endpoints: must have between 1 and 1000 endpoints, got 1001\n";
    assert!(outcome.out.contains(reported), "{}", outcome.out);
}
