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
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nRateLimit: \"theirs\";r=7\r\nX-RateLimit-Limit: 9\r\nContent-Length: 0\r\n\r\n".into()
    });
    let trial = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, dry_run: true}");
    let answer = trial.get("/");
    assert_eq!((answer.header("ratelimit"), answer.header("x-ratelimit-limit")), (Some("\"theirs\";r=7"), Some("9")));
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
        let answers: Vec<_> = (0..6).map(|_| gateway.get("/")).collect();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{numbers}");
        let mark = Some("default".to_owned());
        assert_eq!(degraded(&upstream), [None, None, None, mark.clone(), mark], "{numbers}");
        let remaining: Vec<u64> = answers.iter().map(|answer| limit_headers(answer).remaining).collect();
        assert_eq!(remaining, [2, 1, 0, 0, 0, 0], "clients see the limit, not the excess");
        assert!(answers.iter().all(|answer| limit_headers(answer).limit == 3), "{numbers}");
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
fn a_limit_that_only_watches_counts_and_tells_and_never_refuses() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, dry_run: true}");
    let answers: Vec<_> = (0..5).map(|_| gateway.get("/")).collect();
    assert!(answers.iter().all(|answer| answer.status == 200));
    let marks: Vec<_> = answers.iter().map(|answer| answer.header("x-tidegate-dry-run")).collect();
    let mark = Some("default");
    assert_eq!(marks, [None, None, mark, mark, mark]);
    assert!(answers.iter().all(|answer| answer.header("x-ratelimit-limit").is_none()), "it limits nobody");
    let decided = |decision: &str| {
        gateway.metric(&format!("tidegate_limit_requests_total{{limit=\"default\",decision=\"{decision}\"}}"))
    };
    assert_eq!((decided("admitted"), decided("would_refuse"), decided("refused")), (Some(2.0), Some(3.0), Some(0.0)));
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"rejected\"}"), Some(0.0));
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"forwarded\"}"), Some(5.0));
    assert_eq!(gateway.get("/config/limits").json()["limits"]["default"]["dry_run"], true);
}

#[test]
fn a_watching_limit_stands_beside_one_that_refuses() {
    let upstream = Upstream::start();
    let rest = "limits:
  watching: {algorithm: fixed, limit: 1, window: 30d, dry_run: true}
  strict: {algorithm: fixed, limit: 3, window: 30d}
common_limits: [watching, strict]";
    let gateway = Gateway::start(&before(&upstream, rest));
    let answers: Vec<_> = (0..4).map(|_| gateway.get("/")).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(limit_headers(&answers[0]).states.len(), 1, "only the strict one is reported");
    assert_eq!(answers[2].header("x-tidegate-dry-run"), Some("watching"));
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
fn a_watching_limit_that_lacks_its_key_never_refuses_either() {
    let upstream = Upstream::start();
    let limit = "{algorithm: fixed, limit: 2, window: 30d, key: user, missing: refuse, dry_run: true}";
    let gateway = Gateway::before(upstream.address, limit);
    let answers: Vec<_> = (0..3).map(|_| gateway.get("/")).collect();
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert!(answers.iter().all(|answer| answer.header("x-tidegate-dry-run") == Some("default")));
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
    let answers: Vec<_> = (0..4).map(|_| gateway.get("/")).collect();
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(answers[3].header("x-tidegate-dry-run"), Some("default"));
}

#[test]
fn the_status_of_a_refusal_is_set_by_its_limit() {
    let upstream = Upstream::start();
    for (status, kind) in [(503, "temporary-reduced-capacity"), (403, "quota-exceeded"), (429, "quota-exceeded")] {
        let limit = format!("{{algorithm: fixed, limit: 1, window: 30d, status: {status}}}");
        let gateway = Gateway::before(upstream.address, &limit);
        assert_eq!(gateway.get("/").status, 200);
        let refused = gateway.get("/");
        assert_eq!((refused.status, &refused.json()["status"]), (status, &status.into()));
        assert!(refused.json()["type"].as_str().is_some_and(|name| name.ends_with(kind)), "{}", refused.text());
        assert!(refused.header("retry-after").is_some());
        assert_eq!(limit_headers(&refused).remaining, 0);
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
        let answers: Vec<_> = (0..4).map(|_| gateway.get("/")).collect();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 200, 429], "{numbers}");
        let remaining: Vec<u64> = answers.iter().map(|answer| limit_headers(answer).remaining).collect();
        assert_eq!(remaining, [7, 4, 1, 1], "{numbers}: one is left, and too little");
    }
}

/// There is no moment to come back at, so none is named.
#[test]
fn a_request_that_costs_more_than_the_limit_holds_has_no_retry_after() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 2, window: 30d, cost: 3}");
    let refused = gateway.get("/");
    assert_eq!((refused.status, refused.header("retry-after")), (429, None));
    assert!(refused.json()["retry_after"].is_null());
    assert!(
        refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("costs more")),
        "{}",
        refused.text()
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
