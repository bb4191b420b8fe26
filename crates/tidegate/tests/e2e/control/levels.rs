//! Several levels together: all or nothing. What is rejected costs nothing anywhere.

use crate::control::limit_headers::{left, limit_headers};
use crate::control::setting::{before, once};
use tidegate_testkit::{Gateway, Upstream, wait_until};

fn from(gateway: &Gateway, ip: &str) -> tidegate_testkit::Response {
    gateway.get_with("/", &[("X-Forwarded-For", ip)])
}

#[test]
fn a_rejection_at_one_level_costs_nothing_at_the_others() {
    let upstream = Upstream::start();
    for algorithm in [
        "algorithm: fixed, limit: 10, window: 30d",
        "algorithm: sliding, limit: 10, window: 30d",
        "algorithm: sliding_log, limit: 10, window: 30d",
        "algorithm: token, capacity: 10, fill_rate: 0.001",
        "algorithm: gcra, capacity: 10, fill_rate: 0.001",
    ] {
        let by_ip = once(2).replace('}', ", key: ip}");
        let rest = format!(
            "trusted_proxies: [127.0.0.1]\nlimits: {{everyone: {{{algorithm}}}, address: {by_ip}}}\n\
             common_limits: [everyone, address]"
        );
        let gateway = Gateway::start(&before(&upstream, &rest));
        assert_eq!(left(&from(&gateway, "203.0.113.1"), "everyone"), 9);
        assert_eq!(left(&from(&gateway, "203.0.113.1"), "everyone"), 8);
        for _ in 0..5 {
            let rejected = from(&gateway, "203.0.113.1");
            assert_eq!((rejected.status, rejected.header("x-tidegate-refused-by")), (429, Some("address")));
        }
        assert_eq!(left(&from(&gateway, "203.0.113.2"), "everyone"), 7, "{algorithm}: the five cost nothing");
    }
}

#[test]
fn the_order_of_levels_does_not_matter() {
    let upstream = Upstream::start();
    for order in ["[tight, wide]", "[wide, tight]"] {
        let rest = format!("limits: {{tight: {}, wide: {}}}\ncommon_limits: {order}", once(1), once(5));
        let gateway = Gateway::start(&before(&upstream, &rest));
        assert_eq!(gateway.get("/").status, 200);
        for _ in 0..3 {
            let rejected = gateway.get("/");
            assert_eq!((rejected.status, rejected.header("x-tidegate-refused-by")), (429, Some("tight")));
            assert_eq!(rejected.json()["violated-policies"], serde_json::json!(["tight"]));
        }
        gateway.post("/config/limits/tight", r#"{"algorithm": "fixed", "limit": 100, "window": 2592000}"#);
        assert_eq!(left(&gateway.get("/"), "wide"), 3, "{order}");
    }
}

#[test]
fn a_route_has_its_own_limits_besides_the_common_ones() {
    let upstream = Upstream::start();
    let rest = format!(
        "limits: {{default: {}, export: {}}}\nroutes: [{{name: export, prefix: /export, limits: [export]}}, {{name: \
         rest, prefix: /}}]",
        once(10),
        once(1)
    );
    let gateway = Gateway::start(&before(&upstream, &rest));
    let export = limit_headers(&gateway.get("/export"));
    assert_eq!(export.states.len(), 2, "both are reported");
    assert_eq!(gateway.get("/export").header("x-tidegate-refused-by"), Some("export"));
    let other = limit_headers(&gateway.get("/"));
    assert_eq!((other.states.len(), other.remaining), (1, 8), "the common one was charged by both routes, once each");
}

/// An upstream's limit responds with 503, and what the client's own limits had taken is given back.
#[test]
fn a_limit_of_an_upstream_is_responded_with_503_and_costs_the_client_nothing() {
    let upstream = Upstream::start();
    for client in [
        "algorithm: fixed, limit: 10, window: 30d",
        "algorithm: sliding, limit: 10, window: 30d",
        "algorithm: sliding_log, limit: 10, window: 30d",
        "algorithm: token, capacity: 10, fill_rate: 0.001",
        "algorithm: gcra, capacity: 10, fill_rate: 0.001",
    ] {
        let rest = format!(
            "upstreams: {{app: {{url: \"http://{}\", limits: [provider]}}}}\n\
             limits: {{default: {{{client}}}, provider: {}}}\n",
            upstream.address,
            once(1)
        );
        let gateway = Gateway::start(&rest);
        let sent = upstream.count();
        let first = gateway.get("/");
        assert_eq!(first.status, 200);
        let unused = left(&first, "default");
        for _ in 0..5 {
            let rejected = gateway.get("/");
            assert_eq!(
                (rejected.status, rejected.header("x-tidegate-refused-by")),
                (503, Some("provider")),
                "{client}"
            );
            let body = rejected.json();
            assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
            assert_eq!((&body["status"], &body["error"]), (&503.into(), &"Service Unavailable".into()));
            assert!(rejected.header("retry-after").is_some());
        }
        assert_eq!(upstream.count(), sent + 1);
        gateway.post("/config/limits/provider", r#"{"algorithm": "fixed", "limit": 5, "window": 2592000}"#);
        let second = gateway.get("/");
        assert_eq!(second.status, 200);
        assert_eq!(left(&second, "default"), unused - 1, "{client}: the refused ones came back");
    }
}

#[test]
fn nor_does_it_keep_the_clients_slot() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\", limits: [provider]}}}}
limits: {{default: {{algorithm: concurrency, limit: 1}}, provider: {}}}\n",
        upstream.address,
        once(1)
    ));
    assert_eq!(gateway.get("/").status, 200);
    wait_until("the first has ended", || gateway.get("/").status == 503);
    for _ in 0..5 {
        assert_eq!(gateway.get("/").status, 503, "the place was free again before the answer was sent");
    }
}

#[test]
fn the_status_of_an_upstreams_limit_can_be_chosen() {
    let upstream = Upstream::start();
    let provider = once(1).replace('}', ", status: 429}");
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\", limits: [provider]}}}}\nlimits: {{provider: {provider}}}\n",
        upstream.address
    ));
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
}

#[test]
fn an_upstreams_limit_responses_every_tier_with_503() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "identity: {{api_keys: {{keys: [{{key: key-of-pat, user: pat, tier: pro}}]}}}}
upstreams: {{app: {{url: \"http://{}\", limits: [provider]}}}}
limits: {{provider: {{algorithm: fixed, limit: 1, window: 30d, tiers: {{pro: {{limit: 2, window: 30d}}}}}}}}
",
        upstream.address
    ));
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 503));
    let pro = || gateway.get_with("/", &[("X-Api-Key", "key-of-pat")]).status;
    assert_eq!((pro(), pro(), pro()), (200, 200, 503));
}

/// Each upstream has a count of its own.
#[test]
fn each_upstream_has_its_own_account_of_a_limit_by_provider() {
    let upstream = Upstream::start();
    let (limit, address) = (once(1).replace('}', ", key: provider}"), upstream.address);
    let gateway = Gateway::start(&format!(
        "upstreams: {{bank: {{url: \"http://{address}\", limits: [provider]}}, card: {{url: \"http://{address}\", \
         limits: [provider]}}}}
limits: {{provider: {limit}}}
routes: [{{name: bank, prefix: /bank, upstream: bank}}, {{name: card, prefix: /card, upstream: card}}]
"
    ));
    assert_eq!((gateway.get("/bank").status, gateway.get("/bank").status), (200, 503));
    assert_eq!((gateway.get("/card").status, gateway.get("/card").status), (200, 503));
}

/// When all connections to an upstream are in use the gateway itself rejects: that costs nothing either.
#[test]
fn a_request_that_finds_the_upstream_full_gets_its_tokens_back() {
    let gate = crate::control::gate::Gate::closed();
    let gateway = Gateway::start(&format!(
        "workers: 1\nupstreams: {{app: {{url: \"http://{}\", max_connections: 1}}}}\nlimits: {{default: {}}}\n",
        gate.upstream.address,
        once(10)
    ));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| gateway.get("/"));
        gate.wait_for(1);
        for _ in 0..3 {
            let rejected = gateway.get("/");
            assert_eq!(rejected.status, 503, "{}", rejected.text());
            assert_eq!(rejected.json()["error"], "upstream_full");
        }
        gate.open();
        assert_eq!(left(&held.join().expect("no panic"), "default"), 9);
    });
    // The connection is free a moment after the response has been read; those rejected until then cost nothing.
    let mut passed = None;
    wait_until("the connection is free", || {
        passed = Some(gateway.get("/")).filter(|response| response.status == 200);
        passed.is_some()
    });
    assert_eq!(left(&passed.expect("one has passed"), "default"), 8);
}

/// A connection that waits in another worker's pool is not in use.
#[test]
fn an_idle_connection_is_not_a_reason_to_reject() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "workers: 2\nupstreams: {{app: {{url: \"http://{}\", max_connections: 1}}}}\nlimits: {{}}\n",
        upstream.address
    ));
    for place in 0..40 {
        assert_eq!(gateway.get("/").status, 200, "request {place}, one at a time");
        // The scrape itself is the one that is under way.
        wait_until("it has ended", || gateway.metric("tidegate_requests_in_flight") <= Some(1.0));
    }
}

/// A client that plans by these headers would come too rarely.
#[test]
fn a_rejection_reports_what_is_left_at_the_other_levels_as_if_it_had_never_come() {
    let upstream = Upstream::start();
    let rest = format!("limits: {{tight: {}, wide: {}}}\ncommon_limits: [tight, wide]", once(1), once(5));
    let gateway = Gateway::start(&before(&upstream, &rest));
    assert_eq!(left(&gateway.get("/"), "wide"), 4);
    for _ in 0..3 {
        let rejected = gateway.get("/");
        assert_eq!((rejected.status, left(&rejected, "wide")), (429, 4));
    }
}
