//! Changes of endpoints that can't be made: the response says why, and nothing changes.

use super::{endpoints, gateway, named};
use tidegate_testkit::{Gateway, request};

const UP: &str = "{\"state\": \"up\"}";

/// What an operator has set, by endpoint.
fn set(gateway: &Gateway) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    endpoints(gateway).iter().map(|shown| (text(&shown["set"]), text(&shown["state"]))).collect()
}

#[test]
fn bodies_that_are_no_change_are_rejected_and_nothing_changes() {
    let [one, two] = [named("one"), named("two")];
    let gateway = gateway(&[one.address, two.address], "");
    let path = format!("/config/upstreams/app/{}", one.address);
    assert_eq!(gateway.post(&path, "{\"state\": \"drain\"}").status, 200);
    let before = set(&gateway);
    assert_eq!(before[0], ("drain".into(), "drain".into()));
    let states = "`state` must be \"drain\", \"up\", \"down\" or \"auto\"";
    for (body, details) in [
        ("", ["not JSON", ""]),
        ("up", ["not JSON", ""]),
        ("{\"state\": \"up\"", ["not JSON", ""]),
        ("{\"state\": \"up\"} x", ["not JSON", ""]),
        ("{\"state\": \"up\", \"state\": \"down\"}", ["not JSON", "state"]),
        ("\"up\"", ["must be a JSON object", ""]),
        ("[\"up\"]", ["must be a JSON object", ""]),
        ("null", ["must be a JSON object", ""]),
        ("{}", [states, "got nothing"]),
        ("{\"state\": null}", [states, "got null"]),
        ("{\"state\": true}", [states, "got true"]),
        ("{\"state\": 1}", [states, "got 1"]),
        ("{\"state\": [\"up\"]}", [states, "got [\"up\"]"]),
        ("{\"state\": \"\"}", [states, "got \"\""]),
        ("{\"state\": \"UP\"}", [states, "got \"UP\""]),
        ("{\"state\": \" up\"}", [states, "got \" up\""]),
        ("{\"state\": \"ejected\"}", [states, "got \"ejected\""]),
        ("{\"State\": \"up\"}", ["unknown field \"State\"", "known fields: state"]),
        ("{\"state\": \"up\", \"weight\": 0}", ["unknown field \"weight\"", "known fields: state"]),
    ] {
        let response = gateway.post(&path, body);
        assert_eq!((response.status, &response.json()["error"]), (400, &"bad_request".into()), "{body:?}");
        let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(details.iter().all(|text| detail.contains(text)), "{body:?}: {detail}");
        assert_eq!(set(&gateway), before, "{body:?}");
    }
    let not_text = request(gateway.address, "POST", &path, &[], b"{\"state\": \"\xff\"}");
    assert_eq!(not_text.status, 400);
    let long = gateway.post(&path, &format!("{{\"state\": \"{}\"}}", "u".repeat(70_000)));
    assert_eq!((long.status, &long.json()["error"]), (413, &"bad_body".into()));
    assert_eq!(set(&gateway), before);
}

#[test]
fn unknown_names_are_rejected_with_those_that_are_known_and_nothing_changes() {
    let [one, two] = [named("one"), named("two")];
    let gateway = gateway(&[one.address, two.address], "");
    let before = set(&gateway);
    let (host, port) = (one.address.ip(), one.address.port());
    let known = format!("known endpoints: {}, {}", one.address, two.address);
    for (path, error, detail) in [
        (format!("shop/{}", one.address), "no_such_upstream", "unknown upstream \"shop\"; known upstreams: app"),
        (format!("APP/{}", one.address), "no_such_upstream", "known upstreams: app"),
        (format!("/{}", one.address), "no_such_upstream", "unknown upstream \"\""),
        ("app/".into(), "no_such_endpoint", &known),
        (format!("app/{host}"), "no_such_endpoint", &known),
        (format!("app/{host}:{port}0"), "no_such_endpoint", &known),
        (format!("app/{host}:{port}/"), "no_such_endpoint", &known),
        (format!("app/http://{host}:{port}"), "no_such_endpoint", &known),
        ("app/localhost:1".into(), "no_such_endpoint", "unknown endpoint \"localhost:1\""),
    ] {
        let response = gateway.post(&format!("/config/upstreams/{path}"), "{\"state\": \"down\"}");
        assert_eq!((response.status, &response.json()["error"]), (404, &error.into()), "{path}");
        assert!(response.text().replace("\\\"", "\"").contains(detail), "{path}: {}", response.text());
        assert_eq!(set(&gateway), before, "{path}");
    }
    // A name may be escaped.
    let escaped = format!("/config/upstreams/app/{host}%3A{port}");
    assert_eq!(gateway.post(&escaped, UP).status, 200);
    assert_eq!(set(&gateway)[0].0, "up");
}

#[test]
fn other_methods_are_rejected_with_those_that_are_there() {
    let one = named("one");
    let gateway = gateway(&[one.address], "");
    for (method, path, allowed) in [
        ("PUT", format!("/config/upstreams/app/{}", one.address), "POST"),
        ("DELETE", format!("/config/upstreams/app/{}", one.address), "POST"),
        ("GET", format!("/config/upstreams/app/{}", one.address), "POST"),
        ("POST", "/config/upstreams/app".into(), "GET"),
        ("POST", "/config/upstreams".into(), "GET"),
    ] {
        let response = request(gateway.address, method, &path, &[], UP.as_bytes());
        assert_eq!((response.status, response.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert_eq!(set(&gateway), [("auto".into(), "up".into())]);
    assert_eq!(one.count(), 0, "none of them is proxied");
}

/// As for limits: a token, if there is one.
#[test]
fn without_the_token_nothing_is_shown_or_changed() {
    let one = named("one");
    let token = "a-token-of-some-length";
    let gateway =
        super::with_upstream(&format!("url: \"http://{}\"", one.address), &format!("admin: {{token: {token}}}\n"));
    let path = format!("/config/upstreams/app/{}", one.address);
    let ask = |method, path: &str, headers: &[(&str, &str)]| {
        request(gateway.address, method, path, headers, if method == "POST" { b"{\"state\": \"down\"}" } else { b"" })
    };
    let bearer = format!("Bearer {token}");
    for (method, path) in [("GET", "/config/upstreams"), ("GET", "/config/upstreams/app"), ("POST", &path)] {
        let response = ask(method, path, &[("Authorization", "Bearer another-token-of-length")]);
        assert_eq!(response.status, 401, "{method} {path}");
        assert!(!response.text().contains(&one.address.to_string()), "{}", response.text());
        assert_eq!(ask(method, path, &[]).status, 401, "{method} {path}");
    }
    assert_eq!(gateway.get("/").text(), "one", "it is not down");
    assert_eq!(ask("POST", &path, &[("Authorization", &bearer)]).status, 200);
    assert_eq!(gateway.get("/").status, 503, "now it is");
}
