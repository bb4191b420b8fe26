//! Soft excess, watching only, other statuses, costs, and how many accounts are kept.

use crate::control::limit_headers::limit_headers;
use crate::control::setting::{PLENTY, before};
use tidegate_testkit::{Client, Gateway, Upstream};

fn degraded(upstream: &Upstream) -> Vec<Option<String>> {
    upstream.received().iter().map(|received| received.header("x-tidegate-degraded").map(str::to_owned)).collect()
}

/// A limit on trial says nothing of itself, so it must not silence the upstream either.
#[test]
fn the_upstreams_own_limits_are_reported_under_a_dry_run() {
    let upstream = Upstream::responding(|_| {
        b"HTTP/1.1 200 OK\r\nRateLimit: \"theirs\";r=7\r\nX-RateLimit-Limit: 9\r\nContent-Length: 0\r\n\r\n".into()
    });
    let trial = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, dry_run: true}");
    let response = trial.get("/");
    assert_eq!(
        (response.header("ratelimit"), response.header("x-ratelimit-limit")),
        (Some("\"theirs\";r=7"), Some("9"))
    );
    let earnest = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d}");
    assert_eq!(earnest.get("/").header("x-ratelimit-limit"), Some("2"), "where we have something to say, ours counts");
}

#[test]
fn a_little_over_the_limit_passes_marked_for_the_upstream() {
    for numbers in [
        "algorithm: fixed, limit: 3, window: 30d",
        "algorithm: sliding, limit: 3, window: 30d",
        "algorithm: sliding_log, limit: 3, window: 30d",
        "algorithm: token, capacity: 3, fill_rate: 0.001",
        "algorithm: gcra, capacity: 3, fill_rate: 0.001",
    ] {
        let upstream = Upstream::start();
        let gateway = Gateway::before(upstream.address, &format!("{{{numbers}, soft: 2}}"));
        let responses: Vec<_> = (0..6).map(|_| gateway.get("/")).collect();
        let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{numbers}");
        let mark = Some("default".to_owned());
        assert_eq!(degraded(&upstream), [None, None, None, mark.clone(), mark], "{numbers}");
        let remaining: Vec<u64> = responses.iter().map(|response| limit_headers(response).remaining).collect();
        assert_eq!(remaining, [2, 1, 0, 0, 0, 0], "clients see the limit, not the excess");
        assert!(responses.iter().all(|response| limit_headers(response).limit == 3), "{numbers}");
    }
}

#[test]
fn true_means_ten_over_and_false_none() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, soft: true}");
    let passed = (0..20).filter(|_| gateway.get("/").status == 200).count();
    assert_eq!(passed, 12);
    assert_eq!(degraded(&upstream).iter().filter(|mark| mark.is_some()).count(), 10);
    let strict = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, soft: false}");
    assert_eq!((0..20).filter(|_| strict.get("/").status == 200).count(), 2);
}

#[test]
fn a_client_can_not_mark_itself() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let headers = [("X-Tidegate-Degraded", "default"), ("x-tidegate-anything", "1"), ("X-Other", "kept")];
    assert_eq!(gateway.get_with("/", &headers).status, 200);
    let received = upstream.last();
    assert_eq!((received.header("x-tidegate-degraded"), received.header("x-tidegate-anything")), (None, None));
    assert_eq!(received.header("x-other"), Some("kept"));
}

#[test]
fn a_dry_run_limit_counts_and_reports_and_never_rejects() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, dry_run: true}");
    let responses: Vec<_> = (0..5).map(|_| gateway.get("/")).collect();
    assert!(responses.iter().all(|response| response.status == 200));
    let marks: Vec<_> = responses.iter().map(|response| response.header("x-tidegate-dry-run")).collect();
    let mark = Some("default");
    assert_eq!(marks, [None, None, mark, mark, mark]);
    assert!(responses.iter().all(|response| response.header("x-ratelimit-limit").is_none()), "it limits nobody");
    let decided = |decision: &str| {
        gateway.metric(&format!("tidegate_limit_requests_total{{limit=\"default\",decision=\"{decision}\"}}"))
    };
    assert_eq!((decided("admitted"), decided("would_refuse"), decided("refused")), (Some(2.0), Some(3.0), Some(0.0)));
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"rejected\"}"), Some(0.0));
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"forwarded\"}"), Some(5.0));
    assert_eq!(gateway.get("/config/limits").json()["limits"]["default"]["dry_run"], true);
}

#[test]
fn a_dry_run_limit_stands_beside_one_that_rejects() {
    let upstream = Upstream::start();
    let rest = "limits:
  watching: {algorithm: fixed, limit: 1, window: 30d, dry_run: true}
  strict: {algorithm: fixed, limit: 3, window: 30d}
common_limits: [watching, strict]";
    let gateway = Gateway::start(&before(&upstream, rest));
    let responses: Vec<_> = (0..4).map(|_| gateway.get("/")).collect();
    let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(limit_headers(&responses[0]).states.len(), 1, "only the strict one is reported");
    assert_eq!(responses[2].header("x-tidegate-dry-run"), Some("watching"));
    let watched = |decision: &str| {
        gateway.metric(&format!("tidegate_limit_requests_total{{limit=\"watching\",decision=\"{decision}\"}}"))
    };
    assert_eq!(
        (watched("admitted"), watched("would_refuse")),
        (Some(1.0), Some(2.0)),
        "what is refused is not its business"
    );
}

/// Once it was rejected with 400.
#[test]
fn a_dry_run_limit_that_lacks_its_key_never_rejects_either() {
    let upstream = Upstream::start();
    let limit = "{algorithm: fixed, limit: 2, window: 30d, key: user, missing: refuse, dry_run: true}";
    let gateway = Gateway::before(upstream.address, limit);
    let responses: Vec<_> = (0..3).map(|_| gateway.get("/")).collect();
    assert!(responses.iter().all(|response| response.status == 200));
    assert!(responses.iter().all(|response| response.header("x-tidegate-dry-run") == Some("default")));
    let decided = |decision: &str| {
        gateway.metric(&format!("tidegate_limit_requests_total{{limit=\"default\",decision=\"{decision}\"}}"))
    };
    assert_eq!((decided("would_refuse"), decided("admitted"), decided("refused")), (Some(3.0), Some(0.0), Some(0.0)));
}

#[test]
fn a_watching_limit_marks_nothing_for_the_upstream() {
    let upstream = Upstream::start();
    let limit = "{algorithm: fixed, limit: 2, window: 30d, soft: 2, dry_run: true}";
    let gateway = Gateway::before(upstream.address, limit);
    let marks: Vec<_> = (0..6).map(|_| gateway.get("/").header("x-tidegate-dry-run").map(str::to_owned)).collect();
    let mark = Some("default".to_owned());
    assert_eq!(marks, [None, None, None, None, mark.clone(), mark]);
    assert!(degraded(&upstream).iter().all(Option::is_none), "{:?}", degraded(&upstream));
}

/// It would take 1000 s each.
#[test]
fn a_watching_shaper_delays_nobody() {
    let upstream = Upstream::start();
    let limit = "{algorithm: leaky, capacity: 2, fill_rate: 0.001, dry_run: true}";
    let gateway = Gateway::before(upstream.address, limit);
    let responses: Vec<_> = (0..4).map(|_| gateway.get("/")).collect();
    assert!(responses.iter().all(|response| response.status == 200));
    assert_eq!(responses[3].header("x-tidegate-dry-run"), Some("default"));
}

#[test]
fn the_status_of_a_rejection_is_set_by_its_limit() {
    let upstream = Upstream::start();
    for (status, kind) in [(503, "temporary-reduced-capacity"), (403, "quota-exceeded"), (429, "quota-exceeded")] {
        let limit = format!("{{algorithm: fixed, limit: 1, window: 30d, status: {status}}}");
        let gateway = Gateway::before(upstream.address, &limit);
        assert_eq!(gateway.get("/").status, 200);
        let rejected = gateway.get("/");
        assert_eq!((rejected.status, &rejected.json()["status"]), (status, &status.into()));
        assert!(rejected.json()["type"].as_str().is_some_and(|name| name.ends_with(kind)), "{}", rejected.text());
        assert!(rejected.header("retry-after").is_some());
        assert_eq!(limit_headers(&rejected).remaining, 0);
    }
}

#[test]
fn a_request_may_cost_more_than_one() {
    let upstream = Upstream::start();
    for numbers in [
        "algorithm: fixed, limit: 10, window: 30d",
        "algorithm: sliding, limit: 10, window: 30d",
        "algorithm: sliding_log, limit: 10, window: 30d",
        "algorithm: token, capacity: 10, fill_rate: 0.001",
        "algorithm: gcra, capacity: 10, fill_rate: 0.001",
    ] {
        let gateway = Gateway::before(upstream.address, &format!("{{{numbers}, cost: 3}}"));
        let responses: Vec<_> = (0..4).map(|_| gateway.get("/")).collect();
        let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200, 200, 429], "{numbers}");
        let remaining: Vec<u64> = responses.iter().map(|response| limit_headers(response).remaining).collect();
        assert_eq!(remaining, [7, 4, 1, 1], "{numbers}: one is left, and too little");
    }
}

/// There is no moment to come back at, so none is named.
#[test]
fn a_request_that_costs_more_than_the_limit_holds_has_no_retry_after() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, cost: 3}");
    let rejected = gateway.get("/");
    assert_eq!((rejected.status, rejected.header("retry-after")), (429, None));
    assert!(rejected.json()["retry_after"].is_null());
    assert!(
        rejected.json()["detail"].as_str().is_some_and(|detail| detail.contains("costs more")),
        "{}",
        rejected.text()
    );
    assert_eq!(upstream.count(), 0);
}

#[test]
fn accounts_are_bounded() {
    let upstream = Upstream::start();
    let limit = "{algorithm: fixed, limit: 1, window: 30d, key: \"header:x-name\", max_keys: 40}";
    let gateway = Gateway::before(upstream.address, limit);
    let mut client = Client::connect(gateway.address);
    for place in 0..400 {
        let name = format!("client-{place}");
        assert_eq!(client.request("GET", "/", &[("X-Name", &name)], b"").status, 200, "new ones are let in");
    }
    let keys = gateway.metric("tidegate_limit_keys{limit=\"default\"}").expect("it is reported");
    assert!((1.0..=40.0).contains(&keys), "{keys}");
}
