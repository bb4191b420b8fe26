//! Numbers that a replay proposes.

use std::fmt::Write as _;

use serde_json::Value;

use super::{THREE_A_CLIENT, combined, replayed};
use crate::lab::simulate::lab;
use tidegate_testkit::{Directory, text};

/// One client that numbers are not to fit is named, and can be left out.
#[test]
fn whom_a_proposal_is_not_to_fit_is_left_out() {
    let directory = Directory::new();
    let (outcome, report) = replayed(&directory, &combined(), THREE_A_CLIENT, &["--suggest", "0"]);
    let hint = "10.0.0.1 sent 100 % of the requests that gateway.yaml rejects; the proposed numbers admit them too \
                (--without 10.0.0.1";
    assert!(outcome.out.contains(hint), "{}", outcome.out);
    assert_eq!(report["suggestion"]["limits"][0]["to"]["limit"], 10);
    let (outcome, report) =
        replayed(&directory, &combined(), THREE_A_CLIENT, &["--suggest", "0", "--without", "10.0.0.1"]);
    assert!(outcome.out.starts_with("2 requests from"), "{}", outcome.out);
    assert!(outcome.out.contains("11 more are left out, as --without says."), "{}", outcome.out);
    assert_eq!(report["log"]["requests"], 2);
    assert_eq!(report["log"]["without"], serde_json::json!([{"name": "10.0.0.1", "requests": 11}]));
    assert_eq!(report["suggestion"]["limits"][0]["to"]["limit"], 1);
    let (outcome, _) =
        replayed(&directory, &combined(), THREE_A_CLIENT, &["--without", "10.0.0.2", "--without", "10.0.0.9"]);
    assert_eq!(outcome.err, "tidegate: --without: no request is from 10.0.0.9\n");
    let (log, config) = (text(&directory.0.join("access.log")), text(&directory.0.join("gateway.yaml")));
    let nobody = lab(&["replay", &log, "--config", &config, "--without", "10.0.0.1", "--without", "10.0.0.2"]);
    assert_eq!((nobody.code, nobody.err.as_str()), (2, "tidegate: all 13 requests are left out\n"));
    // A log without clients has nobody to leave out.
    let (outcome, _) = replayed(&directory, &"1700000000\n".repeat(9), THREE_A_CLIENT, &["--suggest", "0"]);
    assert!(
        outcome.out.contains("would have rejected 6 of 9") && !outcome.out.contains("--without"),
        "{}",
        outcome.out
    );
}

/// The numbers proposed hold what they promise, and no smaller ones do.
#[test]
fn numbers_are_proposed_that_reject_no_more_than_a_share() {
    // One client's 40 a second beside a hundred that ask once a second, for 50 s.
    let mut log = String::from("time,client\n");
    for second in 0..50 {
        for number in 0..140 {
            let client = if number < 40 { 0 } else { number };
            let millis = number * 7;
            let _infallible = writeln!(log, "{}.{millis:03},10.0.0.{client}", 1_768_840_200 + second);
        }
    }
    let config = "limits:\n  per-ip: {algorithm: fixed, limit: 5, window: 1, key: ip}\n  all: {algorithm: token, \
                  capacity: 10, fillRate: 20}\ncommon_limits: [per-ip, all]\n";
    for (share, per_ip) in [("0", 40), ("10%", 26)] {
        let directory = Directory::new();
        let (outcome, report) = replayed(&directory, &log, config, &["--suggest", share]);
        let suggestion = &report["suggestion"];
        let limits = suggestion["limits"].as_array().expect("limits");
        let to =
            |name: &str| limits.iter().find(|limit| limit["name"] == *name).map(|limit| &limit["to"]).expect("a limit");
        let limit = to("per-ip")["limit"].as_u64().expect("a number");
        // Of 140 a second 14 are a tenth: alone it would be 26, beside the other limit somewhat more.
        assert!((per_ip..=40).contains(&limit), "{share}: {suggestion}");
        assert_eq!(limits.iter().filter(|limit| limit["from"]["limit"] == 5).count(), 1, "{suggestion}");
        let rate = to("all")["fillRate"].as_f64().expect("a rate");
        assert!((20.0..300.0).contains(&rate), "{share}: {suggestion}");
        let most = if share == "0" { 0.0 } else { 0.1 };
        assert!(suggestion["refusedShare"].as_f64().expect("a share") <= most, "{share}: {suggestion}");
        assert!(outcome.out.contains("To reject at most") && outcome.out.contains("  per-ip:\n"), "{}", outcome.out);
        // What is proposed can be put into the file as it is, and does what was said.
        let yaml = format!("{}common_limits: [per-ip, all]\n", suggestion["yaml"].as_str().expect("text"));
        let again = Directory::new();
        let (_, replayed) = replayed(&again, &log, &yaml, &[]);
        let totals = &replayed["policies"][0]["totals"];
        let refused = totals["refused"].as_f64().expect("a count") / totals["requests"].as_f64().expect("a count");
        assert!((refused - suggestion["refusedShare"].as_f64().expect("a share")).abs() < 1e-9, "{share}: {totals}");
    }
}

/// What was proposed had numbers alone: pasted, a limit for each client became one for all of them, without tiers and
/// with another status.
#[test]
fn what_is_proposed_pastes_with_every_setting_that_a_limit_has() {
    let before = "common_limits: [all, per-user, busy]\n";
    let limits = "limits:\n  \
        per-user: {algorithm: fixed, limit: 1, window: 5, key: 'user+header:x-tenant', missing: ip, status: 503, soft: \
        1, cost: 2, max_keys: 50, \
            dry_run: true, tiers: {gold: unlimited, silver: {limit: 2, window: 5}, 'no': {algorithm: token, capacity: \
            2, fillRate: 1}}}\n  \
        all: {algorithm: token, capacity: 2, fill_rate: 0.5, state: memory, hold: 1m}\n  \
        busy: {algorithm: concurrency, limit: 9, key: provider}\n  \
        'on': {algorithm: gcra, burst: 3, fill_rate: 9, key: ip}\n";
    let after = "upstreams: {app: {url: 'http://127.0.0.1:1'}}\nroutes: [{prefix: /never, limits: ['on'], upstream: \
                 app}, {upstream: app}]\n\
        identity: {trusted_headers: {user: x-user, tier: x-tier}}\ntrusted_proxies: [10.0.0.0/8]\n";
    let mut log = String::from("time,user,tier,client\n");
    for second in 0..20 {
        for (user, tier) in [("ann", ""), ("bob", "silver"), ("cat", "no"), ("dan", "gold")] {
            (0..6).for_each(|number| {
                let _infallible = writeln!(log, "{}.{number}00,{user},{tier},10.0.0.9", 1_768_840_200 + second);
            });
        }
    }
    let directory = Directory::new();
    let (outcome, report) = replayed(&directory, &log, &format!("{before}{limits}{after}"), &["--suggest", "0"]);
    let yaml = report["suggestion"]["yaml"].as_str().expect("text");
    assert!(outcome.out.contains(yaml), "what is copied from the terminal is the same:\n{}", outcome.out);
    let pasted = directory.file("pasted.yaml", &format!("{before}{yaml}{after}"));
    let checked = tidegate_testkit::command::run(&["check", &text(&pasted)], &[]);
    assert!(checked.code == 0 && checked.out.contains("pasted.yaml: ok"), "{checked:?}\n{yaml}");
    let settings = |text: &str| {
        let config = tidegate_gateway::config::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        serde_json::to_value(config.limits.expect("limits")).expect("JSON")
    };
    let (mut is, mut was) = (settings(yaml), settings(limits));
    let raised: Vec<&str> =
        ["/per-user/limit", "/per-user/tiers/silver/limit", "/per-user/tiers/no/capacity", "/all/capacity"]
            .into_iter()
            .filter(|number| is.pointer(number).and_then(Value::as_u64) > was.pointer(number).and_then(Value::as_u64))
            .collect();
    assert_eq!(raised.len(), 4, "{raised:?}\n{yaml}");
    // All else is as it was.
    for limits in [&mut is, &mut was] {
        for number in raised.iter().chain(&["/per-user/tiers/no/fillRate", "/all/fill_rate"]) {
            *limits.pointer_mut(number).unwrap_or_else(|| panic!("{number} is gone\n{yaml}")) = Value::Null;
        }
    }
    assert_eq!(is, was, "{yaml}");
    assert!(yaml.contains("\n  \"on\": # unchanged\n") && yaml.contains("\n  busy: # unchanged\n"), "{yaml}");
}

/// Numbers that are proposed as they were are no change.
#[test]
fn a_proposal_that_equals_the_old_numbers_is_marked_as_unchanged() {
    let mut log = String::from("time,client\n");
    for number in 0..100 {
        let _infallible = writeln!(log, "{}.{}00,10.0.0.1", 1_768_840_200 + number / 5, number % 5);
    }
    for (limit, is_changed) in [(5, false), (4, true)] {
        let directory = Directory::new();
        let config = format!(
            "limits:\n  per-ip: {{algorithm: fixed, limit: {limit}, window: 1, key: ip}}\ncommon_limits: [per-ip]\n"
        );
        let (_, report) = replayed(&directory, &log, &config, &["--suggest", "0"]);
        let yaml = report["suggestion"]["yaml"].as_str().expect("text");
        assert!(yaml.contains("    limit: 5\n"), "{yaml}");
        assert_eq!(yaml.contains("  per-ip: # unchanged\n"), !is_changed, "{yaml}");
    }
}

/// A caveat of the terminal is one of the page, too.
#[test]
fn what_to_bear_in_mind_of_a_proposal_is_in_the_report() {
    let directory = Directory::new();
    let (outcome, report) = replayed(&directory, &combined(), THREE_A_CLIENT, &["--suggest", "0"]);
    let notes = report["suggestion"]["notes"].as_array().expect("notes");
    assert_eq!(notes.len(), 1, "{notes:?}");
    let note = notes[0].as_str().expect("text");
    assert!(note.contains("the proposed numbers admit them too (--without 10.0.0.1"), "{note}");
    assert!(outcome.out.contains(note), "{}", outcome.out);
}

/// Nothing is proposed of which nothing is known.
#[test]
fn limits_of_requests_in_flight_need_durations_to_be_proposed() {
    let directory = Directory::new();
    let config = "limits:\n  busy: {algorithm: concurrency, limit: 1}\n  per-user: {algorithm: fixed, limit: 1, \
                  window: 60, key: user, missing: refuse}\n\
                  common_limits: [busy, per-user]\n";
    let times = "time,user\n1768840200.5,ann\n1768840200.6,ann\n1768840200.7,\n";
    let (outcome, report) = replayed(&directory, times, config, &["--suggest", "0"]);
    assert_eq!((&report["suggestion"]["untold"][0], &report["suggestion"]["lacking"]), (&"busy".into(), &1.into()));
    assert_eq!(report["suggestion"]["limits"].as_array().map(Vec::len), Some(1), "{}", report["suggestion"]);
    assert!(
        outcome.out.contains("1 would be rejected whatever the numbers") && outcome.out.contains("took: busy."),
        "{}",
        outcome.out
    );
}
