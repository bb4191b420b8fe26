//! Faults: each does what it says, bad ones change nothing, nobody's page can switch them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::target::setting::{asking, faults, responded, switch, target, wait_for_standing};
use tidegate_testkit::{request, wait_until};

#[test]
fn responses_are_errors_instead_of_ok_until_they_are_lifted() {
    let target = target(&["--service-time", "0"]);
    for (fault, status) in [
        (r#"{"errors": 1}"#, 500),
        (r#"{"errors": 1, "errorStatus": 503}"#, 503),
        (r#"{"errorStatus": 418}"#, 418),
        (r#"{"errors": 0, "errorStatus": 503}"#, 200),
    ] {
        switch(&target, fault);
        assert_eq!(target.get("/api/test").status, status, "{fault}");
        assert_eq!(target.get("/actuator/health").status, 200);
    }
    switch(&target, r#"{"errors": 1}"#);
    switch(&target, "{}");
    assert_eq!(target.get("/api/test").status, 200, "POST {{}} lifts all");
    switch(&target, r#"{"errors": 1}"#);
    assert_eq!(faults(&target, "DELETE", "").status, 200);
    assert_eq!(target.get("/api/test").status, 200, "DELETE lifts all");
}

#[test]
fn a_share_of_errors_is_a_share() {
    let target = target(&["--service-time", "0"]);
    switch(&target, r#"{"errors": 0.25}"#);
    let mut client = tidegate_testkit::Client::connect(target.address);
    let failed = (0..1_000).filter(|_| client.request("GET", "/api/test", &[], b"").status == 500).count();
    // Five standard deviations; and the seed is always the same.
    assert!(failed.abs_diff(250) < 69, "{failed}");
    assert_eq!(responded(&target, 500) + responded(&target, 200), 1_000.0);
}

#[test]
fn slowness_and_delay_lengthen_services() {
    let target = target(&["--service-time", "10ms"]);
    for (fault, least) in [
        (r#"{"slowness": {"factor": 12}}"#, 120),
        (r#"{"delay": 0.1}"#, 110),
        (r#"{"slowness": {"factor": 5}, "delay": 0.1}"#, 150),
    ] {
        switch(&target, fault);
        let began = Instant::now();
        assert_eq!(target.get("/api/test").status, 200);
        assert!(began.elapsed() >= Duration::from_millis(least), "{fault}");
    }
}

#[test]
fn while_it_hangs_nobody_gets_a_response_and_then_everybody_does() {
    let target = target(&["--service-time", "100ms", "--workers", "1", "--queue", "1"]);
    let mut under_way = asking(&target);
    wait_for_standing(&target, 1.0, 0.0);
    switch(&target, r#"{"hang": true}"#);
    let mut queued = asking(&target);
    wait_for_standing(&target, 1.0, 1.0);
    let mut rejected = asking(&target);
    wait_until("refused", || target.metric("target_refused_requests_total") == Some(1.0));
    assert_eq!(target.metric("target_fault_active{fault=\"hang\"}"), Some(1.0));
    assert_eq!(target.get("/actuator/health").json()["faults"], true, "health answers");
    assert_eq!(responded(&target, 200) + responded(&target, 503), 0.0);
    assert_eq!(faults(&target, "DELETE", "").json()["hang"], false);
    assert_eq!((under_way.response().status, queued.response().status, rejected.response().status), (200, 200, 503));
    assert_eq!(target.metric("target_fault_active{fault=\"hang\"}"), Some(0.0));
}

#[test]
fn a_fault_with_an_end_lifts_itself() {
    let target = target(&["--service-time", "0"]);
    let began = Instant::now();
    switch(&target, r#"{"hang": true, "for": 0.3}"#);
    let left = faults(&target, "GET", "").json()["for"].as_f64();
    assert!(left.is_none_or(|left| left <= 0.3), "{left:?}");
    assert_eq!(target.get("/api/test").status, 200);
    assert!(began.elapsed() >= Duration::from_millis(300), "not before");
    assert_eq!(faults(&target, "GET", "").json(), nothing());
    switch(&target, r#"{"errors": 1, "for": 0.05}"#);
    wait_until("no errors any more", || target.get("/api/test").status == 200);
    assert_eq!(target.metric("target_fault_active{fault=\"errors\"}"), Some(0.0));
}

#[test]
fn another_fault_ends_a_hang_and_its_end() {
    let target = target(&["--service-time", "0"]);
    switch(&target, r#"{"hang": true, "for": 3600}"#);
    let mut hanging = asking(&target);
    wait_for_standing(&target, 1.0, 0.0);
    switch(&target, r#"{"delay": 0.001}"#);
    assert_eq!(hanging.response().status, 200);
    assert!(faults(&target, "GET", "").json().get("for").is_none());
}

fn nothing() -> serde_json::Value {
    json!({ "errors": 0.0, "errorStatus": 500, "slowness": { "factor": 1.0 }, "delay": 0.0, "hang": false })
}

#[test]
fn what_is_on_is_shown_and_can_be_sent_back() {
    let target = target(&[]);
    assert_eq!(faults(&target, "GET", "").json(), nothing());
    let expected = json!({
        "errors": 0.5, "errorStatus": 502, "slowness": { "factor": 2.0 }, "delay": 0.25, "hang": true
    });
    assert_eq!(faults(&target, "POST", &expected.to_string()).json(), expected);
    let shown = faults(&target, "GET", "").json();
    assert_eq!(shown, expected);
    switch(&target, &shown.to_string());
    for fault in ["errors", "slowness", "delay", "hang"] {
        assert_eq!(target.metric(&format!("target_fault_active{{fault=\"{fault}\"}}")), Some(1.0));
    }
}

#[test]
fn bad_faults_are_rejected_and_change_nothing() {
    let target = target(&["--service-time", "0"]);
    switch(&target, r#"{"errorStatus": 507}"#);
    for (body, path, allowed) in [
        ("", "", "invalid JSON"),
        ("[1]", "", "must be an object"),
        (r#"{"errors": NaN}"#, "", "invalid JSON"),
        (r#"{"errors": 1e999}"#, "", "invalid JSON"),
        (r#"{"errors": 0, "errors": 0}"#, "", "there twice"),
        (r#"{"errors": 1.5}"#, "errors", "must be a share from 0 to 1"),
        (r#"{"errorStatus": 204}"#, "errorStatus", "must be a status from 400 to 599, got 204"),
        (r#"{"slowness": 3}"#, "slowness", "must be an object"),
        (r#"{"slowness": {"factor": 1001}}"#, "slowness.factor", "must be a factor from 1 to 1000"),
        (r#"{"delay": -0.1}"#, "delay", "must be seconds from 0 to 3600"),
        (r#"{"hang": "yes"}"#, "hang", "must be true or false"),
        (r#"{"hang": true, "for": 86401}"#, "for", "must be seconds from 0.001 to 86400"),
        (r#"{"for": 1}"#, "for", "must come with a fault"),
        (r#"{"error": 1}"#, "error", "is unknown; known fields: errorStatus, errors, slowness, delay, hang, for"),
    ] {
        let response = faults(&target, "POST", body);
        assert_eq!(response.status, 400, "{body}");
        let problem = &response.json()["problems"][0];
        assert_eq!(problem["path"], path, "{body}: {problem}");
        assert!(problem["message"].as_str().is_some_and(|text| text.contains(allowed)), "{body}: {problem}");
        assert_eq!(target.get("/api/test").status, 507, "{body}");
    }
    let put = faults(&target, "PUT", "{}");
    assert_eq!((put.status, put.header("allow")), (405, Some("GET, HEAD, POST, DELETE")));
    let large = faults(&target, "POST", &" ".repeat(70_000));
    assert_eq!(large.status, 413);
}

#[test]
fn pages_in_a_browser_cannot_switch_faults() {
    let target = target(&[]);
    for method in ["POST", "DELETE"] {
        for header in [("origin", "http://localhost"), ("sec-fetch-site", "cross-site")] {
            let headers = [("host", "localhost"), header];
            assert_eq!(request(target.address, method, "/faults", &headers, b"{}").status, 403, "{header:?}");
        }
        assert_eq!(request(target.address, method, "/faults", &[("host", "evil.example")], b"{}").status, 403);
    }
    assert_eq!(faults(&target, "GET", "").json(), nothing());
}

#[test]
fn errors_are_reported_together_and_ordinary_service_is_not() {
    let mut target = target(&["--service-time", "0"]);
    for _ in 0..50 {
        target.get("/api/test");
    }
    switch(&target, r#"{"errors": 1}"#);
    for _ in 0..50 {
        target.get("/api/test");
    }
    target.signal("TERM");
    assert!(target.wait_for_end());
    let reported = "ERROR Target - requests failed because of a fault: ";
    let counts = || -> u32 {
        let lines = target.lines();
        lines.iter().filter_map(|line| line.split_once(reported)?.1.parse::<u32>().ok()).sum()
    };
    wait_until("all are told", || counts() == 50);
    let lines = target.lines();
    assert!(lines.len() <= 5, "{lines:#?}");
    assert!(lines[1].contains("WARN Target - faults: {"), "{lines:#?}");
}
