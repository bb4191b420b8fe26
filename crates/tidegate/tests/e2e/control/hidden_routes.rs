//! Routes and tiers that no request reaches: `check` and the gateway's log warn of them.

use tidegate_testkit::command::{Outcome, run};
use tidegate_testkit::{Directory, Gateway, Upstream, text};

fn check(config: &str) -> Outcome {
    let directory = Directory::new();
    let file = directory.file("gateway.yaml", config);
    run(&["check", &text(&file)], &[])
}

fn warnings(config: &str) -> Vec<String> {
    let outcome = check(config);
    assert_eq!(outcome.code, 0, "{config}\n{outcome:?}");
    let lines = outcome.out.lines().filter_map(|line| line.split_once("warning: "));
    lines.map(|(_, warning)| warning.to_owned()).collect()
}

const SEARCH_BEHIND_API: &str = "limits:\n  all: {algorithm: fixed, limit: 100, window: 1}\n  search: {algorithm: \
                                 fixed, limit: 1, window: 60}\n\
    routes:\n  - {prefix: /api, limits: [all]}\n  - {prefix: /api/search, limits: [search]}\n";

/// `/api` before `/api/search` was `ok`: the limit of the second route never applied, and nothing said so.
#[test]
fn a_route_behind_a_wider_one_is_a_warning() {
    assert_eq!(
        warnings(SEARCH_BEHIND_API),
        ["routes[1]: is never reached: routes[0] takes every request that it matches; put the narrower route first"]
    );
}

/// The gateway's log says the same when it starts, and the limit does not apply indeed.
#[test]
fn a_gateway_warns_when_it_starts() {
    let upstream = Upstream::start();
    let gateway =
        Gateway::start(&format!("upstreams: {{app: {{url: \"http://{}\"}}}}\n{SEARCH_BEHIND_API}", upstream.address));
    let line = gateway.wait_for_line("is never reached");
    assert!(line.contains("WARN") && line.contains("routes[1]"), "{line}");
    assert_eq!([(); 3].map(|()| gateway.get("/api/search").status), [200; 3], "a limit of one a minute is not asked");
}

#[test]
fn routes_that_some_request_reaches_are_no_warning() {
    for routes in [
        "[{prefix: /api/search}, {prefix: /api}]",
        "[{prefix: /api, methods: [GET]}, {prefix: /api/search}]",
        "[{prefix: /api, host: a.example}, {prefix: /api/search}]",
        "[{prefix: /api, host: '*.example'}, {prefix: /api, host: example}]",
        "[{path: /api}, {prefix: /api}]",
        "[{pattern: '/users/*'}, {prefix: /users}]",
        "[{pattern: '/users/*/orders'}, {pattern: '/users/{id}/**'}]",
        "[{prefix: /api}, {prefix: /apis}, {}]",
    ] {
        assert_eq!(warnings(&format!("routes: {routes}\n")), Vec::<String>::new(), "{routes}");
    }
}

#[test]
fn routes_may_be_hidden_by_several_or_by_their_own_path() {
    let together = warnings(
        "routes: [{prefix: /a, methods: [GET]}, {prefix: /a, methods: [POST]}, {path: /a/b, methods: [GET, POST]}]\n",
    );
    assert_eq!(together.len(), 1, "{together:?}");
    assert!(
        together[0].starts_with("routes[2]: is never reached: routes[0] and routes[1] together take"),
        "{together:?}"
    );
    let odd = warnings("routes: [{prefix: /a//b}, {}]\n");
    assert!(
        odd.len() == 1 && odd[0].starts_with("routes[0]: is never reached: paths are matched in their normal form"),
        "{odd:?}"
    );
}

/// It was advised to put the narrower of two equal routes first.
#[test]
fn of_equal_routes_one_should_go() {
    for routes in [
        "[{prefix: /api}, {prefix: /api/}]",
        "[{host: a.example, path: /x}, {host: A.example., path: /x/}]",
        "[{methods: [GET]}, {methods: [GET, HEAD]}]",
    ] {
        let warning = "routes[1]: is never reached: routes[0] matches the same requests; remove one of them";
        assert_eq!(warnings(&format!("routes: {routes}\n")), [warning], "{routes}");
    }
}

#[test]
fn a_route_for_connect_is_a_warning() {
    let found = warnings("routes: [{methods: [connect], path: /a}, {methods: [GET, CONNECT]}, {}]\n");
    assert_eq!(
        found,
        [0, 1].map(|place| format!(
            "routes[{place}].methods: CONNECT requests never reach a route: the gateway rejects them with 501"
        ))
    );
}

#[test]
fn a_tier_that_no_caller_has_is_a_warning() {
    let tiers = "limits: {default: {algorithm: fixed, limit: 5, window: 1, tiers: {gold: unlimited, anonymous: {limit: \
                 1, window: 1}}}}\n";
    let keys = "identity: {api_keys: {keys: [{key: a-key, user: ann, tier: golden}, {key: b-key, user: bob}]}}\n";
    let warning = "limits.default.tiers.gold: no identity source gives this tier; known tiers: anonymous, golden";
    assert_eq!(warnings(&format!("{tiers}{keys}")), [warning]);
    for identity in [
        "identity: {default_tier: gold}\n",
        "identity: {api_keys: {keys: [{key: a-key, user: ann, tier: gold}]}}\n",
        "identity: {jwt: {secret: 0123456789abcdef0123456789abcdef}}\n",
        "identity: {trusted_headers: {tier: x-tier}}\ntrusted_proxies: [10.0.0.1]\n",
    ] {
        let found: Vec<String> =
            warnings(&format!("{tiers}{identity}")).into_iter().filter(|it| it.contains("tiers.gold")).collect();
        assert_eq!(found, Vec::<String>::new(), "{identity}");
    }
    let of_nobody = warnings(&format!("{tiers}identity: {{trusted_headers: {{tier: x-tier}}}}\n"));
    assert!(of_nobody.iter().any(|warning| warning.contains("tiers.gold")), "no proxy is trusted: {of_nobody:?}");
    let only_users =
        warnings(&format!("{tiers}identity: {{trusted_headers: {{user: x-user}}}}\ntrusted_proxies: [10.0.0.1]\n"));
    assert!(only_users.len() == 1 && only_users[0].contains("tiers.gold"), "{only_users:?}");
}
