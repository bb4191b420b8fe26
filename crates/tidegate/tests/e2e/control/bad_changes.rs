//! Changes that make no sense are rejected with 400 and the field at fault; nothing changes.

use crate::control::setting::{PLENTY, before};
use tidegate_testkit::{Gateway, Upstream};

/// Posts each body to `/config/limits`: 400, and the reason holds the word beside it.
fn assert_rejected(limit: &str, cases: &[(&str, &str)]) {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {limit}}}")));
    let config = gateway.get("/config/limits").json();
    let mut wrong = Vec::new();
    for (body, word) in cases {
        let response = gateway.post("/config/limits", body);
        let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
        if response.status != 400 || !detail.contains(word) {
            wrong.push(format!("{body}: {} {detail:?} does not name {word}", response.status));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(gateway.get("/config/limits").json(), config, "nothing has changed");
}

const FIXED: &str = "{algorithm: fixed, limit: 100, window: 60}";

#[test]
fn what_is_no_json_object() {
    assert_rejected(
        FIXED,
        &[
            ("", "JSON"),
            ("   ", "JSON"),
            ("limit=5", "JSON"),
            ("{", "JSON"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": NaN}"#, "JSON"),
            ("[]", "object"),
            (r#"["algorithm"]"#, "object"),
            ("5", "object"),
            ("null", "object"),
            (r#""fixed""#, "object"),
        ],
    );
}

#[test]
fn what_is_missing() {
    assert_rejected(
        FIXED,
        &[
            ("{}", "algorithm"),
            (r#"{"limit": 5, "window": 1}"#, "algorithm"),
            (r#"{"algorithm": null, "limit": 5, "window": 1}"#, "algorithm"),
            (r#"{"algorithm": "fixed", "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 5}"#, "window"),
            (r#"{"algorithm": "sliding", "limit": 5}"#, "window"),
            (r#"{"algorithm": "sliding_log", "window": 5}"#, "limit"),
            (r#"{"algorithm": "token", "fillRate": 5}"#, "capacity"),
            (r#"{"algorithm": "token", "capacity": 5}"#, "fillRate"),
            (r#"{"algorithm": "token", "limit": 5, "window": 1}"#, "capacity"),
            (r#"{"algorithm": "leaky", "capacity": 5}"#, "fillRate"),
            (r#"{"algorithm": "gcra", "fillRate": 5}"#, "capacity"),
            (r#"{"algorithm": "concurrency", "window": 5}"#, "limit"),
        ],
    );
}

#[test]
fn numbers_that_make_no_limit() {
    assert_rejected(
        FIXED,
        &[
            (r#"{"algorithm": "fixed", "limit": 0, "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 0}"#, "window"),
            (r#"{"algorithm": "fixed", "limit": 18446744073709551615, "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 9999999999}"#, "window"),
            (r#"{"algorithm": "sliding_log", "limit": 4294967296, "window": 60}"#, "limit"),
            (r#"{"algorithm": "token", "capacity": 0, "fillRate": 5}"#, "capacity"),
            (r#"{"algorithm": "token", "burst": 0, "fillRate": 5}"#, "capacity"),
            (r#"{"algorithm": "token", "capacity": 18446744073709551615, "fillRate": 5}"#, "capacity"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": 0}"#, "fillRate"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": -1}"#, "fillRate"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": 1e-9}"#, "fillRate"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": 1e300}"#, "fillRate"),
            (r#"{"algorithm": "leaky", "capacity": 18446744073709551615, "fillRate": 1}"#, "capacity"),
            (r#"{"algorithm": "concurrency", "limit": 0}"#, "limit"),
            (r#"{"algorithm": "concurrency", "limit": 5, "hold": 0}"#, "hold"),
        ],
    );
}

/// A bucket that takes longer to fill than time can be counted: neither has a window.
#[test]
fn a_bucket_that_never_fills_is_reported_by_its_own_fields() {
    assert_rejected(
        FIXED,
        &[
            (r#"{"algorithm": "token", "capacity": 4294967295, "fillRate": 0.000001}"#, "capacity"),
            (r#"{"algorithm": "gcra", "capacity": 4294967295, "fillRate": 0.01}"#, "capacity"),
        ],
    );
}

#[test]
fn values_of_a_wrong_type() {
    assert_rejected(
        FIXED,
        &[
            (r#"{"algorithm": 7, "limit": 5, "window": 1}"#, "algorithm"),
            (r#"{"algorithm": "fixed", "limit": "100", "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": -1, "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 1.5, "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 1e30, "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": true, "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": [5], "window": 60}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": -1}"#, "window"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": "soon"}"#, "window"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": "NaN"}"#, "window"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1e300}"#, "window"),
            (r#"{"algorithm": "token", "capacity": 1.5, "fillRate": 5}"#, "capacity"),
            (r#"{"algorithm": "token", "capacity": -1, "fillRate": 5}"#, "capacity"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": "5"}"#, "fillRate"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": "NaN"}"#, "fillRate"),
            (r#"{"algorithm": "concurrency", "limit": 5, "hold": {}}"#, "hold"),
        ],
    );
}

#[test]
fn words_that_nobody_knows() {
    assert_rejected(
        FIXED,
        &[
            (r#"{"algorithm": "magic", "limit": 5, "window": 1}"#, "algorithm"),
            (r#"{"algorithm": "magic", "limit": 5, "window": 1}"#, "sliding_log"),
            (r#"{"algorithm": "FIXED", "limit": 5, "window": 1}"#, "algorithm"),
            (r#"{"algorithm": "", "limit": 5, "window": 1}"#, "algorithm"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1, "colour": "blue"}"#, "colour"),
            (r#"{"algorithm": "token", "capacity": 5, "fillrate": 1}"#, "fillrate"),
            (r#"{"algorithm": "token", "capacity": 5, "burst": 6, "fillRate": 1}"#, "burst"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1, "capacity": 1, "burst": 2}"#, "burst"),
        ],
    );
}

/// The soft excess comes on top of the limit: together they must not wrap around to a small number.
#[test]
fn a_huge_limit_with_a_soft_excess() {
    assert_rejected(
        "{algorithm: fixed, limit: 100, window: 60, soft: true}",
        &[
            (r#"{"algorithm": "fixed", "limit": 18446744073709551615, "window": 60}"#, "limit"),
            (r#"{"algorithm": "token", "capacity": 18446744073709551610, "fillRate": 1}"#, "capacity"),
            (r#"{"algorithm": "concurrency", "limit": 18446744073709551614}"#, "limit"),
            (r#"{"algorithm": "leaky", "capacity": 5, "fillRate": 1}"#, "soft"),
        ],
    );
}

#[test]
fn a_rejected_change_of_a_named_limit_or_an_algorithm_changes_nothing_either() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, FIXED);
    let config = gateway.get("/config/limits").json();
    for (path, body, word) in [
        ("/config/limits/default", "{}", "algorithm"),
        ("/config/limits/default", r#"{"algorithm": "fixed", "limit": 0, "window": 1}"#, "limit"),
        ("/config/algorithm", "", "algorithm"),
        ("/config/algorithm", "{}", "algorithm"),
        ("/config/algorithm", "nonsense", "JSON"),
        ("/config/algorithm", "[]", "object"),
        ("/config/algorithm", r#"{"algorithm": "magic"}"#, "algorithm"),
        ("/config/algorithm", r#"{"algorithm": 5}"#, "algorithm"),
        ("/config/algorithm", r#"{"algorithm": "token", "fillRate": 0}"#, "fillRate"),
        ("/config/algorithm", r#"{"algorithm": "token", "name": 5}"#, "name"),
        ("/config/algorithm?algorithm=magic", "", "algorithm"),
        ("/config/algorithm?algorithm=", "", "algorithm"),
        ("/config/algorithm?algorithm", "", "algorithm"),
        ("/config/algorithm?colour=blue", r#"{"algorithm": "token"}"#, "colour"),
    ] {
        let response = gateway.post(path, body);
        let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!(response.status, 400, "{path} {body}: {detail}");
        assert!(detail.contains(word), "{path} {body}: {detail}");
    }
    let detail = |path: &str| gateway.post(path, r#"{"algorithm": "magic"}"#).json()["detail"].clone();
    let expected =
        r#"`algorithm` must be one of fixed, sliding, sliding_log, token, leaky, gcra, concurrency, got "magic""#;
    assert_eq!((detail("/config/limits"), detail("/config/algorithm")), (expected.into(), expected.into()));
    assert_eq!(gateway.get("/config/limits").json(), config);
}

/// Of two the last would count, and nobody would learn of the first.
#[test]
fn a_name_that_stands_twice_is_rejected() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let before = gateway.get("/config/limits").json();
    for (path, body) in [
        ("/config/limits", r#"{"algorithm": "fixed", "limit": 5, "window": 60, "limit": 500}"#),
        ("/config/limits/default", r#"{"algorithm": "fixed", "limit": 5, "limit": 5, "window": 60}"#),
        ("/config/algorithm", r#"{"algorithm": "token", "algorithm": "gcra"}"#),
    ] {
        let response = gateway.post(path, body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.text().contains("twice"), "{}", response.text());
    }
    assert_eq!(gateway.get("/config/limits").json(), before);
}

#[test]
fn values_of_a_wrong_type_that_only_other_algorithms_need() {
    assert_rejected(
        FIXED,
        &[
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1, "fillRate": "0"}"#, "fillRate"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1, "capacity": -1}"#, "capacity"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1, "hold": []}"#, "hold"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": 1, "limit": 0.5}"#, "limit"),
        ],
    );
}

#[test]
fn what_a_limit_is_besides_its_numbers() {
    assert_rejected(
        FIXED,
        &[
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1, "limits": {}}"#, "limits"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 1, "key": "ip"}"#, "key"),
        ],
    );
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, FIXED);
    for (field, value) in [("key", "\"ip\""), ("status", "503"), ("state", "\"exact\""), ("set_by", "\"api\"")] {
        let body = format!("{{\"algorithm\": \"fixed\", \"limit\": 5, \"window\": 1, \"{field}\": {value}}}");
        let response = gateway.post("/config/limits/default", &body);
        assert_eq!(response.status, 400, "{body}: {}", response.text());
        assert!(response.text().contains(field), "{body}: {}", response.text());
    }
}

#[test]
fn a_query_that_says_something_else_than_the_body() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, FIXED);
    for (path, body) in [
        ("/config/algorithm?algorithm=token", r#"{"algorithm": "gcra"}"#),
        ("/config/algorithm?algorithm=token&algorithm=gcra", ""),
        ("/config/algorithm?algorithm=token&name=default", r#"{"name": "other"}"#),
    ] {
        let response = gateway.post(path, body);
        assert_eq!(response.status, 400, "{path} {body}: {}", response.text());
        assert!(response.text().contains("has two different values"), "{path} {body}: {}", response.text());
    }
    let response = gateway.post("/config/algorithm?algorithm=sliding", r#"{"algorithm": "sliding"}"#);
    assert_eq!(response.status, 200, "the same twice: {}", response.text());
}
