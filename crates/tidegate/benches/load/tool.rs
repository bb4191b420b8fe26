//! The tools: ours, `wrk` and `hey`. Each has one core, and says how many requests it has made.

use std::path::Path;

use serde_json::{Value, json};

use crate::process::Process;
use crate::responder::Responder;
use crate::scratch::Scratch;
use crate::{CONNECTIONS, TOOL_CORE};

/// What a tool did, and what that took.
pub(crate) struct Work {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Seconds of CPU time.
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// The result file, where it is ours.
    pub(crate) result: Value,
}

impl Work {
    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Microseconds of CPU time a request.
    pub(crate) fn cpu_us(&self) -> f64 {
        (self.user + self.system) / self.requests as f64 * 1e6
    }

    pub(crate) fn user_us(&self) -> f64 {
        self.user / self.requests as f64 * 1e6
    }
}

/// Ours, at this rate, over so many connections at most.
pub(crate) fn tidegate(scratch: &Scratch, server: &Responder, rate: f64, connections: usize, seconds: u64) -> Work {
    let plan = json!({
        "limiterUrl": server.url(),
        "duration": seconds,
        "concurrency": connections,
        "profile": { "type": "constant", "params": { "rps": rate } },
    });
    let plan = scratch.write("plan.json", &plan.to_string());
    let out = scratch.join("result.json");
    let program = std::env::var("BENCH_TIDEGATE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tidegate").to_owned());
    // A result that is INVALID, which it says with its exit code, is a result here.
    let command = format!("{program} load run {} --quiet --json {} || [ $? = 98 ]", shown(&plan), shown(&out));
    let (_, user, system) = run(scratch, "tidegate", &command);
    let result = std::fs::read(&out).expect("a result");
    let result: Value = serde_json::from_slice(&result).expect("JSON");
    let requests = result["requests"]["success"].as_u64().expect("a count");
    Work { requests, seconds: seconds as f64, user, system, result }
}

/// As many as the connections can carry.
pub(crate) fn wrk(scratch: &Scratch, server: &Responder, seconds: u64) -> Work {
    let command = format!("wrk -t 1 -c {CONNECTIONS} -d {seconds}s {}", server.url());
    let (text, user, system) = run(scratch, "wrk", &command);
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests = requests.and_then(|(count, _)| count.parse().ok());
    let requests = requests.unwrap_or_else(|| panic!("wrk's output is not what it used to be:\n{text}"));
    Work { requests, seconds: seconds as f64, user, system, result: Value::Null }
}

/// As many as the connections can carry, or at this rate.
pub(crate) fn hey(scratch: &Scratch, server: &Responder, rate: Option<f64>, seconds: u64) -> Work {
    // It limits each of its workers. With few of them it paces better, with too few it can't keep up.
    let workers = if rate.is_some() { 10 } else { CONNECTIONS };
    let limit = rate.map(|rate| format!("-q {}", rate / workers as f64)).unwrap_or_default();
    let command = format!("GOMAXPROCS=1 hey -z {seconds}s -c {workers} {limit} {}", server.url());
    let (text, user, system) = run(scratch, "hey", &command);
    let requests =
        text.lines().find_map(|line| line.trim().strip_prefix("[200]")?.split_whitespace().next()?.parse().ok());
    let requests = requests.unwrap_or_else(|| panic!("hey's output is not what it used to be:\n{text}"));
    Work { requests, seconds: seconds as f64, user, system, result: Value::Null }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a command to its end; says what it printed, and the CPU time it took by its shell's account.
fn run(scratch: &Scratch, name: &str, command: &str) -> (String, f64, f64) {
    let command = format!("{command}; status=$?; times; exit $status");
    let text = Process::start(scratch, name, TOOL_CORE, ["bash", "-c", &command]).finish();
    // The shell's own, and then its children's: `0m1.234s 0m0.567s`.
    let children = text.trim_end().lines().last().unwrap_or_default();
    let times: Vec<f64> = children.split_whitespace().filter_map(seconds).collect();
    let [user, system] = times[..] else { panic!("{children:?} is not what `times` used to print") };
    (text, user, system)
}

fn seconds(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
}
