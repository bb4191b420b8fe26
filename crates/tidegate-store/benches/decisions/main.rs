//! `make bench`: what a decision costs. Prints a table and writes JSON, all in one run.
//!
//! The machine is noisy, so everything that is compared runs interleaved, in many short rounds, and a ratio is the
//! median of the ratios of neighbouring rounds.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]
#![allow(clippy::cast_precision_loss, reason = "figures to look at")]

mod calls;
mod governed;
mod memory;
mod rounds;
mod shared;

use serde_json::{Value, json};

fn main() {
    // `cargo test --benches` would run this too: it is not a test.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let report = json!({
        "algorithms": memory::algorithms(),
        "bytes_per_key": memory::bytes_per_key(),
        "calls": calls::calls(),
        "gcra_against_governor": governed::compare(),
        "redis": shared::compare(),
    });
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench/decisions.json");
    write(&path, &report);
}

fn write(path: &std::path::Path, report: &Value) {
    let text = serde_json::to_string_pretty(report).expect("a report is JSON");
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("target is writable");
    std::fs::write(path, text).expect("target is writable");
    println!("\nwritten to target/bench/decisions.json");
}

/// Whether a figure reaches its goal, in words.
fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}
