//! What a plan means.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_load::{Arrivals, Class, Plan, Profile, Shape, Times};

use super::{profile_of, read, with_profile};

/// One example of each.
#[test]
fn profiles_of_one_shape_are_read() {
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

    let phase = |duration: u64, kind: &str, params: Value| {
        let profile = json!({"type": kind, "params": params});
        json!({"duration": duration, "profile": profile})
    };
    let plan = read(&json!({"limiterUrl": "http://a", "phases": [
        phase(10, "constant", json!({"rps": 3})),
        phase(20, "ramp", json!({"fromRps": 3, "toRps": 5})),
    ]}));
    assert_eq!((plan.kind, plan.duration), ("phases", Duration::from_secs(30)));
    assert_eq!([5.0, 20.0].map(|second| rate(&plan, second)), [3.0, 4.0]);
}

#[test]
fn everything_else_a_plan_may_have() {
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
                   {"class": "attacker", "weight": 9, "forwardedFor": "10.0.0.1", "tier": "free"},
                   {"name": "stubborn", "path": "/b?c", "retry": {"after": ["503", "timeout"], "base": 0}}]),
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
    assert!(plan.clients[0].comeback.is_some() && plan.clients[1].comeback.is_none());
    let stubborn = &plan.clients[2];
    assert_eq!(stubborn.path.as_deref(), Some("/b?c"));
    let comeback = stubborn.comeback.as_ref().expect("it comes back");
    assert_eq!([503, 500].map(|status| comeback.after.has_status(status)), [true, false]);
    assert_eq!((comeback.after.timeouts, comeback.after.failures), (true, false));
    assert_eq!((comeback.retries, comeback.base, comeback.heeds), (3, 0.0, false));
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
