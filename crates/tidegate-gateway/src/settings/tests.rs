//! Every range that the schema promises is checked.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Settings;
use crate::config::model::Config;
use crate::config::{InvalidConfig, schema};

/// What the check of a file reports. None if the file can't be read: a `u32` takes no larger number.
fn reported(file: &Value) -> Option<Vec<String>> {
    let config: Config = serde_json::from_value(file.clone()).ok()?;
    match Settings::check(&config) {
        Ok(_) => Some(Vec::new()),
        Err(InvalidConfig::Meaning(problems)) => Some(problems.iter().map(ToString::to_string).collect()),
        Err(InvalidConfig::Syntax(error)) => panic!("the file has been read already: {error}"),
    }
}

/// A place in a file that has no more than what leads there.
#[derive(Clone)]
struct Place {
    file: Value,
    /// JSON Pointer: `/listeners/0/tls`.
    pointer: String,
}

impl Place {
    /// The file with `value` at this place.
    fn with(&self, value: Value) -> Value {
        let mut file = self.file.clone();
        *file.pointer_mut(&self.pointer).expect("the pointer leads to a place in the file") = value;
        file
    }

    /// The place `name` in `value`, which stands here.
    fn below(&self, value: Value, name: &str) -> Self {
        Self { file: self.with(value), pointer: format!("{}/{name}", self.pointer) }
    }

    /// As problems have it: `listeners[0].tls`.
    fn path(&self) -> String {
        self.pointer[1..].replace("/0", "[0]").replace('/', ".")
    }
}

/// A walk through the schema.
struct Walk {
    schema: Value,
    sections: BTreeSet<String>,
    /// Settings with a range: where, the least and the most.
    ranged: Vec<(Place, Value, Value)>,
}

impl Walk {
    fn through(schema: Value) -> Self {
        let mut walk = Self { ranged: Vec::new(), sections: BTreeSet::new(), schema };
        walk.enter(&walk.schema.clone(), &Place { file: Value::Null, pointer: String::new() });
        walk
    }

    fn enter(&mut self, rule: &Value, place: &Place) {
        if !rule.is_object() {
            return;
        }
        if let Some(name) = rule["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            self.sections.insert(name.to_owned());
            self.enter(&self.schema["$defs"][name].clone(), place);
        }
        for option in rule["anyOf"].as_array().into_iter().flatten() {
            self.enter(option, place);
        }
        self.enter(&rule["items"], &place.below(json!([null]), "0"));
        self.enter(&rule["additionalProperties"], &place.below(json!({ "x": null }), "x"));
        for (field, below) in rule["properties"].as_object().into_iter().flatten() {
            let mut section = required(rule);
            section.insert(field.clone(), Value::Null);
            let place = place.below(section.into(), field);
            if let (Some(least), Some(most)) = (below.get("minimum"), below.get("maximum")) {
                self.ranged.push((place.clone(), least.clone(), most.clone()));
            }
            self.enter(below, &place);
        }
    }
}

/// The settings that a section can't be without.
fn required(section: &Value) -> Map<String, Value> {
    let names = section["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |rule: &Value| match rule["type"].as_str() {
        Some("array") => json!([]),
        Some("integer") => rule["minimum"].clone(),
        _ => json!("x"),
    };
    names.map(|name| (name.to_owned(), value(&section["properties"][name]))).collect()
}

fn less_than(least: &Value) -> Value {
    match (least.as_i64(), least.as_f64()) {
        (Some(whole), _) => json!(whole - 1),
        (None, Some(number)) if number > 0.0 => json!(number / 2.0),
        (None, _) => json!(-1.0),
    }
}

fn more_than(most: &Value) -> Value {
    most.as_i64().map_or_else(|| json!(most.as_f64().expect("a number") * 2.0), |whole| json!(whole + 1))
}

/// Once each section was checked by the code that used it, and a new section could be forgotten.
#[test]
fn every_setting_with_a_range_is_rejected_outside_it_in_every_section() {
    let walk = Walk::through(schema());
    let definitions = walk.schema["$defs"].as_object().expect("definitions");
    let defined: BTreeSet<String> = definitions.keys().cloned().collect();
    assert_eq!(walk.sections, defined, "the walk enters all that the schema defines");
    assert!(walk.ranged.len() > 30, "only {} settings have a range", walk.ranged.len());
    for (place, least, most) in &walk.ranged {
        let path = place.path();
        let start = format!("{path}: must be between ");
        let is_reported = |value: &Value| {
            let problems = reported(&place.with(value.clone()))?;
            Some(problems.iter().filter(|problem| problem.starts_with(&start)).count())
        };
        for end in [least, most] {
            assert_eq!(is_reported(end), Some(0), "{path}: {end} is in the range");
        }
        // A value that the model can't hold is rejected too, but does not show that the range is checked.
        let outside = [less_than(least), more_than(most)].map(|value| is_reported(&value));
        assert!(outside.contains(&Some(1)) && !outside.contains(&Some(0)), "{path} is not checked: {outside:?}");
    }
}

#[test]
fn a_setting_in_a_nested_section_is_reported_with_its_whole_path() {
    let file = json!({
        "workers": 0,
        "identity": {"jwt": {"leeway": "11m"}},
        "limits": {"a": {"algorithm": "fixed", "status": 200}},
    });
    let reported = reported(&file).expect("the file can be read");
    for problem in [
        "workers: must be between 1 and 256, got 0",
        "identity.jwt.leeway: must be between 0s and 10m, got \"11m\"",
        "limits.a.status: must be between 400 and 599, got 200",
    ] {
        assert_eq!(reported.iter().filter(|found| *found == problem).count(), 1, "{problem}: {reported:?}");
    }
}
