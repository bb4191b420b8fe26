//! A forecaster that responds as it should: what it gets, and what becomes of its responses.

use serde_json::{Value, json};

use crate::adaptive::forecaster::Forecaster;
use crate::adaptive::setting::{
    HUNDRED, config, entries, fixed, gateway, limit, requests, send, updates, wait_for_entry, wait_for_limit,
    wait_for_verdict,
};
use tidegate_testkit::timing::are_judged;
use tidegate_testkit::{Gateway, Upstream, wait_until};

#[test]
fn a_recommendation_is_in_force_is_logged_and_is_kept() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(130)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    wait_for_limit(&gateway, 130);
    let reported = limit(&gateway);
    assert_eq!(
        (&reported["set_by"], &reported["base"]),
        (&json!("adaptive"), &json!({"algorithm": "fixed", "limit": 100, "window": 1}))
    );
    assert_eq!(gateway.metric("ratelimiter_current_limit"), Some(130.0));
    assert_eq!(gateway.metric("tidegate_adaptive_base_rps"), Some(100.0));
    assert_eq!(gateway.metric("tidegate_adaptive_predicted_rps"), Some(130.0));
    assert_eq!(gateway.metric("tidegate_adaptive_mode{mode=\"on\"}"), Some(1.0));
    assert!(gateway.wait_for_line("AI request sent (interval 1 s)").contains(" INFO AdaptiveController - "));
    gateway.wait_for_line(
        "INFO AdaptiveController - AI update applied: algorithm=fixed, limit from 100 to 130, window=1, reason: \
         forecast=130 req/s",
    );
    let entry = wait_for_verdict(&gateway, "applied");
    assert_eq!((&entry["from"]["limit"], &entry["to"]["limit"]), (&json!(100), &json!(130)), "{entry}");
    assert_eq!(entry["recommendation"], fixed(130));
    assert!(entry["observed"]["observedRps"].is_number() && entry["timestamp"].is_number(), "{entry}");
    // What says the same again is kept and counted, but not logged.
    wait_for_verdict(&gateway, "unchanged");
    assert!(updates(&gateway, "applied") == 1.0 && requests(&gateway, "ok") >= 2.0);
    assert_eq!(gateway.lines().iter().filter(|line| line.contains("AI update")).count(), 1);
}

#[test]
fn the_forecaster_gets_what_the_contract_says() {
    let upstream = Upstream::responding(|received| {
        let status = if received.line.contains("/bad") { "503 Service Unavailable" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    let forecaster = Forecaster::responding(json!({"algorithm": "fixed", "limit": 5, "window": 2_592_000}));
    let gateway = gateway(
        &upstream,
        &forecaster,
        "{algorithm: fixed, limit: 5, window: 30d}",
        "ceiling: 500, floor: 0.00001, step: 1000",
    );
    forecaster.wait_for_more(1);
    assert_eq!(send(&gateway, 4), 4);
    assert_eq!(gateway.get("/bad").status, 503);
    assert_eq!(send(&gateway, 5), 0);
    let offered = || -> u64 {
        let of = |snapshot: &Value| -> u64 {
            snapshot["series"]["offered"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
        };
        forecaster.snapshots().iter().map(of).sum()
    };
    wait_until("all were told", || offered() >= 10);
    assert_eq!(offered(), 10, "each once");
    let snapshots = forecaster.snapshots();
    let busy: Vec<&Value> = snapshots.iter().filter(|snapshot| snapshot["observedRps"].as_f64() > Some(0.0)).collect();
    let errors: u64 = snapshots.iter().filter_map(|snapshot| snapshot["errors5xx"].as_u64()).sum();
    assert_eq!(errors, 1);
    assert!(busy.iter().any(|snapshot| snapshot["rejectedRate"].as_f64() > Some(0.2)), "{busy:?}");
    assert!(busy.iter().any(|snapshot| snapshot["latencyP95"].as_f64() > Some(0.0)), "{busy:?}");
    let first = &snapshots[0];
    assert_eq!(
        (&first["algorithm"], &first["limit"], &first["window"]),
        (&json!("fixed"), &json!(5), &json!(2_592_000))
    );
    for null in ["capacity", "fillRate", "latencyP95"] {
        assert!(first.get(null).is_some_and(Value::is_null), "{null}: {first}");
    }
    assert_eq!((&first["interval"], &first["ceilingRps"]), (&json!(1.0), &json!(500.0)));
    assert_eq!(first["base"], json!({"algorithm": "fixed", "limit": 5, "window": 2_592_000}));
    let question = &forecaster.questions()[0];
    assert_eq!(question.line, "POST /v1/limit-config HTTP/1.1");
    assert_eq!(question.header("content-type"), Some("application/json"));
    // Whole seconds that lie before the moment of the snapshot, one after the other.
    for pair in snapshots.windows(2) {
        let start = |snapshot: &Value| snapshot["series"]["start"].as_u64().expect("a start");
        let count = |snapshot: &Value| snapshot["series"]["offered"].as_array().expect("a list").len() as u64;
        assert_eq!(start(&pair[0]) + count(&pair[0]), start(&pair[1]), "{pair:?}");
        let at = pair[1]["timestamp"].as_f64().expect("a time") as u64;
        assert!(start(&pair[1]) + count(&pair[1]) <= at, "{pair:?}");
    }
}

/// Limits would otherwise be lowered because of what breakers and bulkheads reject, and because a failure is repeated.
#[test]
fn what_policies_reject_and_repeat_is_no_error_of_the_upstream() {
    let upstream = Upstream::responding(|_| b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec());
    let forecaster = Forecaster::responding(fixed(100));
    let policy = "policies: {p: {retry: {attempts: 2, base: 0s}, breaker: {consecutive: 3, open: 1h}}}\n";
    let text = config(&upstream, &forecaster, HUNDRED, "").replace("\"}}\nlimits", "\", policy: p}}\nlimits");
    let gateway = Gateway::start(&format!("{policy}{text}"));
    forecaster.wait_for_more(1);
    // Two attempts, one that opens the breaker, and then none.
    assert_eq!(send(&gateway, 22), 0);
    assert_eq!(upstream.count(), 3);
    let sum = |of: &dyn Fn(&Value) -> u64| forecaster.snapshots().iter().map(of).sum::<u64>();
    let offered = |snapshot: &Value| -> u64 {
        snapshot["series"]["offered"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
    };
    wait_until("all were reported", || sum(&offered) >= 22);
    let errors = sum(&|snapshot| snapshot["errors5xx"].as_u64().unwrap_or_default());
    assert_eq!((sum(&offered), errors), (22, 2), "the first attempts, each once");
}

/// One forecaster, several gateways: each series is told apart, and found again after a restart.
#[test]
fn gateways_that_do_not_share_a_limit_have_a_series_each() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(100)));
    let source_of = |gateway: &tidegate_testkit::Gateway| {
        wait_until("it is asked", || requests(gateway, "ok") >= 1.0);
        forecaster.last()["source"].as_str().expect("a name").to_owned()
    };
    let first = gateway(&upstream, &forecaster, HUNDRED, "");
    let name = source_of(&first);
    let port = first.address.port();
    assert!(name.ends_with(&format!(":{port}/default")) && !name.starts_with(':'), "machine, port and limit: {name}");
    drop(first);
    let given = gateway(&upstream, &forecaster, HUNDRED, "source: shop");
    assert_eq!(source_of(&given), "shop");
    drop(given);
    let server = tidegate_testkit::redis_server::Server::start();
    let shared = tidegate_testkit::Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nredis: {{url: \"{}\", namespace: shop}}\n\
         limits: {{default: {HUNDRED}}}\n{}",
        upstream.address,
        server.url(),
        forecaster.section("")
    ));
    let place = server.url().replace("redis://", "");
    assert_eq!(source_of(&shared), format!("{}/shop/default", place.trim_end_matches('/')));
}

/// Seconds that the forecaster has not got are sent with the next question.
#[test]
fn what_a_snapshot_without_a_response_had_is_sent_again() {
    let (upstream, forecaster) =
        (Upstream::start(), Forecaster::behaving(crate::adaptive::forecaster::Behaviour::Closes));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    forecaster.wait_for_more(1);
    send(&gateway, 7);
    let reported = |snapshot: &Value| -> u64 {
        snapshot["series"]["offered"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
    };
    wait_until("it is told again", || {
        forecaster.snapshots().iter().filter(|snapshot| reported(snapshot) == 7).count() >= 2
    });
}

#[test]
fn steps_come_at_their_times_and_the_operators_numbers_return_in_the_end() {
    let (upstream, forecaster) = (
        Upstream::start(),
        Forecaster::responding(json!({
        "algorithm": "fixed", "limit": 100, "window": 1, "predictedRps": 200, "validFor": 3, "reason": "a spike",
        "schedule": [{"after": 0.5, "limit": 150}, {"after": 1.75, "limit": 200}]})),
    );
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "dwell: 100ms");
    forecaster.wait_for_more(1);
    forecaster.now(crate::adaptive::forecaster::Behaviour::Closes);
    let to = |limit: u64| wait_for_entry(&gateway, &format!("to {limit}"), |entry| entry["to"]["limit"] == limit);
    let asked = forecaster.snapshots()[0]["timestamp"].as_f64().expect("a time");
    let (first, second) = (to(150), to(200));
    let reverted = wait_for_verdict(&gateway, "reverted");
    for (entry, after) in [(&first, 0.5), (&second, 1.75), (&reverted, 3.0)] {
        let late = entry["timestamp"].as_f64().expect("a time") - asked - after;
        assert!(late >= 0.0, "{late} s late: {entry}");
        // A tenth of a second is promised; the rest allows for other work on the machine.
        assert!(late < 0.5 || !are_judged(), "{late} s late: {entry}");
    }
    assert_eq!((&reverted["from"]["limit"], &reverted["to"]["limit"]), (&json!(200), &json!(100)));
    wait_until("the operator's numbers are in force", || limit(&gateway)["set_by"] == "file");
    gateway.wait_for_line("reason: forecast=200 req/s (a spike)");
    gateway.wait_for_line("limit from 200 to 100, window=1, reason: the recommendation has run out");
}

/// Without a schedule the end of `validFor` reverts nothing.
#[test]
fn what_has_no_schedule_stays_when_nothing_follows() {
    let mut response = fixed(120);
    response["validFor"] = json!(0.5);
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(response));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "misses: 2");
    wait_for_limit(&gateway, 120);
    forecaster.now(crate::adaptive::forecaster::Behaviour::Closes);
    wait_until("it is missed", || gateway.metric("tidegate_adaptive_stale") == Some(1.0));
    assert_eq!(limit(&gateway)["limit"], 120);
}

#[test]
fn after_a_schedule_the_numbers_of_the_last_plain_recommendation_return() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(120)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    wait_for_limit(&gateway, 120);
    forecaster.now_responses(json!({"algorithm": "fixed", "limit": 150, "window": 1, "validFor": 1.5,
        "schedule": [{"after": 0.2, "limit": 150}]}));
    wait_for_limit(&gateway, 150);
    forecaster.now(crate::adaptive::forecaster::Behaviour::Closes);
    wait_for_limit(&gateway, 120);
    assert_eq!(limit(&gateway)["set_by"], "adaptive");
}

#[test]
fn the_error_of_a_forecast_is_known_when_its_time_is_over() {
    let mut response = fixed(100);
    response["validFor"] = json!(1);
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(response));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "");
    // Nothing comes: a hundred times the least that counts was predicted too much.
    wait_until("it is judged", || gateway.metric("tidegate_adaptive_forecast_error_ratio") == Some(100.0));
    assert_eq!(gateway.metric("tidegate_adaptive_observed_rps"), Some(0.0));
}

#[test]
fn the_history_is_bounded() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(110)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "history: 2");
    wait_until("more was decided", || updates(&gateway, "unchanged") >= 3.0);
    let entries = entries(&gateway);
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry["verdict"] == "unchanged"), "the oldest is gone: {entries:?}");
}

/// What was counted under the numbers before stays counted (a change keeps counts).
#[test]
fn a_change_forgets_nothing_that_was_used() {
    let (upstream, forecaster) =
        (Upstream::start(), Forecaster::behaving(crate::adaptive::forecaster::Behaviour::Closes));
    let season = 2_592_000;
    let gateway = gateway(&upstream, &forecaster, "{algorithm: fixed, limit: 10, window: 30d}", "floor: 0.00001");
    assert_eq!(send(&gateway, 6), 6);
    forecaster.now_responses(json!({"algorithm": "fixed", "limit": 20, "window": season}));
    wait_for_limit(&gateway, 20);
    assert_eq!(send(&gateway, 20), 14);
}
