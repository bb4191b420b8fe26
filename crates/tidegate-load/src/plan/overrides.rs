//! Fields of a plan that the command line overrides.

use serde_json::{Map, Value};

use tidegate_input::Problems;

/// Replace what a plan says before it is read, so they are checked as if they stood there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// `limiterUrl`
    pub url: Option<String>,
    /// `duration`, in seconds.
    pub duration: Option<f64>,
    /// The rate of a `constant` or `poisson` profile: the others have more than one.
    pub rate: Option<f64>,
    /// `seed`
    pub seed: Option<u64>,
    /// `part`
    pub part: Option<String>,
    /// `startAt`, in seconds since 1970.
    pub start_at: Option<f64>,
    /// `thresholds`, besides those of the plan.
    pub thresholds: Vec<String>,
}

impl Overrides {
    pub(super) fn apply(&self, plan: &mut Value, problems: &Problems) {
        // If it is not an object, the reader reports it.
        let Value::Object(plan) = plan else { return };
        let mut set = |field: &str, other: Option<&str>, value: Option<Value>| {
            if let Some(value) = value {
                other.map(|other| plan.remove(other));
                plan.insert(field.to_owned(), value);
            }
        };
        set("limiterUrl", Some("url"), self.url.clone().map(Value::from));
        set("seed", None, self.seed.map(Value::from));
        set("part", None, self.part.clone().map(Value::from));
        set("startAt", None, self.start_at.map(Value::from));
        self.add_thresholds(plan);
        if let Some(duration) = self.duration {
            if plan.get("phases").is_some_and(|phases| !phases.is_null()) {
                problems.add("duration", "must not be set for a plan of phases: each has its own");
            } else {
                plan.insert("duration".to_owned(), duration.into());
            }
        }
        if let Some(rate) = self.rate {
            set_rate(plan, rate, problems);
        }
    }
}

impl Overrides {
    fn add_thresholds(&self, plan: &mut Map<String, Value>) {
        let more = self.thresholds.iter().cloned().map(Value::from);
        match plan.get_mut("thresholds") {
            _ if self.thresholds.is_empty() => {}
            Some(Value::Array(thresholds)) => thresholds.extend(more),
            None | Some(Value::Null) => {
                plan.insert("thresholds".to_owned(), more.collect());
            }
            // If it is not a list, the reader reports it.
            Some(_) => {}
        }
    }
}

fn set_rate(plan: &mut Map<String, Value>, rate: f64, problems: &Problems) {
    let profile = plan.get_mut("profile").and_then(Value::as_object_mut);
    let field = match profile.as_ref().and_then(|profile| profile.get("type")).and_then(Value::as_str) {
        Some("constant") => Some("rps"),
        Some("poisson") => Some("averageRps"),
        _ => None,
    };
    let params = profile.and_then(|profile| profile.get_mut("params")).and_then(Value::as_object_mut);
    match (params, field) {
        (Some(params), Some(field)) => {
            params.insert(field.to_owned(), rate.into());
        }
        _ => problems.add("profile", "must be `constant` or `poisson` for a single rate to be set"),
    }
}
