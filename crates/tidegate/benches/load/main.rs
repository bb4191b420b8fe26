//! `make bench-load`: our load generator beside `wrk` and `hey`. Prints tables and writes JSON, all in one run.
//!
//! The tool that is measured has one core, the server it sends to has another. That server does as little as a server
//! can, so that the tools are what is full, and it writes down when each request arrives: what a tool says of its own
//! pacing is not taken on trust.
//!
//! Settings, all from the environment: `BENCH_ROUNDS` (5), `BENCH_SECONDS` of a round (3), `BENCH_ONLY` (`highest`,
//! `saturation` or `pacing`).

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]
#![allow(clippy::cast_precision_loss, reason = "figures to look at")]

mod highest;
mod pacing;
#[path = "../gateway/process.rs"]
#[allow(dead_code, reason = "the gateway's benchmark uses all of it")]
mod process;
mod responder;
mod saturation;
#[path = "../gateway/scratch.rs"]
mod scratch;
mod spin;
mod tool;
#[path = "../gateway/usage.rs"]
#[allow(dead_code, reason = "the gateway's benchmark uses all of it")]
mod usage;

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::responder::Responder;
use crate::scratch::Scratch;

/// The core of the tool that is measured.
const TOOL_CORE: usize = 0;
/// The core of the server it sends to.
const SERVER_CORE: usize = 1;
/// As many connections as each tool may use at saturation.
const CONNECTIONS: usize = 64;
/// As many as ours may use where it must not wait: a machine that stands still for some milliseconds leaves many
/// requests without a response.
const ROOM: usize = 1_024;

/// How long and how often.
struct Setting {
    rounds: usize,
    seconds: u64,
    only: Option<String>,
}

impl Setting {
    fn from_environment() -> Self {
        let number = |name: &str, usual: u64| match std::env::var(name) {
            Err(_) => usual,
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        };
        let only = std::env::var("BENCH_ONLY").ok();
        Self { rounds: number("BENCH_ROUNDS", 5) as usize, seconds: number("BENCH_SECONDS", 3), only }
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

fn main() -> ExitCode {
    if spin::run(std::env::args()).is_some() {
        return ExitCode::SUCCESS;
    }
    // `cargo test --benches` would run this too: it is not a test.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let setting = Setting::from_environment();
    let scratch = Scratch::new();
    process::move_to(SERVER_CORE);
    let server = Responder::start();
    let mut report = Map::new();
    report.insert("rounds".to_owned(), json!(setting.rounds));
    report.insert("seconds_a_round".to_owned(), json!(setting.seconds));
    if setting.wants("saturation") {
        report.insert("saturation".to_owned(), saturation::compare(&setting, &scratch, &server));
    }
    if setting.wants("highest") {
        let highest = highest::search(&setting, &scratch, &server);
        report.insert("highest".to_owned(), json!({ "tidegate_per_second": highest }));
    }
    if setting.wants("pacing") {
        report.insert("pacing".to_owned(), pacing::compare(&setting, &scratch, &server));
    }
    write("load.json", &report.into());
    ExitCode::SUCCESS
}

fn write(name: &str, report: &Value) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    let text = serde_json::to_string_pretty(report).expect("a report is JSON");
    std::fs::create_dir_all(&directory).expect("target is writable");
    std::fs::write(directory.join(name), text).expect("target is writable");
    println!("\nwritten to target/bench/{name}");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Whether a figure reaches its goal, in words.
fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}
