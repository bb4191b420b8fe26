//! A forecaster that is away, hangs or responds with nonsense: the last valid limits stay, and requests never notice.

use serde_json::{Value, json};

use crate::adaptive::forecaster::{Behaviour, Forecaster, ok, status};
use crate::adaptive::setting::{
    HUNDRED, fixed, gateway, limit, requests, send, updates, wait_for_entry, wait_for_limit, wait_for_verdict,
};
use tidegate_testkit::{Upstream, wait_until};

const UNREACHABLE: &str = "WARN AdaptiveController - AI module unreachable, continuing with last known limits";

const UNUSABLE: &str =
    "WARN AdaptiveController - AI module's response can't be used, continuing with last known limits";

#[test]
fn an_invalid_response_leaves_the_last_valid_limits() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "timeout: 300ms");
    wait_for_limit(&gateway, 120);
    let huge = format!("{{\"algorithm\": \"{}\"}}", "x".repeat(300 * 1024));
    let twice = r#"{"algorithm": "fixed", "limit": 90, "limit": 80, "window": 1}"#;
    let nan = r#"{"algorithm": "fixed", "limit": NaN, "window": 1}"#;
    for (behaviour, result, cause) in [
        (Behaviour::Closes, "unreachable", ""),
        (Behaviour::Hangs, "timeout", "no response in time"),
        (Behaviour::Writes(b"SSH-2.0-OpenSSH\r\n".to_vec()), "unreachable", ""),
        (Behaviour::Writes(status("500 Internal Server Error", "", "{}")), "bad_status", "it says 500"),
        (Behaviour::Writes(status("302 Found", "Location: http://127.0.0.1:1/\r\n", "")), "bad_status", "it says 302"),
        (Behaviour::Writes(ok("garbage")), "invalid", "not JSON"),
        (Behaviour::Writes(ok("")), "invalid", "not JSON"),
        (Behaviour::Writes(ok(nan)), "invalid", "not JSON"),
        (Behaviour::Writes(ok(twice)), "invalid", "twice"),
        (Behaviour::Writes(ok(&huge)), "invalid", "larger than 256 KiB"),
        (
            Behaviour::Writes(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"algo".to_vec()),
            "unreachable",
            "ended early",
        ),
        (Behaviour::Responses(json!([])), "invalid", "must be a JSON object"),
        (Behaviour::Responses(json!({"algorithm": "magic", "limit": 90, "window": 1})), "invalid", "magic"),
        (Behaviour::Responses(json!({"algorithm": "fixed", "limit": -90, "window": 1})), "invalid", "limit"),
        (Behaviour::Responses(json!({"algorithm": "fixed", "limit": 0, "window": 1})), "invalid", "limit"),
        (Behaviour::Responses(json!({"algorithm": "fixed", "limit": "90", "window": 1})), "invalid", "limit"),
        (
            Behaviour::Responses(json!({"algorithm": "fixed", "limit": 90, "window": 1, "validFor": 5,
            "schedule": [{"after": 3, "limit": 90}, {"after": 2, "limit": 80}]})),
            "invalid",
            "schedule[1]",
        ),
    ] {
        let before = requests(&gateway, result);
        forecaster.now(behaviour.clone());
        wait_until(&format!("{behaviour:?} is counted"), || requests(&gateway, result) > before);
        assert_eq!(limit(&gateway)["limit"], 120, "{behaviour:?}");
        if !cause.is_empty() {
            let reported = if matches!(result, "unreachable" | "timeout") { UNREACHABLE } else { UNUSABLE };
            wait_until(cause, || gateway.lines().iter().any(|line| line.contains(reported) && line.contains(cause)));
        }
        assert_eq!(send(&gateway, 3), 3);
    }
    forecaster.now_responses(fixed(110));
    wait_for_limit(&gateway, 110);
}

#[test]
fn an_outage_is_reported_once_and_after_some_misses_once_more() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "misses: 3");
    wait_for_limit(&gateway, 120);
    forecaster.now(Behaviour::Closes);
    wait_until("it is missed", || gateway.metric("tidegate_adaptive_misses") >= Some(2.0));
    assert_eq!(gateway.metric("tidegate_adaptive_stale"), Some(0.0));
    wait_until("it is missed again and again", || gateway.metric("tidegate_adaptive_misses") >= Some(5.0));
    assert_eq!(gateway.metric("tidegate_adaptive_stale"), Some(1.0));
    let count = |text: &str| gateway.lines().iter().filter(|line| line.contains(text)).count();
    assert_eq!((count(UNREACHABLE), count("no usable response of the AI module, 3 times in a row")), (1, 1));
    wait_for_entry(&gateway, "the event", |entry| entry["event"] == "stale");
    forecaster.now_responses(fixed(110));
    wait_for_limit(&gateway, 110);
    assert_eq!(
        (gateway.metric("tidegate_adaptive_misses"), gateway.metric("tidegate_adaptive_stale")),
        (Some(0.0), Some(0.0))
    );
    gateway.wait_for_line("AI module is back after");
}

/// What the alert asks for: another address, by a reload.
#[test]
fn a_reload_that_names_a_forecaster_that_responds_ends_the_alarm() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(110)));
    let gone = Forecaster::behaving(Behaviour::Closes);
    let gateway = gateway(&upstream, &gone, HUNDRED, "misses: 1");
    wait_until("it is stale", || gateway.metric("tidegate_adaptive_stale") == Some(1.0));
    let mended = crate::adaptive::setting::config(&upstream, &forecaster, HUNDRED, "misses: 1");
    std::fs::write(&gateway.config, mended).expect("the file can be written");
    gateway.signal("HUP");
    wait_for_limit(&gateway, 110);
    assert_eq!(gateway.metric("tidegate_adaptive_stale"), Some(0.0));
}

/// Nobody is there from the start: the operator's numbers are the last valid ones.
#[test]
fn without_any_response_the_operators_numbers_stay() {
    let upstream = Upstream::start();
    let forecaster = {
        let gone = Forecaster::behaving(Behaviour::Closes);
        gone.section("")
    };
    let config = format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {HUNDRED}}}\n{forecaster}",
        upstream.address
    );
    let gateway = tidegate_testkit::Gateway::start(&config);
    wait_until("it is missed", || gateway.metric("tidegate_adaptive_misses") >= Some(2.0));
    assert_eq!((&limit(&gateway)["limit"], &limit(&gateway)["set_by"]), (&json!(100), &json!("file")));
    gateway.wait_for_line(&format!("{UNREACHABLE}: connection refused"));
}

/// A forecaster that takes its time holds up nothing, not even the next second's figures.
#[test]
fn requests_do_not_wait_for_a_forecaster_that_hangs() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::behaving(Behaviour::Hangs));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "timeout: 10s");
    forecaster.wait_for_more(1);
    assert_eq!(send(&gateway, 20), 20);
    assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 50, "window": 1}"#).status, 200);
    assert_eq!(gateway.get("/config/history").status, 200);
    wait_until("seconds are still seen", || gateway.metric("tidegate_adaptive_observed_rps") == Some(0.0));
    assert_eq!(forecaster.count(), 1, "one question at a time");
}

#[test]
fn numbers_that_the_limit_can_not_have_are_rejected_whole() {
    let (upstream, forecaster) = (
        Upstream::start(),
        Forecaster::responding(json!({
        "algorithm": "leaky", "capacity": 100, "fillRate": 100, "predictedRps": 7})),
    );
    let gateway = gateway(&upstream, &forecaster, "{algorithm: fixed, limit: 100, window: 1, soft: 10}", "");
    let entry: Value = wait_for_verdict(&gateway, "refused");
    assert!(entry["reason"].as_str().is_some_and(|reason| reason.contains("leaky")), "{entry}");
    gateway.wait_for_line("WARN AdaptiveController - AI update refused: ");
    assert!(updates(&gateway, "refused") >= 1.0);
    assert_eq!(limit(&gateway)["set_by"], "file");
}
