//! The gateway's own configuration in a scenario, with the names of targets as hosts, and variants that change parts of
//! it.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tidegate_gateway::config::{self, InvalidConfig};
use tidegate_gateway::settings::Settings;
use tidegate_input::object::{Object, shown};
use tidegate_policy::endpoints::Weight;

/// The name of the run with the configuration as it is written.
pub const PROTECTED: &str = "protected";

/// What the lab itself sets.
const OURS: [&str; 9] =
    ["listeners", "workers", "trusted_proxies", "admin", "log", "access_log", "redis", "adaptive", "resolver"];
/// The most variants of a scenario.
const MOST: usize = 20;

/// The gateway's configuration in each run: its name, and the configuration with names of targets as hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway(Vec<(String, Value)>);

impl Gateway {
    /// The names of all runs, [`PROTECTED`] first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The index of the upstream that each target belongs to in a run.
    pub(crate) fn upstreams_of(&self, run: usize, targets: &[String]) -> Vec<usize> {
        let mut found = vec![usize::MAX; targets.len()];
        let mut names = Vec::new();
        for (path, url) in urls(&mut self.0[run].1.clone()) {
            let name = path.split(".endpoints[").next().unwrap_or_default().trim_end_matches(".url").to_owned();
            let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            if let Some(target) = target_of(url, targets) {
                found[target] = index;
            }
        }
        found
    }

    /// The weight of each target in a run.
    pub(crate) fn weights_of(&self, run: usize, targets: &[String]) -> Vec<Weight> {
        let mut weights = vec![Weight::ONE; targets.len()];
        let upstreams = self.0[run].1["upstreams"].as_object().into_iter().flatten();
        for endpoint in upstreams.filter_map(|(_, upstream)| upstream["endpoints"].as_array()).flatten() {
            let weight = endpoint["weight"].as_u64().and_then(|weight| Weight::new(u32::try_from(weight).ok()?));
            if let (Some(target), Some(weight)) = (target_of(&endpoint["url"], targets), weight) {
                weights[target] = weight;
            }
        }
        weights
    }

    /// The configuration of a run, with targets at these addresses.
    pub(crate) fn config(&self, run: usize, targets: &[String], addresses: &[SocketAddr]) -> Value {
        let mut config = self.0[run].1.clone();
        for (_, url) in urls(&mut config) {
            let address = target_of(url, targets).and_then(|target| addresses.get(target));
            if let Some(address) = address {
                *url = format!("http://{address}").into();
            }
        }
        config
    }
}

/// Reads `gateway` and `variants`, and has the gateway check each of them.
pub(super) fn read(object: &mut Object<'_>, targets: &[String]) -> Option<Gateway> {
    let Some(written) = object.take("gateway").filter(Value::is_object) else {
        object.wrong("gateway", "must be an object with settings of the gateway's configuration");
        return None;
    };
    let mut runs = vec![(PROTECTED.to_owned(), "gateway".to_owned(), written.clone())];
    match object.take("variants") {
        None => {}
        Some(Value::Object(variants)) if variants.len() <= MOST => {
            for (name, changes) in variants {
                let path = format!("variants.{name}");
                if name == PROTECTED || !is_name(&name) {
                    let message = format!("must have a name of `a-z`, `0-9` and `-` other than `{PROTECTED}`");
                    object.wrong(&path, message);
                }
                if !changes.is_object() {
                    let found = shown(&changes);
                    object.wrong(&path, format!("must be an object with changes of `gateway`, got {found}"));
                    return None;
                }
                let mut config = written.clone();
                merge(&mut config, changes);
                if config == written {
                    object.wrong(&path, "changes nothing: names in it must be those of `gateway`");
                }
                runs.push((name, path, config));
            }
        }
        Some(other) => {
            let found = shown(&other);
            object.wrong("variants", format!("must be an object of at most {MOST} variants, got {found}"));
            return None;
        }
    }
    let mut is_good = true;
    for (_, path, config) in &mut runs {
        is_good &= check(object, path, config, targets);
    }
    is_good.then(|| Gateway(runs.into_iter().map(|(name, _, config)| (name, config)).collect()))
}

/// Whether a target or a variant may be called so: it is a host's name, and a part of a run's.
pub(super) fn is_name(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=40).contains(&text.len()) && text.bytes().all(is_good) && !text.starts_with('-') && !text.ends_with('-')
}

/// Checks one configuration. Whether it is good.
fn check(object: &Object<'_>, path: &str, config: &mut Value, targets: &[String]) -> bool {
    let mut is_good = true;
    let mut wrong = |at: &str, message: &str| {
        let dot = if at.is_empty() { "" } else { "." };
        object.wrong(&format!("{path}{dot}{at}"), message);
        is_good = false;
    };
    for name in OURS {
        if config.get(name).is_some() {
            wrong(name, "can't be set: it is the lab's");
        }
    }
    if config.get("limits").is_none() {
        // The gateway's own default would limit everything.
        config["limits"] = json!({});
    }
    let mut used = vec![0; targets.len()];
    let mut placed = config.clone();
    for (at, url) in urls(&mut placed) {
        if let Some(target) = target_of(url, targets) {
            used[target] += 1;
            *url = format!("http://127.0.0.1:{}", target + 1).into();
        } else {
            let known = targets.join(", ");
            wrong(&at, &format!("must be http:// and the name of a target ({known}), got {}", shown(url)));
        }
    }
    for (target, _) in targets.iter().zip(&used).filter(|(_, count)| **count > 1) {
        wrong("upstreams", &format!("must have target `{target}` only once"));
    }
    if is_good {
        for (at, message) in problems(&placed) {
            let dot = if at.is_empty() { "" } else { "." };
            object.wrong(&format!("{path}{dot}{at}"), message);
            is_good = false;
        }
    }
    is_good
}

/// What the gateway finds wrong with a configuration: where, and what.
pub(super) fn problems(config: &Value) -> Vec<(String, String)> {
    match config::parse(&config.to_string()).and_then(|config| Settings::check(&config)) {
        Ok(_) => Vec::new(),
        Err(InvalidConfig::Meaning(problems)) => {
            problems.into_iter().map(|problem| (problem.path, problem.message)).collect()
        }
        // The line is that of a text which nobody sees.
        Err(InvalidConfig::Syntax(text)) => {
            let known = |word: &str| word.split('.').next().is_some_and(|first| config.get(first).is_some());
            let found = text.split(": ").enumerate().find(|(_, piece)| known(piece));
            match found.and_then(|(index, path)| Some((path, text.splitn(index + 2, ": ").nth(index + 1)?))) {
                Some((path, message)) => vec![(path.to_owned(), message.to_owned())],
                None => vec![(String::new(), text)],
            }
        }
    }
}

/// All URLs of endpoints, with their paths.
fn urls(config: &mut Value) -> Vec<(String, &mut Value)> {
    let upstreams = config.get_mut("upstreams").and_then(Value::as_object_mut);
    let mut found = Vec::new();
    for (name, upstream) in upstreams.into_iter().flatten() {
        let path = format!("upstreams.{name}");
        for (field, value) in upstream.as_object_mut().into_iter().flatten() {
            match (field.as_str(), value) {
                ("url", value) => found.push((format!("{path}.url"), value)),
                ("endpoints", Value::Array(endpoints)) => {
                    for (index, endpoint) in endpoints.iter_mut().enumerate() {
                        let at = format!("{path}.endpoints[{index}]");
                        match endpoint {
                            Value::Object(fields) => {
                                found.extend(fields.get_mut("url").map(|url| (format!("{at}.url"), url)));
                            }
                            endpoint => found.push((at, endpoint)),
                        }
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The index of the target that a URL names.
fn target_of(url: &Value, targets: &[String]) -> Option<usize> {
    let name = url.as_str()?.strip_prefix("http://")?;
    targets.iter().position(|target| target == name)
}

/// Lays changes over a configuration (RFC 7396): what is `null` is removed, objects are merged, all else is replaced.
fn merge(config: &mut Value, changes: Value) {
    let Value::Object(changes) = changes else {
        *config = changes;
        return;
    };
    if !config.is_object() {
        *config = json!({});
    }
    let Some(fields) = config.as_object_mut() else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7396.
    #[test]
    fn changes_are_merged_as_the_standard_has_it() {
        for (config, changes, expected) in [
            (json!({ "a": "b" }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": "b" }), json!({ "b": "c" }), json!({ "a": "b", "b": "c" })),
            (json!({ "a": "b", "b": "c" }), json!({ "a": null }), json!({ "b": "c" })),
            (json!({ "a": ["b"] }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": { "b": "c" } }), json!({ "a": { "b": "d", "c": null } }), json!({ "a": { "b": "d" } })),
            (json!({}), json!({ "a": { "bb": { "ccc": null } } }), json!({ "a": { "bb": {} } })),
        ] {
            let mut merged = config.clone();
            merge(&mut merged, changes.clone());
            assert_eq!(merged, expected, "{config} and {changes}");
        }
    }
}
