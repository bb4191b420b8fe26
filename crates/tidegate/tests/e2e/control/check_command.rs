//! `tidegate check`: what is wrong with a configuration, where; its schema; its reference.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::every_setting::everything;
use tidegate_testkit::command::{Outcome, run};
use tidegate_testkit::{Directory, text};

pub(super) fn check(config: &str) -> Outcome {
    let directory = Directory::new();
    let file = directory.file("gateway.yaml", config);
    run(&["check", &text(&file)], &[])
}

#[test]
fn a_good_file_is_ok() {
    for config in ["", "# nothing\n", "{}", "limits: {}\n", "{\"workers\": 2}"] {
        let outcome = check(config);
        assert_eq!(outcome.code, 0, "{config:?}: {outcome:?}");
        assert!(outcome.out.contains("gateway.yaml: ok") && outcome.err.is_empty(), "{outcome:?}");
    }
    let outcome = check("");
    assert!(outcome.out.ends_with("gateway.yaml: ok (1 route, 1 limit, 1 upstream)\n"), "{outcome:?}");
    let outcome = check("routes: [{path: /a}, {prefix: /}]\nlimits: {}\n");
    assert!(outcome.out.ends_with("gateway.yaml: ok (2 routes, 0 limits, 1 upstream)\n"), "{outcome:?}");
}

#[test]
fn a_syntax_error_is_reported_with_its_line() {
    for (config, line) in [
        ("workers: 2\nlimits:\n  default: [\n", "line"),
        ("workers: 2\nworkers: 3\n", "2"),
        ("workers: 2\nlog:\n  format: purple\n", "3"),
        ("workers: many\n", "1"),
        ("{\n  \"workers\": 2,\n  \"log\": {\"format\": \"purple\"}\n}", "3"),
        ("{\n  \"workers\": 2,\n}", "3"),
        ("limits:\n  default:\n    algorithm: fixed\n    limit: 1\n    windows: 5\n", "5"),
        ("connections:\n  head_timeout: soon\n", "2"),
    ] {
        let outcome = check(config);
        assert_eq!(outcome.code, 2, "{config:?}: {outcome:?}");
        let reported = outcome.out.to_lowercase();
        assert!(
            reported.contains("gateway.yaml") && reported.contains("line") && reported.contains(line),
            "{config:?}: {outcome:?}"
        );
    }
}

/// What is wrong is named, and what is expected is reported in words that need no knowledge of Rust.
#[test]
fn a_value_of_the_wrong_kind_is_reported_with_its_field() {
    let whole = "expected a whole number, 0 or more";
    let limit = |rest: &str| format!("limits: {{a: {{algorithm: fixed, {rest}}}}}\n");
    for (config, reported) in [
        (limit("limit: -1"), format!("limits.a.limit: {whole}")),
        (limit("limit: 1.5"), format!("limits.a.limit: {whole}")),
        (limit("limit: 10r/s"), format!("limits.a.limit: {whole}")),
        (limit("fill_rate: fast"), "limits.a.fill_rate: expected a number".to_owned()),
        (limit("dry_run: perhaps"), "limits.a.dry_run: expected true or false".to_owned()),
        (limit("window: 1w"), "limits.a.window: expected a time: seconds".to_owned()),
        (limit("window: 100000000d"), "at most 10000000000s".to_owned()),
        ("workers: auto\n".to_owned(), format!("workers: {whole}")),
        ("connections: {max_body_bytes: 10M}\n".to_owned(), format!("connections.max_body_bytes: {whole}")),
        ("routes: {prefix: /}\n".to_owned(), "routes: expected a list".to_owned()),
        ("routes: [{methods: GET}]\n".to_owned(), "routes[0].methods: expected a list".to_owned()),
        ("limits: [a]\n".to_owned(), "limits: expected names with values".to_owned()),
        ("limits: {a: 5}\n".to_owned(), "limits.a: expected names with values".to_owned()),
        ("routes: [{name: [a]}]\n".to_owned(), "routes[0].name: expected text".to_owned()),
        ("limits: {a: {limit: 5}}\n".to_owned(), "limits.a: missing field `algorithm`".to_owned()),
        ("{\"limits\": {\"a\": {\"limit\": -1}}}".to_owned(), format!("limits.a.limit: {whole}")),
        ("{\"routes\": [{\"methods\": \"GET\"}]}".to_owned(), "routes[0].methods: expected a list".to_owned()),
    ] {
        let outcome = check(&config);
        assert_eq!(outcome.code, 2, "{config:?}: {outcome:?}");
        assert!(outcome.out.contains(&reported), "{config:?}: {outcome:?}");
    }
}

/// What can be used but hardly is meant.
#[test]
fn what_has_no_effect_or_an_unwanted_one_is_a_warning() {
    let limit = |rest: &str| format!("limits: {{default: {{algorithm: fixed, limit: 5, window: 1, {rest}}}}}\n");
    for (config, path, reported) in [
        (limit("cost: 6"), "limits.default.cost", "every request is rejected"),
        (limit("key: user"), "limits.default.key", "all requests share one key"),
        (limit("key: user, missing: ip"), "limits.default.key", "counted by their address"),
        (limit("key: ip+apiKey, missing: skip"), "limits.default.key", "applies to no request"),
        (limit("key: clientId, missing: refuse"), "limits.default.key", "every request is rejected"),
        (limit("key: \"header:x-client\""), "limits.default.key", "a rejected client can evade it"),
        (limit("key: endpoint+method"), "limits.default.key", "a rejected client can evade it"),
        (limit("tiers: {pro: unlimited}"), "limits.default.tiers.pro", "no identity source gives this tier"),
        (
            "upstreams: {a: {url: \"http://h\"}, b: {url: \"http://h\"}}\nroutes: [{upstream: a}]\n".to_owned(),
            "upstreams.b",
            "is used by no route",
        ),
        ("routes: [{prefix: /config/x}]\n".to_owned(), "routes[0].prefix", "never reached without `admin.listen`"),
        ("routes: [{path: \"/a?x=1\"}]\n".to_owned(), "routes[0].path", "without query"),
        ("routes: [{prefix: \"/a*\"}]\n".to_owned(), "routes[0].prefix", "`*` is for `pattern`"),
        (
            "identity: {trusted_headers: {user: x-user}}\n".to_owned(),
            "identity.trusted_headers",
            "`trusted_proxies` is empty",
        ),
        ("routes: [{prefix: /}, {path: /a}]\n".to_owned(), "routes[1]", "routes[0] takes every request"),
        ("admin: {listen: \"0.0.0.0:0\"}\n".to_owned(), "admin.listen", "can change limits"),
        ("admin: {token: \"${TOKEN_FROM_SOMEWHERE}\"}\n".to_owned(), "admin.token", "variables are not replaced"),
    ] {
        let outcome = check(&config);
        assert_eq!(outcome.code, 0, "{config:?}: {outcome:?}");
        let line = outcome.out.lines().find(|line| line.contains(&format!("gateway.yaml: warning: {path}: ")));
        assert!(line.is_some_and(|line| line.contains(reported)), "{config:?}: {outcome:?}");
        assert_eq!(outcome.out.lines().count(), 2, "{outcome:?}");
    }
    for config in [
        limit("cost: 5"),
        limit("soft: 1, cost: 6"),
        limit("key: ip+endpoint"),
        limit("key: endpoint"),
        limit("key: ip+method"),
        "routes: [{pattern: \"/a/*\"}]\n".to_owned(),
        "admin: {listen: \"127.0.0.1:0\"}\nroutes: [{prefix: /config/x}]\n".to_owned(),
        limit("key: user") + "identity: {api_keys: {keys: [{key: a-key, user: ann}]}}\n",
        "identity: {trusted_headers: {user: x-user}}\ntrusted_proxies: [10.0.0.1]\n".to_owned(),
        "routes: [{path: /a}, {methods: [GET]}, {host: a.example}, {}]\n".to_owned(),
        "admin: {listen: \"127.0.0.1:0\"}\n".to_owned(),
        "admin: {listen: \"0.0.0.0:0\", token: a-long-enough-token}\n".to_owned(),
        "admin: {listen: \"0.0.0.0:0\", open: true}\n".to_owned(),
    ] {
        let outcome = check(&config);
        assert!(outcome.code == 0 && !outcome.out.contains("warning"), "{config:?}: {outcome:?}");
    }
}

/// These would only show at the start.
#[test]
fn what_could_not_be_started_is_reported() {
    for (config, path) in [
        ("listeners: [{address: \"127.0.0.1:9\"}, {address: \"127.0.0.1:9\"}]\n", "listeners[1].address"),
        ("listeners: [{address: \"127.0.0.1:9\"}]\nadmin: {listen: \"127.0.0.1:9\"}\n", "admin.listen"),
        ("admin: {listen: \"127.0.0.1:8082\"}\n", "admin.listen"),
        ("access_log: {file: /nonexistent/directory/access.log}\n", "access_log.file"),
    ] {
        let outcome = check(config);
        assert!(outcome.code == 2 && outcome.out.contains(&format!("gateway.yaml: {path}: ")), "{config}: {outcome:?}");
    }
    let free =
        check("listeners: [{address: \"127.0.0.1:0\"}, {address: \"127.0.0.1:0\"}]\naccess_log: {file: access.log}\n");
    assert_eq!(free.code, 0, "{free:?}");
}

/// With more limits than can be asked together every request would fail.
#[test]
fn too_many_limits_of_a_route_or_an_upstream_are_reported() {
    let names: Vec<String> = (0..17).map(|n| format!("l{n}")).collect();
    let limits: Vec<String> =
        names.iter().map(|name| format!("{name}: {{algorithm: fixed, limit: 1, window: 1}}")).collect();
    let (limits, names) = (limits.join(", "), names.join(", "));
    let url = "url: \"http://127.0.0.1:1\"";
    for (rest, path) in [
        (format!("upstreams: {{app: {{{url}, limits: [{names}]}}}}\n"), "upstreams.app.limits"),
        (format!("routes: [{{limits: [{names}]}}]\n"), "routes[0].limits"),
    ] {
        let outcome = check(&format!("limits: {{{limits}}}\n{rest}"));
        let found = outcome.out.contains(&format!("{path}: must be at most 16")) && outcome.out.contains("got 17");
        assert!(outcome.code == 2 && found, "{outcome:?}");
    }
}

#[test]
fn mistakes_of_use_are_reported() {
    let limit = "{algorithm: fixed, limit: 1, window: 1}";
    for (config, path) in [
        (format!("limits: {{one: {limit}}}\n"), "limits.one"),
        (
            format!(
                "limits: {{one: {limit}}}\nupstreams: {{app: {{url: \"http://x\", limits: [one]}}}}\n\
                 common_limits: [one]\n"
            ),
            "limits.one",
        ),
        (format!("limits: {{default: {limit}}}\nroutes: [{{limits: [default]}}]\n"), "routes[0].limits"),
        (
            "limits: {one: {algorithm: fixed, limit: 1, window: 1, dry_run: true}}
upstreams: {app: {url: \"http://x\", limits: [one]}}\n"
                .to_owned(),
            "limits.one.dry_run",
        ),
        (
            "limits: {default: {algorithm: fixed, limit: 1, window: 1, state: exact}}\n".to_owned(),
            "limits.default.state",
        ),
        (
            "listeners: [{address: \"127.0.0.1:1\", tls: {certificate: /nonexistent, key: /nonexistent}}]\n".to_owned(),
            "listeners[0].tls.certificate",
        ),
    ] {
        let outcome = check(&config);
        assert_eq!(outcome.code, 2, "{config}: {outcome:?}");
        assert!(outcome.out.contains(&format!("{path}: ")), "{config}: {outcome:?}");
    }
}

/// All of them, and nothing that only follows from something else.
#[test]
fn every_limit_that_nothing_uses_is_reported_and_no_mistake_is_reported_twice() {
    let outcome = check(
        "workers: 0
limits:
  one: {algorithm: fixed, limit: 1, window: 1}
  two: {algorithm: fixed, limit: 1, window: 1}
  bad: {algorithm: magic}
  used: {algorithm: fixed, limit: 1, window: 1}
common_limits: [bad]
routes: [{prefix: nonsense, limits: [used, bad]}]
",
    );
    assert_eq!(outcome.code, 2, "{outcome:?}");
    let reported: Vec<&str> = outcome.out.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(
        reported,
        ["workers", "limits.bad.algorithm", "routes[0].prefix", "limits.one", "limits.two"],
        "{outcome:?}"
    );
}

/// A file holds secrets, and what is said of it goes to logs.
#[test]
fn secrets_are_not_repeated() {
    for config in [
        "identity:\n  jwt:\n    secret: \"hunter2-0123456789-0123456789-abcdef\"\n    leewai: 3\n",
        "admin: {token: hunter2-hunter2}\nworkers: 0\n",
        "upstreams: {a: {url: \"http://user:hunter2@h/\"}}\n",
        "upstreams: {a: {url: \"http//user:hunter2@h/\"}}\n",
        "{\"redis\": \"redis://u:hunter2@h:1\"}",
        "redis: {url: \"redis://u:hunter2@h:x\"}\n",
    ] {
        let directory = Directory::new();
        let file = text(&directory.file("gateway.yaml", config));
        let (checked, started) = (run(&["check", &file], &[]), run(&["gateway", "--config", &file], &[]));
        assert_eq!((checked.code, started.code), (2, 2), "{config}: {checked:?} {started:?}");
        for reported in [&checked.out, &checked.err, &started.out, &started.err] {
            assert!(!reported.contains("hunter2"), "{config}: {reported}");
        }
    }
}

/// The limit of a tier is named `limit.tier`, in rejections and in `/config/limits`: no other may have that name.
#[test]
fn two_limits_of_the_same_name_are_rejected() {
    let numbers = "algorithm: fixed, limit: 1, window: 1";
    let outcome = check(&format!(
        "limits: {{plan: {{{numbers}, tiers: {{pro: {{limit: 2, window: 1}}}}}}, plan.pro: {{{numbers}}}}}
common_limits: [plan, plan.pro]
"
    ));
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.out.contains("plan.pro") || outcome.out.contains("plan.tiers.pro"), "{outcome:?}");

    // Two tiers' limits, each of which counted by the other's numbers.
    let tier = |name: &str| format!("{numbers}, tiers: {{{name}: {{limit: 2, window: 1}}}}");
    let limits = format!("limits: {{a: {{{}}}, a.b: {{{}}}}}\ncommon_limits: [a, a.b]\n", tier("b.c"), tier("c"));
    let outcome = check(&limits);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(
        outcome.out.contains("limits.a.b.tiers.c: must not be named like another limit, got `a.b.c`"),
        "{outcome:?}"
    );
}

/// They come later; a file that names them would not get what it asks for.
#[test]
fn features_of_later_versions_are_unknown() {
    for (config, word) in [
        ("breaker: {failures: 5}\n", "breaker"),
        ("retry: {attempts: 3}\n", "retry"),
        ("cache: {ttl: 5}\n", "cache"),
        ("shed: {}\n", "shed"),
        ("bulkhead: 5\n", "bulkhead"),
        ("adaptive: {models: x}\n", "models"),
        ("upstreams: {app: {url: \"http://x\", breaker: {}}}\n", "breaker"),
        ("upstreams: {app: {url: \"http://x\", bulkhead: 5}}\n", "bulkhead"),
        ("routes: [{prefix: /, retry: {}}]\n", "retry"),
        ("routes: [{prefix: /, cache: {}}]\n", "cache"),
        ("routes: [{prefix: /, priority: critical}]\n", "priority"),
    ] {
        let outcome = check(config);
        assert_eq!(outcome.code, 2, "{config}: {outcome:?}");
        assert!(outcome.out.contains("unknown") && outcome.out.contains(word), "{config}: {outcome:?}");
        let directory = Directory::new();
        let file = directory.file("gateway.yaml", config);
        let start = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &text(&file)], &[]);
        assert!(start.code != 0 && start.err.contains(word), "{start:?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_reported() {
    for command in [&["check", "/nonexistent/gateway.yaml"][..], &["gateway", "--config", "/nonexistent/gateway.yaml"]]
    {
        let outcome = run(command, &[]);
        assert_eq!(outcome.code, 2, "{outcome:?}");
        let reported = outcome.out + &outcome.err;
        assert!(reported.contains("/nonexistent/gateway.yaml: No such file"), "{reported}");
    }
    let nothing = run(&["check"], &[]);
    assert!(nothing.code != 0 && !nothing.err.is_empty(), "{nothing:?}");
}

/// The schema of a property, behind its references; of several possible ones the first that has settings of its own.
fn resolved<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    if let Some(reference) = property["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").expect("a definition of this schema");
        return resolved(schema, &schema["$defs"][name]);
    }
    for options in ["anyOf", "oneOf"] {
        if let Some(options) = property[options].as_array() {
            let mut options = options.iter().map(|option| resolved(schema, option));
            return options.find(|option| option["properties"].is_object()).unwrap_or(property);
        }
    }
    property
}

/// Walks a file beside its schema, and notes every setting of the schema that the file has (`Struct.field`).
fn walk(schema: &Value, property: &Value, value: &Value, path: &str, seen: &mut BTreeSet<String>) {
    let property = resolved(schema, property);
    match value {
        Value::Object(fields) if property["properties"].is_object() => {
            assert_eq!(property["additionalProperties"], false, "{path}: unknown settings are refused");
            for (field, value) in fields {
                let below = &property["properties"][field];
                assert!(!below.is_null(), "the schema has no {path}.{field}");
                assert!(below["description"].is_string(), "{path}.{field} is not described");
                seen.insert(format!("{}.{field}", property["description"].as_str().unwrap_or_default()));
                walk(schema, below, value, &format!("{path}.{field}"), seen);
            }
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                walk(schema, &property["additionalProperties"], value, &format!("{path}.{field}"), seen);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(schema, &property["items"], item, path, seen)),
        _ => {}
    }
}

#[test]
fn the_schema_is_json_schema_and_lists_every_setting() {
    let outcome = run(&["check", "--schema"], &[]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let schema: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["type"], "object");

    let directory = Directory::new();
    let everything = everything(&directory);
    let accepted = check(&everything.to_string());
    assert_eq!(accepted.code, 0, "the file with every setting is valid: {accepted:?}");
    let mut seen = BTreeSet::new();
    walk(&schema, &schema, &everything, "", &mut seen);
    let definitions = schema["$defs"].as_object().expect("definitions");
    let mut listed = BTreeSet::new();
    for definition in definitions.values().chain([&schema]) {
        let about = definition["description"].as_str().unwrap_or_default();
        listed.extend(
            definition["properties"].as_object().into_iter().flatten().map(|(field, _)| format!("{about}.{field}")),
        );
    }
    let unseen: Vec<&String> = listed.difference(&seen).collect();
    assert!(unseen.is_empty(), "in the schema, and not in the file with every setting: {unseen:#?}");
}

#[test]
fn the_reference_is_the_page_in_docs_and_names_every_setting() {
    let outcome = run(&["check", "--reference"], &[]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let written = std::fs::read_to_string(&page).expect("docs/configuration.md");
    let hint = "run `make reference`";
    assert!(written == outcome.out, "docs/configuration.md is not what the code says; {hint}");
    let schema: Value = serde_json::from_str(&run(&["check", "--schema"], &[]).out).expect("JSON");
    for definition in schema["$defs"].as_object().expect("definitions").values().chain([&schema]) {
        for field in definition["properties"].as_object().into_iter().flatten().map(|(field, _)| field) {
            assert!(written.contains(&format!("\n- `{field}` (")), "{field}");
        }
    }
    for entry in written.lines().filter(|line| line.starts_with("- `")) {
        let facts = entry.split_once(" (").map_or("", |(_, facts)| facts);
        assert!(!facts.starts_with("any") && !facts.starts_with(';'), "a setting without a type: {entry}");
        assert!(!entry.ends_with("): "), "a setting without a description: {entry}");
    }
    // Range and default come from the declaration of the setting.
    for entry in [
        "- `workers` (number; 1 to 256): ",
        "- `max` (number; 1 to 10000000; default: 20000): ",
        "- `head_timeout` (time; 20ms to 1d; default: 10s): ",
        "- `max_idle` (number; 0 to 100000; default: 64): ",
        "- `budget` (time; 1ms to 1m; default: 20ms): ",
        "- `step` (number; 1.01 to 1000; default: 3): ",
        "- `on_failure` (`open`, `closed`, `local`; default: `open`): ",
        "- `token` (string; at least 16 characters): ",
        "- `url` (string; required): ",
    ] {
        assert!(written.contains(entry), "{entry}");
    }
}
