//! Plans: what they mean, and what is reported about invalid ones.
#![allow(clippy::float_cmp, reason = "numbers that are set are compared, not computed ones")]

mod mistakes;
mod overrides;
mod reading;
mod shown;

use serde_json::{Value, json};
use tidegate_load::{Plan, Profile, Times};

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
