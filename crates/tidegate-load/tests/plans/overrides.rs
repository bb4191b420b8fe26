//! What the command line overrides.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_load::{Overrides, Plan};

use super::{profile_of, with_profile};

#[test]
fn a_rate_from_the_command_line_reads_as_it_was_written() {
    let overrides = Overrides { rate: Some(20.0), ..Overrides::default() };
    let plan = with_profile("constant", &json!({"rps": 1})).to_string();
    let about = Plan::read_with(plan.as_bytes(), &overrides).expect("a good plan").about();
    assert!(about.starts_with("profile=constant, rps=20, duration=60"), "{about}");
}

#[test]
fn the_command_line_overrides_a_plan() {
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
    assert!(faults(&sine, &rate).starts_with("profile: must be `constant` or `poisson`"), "{}", faults(&sine, &rate));
    let profile = json!({"type": "constant", "params": {"rps": 1}});
    let phases = json!({"limiterUrl": "http://a", "phases": [{"duration": 1, "profile": profile}]});
    assert!(faults(&phases, &rate).contains("profile: must be `constant` or `poisson`"));
    let duration = Overrides { duration: Some(5.0), ..Overrides::default() };
    assert!(faults(&phases, &duration).contains("duration: must not be set for a plan of phases"));
    let bad = Overrides {
        url: Some("x".to_owned()),
        duration: Some(-1.0),
        rate: Some(-1.0),
        part: Some("x".to_owned()),
        ..Overrides::default()
    };
    let found = faults(&constant, &bad);
    for path in ["limiterUrl: ", "duration: must be ", "profile.params.rps: must be ", "part: must be "] {
        assert!(found.lines().any(|line| line.starts_with(path)), "{path}: {found}");
    }
    assert_eq!((found.matches("got -1.0").count(), found.matches("got \"x\"").count()), (2, 1), "{found}");
    assert!(faults(&json!([]), &all).contains("must be an object"));
}
