//! `make bench-gateway`: our gateway beside nginx. Prints tables and writes JSON, all in one run.
//!
//! One core serves, another one makes the load and plays the upstream (and Redis). Whatever is compared runs
//! interleaved, a few seconds at a time, who goes first changing each round; a ratio is the median of the ratios within
//! the rounds. What is judged is the CPU time of a request: it says what a core can carry, even where the load
//! generator's core is the one that is full.
//!
//! With the argument `steady` it is `make steady`: a long run at a steady load (`steady.rs`). With `count` it is `make
//! count`: instructions instead of time, which do not swing with the machine (`count.rs`). With `stalled` it is `make
//! stalled`: clients that stall, beside honest ones (`stalled.rs`). With `endpoints` it is `make endpoints`: endpoints
//! that are killed, frozen and restarted under load (`endpoints.rs`). With `sick` it is `make sick`: sick upstreams
//! beside a healthy one (`sick.rs`).
//!
//! Settings, all from the environment: `BENCH_ROUNDS` (5), `BENCH_SECONDS` of a round (3), `BENCH_ONLY` (`proxied`,
//! `refused` or `redis`), `STEADY_SECONDS` (600), `STALLED_SECONDS` (60), `STALLED_ROUNDS` (5), `STALLED_ONLY` (part of
//! an attack's name), `ENDPOINT_ROUNDS` (20), `ENDPOINT_RETRIES` (`on` or `off`), `SICK_ROUNDS` (5), `SICK_SECONDS`
//! (10), `BENCH_TIDEGATE` (another build's binary to measure).

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]
#![allow(clippy::cast_precision_loss, reason = "figures to look at")]

mod admin;
mod beside_nginx;
mod connection;
mod count;
mod endpoints;
mod honesty;
mod nginx;
mod open_loop;
mod page;
mod process;
mod redis;
mod rounds;
mod scratch;
mod setting;
mod shared;
mod sick;
mod stalled;
mod steady;
mod table;
mod tidegate;
mod usage;
mod wrk;

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::beside_nginx::Response;
use crate::scratch::Scratch;
use crate::setting::{Part, Setting};

/// The core of whoever is measured.
const SUBJECT_CORE: usize = 0;
/// The core of everyone else: the load generator, the upstream, Redis.
const LOAD_CORE: usize = 1;

fn main() -> ExitCode {
    let is_asked_for = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    // `cargo test --benches` would run this too: it is not a test.
    if !is_asked_for("--bench") {
        return ExitCode::SUCCESS;
    }
    let setting = Setting::from_environment();
    // Made first, so removed last: the servers' files are in it.
    let scratch = Scratch::new();
    if is_asked_for("steady") {
        return steady::run(setting.steady_seconds, &scratch);
    }
    if is_asked_for("stalled") {
        return stalled::run(&scratch);
    }
    if is_asked_for("endpoints") {
        return endpoints::run(&scratch);
    }
    if is_asked_for("sick") {
        return sick::run(&scratch);
    }
    let upstream = nginx::upstream(&scratch);
    if is_asked_for("count") {
        count::run(&scratch, upstream.port);
        return ExitCode::SUCCESS;
    }

    let mut lies = Vec::new();
    let mut report = serde_json::Map::new();
    report.insert("rounds".to_owned(), json!(setting.rounds));
    report.insert("seconds_a_round".to_owned(), json!(setting.seconds));
    for (part, name) in [(Part::Proxied, "proxied"), (Part::Rejected, "refused"), (Part::Redis, "redis")] {
        if !setting.wants(part) {
            continue;
        }
        let figures = match part {
            Part::Proxied => beside_nginx::compare(&setting, &scratch, upstream.port, Response::Proxied, &mut lies),
            Part::Rejected => beside_nginx::compare(&setting, &scratch, upstream.port, Response::Rejected, &mut lies),
            Part::Redis => shared::compare(&setting, &scratch, upstream.port, &mut lies),
        };
        report.insert(name.to_owned(), figures);
    }
    report.insert("failed_checks".to_owned(), json!(lies));
    write("gateway.json", &report.into());

    for lie in &lies {
        println!("CHECK FAILED, the figures mean nothing: {lie}");
    }
    if lies.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(name: &str, report: &Value) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    let text = serde_json::to_string_pretty(report).expect("a report is JSON");
    std::fs::create_dir_all(&directory).expect("target is writable");
    std::fs::write(directory.join(name), text).expect("target is writable");
    println!("\nwritten to target/bench/{name}");
}

/// Whether a figure reaches its goal, in words.
fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}
