//! Which plans the service carries out, and to which hosts they may send.

use std::path::PathBuf;

use serde_json::Value;
use tidegate_input::{Problem, is_loopback, json};

use crate::plan::{InvalidPlan, Overrides, Plan};

fn problem(path: &str, message: impl Into<String>) -> Problem {
    Problem { path: path.to_owned(), message: message.into() }
}

/// Hosts that may be sent to. Anyone who reaches the service can start a test, so its operator must have allowed these.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts(
    /// Besides the machine itself; `*` is everyone.
    pub Vec<String>,
);

impl AllowedHosts {
    /// Whether the target of a plan is among them.
    pub fn check(&self, plan: &Plan) -> Result<(), Problem> {
        let target = &plan.target;
        let is_named = |host: &String| host == "*" || host.eq_ignore_ascii_case(&target.host);
        if is_loopback(&target.authority) || self.0.iter().any(is_named) {
            return Ok(());
        }
        let message = format!("must be on this machine or on a host that `--allow-host` names, got {:?}", target.host);
        Err(problem("limiterUrl", message))
    }
}

/// Plans in files, started by name.
#[derive(Clone, Debug, Default)]
pub struct Plans(
    /// Where they are, as NAME.json.
    pub Option<PathBuf>,
);

impl Plans {
    /// The plan that a body is, or names: `"spikes"` or `{"plan": "spikes"}`.
    pub(super) fn asked_for(&self, body: &[u8]) -> Result<Plan, Vec<Problem>> {
        let name = match json::read(body) {
            Ok(Value::String(name)) => Some(name),
            Ok(Value::Object(fields)) => match fields.get("plan") {
                Some(Value::String(name)) if fields.len() == 1 => Some(name.clone()),
                Some(_) => {
                    return Err(vec![problem("plan", "must be the name of a stored plan, without other fields")]);
                }
                None => None,
            },
            _ => None,
        };
        match name {
            None => Plan::read(body).map_err(|InvalidPlan(problems)| problems),
            Some(name) => self.stored(&name),
        }
    }

    fn stored(&self, name: &str) -> Result<Plan, Vec<Problem>> {
        let wrong = |message: String| vec![problem("plan", message)];
        let Some(directory) = &self.0 else {
            return Err(wrong(format!("no plans are stored: start the service with `--plans DIR` to use {name:?}")));
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
            return Err(wrong(format!("must be 1 to 64 letters, digits, `-` and `_`, got {name:?}")));
        }
        let names = self.names();
        if !names.iter().any(|there| there == name) {
            return Err(wrong(format!("must be one of {}, got {name:?}", names.join(", "))));
        }
        let path = directory.join(format!("{name}.json"));
        let in_file = |problem: Problem| Problem { path: format!("{name}.json: {}", problem.path), ..problem };
        let read = Plan::open(&path, &Overrides::default());
        read.map_err(|InvalidPlan(problems)| problems.into_iter().map(in_file).collect())
    }

    /// The names of those that are there, a hundred at most.
    fn names(&self) -> Vec<String> {
        let files = self.0.as_ref().and_then(|directory| std::fs::read_dir(directory).ok());
        let names = files.into_iter().flatten().flatten().filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            name.strip_suffix(".json").map(str::to_owned)
        });
        let mut names: Vec<String> = names.take(100).collect();
        names.sort_unstable();
        names
    }
}
