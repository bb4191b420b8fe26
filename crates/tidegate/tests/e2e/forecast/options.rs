//! Every option, and what is there without it.

use std::net::TcpListener;

use serde_json::json;

use crate::forecast::forecaster::{Forecaster, START, limit_after, spikes, with_series};
use tidegate_testkit::command::run;
use tidegate_testkit::tidegate;

#[test]
fn capacity_bounds_what_is_advised() {
    for (arguments, highest) in [(&["--capacity", "180"][..], 180.0), (&["--capacity", "1000"], 290.0)] {
        let forecaster = Forecaster::start(arguments);
        let advice = forecaster.tell(&spikes(90));
        let most = (0..60).map(|second| limit_after(&advice, f64::from(second))).fold(0.0, f64::max);
        assert!(most <= highest && most > highest * 0.8, "{arguments:?}: {most} {advice}");
    }
}

#[test]
fn without_a_capacity_it_is_learnt_from_how_the_target_responds() {
    let forecaster = Forecaster::start(&[]);
    let reported = |place: i64, latency: f64, errors: u64, offered: u64| {
        let mut snapshot = with_series(START + 5 * place, &[offered; 5]);
        (snapshot["latencyP95"], snapshot["errors5xx"]) = (json!(latency), json!(errors));
        forecaster.advice(&snapshot)
    };
    for place in 0..10 {
        reported(place, 0.005, 0, 80);
    }
    assert_eq!(forecaster.0.metric("forecast_capacity_rps"), None, "nothing is known while all is well");
    reported(10, 0.2, 30, 150);
    let learnt = forecaster.0.metric("forecast_capacity_rps").expect("learnt");
    assert!((100.0..150.0).contains(&learnt), "{learnt}");
    // More is asked for, but the limit holds it back: nothing is learnt from that.
    let mut crowd = with_series(START + 55, &[300; 5]);
    (crowd["latencyP95"], crowd["rejectedRate"]) = (json!(0.005), json!(0.7));
    let advice = forecaster.advice(&crowd);
    assert!((100.0..150.0).contains(&limit_after(&advice, 1.0)), "{advice}");
}

/// A gateway whose snapshot got no response sends the same errors again, with all the seconds that they came in.
#[test]
fn errors_count_by_the_time_in_which_they_came() {
    let forecaster = Forecaster::start(&[]);
    for place in 0..10 {
        let mut well = with_series(START + 5 * place, &[60; 5]);
        well["latencyP95"] = json!(0.005);
        forecaster.advice(&well);
    }
    // 50 errors in 30 s of 60 requests are 3 %; sent twice, the second time with a second more.
    for seconds in [30, 31, 31] {
        let mut reported = with_series(START + 50, &vec![60; seconds]);
        (reported["latencyP95"], reported["errors5xx"]) = (json!(0.005), json!(50));
        forecaster.advice(&reported);
    }
    assert_eq!(forecaster.0.metric("forecast_capacity_rps"), None);
}

#[test]
fn floor_is_the_least_that_is_advised() {
    for (arguments, limit) in [(&["--floor", "45", "--capacity", "50"][..], 2700), (&["--capacity", "50"], 2400)] {
        let forecaster = Forecaster::start(arguments);
        // More than it bears is expected: tightened to 80 % of that, but for the floor.
        let mut advice = json!(null);
        for place in 0..10 {
            let mut snapshot = with_series(START + 5 * place, &[120; 5]);
            (snapshot["algorithm"], snapshot["limit"], snapshot["window"]) = (json!("sliding"), json!(6000), json!(60));
            advice = forecaster.advice(&snapshot);
        }
        assert_eq!(advice["limit"], json!(limit), "{arguments:?}: {advice}");
    }
    Forecaster::start(&["--capacity", "3"]).0.wait_for_line("capacity 3 req/s, floor 3 req/s");
    let rejected = run(&["forecast", "serve", "--floor", "50", "--capacity", "40"], &[]);
    assert_eq!((rejected.code, rejected.out.as_str()), (2, ""));
    assert_eq!(rejected.err, "tidegate: --floor: must be at most --capacity (40), got 50\n");
}

#[test]
fn a_port_that_is_taken_is_no_bad_input() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let rejected = run(&["forecast", "serve", "--listen", &address], &[]);
    assert_eq!(rejected.code, 1, "{rejected:?}");
    assert!(rejected.err.contains(&format!("can't listen on {address}")), "{rejected:?}");
    let help = run(&["forecast", "serve", "--help"], &[]).out;
    assert!(help.contains("Exit codes: 0 stopped · 2 "), "{help}");
}

#[test]
fn horizon_is_how_far_ahead_it_looks() {
    for (horizon, seconds) in [("30", 30.0), ("120", 120.0)] {
        let forecaster = Forecaster::start(&["--horizon", horizon, "--capacity", "400"]);
        let advice = forecaster.tell(&spikes(90));
        assert_eq!(advice["validFor"].as_f64(), Some(seconds));
        let last = advice["schedule"].as_array().and_then(|steps| steps.last().cloned()).expect("steps");
        assert!(last["after"].as_f64().is_some_and(|after| after <= seconds && after > seconds - 21.0), "{advice}");
    }
}

#[test]
fn history_is_how_much_is_kept() {
    let forecaster = Forecaster::start(&["--history", "120"]);
    forecaster.tell(&[60; 400]);
    assert!(forecaster.0.metric("forecast_series_seconds").is_some_and(|seconds| seconds <= 120.0));
}

#[test]
fn another_algorithm_is_advised_unless_it_shall_stay() {
    for (arguments, algorithm) in [(&[][..], "token"), (&["--keep-algorithm"], "fixed")] {
        let forecaster = Forecaster::start(arguments);
        let bursts: Vec<u64> = (0..200).map(|second| if second % 20 < 4 { 100 } else { 30 }).collect();
        let mut advice = json!(null);
        for (place, seconds) in bursts.chunks(5).enumerate() {
            let mut snapshot = with_series(START + 5 * place as i64, seconds);
            (snapshot["limit"], snapshot["window"]) = (json!(1000), json!(60));
            advice = forecaster.advice(&snapshot);
        }
        assert_eq!(advice["algorithm"], json!(algorithm), "{arguments:?}: {advice}");
    }
}

#[test]
fn bad_options_are_rejected_with_what_is_expected() {
    for (arguments, allowed) in [
        (["--capacity", "0"], "from 0.001 to 1e9"),
        (["--capacity", "many"], "from 0.001 to 1e9"),
        (["--floor", "-1"], "from 0.001 to 1e9"),
        (["--horizon", "5"], "must be a whole number from 10 to 600"),
        (["--horizon", "far"], "must be a whole number from 10 to 600"),
        (["--history", "-10"], "must be a whole number from 120 to 86400"),
        (["--listen", "nowhere"], "127.0.0.1"),
    ] {
        let output = tidegate().args(["forecast", "serve"]).args(arguments).output().expect("it runs");
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(reported.contains(arguments[0]) && reported.contains(allowed), "{reported}");
    }
}
