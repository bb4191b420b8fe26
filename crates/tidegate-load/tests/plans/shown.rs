//! How a plan is shown, and its digest.

use serde_json::{Value, json};
use tidegate_load::Plan;

use super::{read, with_profile};

/// What a report or `GET /test/config` may show to anybody.
#[test]
fn a_plan_is_shown_as_it_was_given_without_its_secrets() {
    let mut plan = with_profile("trace", &json!({"rates": vec![5; 101], "scale": 2}));
    plan["limiterUrl"] = json!("http://a/b?page=2&access_token=hunter2&x");
    plan["requestOptions"] = json!({
        "auth": {"user": "ann", "password": "hunter2"}, "query": {"q": "1", "apiKey": "hunter2"},
        "headers": {"X-Authorization": "hunter2", "COOKIE": "hunter2", "X-Api-Key": "hunter2", "Accept": "a"},
        "body": {"text": "b".repeat(2_000), "password": "hunter2"},
    });
    let headers = json!({"x-auth-token": "hunter2", "x-b": "c"});
    plan["clients"] = json!([{"name": "a", "apiKey": "hunter2-{n}", "headers": headers, "user": "u-{n}"}]);
    plan["seed"] = Value::Null;
    let shown = read(&plan).shown().clone();
    for (pointer, expected) in [
        ("/limiterUrl", json!("http://a/b?page=2&access_token=***&x")),
        ("/duration", json!(60)),
        ("/seed", Value::Null),
        ("/profile", json!({"type": "trace", "params": {"rates": "101 entries", "scale": 2}})),
        ("/requestOptions/auth", json!("***")),
        ("/requestOptions/query", json!({"q": "1", "apiKey": "***"})),
        (
            "/requestOptions/headers",
            json!({"X-Authorization": "***", "COOKIE": "***", "X-Api-Key": "***", "Accept": "a"}),
        ),
        ("/requestOptions/body/text", json!(format!("{}…", "b".repeat(1_000)))),
        (
            "/clients",
            json!([{"name": "a", "apiKey": "***", "headers": {"x-auth-token": "***", "x-b": "c"}, "user": "u-{n}"}]),
        ),
    ] {
        assert_eq!(shown.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert!(!shown.to_string().contains("hunter2"));
}

/// However much is in it: a report holds it.
#[test]
fn a_plan_is_not_shown_at_any_length() {
    let nested = (0..5).fold(json!("a"), |inner, _| json!(vec![inner; 20]));
    let wide: serde_json::Map<String, Value> = (0..5_000).map(|number| (number.to_string(), json!(1))).collect();
    let mut plan = with_profile("constant", &json!({"rps": 1}));
    plan["requestOptions"] = json!({"body": {"nested": nested, "wide": wide}});
    let shown = read(&plan).shown().clone();
    assert!(shown.to_string().len() < 100_000, "{}", shown.to_string().len());
    plan["requestOptions"]["body"]["nested"] = json!(1);
    assert_eq!(read(&plan).shown()["requestOptions"]["body"]["wide"]["…"], "4900 more");
}

#[test]
fn a_digest_is_of_a_plans_content() {
    let plan = with_profile("constant", &json!({"rps": 1}));
    let with = |field: &str, value: Value| {
        let mut plan = plan.clone();
        plan[field] = value;
        read(&plan).digest()
    };
    let digest = read(&plan).digest();
    assert_eq!(with("part", json!("1/2")), digest, "whichever part of it");
    let other_order = r#"{"profile": {"params": {"rps": 1}, "type": "constant"}, "duration": 60,
        "limiterUrl": "http://127.0.0.1:8082/api/test"}"#;
    assert_eq!(Plan::read(other_order.as_bytes()).expect("a good plan").digest(), digest, "in whichever order");
    for (field, value) in [
        ("duration", json!(61)),
        ("limiterUrl", json!("http://127.0.0.1:8082/api/tes")),
        ("seed", json!(2)),
        ("clients", json!([{}])),
        ("concurrency", json!(5)),
        ("profile", json!({"type": "constant", "params": {"rps": 2}})),
    ] {
        assert_ne!(with(field, value), digest, "{field}");
    }
    for (field, value) in [
        ("startAt", json!(1_800_000_000)),
        ("thresholds", json!(["p99<1s"])),
        ("duration", json!(60.0)),
        ("seed", json!(1)),
        ("seed", Value::Null),
        ("concurrency", json!(1_024)),
        ("requestsPerThread", json!(1_024)),
        ("maxLag", json!(1)),
        ("lagBudget", json!(0.01)),
    ] {
        assert_eq!(with(field, value), digest, "{field}");
    }
    let mut alias = plan.clone();
    alias["url"] = alias["limiterUrl"].take();
    alias.as_object_mut().expect("an object").remove("limiterUrl");
    assert_eq!(read(&alias).digest(), digest, "by whichever name");
}
