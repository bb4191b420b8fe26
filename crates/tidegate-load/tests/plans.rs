//! Plans: what they mean, and what is said of those that mean nothing.
#![allow(clippy::float_cmp, reason = "numbers that are set are compared, not computed ones")]
#![allow(clippy::too_many_lines, reason = "a table of cases")]

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_load::{Arrivals, Class, Overrides, Plan, Profile, Shape, Times};

fn read(plan: &Value) -> Plan {
    Plan::read(plan.to_string().as_bytes()).unwrap_or_else(|error| panic!("{plan}: {error}"))
}

/// Everything that is wrong, a line each.
fn faults(plan: &Value) -> String {
    Plan::read(plan.to_string().as_bytes()).err().unwrap_or_else(|| panic!("{plan} is good")).to_string()
}

fn with_profile(kind: &str, params: &Value) -> Value {
    json!({"limiterUrl": "http://127.0.0.1:8082/api/test", "duration": 60, "profile": {"type": kind, "params": params}})
}

fn profile_of(plan: &Plan) -> &Profile {
    match &plan.times {
        Times::Rate(profile, _) => profile,
        Times::Recorded(_) => panic!("recorded"),
    }
}

/// One example of each.
#[test]
fn the_five_profiles_are_read() {
    for (kind, params, shape) in [
        ("constant", json!({"rps": 50}), Shape::Constant { rate: 50.0 }),
        (
            "burst",
            json!({"baseRps": 100, "spikeRps": 500, "spikeDuration": 5, "spikePeriod": 60}),
            Shape::Burst { base: 100.0, spike: 500.0, spike_length: 5.0, period: 60.0 },
        ),
        (
            "sinusoidal",
            json!({"minRps": 50, "maxRps": 150, "period": 120}),
            Shape::Sine { least: 50.0, most: 150.0, period: 120.0 },
        ),
        ("poisson", json!({"averageRps": 20}), Shape::Constant { rate: 20.0 }),
        ("ramp", json!({"fromRps": 0, "toRps": 80.5}), Shape::Ramp { from: 0.0, to: 80.5, length: 60.0 }),
    ] {
        let plan = read(&with_profile(kind, &params));
        assert_eq!(*profile_of(&plan), Profile::of(shape, Duration::from_secs(60)), "{kind}");
        assert_eq!((plan.kind, plan.duration), (kind, Duration::from_secs(60)));
        let is_random = matches!(plan.times, Times::Rate(_, Arrivals::Poisson { .. }));
        assert_eq!(is_random, kind == "poisson", "{kind}");
    }
}

/// Heights, lengths and pauses lie within what was asked for, and differ from seed to seed.
#[test]
fn attacks_are_drawn_from_the_seed() {
    let params = json!({"minRps": 7, "maxRps": 1000, "maxSpikeDuration": 10, "minIdleTime": 20, "maxIdleTime": 60});
    let with_seed = |seed: u64| {
        let mut plan = with_profile("ddos", &params);
        (plan["seed"], plan["duration"]) = (seed.into(), 3_600.into());
        read(&plan)
    };
    let plan = with_seed(3);
    let profile = profile_of(&plan);
    assert_eq!(profile.length().as_secs_f64().round(), 3_600.0);
    let rates: Vec<f64> = (0..3_600_000).map(|milli| profile.rate(Duration::from_millis(milli))).collect();
    let stretches = rates.chunk_by(|one, other| one == other);
    let (calm, attacks): (Vec<&[f64]>, Vec<&[f64]>) = stretches.partition(|stretch| stretch[0] == 7.0);
    assert!(attacks.len() > 3_600 / 70, "{}", attacks.len());
    for stretch in &calm[1..calm.len() - 1] {
        assert!((19_999..=60_001).contains(&stretch.len()), "{} ms of calm", stretch.len());
    }
    for attack in &attacks {
        assert!(attack.len() <= 10_001 && attack[0] > 7.0 && attack[0] <= 1_000.0, "{} at {}", attack.len(), attack[0]);
    }
    let heights = attacks.iter().map(|attack| attack[0]);
    assert!(heights.clone().fold(0.0, f64::max) > 900.0 && heights.fold(1e9, f64::min) < 110.0);
    assert_eq!(profile, profile_of(&with_seed(3)));
    assert_ne!(profile, profile_of(&with_seed(4)));
}

#[test]
fn steps_phases_and_traces_follow_each_other() {
    let rate = |plan: &Plan, second: f64| profile_of(plan).rate(Duration::from_secs_f64(second));
    let steps = read(&with_profile(
        "steps",
        &json!({"steps": [{"rps": 5, "duration": 10}, {"rps": 9, "duration": 5}, {"rps": 1}]}),
    ));
    assert_eq!([9.9, 10.1, 14.9, 15.1, 59.9].map(|second| rate(&steps, second)), [5.0, 9.0, 9.0, 1.0, 1.0]);

    let trace = read(&with_profile("trace", &json!({"rates": [10, 20, 0, 5], "step": 2, "scale": 0.5})));
    assert_eq!([1.0, 3.0, 5.0, 7.0, 9.0].map(|second| rate(&trace, second)), [5.0, 10.0, 0.0, 2.5, 0.0]);

    let times = read(&with_profile("trace", &json!({"timestamps": [1000.5, 1001, 1001, 1080]})));
    let due: Vec<f64> = times.times.all().map(|due| due.as_secs_f64()).collect();
    assert_eq!(due, [0.0, 0.5, 0.5], "from the first on, as long as the test lasts");

    let phase = |duration: u64, kind: &str, params: Value| json!({"duration": duration, "profile": {"type": kind, "params": params}});
    let plan = read(&json!({"limiterUrl": "http://a", "phases": [
        phase(10, "constant", json!({"rps": 3})),
        phase(20, "ramp", json!({"fromRps": 3, "toRps": 5})),
    ]}));
    assert_eq!((plan.kind, plan.duration), ("phases", Duration::from_secs(30)));
    assert_eq!([5.0, 20.0].map(|second| rate(&plan, second)), [3.0, 4.0]);
}

#[test]
fn everything_else_a_plan_may_say() {
    let mut plan = with_profile("constant", &json!({"rps": 1}));
    for (field, value) in [
        ("concurrency", json!(10)),
        ("seed", json!(18_446_744_073_709_551_615_u64)),
        ("maxLag", json!(0.5)),
        ("arrivals", json!("poisson")),
        ("startAt", json!(1_800_000_000.25)),
        ("thresholds", json!(["p99<50ms", "errors<1%"])),
        (
            "requestOptions",
            json!({"method": "post", "headers": {"X-A": "b"}, "query": {"q": "a b"}, "body": {"x": 1}, "timeout": 2.5,
                   "auth": {"user": "ann", "password": "secret"}}),
        ),
        (
            "clients",
            json!([{"name": "good", "count": 5, "apiKey": "key-{n}", "polite": true},
                   {"class": "attacker", "weight": 9, "forwardedFor": "10.0.0.1", "tier": "free"}]),
        ),
    ] {
        plan[field] = value;
    }
    let plan = read(&plan);
    assert_eq!((plan.concurrency, plan.seed, plan.max_lag), (10, u64::MAX, Duration::from_millis(500)));
    assert!(matches!(plan.times, Times::Rate(_, Arrivals::Poisson { seed: u64::MAX })));
    assert_eq!((plan.request.method.as_str(), plan.request.path.as_str()), ("POST", "/api/test?q=a%20b"));
    assert_eq!(plan.request.body, br#"{"x":1}"#);
    let headers: Vec<(&str, &str)> =
        plan.request.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
    assert_eq!(
        headers,
        [("x-a", "b"), ("content-type", "application/json"), ("authorization", "Basic YW5uOnNlY3JldA==")]
    );
    assert_eq!((plan.clients[0].class, plan.clients[0].count, plan.clients[0].weight), (Class::Honest, 5, 1.0));
    assert!(plan.clients[0].politeness.is_some() && plan.clients[1].politeness.is_none());
    assert_eq!((plan.clients[1].name.as_str(), plan.clients[1].class), ("attacker", Class::Attacker));
    assert_eq!(plan.thresholds.len(), 2);
    assert!(!format!("{plan:?}").contains("YW5u"), "what is secret is not shown");

    let profile = json!({"type": "constant", "params": {"rps": 1}});
    let alias = json!({"url": "https://a.example", "duration": 1, "requestsPerThread": 3, "profile": profile});
    let plan = read(&alias);
    assert_eq!(
        (plan.concurrency, plan.target.port, plan.target.is_tls, plan.request.path.as_str()),
        (3, 443, true, "/")
    );
}

/// Each rule: the field is named, and what is expected of it.
#[test]
fn a_bad_plan_is_told_by_field_with_what_is_allowed() {
    let good = with_profile("constant", &json!({"rps": 1}));
    let with = |field: &str, value: Value| {
        let mut plan = good.clone();
        plan[field] = value;
        plan
    };
    let burst = json!({"baseRps": 1, "spikeRps": 2, "spikeDuration": 5, "spikePeriod": 60});
    let ddos = json!({"minRps": 0, "maxRps": 9, "maxSpikeDuration": 1, "minIdleTime": 1, "maxIdleTime": 2});
    let changed = |base: &Value, field: &str, value: Value| {
        let mut params = base.clone();
        params[field] = value;
        params
    };
    for (plan, path, allowed) in [
        (with("limiterUrl", Value::Null), "limiterUrl", "is missing; http://"),
        (with("limiterUrl", json!("127.0.0.1:8082")), "limiterUrl", "http://host"),
        (with("limiterUrl", json!("ftp://a")), "limiterUrl", "has a scheme other than http and https"),
        (with("limiterUrl", json!("http://a:99999")), "limiterUrl", "no usable host or port"),
        (with("limiterUrl", json!("http://u:p@a")), "limiterUrl", "carries a user"),
        (with("limiterUrl", json!(5)), "limiterUrl", "text is allowed"),
        (with("duration", json!(0)), "duration", "seconds from 0.001 to 604800"),
        (with("duration", json!(-5)), "duration", "seconds from"),
        (with("duration", json!("60")), "duration", "seconds from"),
        (with("duration", Value::Null), "duration", "is missing; seconds from"),
        (with("profile", Value::Null), "profile", "is missing"),
        (with("profile", json!("burst")), "profile", "an object is allowed"),
        (with("profile", json!({"type": "burst"})), "profile.params", "is missing"),
        (with("profile", json!({"params": {}})), "profile.type", "is missing; one of constant, burst"),
        (with_profile("storm", &json!({})), "profile.type", "is \"storm\"; one of constant, burst"),
        (with_profile("constant", &json!({})), "profile.params.rps", "is missing; requests a second"),
        (with_profile("constant", &json!({"rps": -1})), "profile.params.rps", "is -1; requests a second from"),
        (with_profile("constant", &json!({"rps": 0})), "profile.params.rps", "from 0.000001"),
        (with_profile("constant", &json!({"rps": 1e9})), "profile.params.rps", "to 10000000"),
        (with_profile("constant", &json!({"rps": "50"})), "profile.params.rps", "is \"50\""),
        (
            with_profile("constant", &json!({"rps": 1, "spike": 2})),
            "profile.params.spike",
            "is unknown; there are: rps",
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
        (with_profile("steps", &json!({"steps": []})), "profile.params.steps", "a list of steps"),
        (with_profile("steps", &json!({"steps": [{"rps": -1}]})), "profile.params.steps[0].rps", "requests a second"),
        (
            with_profile("steps", &json!({"steps": [{"rps": 1}, {"rps": 1}]})),
            "profile.params.steps[0].duration",
            "is missing",
        ),
        (with_profile("trace", &json!({})), "profile.params.rates", "one is needed"),
        (with_profile("trace", &json!({"timestamps": [2, 1]})), "profile.params.timestamps[1]", "is before"),
        (with_profile("trace", &json!({"rates": [1, -1]})), "profile.params.rates[1]", "a number from 0"),
        (
            with_profile("trace", &json!({"rates": [1, 2e7]})),
            "profile.params.rates[1]",
            "is 20000000 with its `scale`; at most 10000000",
        ),
        (
            with_profile("trace", &json!({"file": "/etc/passwd"})),
            "profile.params.file",
            "is only read for a plan in a file, on the command line",
        ),
        (with("phases", json!([])), "phases", "is empty"),
        (with("phases", json!([{"duration": 1}])), "phases[0].profile", "is missing"),
        (with("arrivals", json!("odd")), "arrivals", "`even` or `poisson`"),
        (with("seed", json!(-1)), "seed", "a whole number from 0"),
        (with("concurrency", json!(0)), "concurrency", "a whole number from 1 to 100000"),
        (with("concurrency", json!(1.5)), "concurrency", "a whole number"),
        (with("requestsPerThread", json!(0)), "concurrency", "a whole number from 1"),
        (with("maxLag", json!(61)), "maxLag", "seconds from 0 to 60"),
        (with("startAt", json!("soon")), "startAt", "seconds since 1970"),
        (with("thresholds", json!(["p99"])), "thresholds[0]", "p99<50ms"),
        (with("thresholds", json!([5])), "thresholds[0]", "text is allowed"),
        (with("part", json!("0/3")), "part", "is \"0/3\"; `2/3` is allowed"),
        (with("part", json!("4/3")), "part", "`2/3` is allowed"),
        (with("part", json!(2)), "part", "is \"2\"; `2/3` is allowed"),
        (with("part", json!("1/1001")), "part", "for up to 1000"),
        (with("clients", json!([])), "clients", "is empty"),
        (with("clients", json!(vec![json!({}); 101])), "clients", "has 101 entries; at most 100"),
        (
            with("clients", json!([{"name": "a"}, {}, {"name": "a"}])),
            "clients[2].name",
            "is \"a\", as another's; each group needs its own",
        ),
        (with("clients", json!([{"name": ""}])), "clients[0].name", "1 to 60 characters"),
        (with("clients", json!([{"name": "a".repeat(61)}])), "clients[0].name", "1 to 60 characters"),
        (with("clients", json!([{"name": "a\u{1b}[31m"}])), "clients[0].name", "that can be printed"),
        (with("clients", json!([{"class": "evil"}])), "clients[0].class", "`honest` or `attacker`"),
        (with("clients", json!([{"count": 0}])), "clients[0].count", "a whole number from 1"),
        (with("clients", json!([{"weight": 0}])), "clients[0].weight", "a weight from"),
        (with("clients", json!([{"forwardedFor": "here"}])), "clients[0].forwardedFor", "an address is allowed"),
        (with("clients", json!([{"headers": {"a b": "c"}}])), "clients[0].headers", "no header"),
        (with("clients", json!([{"polite": {"retries": 0}}])), "clients[0].polite.retries", "a whole number from 1"),
        (with("requestOptions", json!({"method": "G T"})), "requestOptions.method", "is none"),
        (with("requestOptions", json!({"headers": {"Host": "x"}})), "requestOptions.headers", "set by itself"),
        (with("requestOptions", json!({"timeout": 0})), "requestOptions.timeout", "seconds from"),
        (with("requestOptions", json!({"auth": {}})), "requestOptions.auth.token", "is needed"),
        (with("durations", json!(5)), "durations", "is unknown; there are: limiterUrl"),
        (
            with("requestOptions", json!({"protocol": 3})),
            "requestOptions.protocol",
            "is 3; \"1.1\" or \"2\" is allowed",
        ),
        (with("requestOptions", json!({"auth": {"user": "a"}})), "requestOptions.auth.password", "is missing"),
        (with("requestOptions", json!({"auth": {"password": "a"}})), "requestOptions.auth.user", "is missing"),
        (
            with("requestOptions", json!({"auth": {"token": "a", "user": "b"}})),
            "requestOptions.auth.token",
            "is there, and `user` or `password` too; one or the other",
        ),
        (with("requestOptions", json!({"auth": {"tokn": "a"}})), "requestOptions.auth.tokn", "is unknown"),
        (with("requestOptions", json!({"auth": {"token": "a\n"}})), "requestOptions.auth.token", "no header can have"),
        (with("clients", json!([{"polite": "yes"}])), "clients[0].polite", "`true`, `false` or an object is allowed"),
        (
            with("clients", json!([{"count": 7, "forwardedFor": "255.255.255.250"}])),
            "clients[0].forwardedFor",
            "too near the last address",
        ),
        (
            with("clients", json!([{"count": 2, "forwardedFor": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}])),
            "clients[0].forwardedFor",
            "too near the last address",
        ),
        (
            with("clients", json!([{"name": "a", "count": 0}, {}, {"name": "a"}])),
            "clients[2].name",
            "is \"a\", as another's",
        ),
        (with("thresholds", json!(["errors<1"])), "thresholds[0]", "with its %"),
    ] {
        let faults = faults(&plan);
        let line = faults.lines().find(|line| line.starts_with(&format!("{path}: ")));
        assert!(line.is_some_and(|line| line.contains(allowed)), "{plan}\n{faults}");
    }
    for text in ["", "{", "[]", "5", "\"a\"", "null", "{\"duration\": 1,}"] {
        assert!(Plan::read(text.as_bytes()).is_err(), "{text}");
    }
    let password = faults(&with("limiterUrl", json!("http://u:hunter2@a")));
    assert!(!password.contains("hunter2"), "{password}");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let profile = json!({"type": "constant", "params": {"rps": -1}});
    let plan = json!({"limiterUrl": "x", "duration": -1, "concurrency": 0, "profile": profile});
    assert_eq!(faults(&plan).lines().count(), 4, "{}", faults(&plan));
}

/// They were ignored, even if they were nonsense.
#[test]
fn nothing_stands_beside_phases() {
    let phases = json!([{"duration": 1, "profile": {"type": "constant", "params": {"rps": 20}}}]);
    let plan = json!({"limiterUrl": "http://a", "duration": "x", "profile": {"type": "nonsense"}, "phases": phases});
    let told = faults(&plan);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    for field in ["profile", "duration"] {
        assert!(lines.iter().any(|line| line.starts_with(&format!("{field}: can't stand beside `phases`"))), "{told}");
    }
}

/// One line for each mistake, and none that says what is not so.
#[test]
fn a_mistake_is_told_once() {
    let with = |field: &str, value: Value| {
        let mut plan = with_profile("constant", &json!({"rps": 1}));
        plan[field] = value;
        plan
    };
    for (plan, expected) in [
        (with("arrivals", json!("random")), "arrivals: is \"random\"; `even` or `poisson` is allowed"),
        (with("profile", json!("constant")), "profile: is \"constant\"; an object is allowed"),
        (with("profile", json!({"type": 5, "params": {}})), "profile.type: is 5; text is allowed"),
        (with("profile", json!({"type": "constant", "params": 5})), "profile.params: is 5; an object is allowed"),
        (with("limiterUrl", json!(5)), "limiterUrl: is 5; text is allowed"),
        (with_profile("steps", &json!({"steps": 5})), "profile.params.steps: is 5; a list is allowed"),
        (with_profile("trace", &json!({"rates": []})), "profile.params.rates: is empty; a list of numbers is allowed"),
        (
            with_profile("trace", &json!({"rates": [1], "timestamps": [1]})),
            "profile.params.rates: is there, and `timestamps` too; one of them is allowed",
        ),
        (
            json!({"limiterUrl": "http://a", "phases": [{"duration": 1, "profile": 5}]}),
            "phases[0].profile: is 5; an object is allowed",
        ),
        (json!({"limiterUrl": "http://a", "phases": 5}), "phases: is 5; a list is allowed"),
        (with("requestOptions", json!({"auth": {"token": 5}})), "requestOptions.auth.token: is 5; text is allowed"),
    ] {
        assert_eq!(faults(&plan), expected);
    }
    let mut two = with("arrivals", json!("random"));
    two["duration"] = json!(-1);
    assert!(faults(&two).contains("duration: is -1; seconds from"), "{}", faults(&two));
    let mut unknown = with("one", json!(1));
    unknown["two"] = json!(2);
    let told = faults(&unknown);
    assert_eq!((told.lines().count(), told.matches("there are: ").count()), (2, 1), "{told}");
    assert!(told.contains("phases, duration, profile"), "{told}");
}

#[test]
fn a_result_is_no_plan() {
    let result = json!({"format": "tidegate-load-result/2", "valid": true, "plan": {}, "record": {}});
    assert_eq!(faults(&result), "this is a result of `load run`, not a plan");
}

#[test]
fn a_protocol_may_be_a_number_and_addresses_may_be_the_last_ones() {
    for (protocol, is_http2) in [(json!("1.1"), false), (json!(1.1), false), (json!("2"), true), (json!(2), true)] {
        let mut plan = with_profile("constant", &json!({"rps": 1}));
        plan["requestOptions"] = json!({"protocol": protocol, "auth": {"user": "a", "password": ""}});
        plan["clients"] = json!([{"count": 6, "forwardedFor": "255.255.255.250"}]);
        assert_eq!(read(&plan).request.is_http2, is_http2, "{protocol}");
    }
}

#[test]
fn a_rate_from_the_command_line_reads_as_it_was_written() {
    let overrides = Overrides { rate: Some(20.0), ..Overrides::default() };
    let plan = with_profile("constant", &json!({"rps": 1})).to_string();
    let about = Plan::read_with(plan.as_bytes(), &overrides).expect("a good plan").about();
    assert!(about.starts_with("profile=constant, rps=20, duration=60"), "{about}");
}

#[test]
fn a_plan_may_be_for_one_of_several_instances() {
    let mut plan = with_profile("constant", &json!({"rps": 1}));
    assert_eq!(read(&plan).part, None);
    plan["part"] = json!("2/3");
    let part = read(&plan).part.expect("it is there");
    assert_eq!((part.index(), part.of(), part.to_string().as_str()), (2, 3, "2/3"));
}

#[test]
fn groups_without_a_name_are_called_by_their_class() {
    let mut plan = with_profile("constant", &json!({"rps": 1}));
    plan["clients"] = json!([{}, {"class": "attacker"}, {"name": "honest 2"}, {}, {"class": "attacker"}]);
    let plan = read(&plan);
    let names: Vec<&str> = plan.clients.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["honest", "attacker", "honest 2", "honest 3", "attacker 2"]);
}

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
fn a_digest_is_of_what_a_plan_says() {
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

#[test]
fn the_command_line_may_say_otherwise() {
    let all = Overrides {
        url: Some("http://other:81/x".to_owned()),
        duration: Some(5.5),
        rate: Some(7.0),
        seed: Some(9),
        part: Some("1/2".to_owned()),
        start_at: Some(1_800_000_000.5),
        thresholds: vec!["p99<1s".to_owned()],
    };
    for (kind, field) in [("constant", "rps"), ("poisson", "averageRps")] {
        let mut plan = with_profile(kind, &json!({field: 1}));
        plan["url"] = plan["limiterUrl"].take();
        plan.as_object_mut().expect("an object").remove("limiterUrl");
        let plan = Plan::read_with(plan.to_string().as_bytes(), &all).expect("a good plan");
        assert_eq!((plan.target.authority.as_str(), plan.duration), ("other:81", Duration::from_millis(5_500)));
        assert_eq!((profile_of(&plan).total(), plan.seed), (38.5, 9));
        assert_eq!(plan.part.map(|part| part.to_string()).as_deref(), Some("1/2"));
        assert_eq!(plan.start_at, Some(std::time::UNIX_EPOCH + Duration::from_millis(1_800_000_000_500)));
        assert_eq!(plan.thresholds.len(), 1);
        assert_eq!(plan.shown()["profile"]["params"][field], 7.0, "it is shown as it was run");
    }
    let faults = |plan: &Value, overrides: &Overrides| {
        Plan::read_with(plan.to_string().as_bytes(), overrides).expect_err("bad").to_string()
    };
    let constant = with_profile("constant", &json!({"rps": 1}));
    let rate = Overrides { rate: Some(5.0), ..Overrides::default() };
    let sine = with_profile("sinusoidal", &json!({"minRps": 1, "maxRps": 2, "period": 9}));
    assert!(faults(&sine, &rate).starts_with("profile: has no single rate"), "{}", faults(&sine, &rate));
    let profile = json!({"type": "constant", "params": {"rps": 1}});
    let phases = json!({"limiterUrl": "http://a", "phases": [{"duration": 1, "profile": profile}]});
    assert!(faults(&phases, &rate).contains("profile: has no single rate"));
    let duration = Overrides { duration: Some(5.0), ..Overrides::default() };
    assert!(faults(&phases, &duration).contains("duration: can't be given for a plan of phases"));
    let bad = Overrides {
        url: Some("x".to_owned()),
        duration: Some(-1.0),
        rate: Some(-1.0),
        part: Some("x".to_owned()),
        ..Overrides::default()
    };
    let told = faults(&constant, &bad);
    for path in ["limiterUrl: ", "duration: is -1.0", "profile.params.rps: is -1.0", "part: is \"x\""] {
        assert!(told.lines().any(|line| line.starts_with(path)), "{path}: {told}");
    }
    assert!(faults(&json!([]), &all).contains("an object is allowed"));
}

/// What would be sent otherwise than it is written, or in two ways.
#[test]
fn what_would_be_sent_otherwise_than_it_is_written_is_refused() {
    let phase = |kind: &str, field: &str, seconds: f64| json!({"duration": seconds, "profile": {"type": kind, "params": {field: 10}}});
    let plan = |phases: Value| json!({"limiterUrl": "http://a", "phases": phases});
    let told = |plan: &Value| Plan::read(plan.to_string().as_bytes()).expect_err("bad").to_string();
    let mixed = plan(json!([phase("poisson", "averageRps", 1.0), phase("constant", "rps", 1.0)]));
    assert!(told(&mixed).starts_with("arrivals: is missing"), "{}", told(&mixed));
    let mut chosen = mixed.clone();
    chosen["arrivals"] = json!("poisson");
    assert!(Plan::read(chosen.to_string().as_bytes()).is_ok());
    let random = plan(json!([phase("poisson", "averageRps", 1.0), phase("poisson", "averageRps", 2.0)]));
    let random = Plan::read(random.to_string().as_bytes()).expect("a good plan");
    assert!(matches!(random.times, Times::Rate(_, Arrivals::Poisson { .. })));
    let long = plan(json!([phase("constant", "rps", 604_800.0), phase("constant", "rps", 1.0)]));
    assert!(told(&long).starts_with("phases: last for 604801 s together"), "{}", told(&long));

    let constant = with_profile("constant", &json!({"rps": 1}));
    let with = |field: &str, value: Value| {
        let mut plan = constant.clone();
        plan[field] = value;
        told(&plan)
    };
    for name in ["Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Upgrade"] {
        let headers = json!({name: "1"});
        assert!(with("clients", json!([{"headers": headers}])).contains("which is set by itself"), "{name}");
        assert!(with("requestOptions", json!({"headers": headers})).contains("which is set by itself"), "{name}");
    }
    let query = json!({"query": {"a": "ä".repeat(10_000)}});
    assert!(with("requestOptions", query).starts_with("requestOptions.query: is 60002 characters long"));
    assert!(
        with("limiterUrl", json!(format!("http://a/{}", "x".repeat(40_000))))
            .starts_with("limiterUrl: is 40009 characters")
    );
    let both = json!({"headers": {"Authorization": "x"}, "auth": {"token": "y"}});
    assert!(with("requestOptions", both).starts_with("requestOptions.auth: is there"));
    assert!(
        with("requestOptions", json!({"auth": {"token": "y\n"}}))
            .starts_with("requestOptions.auth.token: has a character")
    );
}
