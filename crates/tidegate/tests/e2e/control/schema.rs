//! The JSON Schema and the program agree: an editor that checks a file by the schema says what `tidegate check` says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use tidegate_testkit::command::run;
use tidegate_testkit::{Directory, text};

/// What the schema has against a value. As much of JSON Schema as our own uses; anything else is a failure of the test.
fn faults(schema: &Value, rule: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let all = |rules: &Value| -> Vec<Vec<String>> {
        rules.as_array().expect("a list").iter().map(|rule| faults(schema, rule, value, path)).collect()
    };
    let Some(keywords) = rule.as_object() else {
        return if *rule == Value::Bool(false) { vec![format!("{path} is not allowed")] } else { found };
    };
    let number = value.as_f64();
    for (keyword, wanted) in keywords {
        let holds = match keyword.as_str() {
            // Words for people; and the last two are looked at together below.
            "$schema"
            | "$defs"
            | "title"
            | "description"
            | "default"
            | "format"
            | "properties"
            | "additionalProperties" => true,
            "$ref" => {
                let name = wanted.as_str().and_then(|name| name.strip_prefix("#/$defs/")).expect("a definition");
                found.extend(faults(schema, &schema["$defs"][name], value, path));
                true
            }
            "type" => match wanted {
                Value::Array(kinds) => kinds.iter().any(|kind| is_a(value, kind)),
                kind => is_a(value, kind),
            },
            "enum" => wanted.as_array().expect("a list").contains(value),
            "const" => wanted == value,
            "minimum" => number.is_none_or(|number| Some(number) >= wanted.as_f64()),
            "maximum" => number.is_none_or(|number| Some(number) <= wanted.as_f64()),
            "maxLength" => value.as_str().is_none_or(|text| Some(text.chars().count() as u64) <= wanted.as_u64()),
            "minLength" => value.as_str().is_none_or(|text| Some(text.chars().count() as u64) >= wanted.as_u64()),
            "pattern" => value.as_str().is_none_or(|text| is_time(wanted, text)),
            "required" => {
                let names = wanted.as_array().expect("a list").iter().map(|name| name.as_str().expect("a name"));
                names.into_iter().all(|name| !value.is_object() || value.get(name).is_some())
            }
            "items" => {
                for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(schema, wanted, item, &format!("{path}[{place}]")));
                }
                true
            }
            "allOf" => {
                found.extend(all(wanted).into_iter().flatten());
                true
            }
            "anyOf" => all(wanted).iter().any(Vec::is_empty),
            "oneOf" => all(wanted).iter().filter(|faults| faults.is_empty()).count() == 1,
            "not" => !faults(schema, wanted, value, path).is_empty(),
            other => panic!("the test does not know `{other}`"),
        };
        if !holds {
            found.push(format!("{path}: {keyword} {wanted}"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let rule = keywords.get("properties").and_then(|properties| properties.get(name));
        if let Some(rule) = rule.or_else(|| keywords.get("additionalProperties")) {
            found.extend(faults(schema, rule, value, &format!("{path}.{name}")));
        }
    }
    found
}

fn is_a(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the test does not know `{other}`"),
    }
}

/// The only pattern there is.
fn is_time(pattern: &Value, text: &str) -> bool {
    assert_eq!(pattern, r"^ *([0-9]+\.?[0-9]*|\.[0-9]+) *(ms|s|m|min|h|d)? *$");
    let text = text.trim_matches(' ');
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let is_number = digits > 0 && number.len() - digits <= 1;
    is_number && ["", "ms", "s", "m", "min", "h", "d"].contains(&unit.trim_start_matches(' '))
}

/// A file with one limit, named `default`.
fn limit(limit: &Value) -> Value {
    json!({ "limits": { "default": limit } })
}

fn upstream(field: &str, value: &Value) -> Value {
    json!({ "upstreams": { "app": { "url": "http://127.0.0.1:1", field: value } } })
}

fn good() -> Vec<Value> {
    let mut files = vec![
        json!({}),
        json!({ "workers": 256 }),
        json!({ "workers": null, "access_log": null, "redis": null, "limits": null }),
        json!({ "listeners": [{ "address": "127.0.0.1:1" }, { "address": "[::1]:1", "h2c": true }] }),
        limit(&json!({ "algorithm": "token", "capacity": 5, "fillRate": 1 })),
        limit(&json!({ "algorithm": "token", "burst": 5, "fill_rate": 0.5 })),
        limit(&json!({ "algorithm": "fixed", "limit": 5, "window": 60, "tiers": { "pro": "unlimited" } })),
        limit(&json!({ "algorithm": "fixed", "limit": 5, "window": 60, "soft": true })),
        limit(&json!({ "algorithm": "fixed", "limit": 5, "window": 60, "soft": 1_048_576 })),
        limit(&json!({ "algorithm": "fixed", "limit": 5, "window": 60, "status": 599, "cost": 1, "max_keys": 1 })),
        json!({ "connections": { "max": 1, "max_head_bytes": 8192, "max_headers": 256, "max_streams": 10000 } }),
        json!({ "admin": { "token": "0123456789abcdef" } }),
        json!({ "access_log": { "buffer": 1 } }),
        upstream("max_idle", &json!(0)),
        upstream("max_connections", &json!(1_000_000)),
        upstream("max_head_bytes", &json!(1024)),
        upstream("connect_timeout", &json!(0.02)),
        upstream("idle_timeout", &json!(86_400)),
        json!({ "connections": { "drain_timeout": 0 } }),
        json!({ "adaptive": { "errors": 1, "step": 1.01, "dwell": 0, "latency": 0.0001, "source": "a" } }),
        json!({ "identity": { "jwt": { "secret": "a secret of thirty-two characters", "leeway": 600 } } }),
        json!({ "redis": { "url": "redis://127.0.0.1", "budget": 60, "namespace": null } }),
    ];
    for numbers in [
        json!({ "limit": 6, "window": "1m" }),
        json!({ "algorithm": "token", "burst": 1, "fill_rate": 1 }),
        json!({ "algorithm": "gcra", "capacity": 1, "fillRate": 1 }),
    ] {
        let tiers = json!({ "pro": numbers });
        files.push(limit(&json!({ "algorithm": "fixed", "limit": 5, "window": 60, "tiers": tiers })));
    }
    for algorithm in ["fixed", "sliding", "sliding_log", "token", "leaky", "gcra", "concurrency"] {
        let all = json!({ "algorithm": algorithm, "limit": 5, "window": 1, "capacity": 5, "fill_rate": 1 });
        files.push(limit(&all));
    }
    for time in
        [json!(1), json!(0.5), json!("500ms"), json!(" 10 s "), json!("1."), json!(".5"), json!("2 min"), json!("1h")]
    {
        files.push(json!({ "connections": { "head_timeout": time } }));
    }
    files
}

fn bad() -> Vec<Value> {
    let fixed =
        |field: &str, value: &Value| limit(&json!({ "algorithm": "fixed", "limit": 5, "window": 60, field: value }));
    let mut files = vec![
        json!({ "colour": "blue" }),
        json!({ "workers": 0 }),
        json!({ "workers": 257 }),
        json!({ "workers": 1.5 }),
        json!({ "workers": "2" }),
        json!({ "listeners": {} }),
        json!({ "listeners": [{}] }),
        json!({ "log": { "level": "loud" } }),
        json!({ "admin": { "token": "short" } }),
        json!({ "admin": { "open": "yes" } }),
        json!({ "access_log": { "buffer": 0 } }),
        json!({ "redis": { "url": "redis://127.0.0.1", "lease_tokens": 0 } }),
        json!({ "redis": {} }),
        json!({ "redis": { "url": "redis://127.0.0.1", "budget": 61 } }),
        json!({ "adaptive": { "errors": 1.5 } }),
        json!({ "adaptive": { "step": 1 } }),
        json!({ "adaptive": { "dwell": 3_601 } }),
        json!({ "adaptive": { "source": "" } }),
        json!({ "identity": { "jwt": { "secret": "a secret of thirty-two characters", "leeway": 601 } } }),
        limit(&json!({ "limit": 5, "window": 60 })),
        limit(&json!({ "algorithm": "magic", "limit": 5, "window": 60 })),
        limit(&json!({ "algorithm": "token", "capacity": 5, "burst": 5, "fill_rate": 1 })),
        limit(&json!({ "algorithm": "token", "capacity": 5, "fillRate": 1, "fill_rate": 1 })),
        fixed("colour", &json!("blue")),
        fixed("soft", &json!(1_048_577)),
        fixed("soft", &json!(-1)),
        fixed("soft", &json!("some")),
        fixed("status", &json!(200)),
        fixed("status", &json!(600)),
        fixed("cost", &json!(0)),
        fixed("max_keys", &json!(0)),
        fixed("missing", &json!("perhaps")),
        fixed("state", &json!("somewhere")),
        fixed("capacity", &json!(-1)),
        upstream("max_idle", &json!(100_001)),
        upstream("max_connections", &json!(0)),
        upstream("max_head_bytes", &json!(1023)),
        upstream("connect_timeout", &json!(0)),
        upstream("idle_timeout", &json!(86_401)),
        upstream("colour", &json!("blue")),
        json!({ "upstreams": { "app": {} } }),
        json!({ "routes": [{ "methods": "GET" }] }),
    ];
    files.extend(bad_tiers().into_iter().map(|tier| fixed("tiers", &json!({ "pro": tier }))));
    files.extend(bad_connections());
    files
}

fn bad_tiers() -> Vec<Value> {
    vec![
        json!("unlimitd"),
        json!(5),
        json!({ "limit": 5, "windw": 1 }),
        json!({ "algorithm": "magic", "limit": 5, "window": 1 }),
        json!({ "algorithm": "token", "fillRate": 1, "fill_rate": 1, "capacity": 5 }),
    ]
}

fn bad_connections() -> impl Iterator<Item = Value> {
    let settings = [
        ("max", json!(0)),
        ("max_head_bytes", json!(8191)),
        ("max_head_bytes", json!(1_048_577)),
        ("max_headers", json!(7)),
        ("max_headers", json!(257)),
        ("max_streams", json!(0)),
        ("head_timeout", json!("soon")),
        ("head_timeout", json!("5 weeks")),
        ("head_timeout", json!("1.2.3")),
        ("head_timeout", json!(-1)),
        ("head_timeout", json!(0.019)),
        ("drain_timeout", json!(3_601)),
        ("head_timeout", json!(true)),
    ];
    settings.into_iter().map(|(name, value)| json!({ "connections": { name: value } }))
}

/// Once the schema rejected `fillRate` and `burst`, which the documentation writes, and took any algorithm and any
/// number.
#[test]
fn the_schema_and_the_program_agree() {
    let reported = run(&["check", "--schema"], &[]);
    let schema: Value = serde_json::from_str(&reported.out).expect("JSON");
    let directory = Directory::new();
    let mut disagree = BTreeSet::new();
    for (files, is_good) in [(good(), true), (bad(), false)] {
        for file in files {
            let path = directory.file("gateway.json", &file.to_string());
            let checked = run(&["check", &text(&path)], &[]);
            let by_schema = faults(&schema, &schema, &file, "");
            if (checked.code == 0) != is_good {
                disagree.insert(format!("program: {file}: {}", checked.out));
            }
            if by_schema.is_empty() != is_good {
                disagree.insert(format!("schema: {file}: {by_schema:?}"));
            }
        }
    }
    assert!(disagree.is_empty(), "{disagree:#?}");
}
