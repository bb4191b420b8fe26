//! Documents that cannot be used, or not all of them.

use serde_json::json;

use super::{
    HIGHEST_VERSION, KEY, calls, delete, document, limits, lines_with, three_limits, version, wait_soon, write,
};
use crate::shared::setup::{FIVE, PLENTY, STRICT, admitted, config};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Gateway, Upstream, wait_until};

#[test]
fn a_bad_document_is_rejected_with_a_warning_and_the_last_valid_numbers_stay() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    let bad = [
        "many",
        r#"{"algorithm":"fixed","limit":0,"window":60}"#,
        r#"{"algorithm":"sliding_log","limit":10000000,"window":60}"#,
    ];
    for (place, text) in bad.into_iter().enumerate() {
        write(&server, text);
        let warnings = lines_with(&gateway, "the limits in Redis can't be used", place + 1);
        assert_eq!(warnings.len(), place + 1, "one line each: {warnings:#?}");
        assert!(warnings[place].contains(" WARN "), "{}", warnings[place]);
        assert_eq!(limits(&gateway)["limit"], 9, "{text}");
    }
    let bad = [
        "[]",
        "{}}",
        r#"{"algorithm":"magic","limit":5,"window":60}"#,
        r#"{"algorithm":"fixed","limit":-5,"window":60}"#,
        r#"{"algorithm":"fixed","limit":5}"#,
        r#"{"limit":5,"window":60}"#,
        r#"{"algorithm":"fixed","limit":3,"window":60,"limits":5}"#,
        r#"{"limits":{"default":{"algorithm":"fixed","limit":0,"window":60}}}"#,
    ];
    for text in bad {
        write(&server, text);
        // A reload reads it at once. The file is good, and is taken.
        assert_eq!(gateway.post("/reload", "").status, 200, "{text}");
        assert_eq!(limits(&gateway)["limit"], 9, "{text}");
    }
    assert_eq!(admitted(&gateway, "/", 20), 9);

    // A gateway that starts now has nothing but its file; it says so.
    let newcomer = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    assert!(newcomer.wait_for_line("the limits in Redis can't be used").contains(" WARN "));
    assert_eq!(limits(&newcomer)["limit"], 5);

    // An operator's new word mends it.
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 12, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    wait_soon("the newcomer follows", || limits(&newcomer)["limit"] == 12);
    assert_eq!(document(&server)["limit"], 12);
}

/// What one of them can't hold may be in force at others. It used to keep every gateway from starting.
#[test]
fn numbers_that_can_not_be_put_in_force_are_reported_and_the_rest_of_the_document_is_followed() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let fixed = |limit: u32| json!({ "algorithm": "fixed", "limit": limit, "window": 60 });
    let unshareable = json!({ "algorithm": "sliding_log", "limit": 20_000, "window": 60 });
    write(&server, &json!({ "version": 3, "limits": { "search": unshareable, "export": fixed(7) } }).to_string());
    let gateway = Gateway::start(&three_limits(&upstream, &server));
    let warning = gateway.wait_for_line(
        "limit `search`: `limit` must be at most 10000 for a log or a concurrency limit in Redis, got 20000",
    );
    assert!(warning.contains(" WARN ") && warning.contains("using those of the file"), "{warning}");
    let limit = |name: &str| limits(&gateway)["limits"][name]["limit"].clone();
    assert_eq!((limit("search"), limit("export")), (json!(100), json!(7)));
    assert_eq!(limits(&gateway)["limits"]["search"]["set_by"], "file");

    write(&server, &json!({ "version": 4, "limits": { "search": fixed(8), "export": fixed(7) } }).to_string());
    wait_soon("it follows", || limit("search") == 8);
    write(&server, &json!({ "version": 5, "limits": { "search": unshareable, "export": fixed(9) } }).to_string());
    wait_soon("it follows what it can", || limit("export") == 9);
    assert_eq!(limit("search"), 8, "the last valid one");
    let warnings = lines_with(
        &gateway,
        "limit `search`: `limit` must be at most 10000 for a log or a concurrency limit in Redis, got 20000",
        2,
    );
    assert!(warnings[1].contains(" WARN ") && warnings[1].contains("keeping the last valid ones"), "{warnings:?}");
}

/// A newer version's algorithm, in a roll-out: what this gateway can't read is not its own to throw away.
#[test]
fn a_change_keeps_what_it_can_not_read_and_the_version_never_goes_down() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&three_limits(&upstream, &server));
    let newer = json!({ "algorithm": "nonsense", "colour": [1, "blue"] });
    let text = json!({ "colour": "blue", "version": 5, "limits": { "search": newer, "elsewhere": newer } });
    write(&server, &text.to_string());
    gateway.wait_for_line("limit `search`");
    let posted = gateway.post("/config/limits/export", r#"{"algorithm": "fixed", "limit": 9, "window": 60}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    let now = document(&server);
    assert_eq!(now["colour"], "blue", "{now}");
    let mut before = version(&now);
    assert!(before > 5, "{now}");
    assert_eq!((&now["limits"]["search"], &now["limits"]["elsewhere"]), (&newer, &newer));
    assert_eq!(now["limits"]["export"]["limit"], 9);

    // An operator's word for this very limit counts over it.
    let posted = gateway.post("/config/limits/search", r#"{"algorithm": "fixed", "limit": 3, "window": 60}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    assert_eq!(delete(&gateway, "/config/limits/default"), 200);
    let now = document(&server);
    assert_eq!((&now["limits"]["search"]["limit"], now.get("colour")), (&json!(3), None), "{now}");

    let change = |limit: u32| {
        let body = json!({ "algorithm": "fixed", "limit": limit, "window": 60 }).to_string();
        let posted = gateway.post("/config/limits/search", &body);
        assert_eq!(posted.status, 200, "{posted:?}");
        version(&document(&server))
    };
    // A text that can't be read, from a day that has not come.
    let ahead = before + 86_400_000;
    write(&server, &json!({ "limits": 5, "version": ahead }).to_string());
    assert_eq!(change(4), ahead + 1);
    // What no gateway gives is no version: 2^64-1 stayed the highest for ever.
    for (version, limit) in [(u64::MAX, 5), (HIGHEST_VERSION + 1, 6)] {
        before = change(limit);
        write(&server, &json!({ "version": version }).to_string());
        let now = change(10 + limit);
        assert!((before + 1..before + 10).contains(&now), "{now} after {before} and {version}");
    }
}

#[test]
fn a_document_that_is_no_text_is_mended_by_a_change() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    redis::cmd("SET").arg(KEY).arg(&b"{\"algorithm\": \"fixed\xff\"}"[..]).exec(&mut server.connection()).expect("set");
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    assert_eq!(document(&server)["limit"], 9);
}

/// Somebody's data under the key: Redis is there, and says what is wrong.
#[test]
fn a_key_of_the_wrong_type_is_reported_and_not_an_outage() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = config(upstream.address, &server.url(), STRICT, FIVE);
    redis::cmd("HSET").arg(&[KEY, "a", "1"]).exec(&mut server.connection()).expect("set");
    let gateway = Gateway::start(&text);
    let warning = gateway.wait_for_line("the limits in Redis can't be used; using those of the file");
    assert!(warning.contains("WRONGTYPE") && warning.contains(KEY), "{warning}");
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 60}"#);
    assert_eq!((posted.status, &posted.json()["error"]), (503, &json!("store_refuses")), "{posted:?}");
    assert!(posted.text().contains("WRONGTYPE") && posted.text().contains("nothing was changed"), "{}", posted.text());
    assert_eq!(gateway.post("/reload", "").status, 200, "the file is good");

    redis::cmd("DEL").arg(KEY).exec(&mut server.connection()).expect("deleted");
    write(&server, r#"{"algorithm":"fixed","limit":7,"window":60}"#);
    wait_soon("it follows", || limits(&gateway)["limit"] == 7);
    // Together, or the gateway writes back what it has in between.
    let mut exchange = redis::pipe();
    exchange.atomic().cmd("DEL").arg(KEY).ignore().cmd("HSET").arg(&[KEY, "a", "1"]).ignore();
    exchange.exec(&mut server.connection()).expect("exchanged");
    let warning =
        gateway.wait_for_line("the limits in Redis can't be used; keeping the last valid ones: `ratelimiter:config`");
    assert!(warning.contains(" WARN ") && warning.contains("WRONGTYPE"), "{warning}");
    assert_eq!(gateway.metric("ratelimiter_redis_connected"), Some(1.0));
}

/// It used to be fetched twice a second over the connection that decides requests, whose responses came late then.
#[test]
fn a_huge_document_is_reported_and_not_an_outage() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), "budget: 20ms", PLENTY));
    redis::cmd("SETRANGE").arg(KEY).arg(64 << 20).arg("x").exec(&mut server.connection()).expect("set");
    let warning = gateway.wait_for_line("the limits in Redis can't be used");
    assert!(warning.contains(" WARN ") && warning.contains("longer than 1048576 bytes"), "{warning}");
    let before = calls(&gateway);
    wait_until("it was looked at again and again", || calls(&gateway) >= before + 5.0);
    assert!(!gateway.lines().iter().any(|line| line.contains("Redis connection lost")));
    assert_eq!(lines_with(&gateway, "longer than", 1).len(), 1, "it is told once");
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 60}"#);
    assert_eq!((posted.status, &posted.json()["error"]), (503, &json!("store_refuses")), "{posted:?}");
}

/// A forecaster that writes one form for all algorithms leaves zeros in it.
#[test]
fn numbers_of_other_algorithms_that_make_no_sense_are_in_nobodys_way() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    write(&server, r#"{"algorithm":"fixed","limit":120,"window":60,"capacity":0,"fillRate":0,"hold":0}"#);
    wait_soon("it follows", || limits(&gateway)["limit"] == 120);
    let token = gateway.post("/config/algorithm?algorithm=token", "");
    assert_eq!(token.status, 200, "{token:?}");
    assert_eq!((&token.json()["capacity"], token.json()["fillRate"].as_f64()), (&json!(120), Some(2.0)));
}

/// They had this gateway's own file written into them: gateways with other files then followed that.
#[test]
fn a_change_leaves_the_entries_of_other_limits_as_they_stand() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&three_limits(&upstream, &server));
    let search = json!({ "algorithm": "token", "capacity": 5, "fillRate": 1, "reason": "night" });
    write(&server, &json!({ "limits": { "search": search } }).to_string());
    wait_soon("it follows", || limits(&gateway)["limits"]["search"]["capacity"] == 5);
    let body = r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#;
    for path in ["/config/limits", "/config/limits/export"] {
        let posted = gateway.post(path, body);
        assert_eq!(posted.status, 200, "{posted:?}");
        assert_eq!(document(&server)["limits"]["search"], search, "{}", document(&server));
    }
    let top = json!({ "algorithm": "fixed", "limit": 8, "window": 60, "validFor": 30 });
    write(&server, &top.to_string());
    assert_eq!(gateway.post("/config/limits/export", body).status, 200);
    let now = document(&server);
    assert!(top.as_object().expect("an object").iter().all(|(field, value)| now[field] == *value), "{now}");
}

/// Somebody's remark at the top took the place of numbers that stand below, and the next change threw these away.
#[test]
fn a_remark_at_the_top_does_not_hide_the_numbers_below() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let below = json!({ "algorithm": "fixed", "limit": 3, "window": 60 });
    write(&server, &json!({ "comment": "x", "limits": { "default": below } }).to_string());
    let gateway = Gateway::start(&three_limits(&upstream, &server));
    assert_eq!(limits(&gateway)["limit"], 3);
    assert!(gateway.wait_for_line("is at the top and under `limits`; using the one under `limits`").contains(" WARN "));
    let export = r#"{"algorithm": "fixed", "limit": 9, "window": 60}"#;
    assert_eq!(gateway.post("/config/limits/export", export).status, 200);
    let now = document(&server);
    assert_eq!((&now["comment"], &now["limits"]["default"]), (&json!("x"), &below), "{now}");
    assert_eq!(limits(&gateway)["limit"], 3);

    write(
        &server,
        &json!({ "algorithm": "fixed", "limit": 4, "window": 60, "limits": { "default": below } }).to_string(),
    );
    wait_soon("it follows", || limits(&gateway)["limit"] == 4);
    gateway.wait_for_line("is at the top and under `limits`; using the one at the top");
    assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 6, "window": 60}"#).status, 200);
    assert_eq!((&document(&server)["limit"], document(&server).get("limits")), (&json!(6), None), "one word of it");

    write(&server, r#"{"limits": {"default": 5}}"#);
    assert_eq!(gateway.post("/config/limits/export", export).status, 200);
    assert_eq!(document(&server)["limits"]["default"], 5, "what is no object is kept, too");
}
