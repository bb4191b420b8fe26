//! Guard rails: whatever is recommended, the limit stays within them.

use serde_json::json;

use crate::adaptive::forecaster::Forecaster;
use crate::adaptive::setting::{HUNDRED, fixed, gateway, limit, updates, wait_for_limit, wait_for_verdict};
use tidegate_testkit::{Upstream, wait_until};

#[test]
fn what_is_out_of_range_is_capped_and_reported() {
    for (more, recommended, expected, cap) in [
        ("ceiling: 150", json!(1e18), 150, "150 req/s (ceiling)"),
        ("step: 10", json!(1_000_000), 300, "300 req/s (ceiling)"),
        ("floor: 60", json!(1), 60, "60 req/s (floor)"),
        ("floor: 1, step: 4", json!(1), 25, "25 req/s (largest step)"),
        ("ceiling: 1000", json!(390), 300, "300 req/s (largest step)"),
        ("step: 1.5", json!(200), 150, "150 req/s (largest step)"),
    ] {
        let mut response = fixed(1);
        response["limit"] = recommended;
        let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(response));
        // One response is enough: the next would take the next step.
        let gateway = gateway(&upstream, &forecaster, HUNDRED, &format!("dwell: 1h, {more}"));
        wait_for_limit(&gateway, expected);
        gateway.wait_for_line(&format!("WARN AdaptiveController - AI provided out-of-range value, using cap {cap}"));
        let entry = wait_for_verdict(&gateway, "capped");
        assert!(entry["reason"].as_str().is_some_and(|reason| reason.contains(cap)), "{entry}");
    }
}

#[test]
fn an_update_after_the_other_goes_a_step_further() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(300)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "step: 1.5, dwell: 0s");
    wait_for_limit(&gateway, 150);
    wait_for_limit(&gateway, 225);
    wait_for_limit(&gateway, 300);
}

#[test]
fn between_two_changes_there_is_a_pause() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(fixed(110)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "dwell: 1h");
    wait_for_limit(&gateway, 110);
    forecaster.now_responses(fixed(120));
    forecaster.wait_for_more(3);
    assert_eq!((&limit(&gateway)["limit"], updates(&gateway, "applied")), (&json!(110), 1.0));
}

#[test]
fn an_algorithm_that_flips_each_time_changes_once() {
    let token = json!({"algorithm": "token", "capacity": 200, "fillRate": 80, "predictedRps": 50});
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(token.clone()));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "dwell: 0s");
    wait_until("it is a bucket", || limit(&gateway)["algorithm"] == "token");
    assert_eq!((&limit(&gateway)["capacity"], &limit(&gateway)["fillRate"]), (&json!(200), &json!(80.0)));
    gateway.wait_for_line("INFO RateLimiter - Switched rate-limiting algorithm from fixed to token");
    gateway.wait_for_line(
        "AI update applied: algorithm=token, capacity=200, fillRate=80 (was algorithm=fixed, limit=100, window=1)",
    );
    for (limit_now, rate) in [(120, 120.0), (60, 60.0)] {
        forecaster.now_responses(fixed(limit_now));
        wait_until("the rate is that of the window", || limit(&gateway)["fillRate"] == rate);
        assert_eq!(limit(&gateway)["algorithm"], "token");
        forecaster.now_responses(token.clone());
        wait_until("the bucket's own", || limit(&gateway)["fillRate"] == 80.0);
    }
    let switches = gateway.lines().iter().filter(|line| line.contains("Switched rate-limiting algorithm")).count();
    assert_eq!(switches, 1);
}

#[test]
fn without_a_pause_the_algorithm_may_change_each_time() {
    let token = json!({"algorithm": "token", "capacity": 200, "fillRate": 80});
    let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(token));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "dwell: 0s, algorithm_dwell: 0s");
    wait_until("it is a bucket", || limit(&gateway)["algorithm"] == "token");
    forecaster.now_responses(fixed(90));
    wait_until("it is a window", || limit(&gateway)["algorithm"] == "fixed");
}

#[test]
fn other_algorithms_of_the_operators_are_adapted_too() {
    for (own, response, field) in [
        (
            "{algorithm: sliding_log, limit: 100, window: 1}",
            json!({"algorithm": "sliding_log", "limit": 120, "window": 1}),
            "limit",
        ),
        (
            "{algorithm: leaky, capacity: 100, fill_rate: 100}",
            json!({"algorithm": "leaky", "capacity": 100, "fillRate": 120}),
            "fillRate",
        ),
        (
            "{algorithm: gcra, capacity: 100, fill_rate: 100}",
            json!({"algorithm": "gcra", "burst": 100, "fillRate": 120}),
            "fillRate",
        ),
        (
            "{algorithm: sliding, limit: 100, window: 1}",
            json!({"algorithm": "sliding", "limit": 120, "window": 1}),
            "limit",
        ),
    ] {
        let (upstream, forecaster) = (Upstream::start(), Forecaster::responding(response.clone()));
        let gateway = gateway(&upstream, &forecaster, own, "");
        wait_until(&format!("{own} follows"), || limit(&gateway)[field].as_f64() == Some(120.0));
        assert_eq!(forecaster.snapshots()[0]["algorithm"], response["algorithm"]);
    }
}
