//! What an operator sees of breakers, and sets.

use std::sync::atomic::Ordering;

use tidegate_testkit::{Gateway, Response, request};

use super::{breaker, gateway, metric, settable, state, statuses};

fn set(gateway: &Gateway, breaker: &str, body: &str) -> Response {
    gateway.post(&format!("/config/breakers/{breaker}"), body)
}

#[test]
fn each_state_can_be_set_and_auto_ends_it() {
    let (upstream, status) = settable(200);
    let gateway = gateway(&[upstream.address], "breaker: {window: 4, minimum: 2, open: 1h}");
    let shown = set(&gateway, "p/app", r#"{"state": "open"}"#);
    assert_eq!((shown.status, &shown.json()["state"], &shown.json()["set"]), (200, &"open".into(), &"open".into()));
    assert_eq!(shown.json()["secondsLeft"], serde_json::Value::Null, "until an operator changes it");
    let rejected = gateway.get("/");
    assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("1")));
    assert_eq!((metric(&gateway, "circuit_breaker_state", ""), upstream.count()), (1, 0));
    gateway.wait_for_line("breaker of `app` (policy `p`) is open: set to `open` by an operator");

    set(&gateway, "p/app", r#"{"state": "closed"}"#);
    status.store(500, Ordering::Relaxed);
    assert_eq!(statuses(&gateway, 4), [500; 4], "it counts, and does not open");
    assert_eq!((breaker(&gateway)["failures"].clone(), state(&gateway).as_str()), (4.into(), "closed"));

    set(&gateway, "p/app", r#"{"state": "disabled"}"#);
    gateway.wait_for_line("breaker of `app` (policy `p`) set to `disabled` by an operator");
    let is_set = |state: &str| metric(&gateway, "tidegate_breaker_set", &format!(",state=\"{state}\""));
    assert_eq!((is_set("disabled"), is_set("auto")), (1, 0));
    assert_eq!(statuses(&gateway, 4), [500; 4]);
    let counted = metric(&gateway, "tidegate_breaker_calls_total", ",kind=\"failure\"");
    assert_eq!(counted, 4, "none of the last four counts");

    set(&gateway, "p/app", r#"{"state": "auto"}"#);
    assert_eq!(statuses(&gateway, 2), [500, 503], "it decides itself again, by what it has counted");
}

#[test]
fn mistakes_are_named_and_change_nothing() {
    let (upstream, _) = settable(200);
    let gateway = gateway(&[upstream.address], "breaker: {window: 4, minimum: 2}");
    let detail = |response: Response| (response.status, response.json()["detail"].as_str().expect("a text").to_owned());
    for (body, message) in [
        ("", "the body is not JSON"),
        ("[]", "the body must be a JSON object"),
        (r#"{"state": "shut"}"#, "`state` must be \"open\", \"closed\", \"disabled\" or \"auto\", got \"shut\""),
        ("{}", "`state` must be \"open\", \"closed\", \"disabled\" or \"auto\", got nothing"),
        (r#"{"state": "open", "for": 5}"#, "unknown field \"for\"; known fields: state"),
    ] {
        let (status, found) = detail(set(&gateway, "p/app", body));
        assert!(status == 400 && found.starts_with(message), "{body}: {status} {found}");
    }
    let unknown = "unknown breaker \"p/other\"; known breakers: p/app".to_owned();
    assert_eq!(detail(set(&gateway, "p/other", r#"{"state": "open"}"#)), (404, unknown));
    assert_eq!(gateway.get("/config/breakers/p").status, 404);
    assert_eq!(request(gateway.address, "DELETE", "/config/breakers/p/app", &[], b"").status, 405);
    assert_eq!(gateway.post("/config/breakers", "{}").header("allow"), Some("GET"));
    assert_eq!(
        (gateway.get("/config/breakers/p/app").json()["set"].as_str(), gateway.get("/").status),
        (Some("auto"), 200)
    );
}

#[test]
fn without_breakers_there_is_nothing_to_see() {
    let (upstream, _) = settable(200);
    let gateway = gateway(&[upstream.address], "timeout: 5s");
    assert_eq!(gateway.get("/config/breakers").text(), "{\"breakers\":[]}\n");
    let unknown = set(&gateway, "p/app", r#"{"state": "open"}"#);
    assert_eq!(unknown.json()["detail"], "unknown breaker \"p/app\"; known breakers: none");
}
