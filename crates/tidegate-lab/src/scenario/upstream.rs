//! How the gateway uses several targets: settings of its upstream, passed on as they are written.

use serde_json::{Map, Value, json};
use tidegate_input::object::{Object, shown};

/// Settings of the gateway's upstream, without its endpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Upstream(Map<String, Value>);

/// What the lab itself sets.
const OURS: [&str; 3] = ["url", "endpoints", "limits"];
/// The path of the upstream in a configuration.
const PATH: &str = "upstreams.target";

impl Upstream {
    /// The upstream with these endpoints, as a configuration has it.
    pub(crate) fn with_endpoints(&self, endpoints: Vec<Value>) -> Value {
        let mut upstream = self.0.clone();
        upstream.insert("endpoints".to_owned(), endpoints.into());
        upstream.into()
    }
}

/// Reads the settings at `path`, and has the gateway check them.
pub(super) fn read(object: &Object<'_>, path: &str, value: Value) -> Option<Upstream> {
    let Value::Object(settings) = value else {
        let found = shown(&value);
        object.wrong(path, format!("must be an object with settings of the gateway's upstream, got {found}"));
        return None;
    };
    let ours: Vec<&str> = OURS.into_iter().filter(|name| settings.contains_key(*name)).collect();
    for name in &ours {
        object.wrong(&format!("{path}.{name}"), "can't be set: it is the lab's");
    }
    let upstream = Upstream(settings);
    let problems = problems(&upstream);
    for (at, message) in &problems {
        let dot = if at.is_empty() { "" } else { "." };
        object.wrong(&format!("{path}{dot}{at}"), message.as_str());
    }
    (ours.is_empty() && problems.is_empty()).then_some(upstream)
}

/// What the gateway finds wrong: where in the upstream, and what.
fn problems(upstream: &Upstream) -> Vec<(String, String)> {
    let limit = json!({ "algorithm": "token", "capacity": 1, "fillRate": 1 });
    let endpoints = vec!["http://127.0.0.1:1".into()];
    let config =
        json!({ "upstreams": { "target": upstream.with_endpoints(endpoints) }, "limits": { "default": limit } });
    let within = |path: &str| path.strip_prefix(PATH).unwrap_or(path).trim_start_matches('.').to_owned();
    let found = super::gateway::problems(&config);
    found.into_iter().map(|(path, message)| (within(&path), message)).collect()
}
