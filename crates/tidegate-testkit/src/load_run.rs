//! Runs of the real binary, and what they came to.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Directory, signal, tidegate, wait_for_exit};

/// What a run of the load generator left.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// The result file; nothing if there is none.
    pub result: Value,
}

impl Ran {
    /// A figure of the requests: `sent`, `success`, `rateLimited`, `errors`, …
    pub fn requests(&self, name: &str) -> u64 {
        self.result["requests"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {:#}", self.result["requests"]))
    }

    pub fn missed(&self, why: &str) -> u64 {
        self.result["requests"]["missed"][why].as_u64().unwrap_or_else(|| panic!("no {why}: {}", self.result))
    }

    pub fn failures(&self, cause: &str) -> u64 {
        self.result["requests"]["failures"][cause].as_u64().unwrap_or_default()
    }
}

/// A run that goes on.
pub struct Running {
    child: Option<Child>,
    out: PathBuf,
    pub directory: Directory,
}

/// Longer than nearly all runs here.
const PATIENCE: Duration = Duration::from_secs(60);

impl Running {
    pub fn start(plan: &Value, change: impl FnOnce(&mut Command)) -> Self {
        let directory = Directory::new();
        let path = directory.file("plan.json", &plan.to_string());
        let out = directory.0.join("result.json");
        let mut command = tidegate();
        command.args(["load", "run"]).arg(&path).arg("--json").arg(&out);
        change(&mut command);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        Self { child: Some(child), out, directory }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for its end.
    pub fn ended(self) -> Ran {
        self.ended_within(PATIENCE)
    }

    /// The same, for runs that are longer than most.
    pub fn ended_within(mut self, patience: Duration) -> Ran {
        let mut child = self.child.take().expect("it runs");
        if wait_for_exit(&mut child, patience).is_none() {
            let _killed = child.kill();
            panic!("it does not end");
        }
        let output = child.wait_with_output().expect("its output");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let result = std::fs::read(&self.out).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            result: result.unwrap_or_default(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _killed = child.kill();
            let _ended = child.wait();
        }
    }
}

/// Runs a plan to its end.
pub fn run(plan: &Value) -> Ran {
    Running::start(plan, |_| {}).ended()
}

/// So many requests a second, evenly, for so long, to this URL.
pub fn constant(url: impl std::fmt::Display, rps: u32, seconds: f64) -> Value {
    let profile = json!({ "type": "constant", "params": { "rps": rps } });
    // The machine may stand still for a moment while it runs other tests: that is not what most of them are about.
    json!({ "limiterUrl": url.to_string(), "duration": seconds, "profile": profile, "maxLag": 30, "lagBudget": 30 })
}

/// A plan with another value at a place.
pub fn with(mut plan: Value, field: &str, value: Value) -> Value {
    plan[field] = value;
    plan
}
