//! The load of a scenario: a plan without what is the lab's.

use serde_json::Value;
use tidegate_input::object::{Object, shown};
use tidegate_load::Plan;

/// The URL of a plan that is only read.
pub(super) const NOWHERE: &str = "http://127.0.0.1:1/api/test";

/// The load, as in a plan. With the gateway's own configuration, groups of clients may have paths of their own and send
/// requests again.
pub(super) fn read(
    object: &mut Object<'_>,
    duration: Option<f64>,
    seed: Option<u64>,
    is_own: bool,
) -> Option<(Value, Plan)> {
    let Some(mut load) = object.take("load") else {
        object.wrong("load", "is missing; must have settings of a plan: `profile`, `clients`, `arrivals`, …");
        return None;
    };
    let Some(settings) = load.as_object_mut() else {
        object.wrong("load", format!("must be an object with settings of a plan, got {}", shown(&load)));
        return None;
    };
    for name in ["limiterUrl", "url", "duration", "seed", "startAt", "part", "thresholds"] {
        if settings.contains_key(name) {
            object.wrong(&format!("load.{name}"), "can't be set: it is the lab's");
        }
    }
    let mut plan = load.clone();
    (plan["limiterUrl"], plan["seed"]) = (NOWHERE.into(), seed?.into());
    if plan.get("phases").is_none() {
        plan["duration"] = duration?.into();
    }
    for (index, group) in plan["clients"].as_array().into_iter().flatten().enumerate() {
        let wrong = |field: &str, message: &str| object.wrong(&format!("load.clients[{index}].{field}"), message);
        if group.get("polite").is_some_and(|polite| *polite != Value::Bool(false)) {
            wrong("polite", "is not supported here: simulated clients know no `Retry-After`");
        }
        if group.get("retry").is_some() && !is_own {
            wrong("retry", "needs `gateway`: limits are judged by requests of the schedule");
        }
        if group.get("path").is_some() && !is_own {
            wrong("path", "needs `gateway`: without routes it makes no difference");
        }
        if let Some(path) = group["path"].as_str().filter(|path| is_own && !is_served(path)) {
            wrong("path", &format!("must be /api/test or below it: targets serve nothing else, got {path:?}"));
        }
    }
    match Plan::read(with_addresses(plan.clone()).to_string().as_bytes()) {
        Ok(read) => Some((plan, read)),
        Err(invalid) => {
            for problem in invalid.0 {
                object.wrong(&format!("load.{}", problem.path), problem.message);
            }
            None
        }
    }
}

/// Whether targets serve this path.
fn is_served(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    path == "/api/test" || path.strip_prefix("/api/test/").is_some_and(|below| !below.is_empty())
}

/// A plan whose clients have their own addresses, by which the gateway distinguishes them.
pub(super) fn with_addresses(mut plan: Value) -> Value {
    for (index, group) in plan["clients"].as_array_mut().into_iter().flatten().enumerate() {
        if let Some(group) = group.as_object_mut() {
            group.entry("forwardedFor").or_insert_with(|| format!("10.{}.0.1", index + 1).into());
        }
    }
    plan
}
