//! Plans that are rejected: each mistake is reported with its path and what is expected.

use serde_json::{Value, json};
use tidegate_load::{Arrivals, Plan, Times};

use super::{faults, with_profile};

/// A good plan with another value in one field.
fn with(field: &str, value: Value) -> Value {
    let mut plan = with_profile("constant", &json!({"rps": 1}));
    plan[field] = value;
    plan
}

/// Each plan is rejected with a line for this path that has this text.
fn rejects(cases: &[(Value, &str, &str)]) {
    for (plan, path, expected) in cases {
        let faults = faults(plan);
        let line = faults.lines().find(|line| line.starts_with(&format!("{path}: ")));
        assert!(line.is_some_and(|line| line.contains(expected)), "{plan}\n{faults}");
    }
}

#[test]
fn a_bad_target_is_reported() {
    rejects(&[
        (with("limiterUrl", Value::Null), "limiterUrl", "is missing; must be http://"),
        (with("limiterUrl", json!("127.0.0.1:8082")), "limiterUrl", "http://host"),
        (with("limiterUrl", json!("ftp://a")), "limiterUrl", "has a scheme other than http and https"),
        (with("limiterUrl", json!("http://a:99999")), "limiterUrl", "no usable host or port"),
        (with("limiterUrl", json!("http://u:p@a")), "limiterUrl", "carries a user"),
        (with("limiterUrl", json!(5)), "limiterUrl", "must be text, got 5"),
    ]);
}

#[test]
fn a_bad_profile_is_reported_with_what_its_type_expects() {
    let burst = json!({"baseRps": 1, "spikeRps": 2, "spikeDuration": 5, "spikePeriod": 60});
    let ddos = json!({"minRps": 0, "maxRps": 9, "maxSpikeDuration": 1, "minIdleTime": 1, "maxIdleTime": 2});
    let changed = |base: &Value, field: &str, value: Value| {
        let mut params = base.clone();
        params[field] = value;
        params
    };
    rejects(&[
        (with("profile", Value::Null), "profile", "is missing"),
        (with("profile", json!("burst")), "profile", "must be an object, got \"burst\""),
        (with("profile", json!({"type": "burst"})), "profile.params", "is missing"),
        (with("profile", json!({"params": {}})), "profile.type", "is missing; must be one of constant, burst"),
        (with_profile("storm", &json!({})), "profile.type", "must be one of constant, burst"),
        (with_profile("constant", &json!({})), "profile.params.rps", "is missing; must be requests a second"),
        (
            with_profile("constant", &json!({"rps": -1})),
            "profile.params.rps",
            "must be requests a second from 0.000001 to 10000000, got -1",
        ),
        (with_profile("constant", &json!({"rps": 0})), "profile.params.rps", "from 0.000001"),
        (with_profile("constant", &json!({"rps": 1e9})), "profile.params.rps", "to 10000000"),
        (with_profile("constant", &json!({"rps": "50"})), "profile.params.rps", "got \"50\""),
        (
            with_profile("constant", &json!({"rps": 1, "spike": 2})),
            "profile.params.spike",
            "is unknown; known fields: rps",
        ),
        (with_profile("poisson", &json!({"averageRps": null})), "profile.params.averageRps", "is missing"),
        (
            with_profile("burst", &changed(&burst, "spikeDuration", json!(61))),
            "profile.params.spikeDuration",
            "at most `spikePeriod`",
        ),
        (
            with_profile("burst", &changed(&burst, "spikePeriod", json!(0))),
            "profile.params.spikePeriod",
            "seconds from",
        ),
        (
            with_profile("sinusoidal", &json!({"minRps": 5, "maxRps": 4, "period": 9})),
            "profile.params.minRps",
            "at most `maxRps`",
        ),
        (
            with_profile("ddos", &changed(&ddos, "minIdleTime", json!(3))),
            "profile.params.minIdleTime",
            "at most `maxIdleTime`",
        ),
        (with_profile("ddos", &changed(&ddos, "minRps", json!(10))), "profile.params.minRps", "at most `maxRps`"),
    ]);
}

#[test]
fn bad_steps_and_traces_are_reported() {
    rejects(&[
        (with_profile("steps", &json!({"steps": []})), "profile.params.steps", "a list of steps"),
        (with_profile("steps", &json!({"steps": [{"rps": -1}]})), "profile.params.steps[0].rps", "requests a second"),
        (
            with_profile("steps", &json!({"steps": [{"rps": 1}, {"rps": 1}]})),
            "profile.params.steps[0].duration",
            "is missing",
        ),
        (with_profile("trace", &json!({})), "profile.params.rates", "is missing; must be set, or else `timestamps`"),
        (with_profile("trace", &json!({"timestamps": [2, 1]})), "profile.params.timestamps[1]", "is before"),
        (with_profile("trace", &json!({"rates": [1, -1]})), "profile.params.rates[1]", "a number from 0"),
        (
            with_profile("trace", &json!({"rates": [1, 2e7]})),
            "profile.params.rates[1]",
            "must be at most 10000000 with its `scale`, got 20000000",
        ),
        (
            with_profile("trace", &json!({"file": "/etc/passwd"})),
            "profile.params.file",
            "is only read for a plan in a file, on the command line",
        ),
    ]);
}

#[test]
fn bad_times_are_reported() {
    rejects(&[
        (with("duration", json!(0)), "duration", "seconds from 0.001 to 604800"),
        (with("duration", json!(-5)), "duration", "seconds from"),
        (with("duration", json!("60")), "duration", "seconds from"),
        (with("duration", Value::Null), "duration", "is missing; must be seconds from"),
        (with("phases", json!([])), "phases", "got an empty one"),
        (with("phases", json!([{"duration": 1}])), "phases[0].profile", "is missing"),
        (with("arrivals", json!("odd")), "arrivals", "`even` or `poisson`"),
    ]);
}

#[test]
fn bad_clients_are_reported() {
    rejects(&[
        (with("clients", json!([])), "clients", "must not be empty"),
        (with("clients", json!(vec![json!({}); 101])), "clients", "must have at most 100 entries, got 101"),
        (
            with("clients", json!([{"name": "a"}, {}, {"name": "a"}])),
            "clients[2].name",
            "must differ from the other groups' names, got \"a\" again",
        ),
        (with("clients", json!([{"name": ""}])), "clients[0].name", "1 to 60 printable characters"),
        (with("clients", json!([{"name": "a".repeat(61)}])), "clients[0].name", "1 to 60 printable characters"),
        (with("clients", json!([{"name": "a\u{1b}[31m"}])), "clients[0].name", "printable characters"),
        (with("clients", json!([{"class": "evil"}])), "clients[0].class", "`honest` or `attacker`"),
        (with("clients", json!([{"count": 0}])), "clients[0].count", "a whole number from 1"),
        (with("clients", json!([{"weight": 0}])), "clients[0].weight", "a weight from"),
        (
            with("clients", json!([{"forwardedFor": "here"}])),
            "clients[0].forwardedFor",
            "must be an address, the first client's, got \"here\"",
        ),
        (
            with("clients", json!([{"headers": {"a b": "c"}}])),
            "clients[0].headers",
            "\"a b\" must be a valid header name",
        ),
        (with("clients", json!([{"polite": {"retries": 0}}])), "clients[0].polite.retries", "a whole number from 1"),
        (
            with("clients", json!([{"polite": "yes"}])),
            "clients[0].polite",
            "must be `true`, `false` or an object, got \"yes\"",
        ),
        (
            with("clients", json!([{"polite": true, "retry": {}}])),
            "clients[0].retry",
            "can't be set together with `polite`",
        ),
        (
            with("clients", json!([{"retry": {"after": ["5xx", "never"]}}])),
            "clients[0].retry.after[1]",
            "must be `timeout`, `failure`, `4xx`, `5xx` or a status from 400 to 599, got \"never\"",
        ),
        (with("clients", json!([{"retry": {"retries": 101}}])), "clients[0].retry.retries", "a whole number from 1"),
        (with("clients", json!([{"path": "api"}])), "clients[0].path", "must begin with `/`"),
        (with("clients", json!([{"path": "/a b"}])), "clients[0].path", "must begin with `/` and be a valid path"),
        (
            with("clients", json!([{"count": 7, "forwardedFor": "255.255.255.250"}])),
            "clients[0].forwardedFor",
            "must leave room for `count` addresses",
        ),
        (
            with("clients", json!([{"count": 2, "forwardedFor": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}])),
            "clients[0].forwardedFor",
            "must leave room for `count` addresses",
        ),
        (with("clients", json!([{"name": "a", "count": 0}, {}, {"name": "a"}])), "clients[2].name", "got \"a\" again"),
    ]);
}

#[test]
fn bad_request_options_are_reported() {
    rejects(&[
        (with("requestOptions", json!({"method": "G T"})), "requestOptions.method", "must be an HTTP method"),
        (
            with("requestOptions", json!({"headers": {"Host": "x"}})),
            "requestOptions.headers",
            "it is set automatically",
        ),
        (with("requestOptions", json!({"timeout": 0})), "requestOptions.timeout", "seconds from"),
        (with("requestOptions", json!({"auth": {}})), "requestOptions.auth.token", "is missing; must be set, or else"),
        (with("requestOptions", json!({"protocol": 3})), "requestOptions.protocol", "must be \"1.1\" or \"2\", got 3"),
        (with("requestOptions", json!({"auth": {"user": "a"}})), "requestOptions.auth.password", "is missing"),
        (with("requestOptions", json!({"auth": {"password": "a"}})), "requestOptions.auth.user", "is missing"),
        (
            with("requestOptions", json!({"auth": {"token": "a", "user": "b"}})),
            "requestOptions.auth.token",
            "must not be set beside `user` or `password`",
        ),
        (with("requestOptions", json!({"auth": {"tokn": "a"}})), "requestOptions.auth.tokn", "is unknown"),
        (with("requestOptions", json!({"auth": {"token": "a\n"}})), "requestOptions.auth.token", "no header can have"),
    ]);
}

#[test]
fn other_bad_fields_are_reported() {
    rejects(&[
        (with("seed", json!(-1)), "seed", "a whole number from 0"),
        (with("concurrency", json!(0)), "concurrency", "a whole number from 1 to 100000"),
        (with("concurrency", json!(1.5)), "concurrency", "a whole number"),
        (with("requestsPerThread", json!(0)), "concurrency", "a whole number from 1"),
        (with("maxLag", json!(61)), "maxLag", "seconds from 0 to 60"),
        (with("startAt", json!("soon")), "startAt", "seconds since 1970"),
        (with("thresholds", json!(["p99"])), "thresholds[0]", "p99<50ms"),
        (with("thresholds", json!([5])), "thresholds[0]", "must be text, got 5"),
        (
            with("part", json!("0/3")),
            "part",
            "must be such as `2/3` (the second of three), of at most 1000, got \"0/3\"",
        ),
        (with("part", json!("4/3")), "part", "must be such as `2/3`"),
        (with("part", json!(2)), "part", "got \"2\""),
        (with("part", json!("1/1001")), "part", "of at most 1000"),
        (with("durations", json!(5)), "durations", "is unknown; known fields: limiterUrl"),
        (with("thresholds", json!(["errors<1"])), "thresholds[0]", "with its %"),
    ]);
}

#[test]
fn text_without_a_plan_is_rejected() {
    for text in ["", "{", "[]", "5", "\"a\"", "null", "{\"duration\": 1,}"] {
        assert!(Plan::read(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_password_in_a_url_is_not_reported() {
    let password = faults(&with("limiterUrl", json!("http://u:hunter2@a")));
    assert!(!password.contains("hunter2"), "{password}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let profile = json!({"type": "constant", "params": {"rps": -1}});
    let plan = json!({"limiterUrl": "x", "duration": -1, "concurrency": 0, "profile": profile});
    assert_eq!(faults(&plan).lines().count(), 4, "{}", faults(&plan));
}

/// They were ignored, even if they were nonsense.
#[test]
fn a_profile_beside_phases_is_rejected() {
    let phases = json!([{"duration": 1, "profile": {"type": "constant", "params": {"rps": 20}}}]);
    let plan = json!({"limiterUrl": "http://a", "duration": "x", "profile": {"type": "nonsense"}, "phases": phases});
    let reported = faults(&plan);
    let lines: Vec<&str> = reported.lines().collect();
    assert_eq!(lines.len(), 2, "{reported}");
    for field in ["profile", "duration"] {
        assert!(
            lines.iter().any(|line| line.starts_with(&format!("{field}: must not be set beside `phases`"))),
            "{reported}"
        );
    }
}

/// One line for each mistake, and no line that is wrong.
#[test]
fn a_mistake_is_reported_once() {
    for (plan, expected) in [
        (with("arrivals", json!("random")), "arrivals: must be `even` or `poisson`, got \"random\""),
        (with("profile", json!("constant")), "profile: must be an object, got \"constant\""),
        (with("profile", json!({"type": 5, "params": {}})), "profile.type: must be text, got 5"),
        (with("profile", json!({"type": "constant", "params": 5})), "profile.params: must be an object, got 5"),
        (with("limiterUrl", json!(5)), "limiterUrl: must be text, got 5"),
        (with_profile("steps", &json!({"steps": 5})), "profile.params.steps: must be a list, got 5"),
        (
            with_profile("trace", &json!({"rates": []})),
            "profile.params.rates: must be a list of numbers, got an empty one",
        ),
        (
            with_profile("trace", &json!({"rates": [1], "timestamps": [1]})),
            "profile.params.rates: must not be set beside `timestamps`",
        ),
        (
            json!({"limiterUrl": "http://a", "phases": [{"duration": 1, "profile": 5}]}),
            "phases[0].profile: must be an object, got 5",
        ),
        (json!({"limiterUrl": "http://a", "phases": 5}), "phases: must be a list, got 5"),
        (with("requestOptions", json!({"auth": {"token": 5}})), "requestOptions.auth.token: must be text, got 5"),
    ] {
        assert_eq!(faults(&plan), expected);
    }
    let mut two = with("arrivals", json!("random"));
    two["duration"] = json!(-1);
    assert!(faults(&two).contains("duration: must be seconds from 0.001 to 604800, got -1"), "{}", faults(&two));
    let mut unknown = with("one", json!(1));
    unknown["two"] = json!(2);
    let reported = faults(&unknown);
    assert_eq!((reported.lines().count(), reported.matches("known fields: ").count()), (2, 1), "{reported}");
    assert!(reported.contains("phases, duration, profile"), "{reported}");
}

#[test]
fn a_result_is_rejected_as_a_plan() {
    let result = json!({"format": "tidegate-load-result/2", "valid": true, "plan": {}, "record": {}});
    assert_eq!(faults(&result), "must be a plan, got a result of `load run`");
}

/// What would be sent otherwise than it is written, or in two ways.
#[test]
fn what_would_be_sent_otherwise_than_it_is_written_is_rejected() {
    let phase = |kind: &str, field: &str, seconds: f64| {
        let profile = json!({"type": kind, "params": {field: 10}});
        json!({"duration": seconds, "profile": profile})
    };
    let plan = |phases: Value| json!({"limiterUrl": "http://a", "phases": phases});
    let mixed = plan(json!([phase("poisson", "averageRps", 1.0), phase("constant", "rps", 1.0)]));
    assert!(faults(&mixed).starts_with("arrivals: is missing"), "{}", faults(&mixed));
    let mut chosen = mixed.clone();
    chosen["arrivals"] = json!("poisson");
    assert!(Plan::read(chosen.to_string().as_bytes()).is_ok());
    let random = plan(json!([phase("poisson", "averageRps", 1.0), phase("poisson", "averageRps", 2.0)]));
    let random = Plan::read(random.to_string().as_bytes()).expect("a good plan");
    assert!(matches!(random.times, Times::Rate(_, Arrivals::Poisson { .. })));
    let long = plan(json!([phase("constant", "rps", 604_800.0), phase("constant", "rps", 1.0)]));
    assert!(
        faults(&long).starts_with("phases: must last at most 604800 s together, got 604801 s"),
        "{}",
        faults(&long)
    );

    let rejected = |field: &str, value: Value| faults(&with(field, value));
    for name in ["Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Upgrade"] {
        let headers = json!({name: "1"});
        assert!(rejected("clients", json!([{"headers": headers}])).contains("it is set automatically"), "{name}");
        assert!(rejected("requestOptions", json!({"headers": headers})).contains("it is set automatically"), "{name}");
    }
    let query = json!({"query": {"a": "ä".repeat(10_000)}});
    assert!(
        rejected("requestOptions", query)
            .starts_with("requestOptions.query: must be at most 30000 characters long when encoded, got 60002")
    );
    assert!(
        rejected("limiterUrl", json!(format!("http://a/{}", "x".repeat(40_000))))
            .starts_with("limiterUrl: must be at most 30000 characters long, got 40009")
    );
    let both = json!({"headers": {"Authorization": "x"}, "auth": {"token": "y"}});
    assert!(
        rejected("requestOptions", both).starts_with("requestOptions.auth: must not be set beside `authorization`")
    );
    assert!(
        rejected("requestOptions", json!({"auth": {"token": "y\n"}}))
            .starts_with("requestOptions.auth.token: has a character")
    );
}
