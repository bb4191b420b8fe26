//! Whose word counts: the operator's, always. And how adaptation is switched.

use std::fs;

use serde_json::json;

use crate::adaptive::forecaster::{Behaviour, Forecaster};
use crate::adaptive::setting::{
    HUNDRED, config, entries, fixed, gateway, limit, updates, wait_for_entry, wait_for_limit, wait_for_verdict,
};
use tidegate_testkit::{Directory, Gateway, Upstream, text, tidegate, wait_until};

#[test]
fn what_an_operator_sets_ends_what_was_adapted() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    for (method, path, body, number, set_by) in [
        ("POST", "/config/limits", r#"{"algorithm": "fixed", "limit": 80, "window": 1}"#, 80, "api"),
        ("POST", "/config/limits/default", r#"{"algorithm": "fixed", "limit": 80, "window": 1}"#, 80, "api"),
        ("POST", "/config/algorithm?algorithm=sliding", "", 80, "api"),
        ("DELETE", "/config/limits/default", "", 100, "file"),
        ("POST", "/reload", "", 100, "file"),
    ] {
        forecaster.now_responses(fixed(120));
        wait_until("it is adapted", || limit(&gateway)["set_by"] == "adaptive");
        forecaster.now(Behaviour::Closes);
        // What is under way is over, so that nothing comes after.
        forecaster.wait_for_more(2);
        let response = tidegate_testkit::request(gateway.address, method, path, &[], body.as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
        let now = limit(&gateway);
        assert_eq!((&now["limit"], &now["set_by"]), (&json!(number), &json!(set_by)), "{method} {path}");
        assert!(now.get("base").is_none(), "{now}");
        wait_for_entry(&gateway, "it is recorded", |entry| {
            entry["event"] == "rebased" && entry["to"]["limit"] == number
        });
    }
}

#[test]
fn what_was_read_while_it_is_adapted_can_be_sent_back() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    wait_for_limit(&gateway, 120);
    let response = gateway.post("/config/limits/default", &limit(&gateway).to_string());
    assert_eq!(response.status, 200, "{}", response.text());
}

#[test]
fn the_snapshots_base_is_what_the_operator_set_last() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    wait_for_limit(&gateway, 120);
    wait_until("it is told of what is in force", || forecaster.last()["limit"] == 120);
    assert_eq!(forecaster.last()["base"]["limit"], 100);
    gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 90, "window": 1}"#);
    wait_until("it is told of the new base", || forecaster.last()["base"]["limit"] == 90);
    wait_for_limit(&gateway, 120);
}

#[test]
fn a_limit_that_becomes_one_without_a_rate_is_left_alone() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    wait_for_limit(&gateway, 120);
    assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "concurrency", "limit": 7}"#).status, 200);
    gateway.wait_for_line("WARN AdaptiveController - limit `default` is not adapted while it is `concurrency`");
    assert_eq!(limit(&gateway)["limit"], 7);
    assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 70, "window": 1}"#).status, 200);
    wait_for_limit(&gateway, 120);
}

#[test]
fn in_the_shadow_everything_is_recorded_and_nothing_changed() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "mode: shadow");
    let entry = wait_for_verdict(&gateway, "shadow");
    assert_eq!((&entry["from"]["limit"], &entry["to"]["limit"]), (&json!(100), &json!(120)));
    gateway.wait_for_line(
        "AI update not applied (shadow): algorithm=fixed, limit from 100 to 120, window=1, reason: forecast=120 req/s",
    );
    assert_eq!((&limit(&gateway)["limit"], &limit(&gateway)["set_by"]), (&json!(100), &json!("file")));
    assert!(updates(&gateway, "shadow") >= 1.0 && updates(&gateway, "applied") == 0.0);
    assert_eq!(gateway.metric("tidegate_adaptive_mode{mode=\"shadow\"}"), Some(1.0));
    assert_eq!(forecaster.last()["limit"], 100);
}

fn start(upstream: &Upstream, environment: &[(&str, &str)], flags: &[&str]) -> Gateway {
    let config =
        format!("upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {HUNDRED}}}\n", upstream.address);
    Gateway::start_with(&config, |command| {
        command.envs(environment.iter().copied()).args(flags);
    })
}

#[test]
fn environment_and_flags_switch_it_on_and_off() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let url = format!("http://{}", forecaster.address());
    let each_second = ("ADAPTIVE_UPDATE_INTERVAL", "1");
    for (environment, flags) in [
        (vec![("FORECASTER_URL", url.as_str())], vec![]),
        (vec![("FORECASTER_URL", url.as_str()), ("ADAPTIVE_MODE", "true")], vec![]),
        (vec![("FORECASTER_URL", "http://127.0.0.1:1")], vec!["--forecaster", url.as_str()]),
    ] {
        let gateway = start(&upstream, &[&environment[..], &[each_second]].concat(), &flags);
        wait_for_limit(&gateway, 120);
        assert!(gateway.wait_for_line(" starts; ").contains("adaptation: on, limit default, every 1 s"));
    }
    let shadow = start(&upstream, &[("FORECASTER_URL", &url), ("ADAPTIVE_MODE", "shadow"), each_second], &[]);
    wait_for_verdict(&shadow, "shadow");
    let before = forecaster.count();
    for environment in [vec![("FORECASTER_URL", url.as_str()), ("ADAPTIVE_MODE", "false")], vec![]] {
        let off = start(&upstream, &[&environment[..], &[each_second]].concat(), &[]);
        assert_eq!(off.get("/config/history").json(), json!({"mode": "off", "limit": null, "entries": []}));
        assert_eq!(off.metric("tidegate_adaptive_mode{mode=\"off\"}"), Some(1.0));
        assert_eq!(off.metric("tidegate_adaptive_misses"), None);
        assert!(!off.wait_for_line(" starts; ").contains("adaptation"));
    }
    drop(shadow);
    assert!(forecaster.count() - before < 10, "those that are off did not ask");
    let lonely = start(&upstream, &[("ADAPTIVE_MODE", "true")], &[]);
    lonely.wait_for_line(
        "WARN ConfigController - adaptive.mode: has no effect without `adaptive.forecaster`: nothing is adapted",
    );
}

#[test]
fn a_reload_switches_it_on_and_off_and_to_other_settings() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let on = config(&upstream, &forecaster, HUNDRED, "");
    let without = on.split("adaptive:").next().expect("a beginning").to_owned();
    let gateway = Gateway::start(&without);
    let reload = |config: &str| {
        fs::write(&gateway.config, config).expect("the file can be written");
        let response = gateway.post("/reload", "");
        assert_eq!(response.status, 200, "{}", response.text());
    };
    reload(&on);
    wait_for_limit(&gateway, 120);
    reload(&config(&upstream, &forecaster, HUNDRED, "ceiling: 105"));
    wait_for_limit(&gateway, 105);
    reload(&without);
    assert_eq!((&limit(&gateway)["limit"], &limit(&gateway)["set_by"]), (&json!(100), &json!("file")));
    let count = forecaster.count();
    reload(&without);
    assert_eq!(gateway.metric("tidegate_adaptive_mode{mode=\"off\"}"), Some(1.0));
    assert!(forecaster.count() <= count + 1, "at most what was under way");
    assert!(!entries(&gateway).is_empty(), "what happened stays");
}

#[test]
fn another_limit_can_be_the_one_that_is_adapted() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let section = forecaster.section("limit: total");
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {HUNDRED}, total: {HUNDRED}}}\n\
         common_limits: [default, total]\n{section}",
        upstream.address
    ));
    wait_until("it follows", || gateway.get("/config/limits/total").json()["limit"] == 120);
    assert_eq!(limit(&gateway)["limit"], 100);
    assert!(forecaster.last()["source"].as_str().is_some_and(|source| source.ends_with("/total")));
    gateway.wait_for_line("reason: forecast=120 req/s (limit `total`)");
    // Another limit's numbers are none of its business.
    assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 50, "window": 1}"#).status, 200);
    assert_eq!(gateway.get("/config/limits/total").json()["set_by"], "adaptive");
}

#[test]
fn the_history_is_as_protected_as_the_limits() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let config = config(&upstream, &forecaster, HUNDRED, "") + "admin: {token: \"0123456789abcdef\"}\n";
    let gateway = Gateway::start(&config);
    assert_eq!(gateway.get("/config/history").status, 401);
    let token = [("Authorization", "Bearer 0123456789abcdef")];
    assert_eq!(gateway.get_with("/config/history", &token).status, 200);
    let post = tidegate_testkit::request(gateway.address, "POST", "/config/history", &token, b"");
    assert_eq!((post.status, post.header("allow")), (405, Some("GET")));
}

#[test]
fn what_can_not_be_adapted_is_rejected_with_its_path() {
    let directory = Directory::new();
    let with = |limit: &str, adaptive: &str| {
        format!("limits: {{default: {limit}}}\nadaptive: {{forecaster: \"http://127.0.0.1:8090\", {adaptive}}}\n")
    };
    for (config, path, word) in [
        (with("{algorithm: fixed, limit: 5, window: 1, key: ip}", ""), "adaptive.limit", "global"),
        (with("{algorithm: concurrency, limit: 5}", ""), "adaptive.limit", "concurrency"),
        (with("{algorithm: fixed, limit: 5, window: 1, dry_run: true}", ""), "adaptive.limit", "dry_run"),
        (with("{algorithm: fixed, limit: 5, window: 1, cost: 2}", ""), "adaptive.limit", "cost"),
        (
            with("{algorithm: fixed, limit: 5, window: 1, tiers: {pro: {limit: 9, window: 1}}}", ""),
            "adaptive.limit",
            "tiers",
        ),
        (with(HUNDRED, "limit: other"), "adaptive.limit", "unknown limit \"other\"; known limits: default"),
        (with(HUNDRED, "interval: 0.5"), "adaptive.interval", "must be between 1s and 1h, got \"500ms\""),
        (with(HUNDRED, "interval: 2h"), "adaptive.interval", "must be between 1s and 1h, got \"2h\""),
        (with(HUNDRED, "source: ''"), "adaptive.source", "1 to 200 bytes"),
        (with(HUNDRED, &format!("source: {}", "x".repeat(201))), "adaptive.source", "got 201 bytes"),
        (with(HUNDRED, r#"source: "a\nb""#), "adaptive.source", "control"),
        (with(HUNDRED, "timeout: 1ms"), "adaptive.timeout", "must be between 20ms and 1m, got \"1ms\""),
        (with(HUNDRED, "ceiling: 0"), "adaptive.ceiling", "must be between 0.00001 and 1000000000, got 0"),
        (with(HUNDRED, "ceiling: .nan"), "adaptive.ceiling", "NaN"),
        (with(HUNDRED, "floor: -1"), "adaptive.floor", "got -1"),
        (
            with(HUNDRED, "floor: 50, ceiling: 40"),
            "adaptive.floor",
            "must be at most `adaptive.ceiling`, which is 40, got 50",
        ),
        (with(HUNDRED, "step: 1"), "adaptive.step", "must be between 1.01 and 1000, got 1"),
        (with(HUNDRED, "dwell: 2h"), "adaptive.dwell", "must be between 0s and 1h, got \"2h\""),
        (with(HUNDRED, "algorithm_dwell: 2d"), "adaptive.algorithm_dwell", "must be between 0s and 1d, got \"2d\""),
        (with(HUNDRED, "latency: 0"), "adaptive.latency", "got \"0s\""),
        (with(HUNDRED, "errors: 1.5"), "adaptive.errors", "must be between 0 and 1, got 1.5"),
        (with(HUNDRED, "misses: 0"), "adaptive.misses", "must be between 1 and 1000, got 0"),
        (with(HUNDRED, "history: 0"), "adaptive.history", "must be between 1 and 10000, got 0"),
        (with(HUNDRED, "ca: /nowhere.pem"), "adaptive.forecaster", "https"),
        (
            "adaptive: {forecaster: \"127.0.0.1:8090\"}\n".to_owned(),
            "adaptive.forecaster",
            "must be http://host[:port] or https://host[:port], got \"127.0.0.1:8090\"",
        ),
        ("adaptive: {forecaster: \"https://a.example\", ca: /nowhere.pem}\n".to_owned(), "adaptive.ca", "nowhere"),
        ("adaptive: {forecaster: \"http://u:secret@a.example\"}\n".to_owned(), "adaptive.forecaster", "user"),
    ] {
        let file = directory.file("gateway.yaml", &config);
        let output = tidegate().args(["check", &text(&file)]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{config}");
        let line = said.lines().find(|line| line.contains(&format!("{path}:")));
        assert!(line.is_some_and(|line| line.contains(word)), "{config}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
    // Off, nothing of it matters.
    let off = with("{algorithm: fixed, limit: 5, window: 1, key: ip}", "mode: off");
    let output = tidegate().args(["check", &text(&directory.file("gateway.yaml", &off))]).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}
