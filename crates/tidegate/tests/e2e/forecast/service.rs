//! Snapshots in, advice out.

use serde_json::{Value, json};

use crate::forecast::forecaster::{Forecaster, START, limit_after, snapshot, spikes, with_series};
use tidegate_testkit::{Client, wait_until};

#[test]
fn spikes_are_learnt_and_the_limit_is_raised_ahead_of_the_next() {
    let forecaster = Forecaster::start(&["--capacity", "400"]);
    // The last snapshot ends five seconds before a spike.
    let advice = forecaster.tell(&spikes(90));
    assert_eq!((&advice["algorithm"], &advice["window"]), (&json!("fixed"), &json!(1)));
    assert_eq!(limit_after(&advice, 0.0), 100.0, "{advice}");
    for second in [5.0, 7.0, 9.0] {
        assert!(limit_after(&advice, second) >= 250.0, "{second}: {advice}");
    }
    assert_eq!(limit_after(&advice, 14.0), 100.0, "{advice}");
    assert!(limit_after(&advice, 27.0) >= 250.0, "the one after it: {advice}");
    let predicted = advice["predictedRps"].as_f64().expect("a rate");
    assert!((240.0..=300.0).contains(&predicted), "{advice}");
    assert_eq!(advice["validFor"].as_f64(), Some(60.0));
    assert!(advice["reason"].as_str().is_some_and(|reason| reason.contains("every 20.0 s")), "{advice}");
}

#[test]
fn a_gateway_that_sends_only_the_first_fields_gets_a_response() {
    let forecaster = Forecaster::start(&[]);
    let mut seed = snapshot(START as f64, 80.0);
    for (field, value) in [("rejectedRate", json!(0.1)), ("latencyP95", json!(0.02)), ("errors5xx", json!(0))] {
        seed[field] = value;
    }
    seed["somethingNew"] = json!({ "nobody": "knows" });
    let advice = forecaster.advice(&seed);
    assert_eq!((&advice["algorithm"], &advice["limit"], &advice["window"]), (&json!("fixed"), &json!(100), &json!(1)));
    assert!(advice["reason"].is_string() && advice["predictedRps"].is_number(), "{advice}");
    seed["timestamp"] = json!("2025-11-17T02:00:30Z");
    forecaster.advice(&seed);
    for (numbers, field) in [
        (json!({ "algorithm": "token", "capacity": 50, "fillRate": 5.5 }), "fillRate"),
        (json!({ "algorithm": "leaky", "burst": 50, "fillRate": 5 }), "capacity"),
        (json!({ "algorithm": "sliding_log", "limit": 10, "window": 0.5 }), "window"),
    ] {
        let mut asked = numbers.clone();
        (asked["timestamp"], asked["observedRps"]) = (json!(START + 60), json!(1));
        let advice = forecaster.advice(&asked);
        assert_eq!(advice["algorithm"], numbers["algorithm"]);
        assert!(advice[field].is_number(), "{advice}");
    }
}

#[test]
fn every_mistake_of_a_snapshot_is_reported_by_its_field() {
    let forecaster = Forecaster::start(&[]);
    let good = with_series(START, &[60; 5]);
    let cases: [(&str, Value, &str); 17] = [
        ("timestamp", Value::Null, "timestamp"),
        ("timestamp", json!("yesterday"), "timestamp"),
        ("timestamp", json!(-1), "timestamp"),
        ("observedRps", json!(-1), "observedRps"),
        ("observedRps", json!("many"), "observedRps"),
        ("rejectedRate", json!(1.5), "rejectedRate"),
        ("latencyP95", json!(-0.1), "latencyP95"),
        ("errors5xx", json!(-3), "errors5xx"),
        ("algorithm", json!("magic"), "algorithm"),
        ("algorithm", json!("token"), "capacity"),
        ("limit", json!(0), "limit"),
        ("window", json!(-60), "window"),
        ("base", json!({ "algorithm": "fixed", "limit": 1 }), "base.window"),
        ("source", json!("x".repeat(257)), "source"),
        ("series", json!({ "start": START, "offered": [1, -1] }), "series.offered[1]"),
        ("series", json!({ "start": START, "step": 5, "offered": [1] }), "series.step"),
        ("series", json!({ "start": START, "offered": vec![1; 601] }), "series.offered"),
    ];
    for (field, value, path) in cases {
        let mut bad = good.clone();
        bad[field] = value;
        let response = forecaster.ask("POST", "/v1/limit-config", &bad.to_string());
        assert_eq!(response.status, 400, "{field}: {}", response.text());
        let reported = response.json()["problems"].clone();
        assert!(
            reported.as_array().is_some_and(|list| list.iter().any(|one| one["path"] == *path)),
            "{field}: {reported}"
        );
    }
    for text in ["", "{", "[]", "null", "{\"timestamp\": NaN}"] {
        assert_eq!(forecaster.ask("POST", "/v1/limit-config", text).status, 400, "{text:?}");
    }
    assert_eq!(forecaster.0.metric("forecast_requests_total{result=\"bad\"}"), Some(22.0));
    assert_eq!(forecaster.0.metric("forecast_requests_total{result=\"ok\"}"), Some(0.0));
    forecaster.advice(&good);
}

/// How many snapshots the lines with these words report.
fn reported(lines: &[String], words: &str) -> u64 {
    let reported = lines.iter().filter_map(|line| line.split_once(words)).map(|(_, rest)| {
        rest.split_once(" times, last: ").map_or(1, |(times, _)| times.replace(',', "").parse().expect("a number"))
    });
    reported.sum()
}

#[test]
fn bad_snapshots_are_reported_now_and_then_and_never_one_each() {
    let mut forecaster = Forecaster::start(&[]);
    let mut bad = with_series(START, &[60; 5]);
    bad["window"] = json!(-60);
    for _ in 0..39 {
        assert_eq!(forecaster.ask("POST", "/v1/limit-config", &bad.to_string()).status, 400);
    }
    bad["limit"] = Value::Null;
    assert_eq!(forecaster.ask("POST", "/v1/limit-config", &bad.to_string()).status, 400);
    let first = "WARN Forecaster - Snapshot can't be used (`window`: must be seconds from 1e-9 to 1e10, got -60)";
    forecaster.0.wait_for_line(first);
    forecaster.0.signal("TERM");
    assert!(forecaster.0.wait_for_end());
    forecaster.0.wait_for_line(" times, last: `limit`: is missing; must be a number from 1 to 1e15)");
    let lines: Vec<String> = forecaster.0.lines().into_iter().filter(|line| line.contains("Snapshot")).collect();
    assert_eq!(reported(&lines, "Snapshot can't be used ("), 40, "{lines:?}");
    assert!(lines.len() < 20, "{lines:?}");
}

/// A name that stands twice is repeated to whoever sent it, however long it is and whatever is in it.
#[test]
fn nothing_of_a_bad_snapshot_makes_the_log_long_or_steers_a_terminal() {
    for format in ["text", "json"] {
        let mut forecaster = Forecaster::start(&["--log-format", format]);
        let name = format!("\\u001b[2J\\n\u{9b}31m{}", "x".repeat(50_000));
        let body = format!("{{\"{name}\": 1, \"{name}\": 2}}");
        assert_eq!(forecaster.ask("POST", "/v1/limit-config", &body).status, 400);
        let line = forecaster.0.wait_for_line("Snapshot can't be used (must be JSON: the key `");
        assert!(line.chars().count() < 320 && line.contains("xx…)"), "{line}");
        assert!(!line.contains(char::is_control) && !line.contains("u001b"), "{line}");
        forecaster.0.signal("TERM");
        assert!(forecaster.0.wait_for_end());
    }
}

#[test]
fn snapshots_beyond_the_queue_are_rejected_and_reported() {
    let mut forecaster = Forecaster::start(&[]);
    let mut rejected = 0;
    // What came while it stood still comes at once, faster than forecasts are made.
    wait_until("some are refused", || {
        forecaster.0.signal("STOP");
        let clients: Vec<Client> = (0..100).map(|place| sent(&forecaster, place)).collect();
        forecaster.0.signal("CONT");
        let responses = clients.into_iter().map(|mut client| client.response().status);
        rejected += responses.filter(|status| *status == 503).count();
        rejected > 0
    });
    forecaster.0.wait_for_line("WARN Forecaster - No response to snapshot (too many snapshots are waiting)");
    forecaster.0.signal("TERM");
    assert!(forecaster.0.wait_for_end());
    wait_until("all are told", || reported(&forecaster.0.lines(), "No response to snapshot (") == rejected as u64);
}

/// A client whose snapshot has been sent, and takes long to learn.
fn sent(forecaster: &Forecaster, place: usize) -> Client {
    let mut snapshot = with_series(START, &[77; 600]);
    snapshot["source"] = json!(format!("limit-{place}"));
    let (body, mut client) = (snapshot.to_string(), Client::connect(forecaster.0.address));
    let length = body.len();
    client.send(format!("POST /v1/limit-config HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"));
    client
}

#[test]
fn what_is_not_there_is_said() {
    let forecaster = Forecaster::start(&[]);
    for (method, path, status) in [
        ("GET", "/v1/limit-config", 405),
        ("POST", "/actuator/health", 405),
        ("GET", "/", 404),
        ("GET", "/actuator/health", 200),
        ("GET", "/actuator/health/liveness", 200),
        ("GET", "/actuator/health/readiness", 200),
    ] {
        let response = forecaster.ask(method, path, "");
        assert_eq!(response.status, status, "{method} {path}: {}", response.text());
        assert!(status != 200 || response.json()["status"] == "UP");
    }
    // A page of another site can't teach it anything.
    let headers = [("host", "localhost"), ("origin", "http://elsewhere.example")];
    let body = snapshot(START as f64, 1.0).to_string();
    let response =
        tidegate_testkit::request(forecaster.0.address, "POST", "/v1/limit-config", &headers, body.as_bytes());
    assert_eq!(response.status, 403);
    let huge = "x".repeat(1 << 19);
    assert_eq!(forecaster.ask("POST", "/v1/limit-config", &huge).status, 413);
}

#[test]
fn gaps_repeats_and_times_that_go_back_do_no_harm() {
    let forecaster = Forecaster::start(&["--capacity", "400"]);
    let load = spikes(400);
    for (place, seconds) in load.chunks(5).enumerate() {
        let start = START + 5 * place as i64;
        let mut reported = with_series(start, seconds);
        match place % 10 {
            // The same again; nothing known; a second from a year ago; from the future.
            3 => {
                forecaster.advice(&reported);
            }
            5 => reported["series"]["offered"] = json!([null, null, null, null, null]),
            7 => {
                forecaster.advice(&with_series(start - 31_536_000, &[900; 5]));
            }
            8 => {
                forecaster.advice(&with_series(start + 31_536_000, &[900; 5]));
            }
            _ => {}
        }
        forecaster.advice(&reported);
    }
    let advice = forecaster.advice(&with_series(START + 400, &[60; 10]));
    assert!(limit_after(&advice, 6.0) >= 250.0, "{advice}");
    assert_eq!(limit_after(&advice, 14.0), 100.0, "{advice}");
}

#[test]
fn a_clock_that_was_set_is_followed_when_several_snapshots_agree() {
    let forecaster = Forecaster::start(&["--capacity", "400"]);
    forecaster.tell(&spikes(100));
    for place in 0..30 {
        let start = START - 864_000 + 5 * place;
        forecaster.advice(&with_series(start, &[150; 5]));
    }
    assert!(forecaster.0.metric("forecast_series_seconds").is_some_and(|seconds| seconds <= 150.0));
    let advice = forecaster.advice(&with_series(START - 864_000 + 150, &[150; 5]));
    assert!((140.0..=180.0).contains(&advice["predictedRps"].as_f64().expect("a rate")), "{advice}");
}

/// A flood of another order of magnitude must not teach it that floods are what to make room for.
#[test]
fn one_mad_value_or_an_attack_teaches_at_most_the_capacity() {
    let forecaster = Forecaster::start(&["--capacity", "300"]);
    let mut load = vec![60; 200];
    load[100] = 900_000_000;
    load[120..140].fill(5_000);
    forecaster.tell(&load);
    let advice = forecaster.advice(&with_series(START + 200, &[60; 5]));
    assert!(advice["predictedRps"].as_f64().is_some_and(|rate| rate <= 400.0), "{advice}");
    for second in 0..60 {
        assert!(limit_after(&advice, f64::from(second)) <= 300.0, "{advice}");
    }
}

#[test]
fn several_series_are_kept_apart_and_their_number_is_bounded() {
    let forecaster = Forecaster::start(&["--capacity", "1000"]);
    for place in 0..40 {
        let mut reported = with_series(START, &[500; 5]);
        reported["source"] = json!(format!("limit-{place}"));
        forecaster.advice(&reported);
    }
    let advice = forecaster.advice(&with_series(START, &[60; 5]));
    assert!(advice["predictedRps"].as_f64().is_some_and(|rate| rate < 120.0), "{advice}");
    forecaster.0.wait_for_line("more than 16 series");
}

#[test]
fn what_it_knows_is_in_its_metrics() {
    let forecaster = Forecaster::start(&["--capacity", "400"]);
    forecaster.tell(&spikes(200));
    let metric = |name: &str| forecaster.0.metric(name).unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!(metric("forecast_requests_total{result=\"ok\"}"), 40.0);
    assert_eq!(metric("forecast_cycle_seconds"), 20.0);
    assert_eq!(metric("forecast_capacity_rps"), 400.0);
    assert_eq!(metric("forecast_series_seconds"), 200.0);
    assert_eq!(metric("forecast_advice_seconds_count"), 40.0);
    assert!(metric("forecast_fit_seconds{model=\"prophet\"}") > 0.0);
    assert!((0.5..=1.0).contains(&metric("forecast_coverage_ratio")));
    assert!(metric("forecast_error_ratio") < 0.5);
    let models = ["last", "ewma", "holt", "seasonal", "seasonal_level", "prophet"];
    let sum: f64 = models.iter().map(|model| metric(&format!("forecast_model_weight{{model=\"{model}\"}}"))).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    assert!(metric("process_resident_memory_bytes") > 0.0);
}

/// The only wait of a request is for the thread that forecasts.
#[test]
fn a_snapshot_counts_even_if_its_gateway_leaves_before_the_advice() {
    let forecaster = Forecaster::start(&[]);
    let count = |result: &str| {
        let name = format!("forecast_requests_total{{result=\"{result}\"}}");
        forecaster.0.metric(&name).expect("a count")
    };
    // Should one get a response before its client has gone, the next will not.
    for source in 0.. {
        let mut reported = with_series(START, &[77; 600]);
        reported["source"] = json!(format!("limit-{source}"));
        let (body, mut client) = (reported.to_string(), Client::connect(forecaster.0.address));
        let length = body.len();
        client.send(format!(
            "POST /v1/limit-config HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
        // By the time that somebody else has got a response it has been read.
        let before = count("ok");
        client.close();
        wait_until("it is answered, or nobody is there", || count("abandoned") > 0.0 || count("ok") > before);
        if count("abandoned") == 0.0 {
            continue;
        }
        wait_until("it is learnt", || forecaster.0.metric("forecast_series_seconds") == Some(600.0));
        let mut more = with_series(START + 600, &[77; 5]);
        more["source"] = reported["source"].clone();
        let advice = forecaster.advice(&more);
        assert_eq!(forecaster.0.metric("forecast_series_seconds"), Some(605.0));
        assert!((70.0..=110.0).contains(&advice["predictedRps"].as_f64().expect("a rate")), "{advice}");
        return;
    }
}

#[test]
fn what_is_expected_of_each_series_can_be_read() {
    let forecaster = Forecaster::start(&["--capacity", "400"]);
    let read = || forecaster.ask("GET", "/v1/forecast", "").json();
    assert_eq!(read(), json!({ "forecasts": [] }), "of nothing nothing is expected");
    forecaster.tell(&spikes(90));
    let reported = read();
    let forecast = &reported["forecasts"][0];
    // The next spike begins five seconds after the last snapshot.
    let of = |level: &str, second: usize| forecast[level][second].as_f64().unwrap_or_else(|| panic!("{reported}"));
    for second in [7, 8, 9] {
        assert!(of("middle", second) > 200.0, "{second}: {reported}");
    }
    for second in 0..60 {
        assert!(of("low", second) <= of("middle", second) && of("middle", second) <= of("high", second), "{reported}");
    }
    assert_eq!((&forecast["step"], forecast["low"].as_array().map(Vec::len)), (&json!(1), Some(60)));
    assert!(of("middle", 0) < 120.0, "{reported}");
}
