//! The machine alone: a loop that does nothing but look at the clock, and notes how late it sees each time that a
//! request would be due. No tool can be better than that, and on a virtual machine that others share it may be bad.

use std::time::Instant;

use crate::TOOL_CORE;
use crate::process::Process;
use crate::scratch::Scratch;

/// What this program is called with to be that loop.
pub(crate) const ARGUMENT: &str = "--spin";

/// How late it was at the median and at the 99th percentile, in milliseconds.
pub(crate) fn lateness(scratch: &Scratch, rate: f64, seconds: u64) -> (f64, f64) {
    let program = std::env::current_exe().expect("this program").display().to_string();
    let command = [program, ARGUMENT.to_owned(), rate.to_string(), seconds.to_string()];
    let text = Process::start(scratch, "spin", TOOL_CORE, command).finish();
    let figures: Vec<f64> = text.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let [p50, p99] = figures[..] else { panic!("{text:?} is not what it prints") };
    (p50, p99)
}

/// Is that loop, if it was asked for.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Option<()> {
    arguments.find(|argument| argument == ARGUMENT)?;
    let rate: f64 = arguments.next()?.parse().ok()?;
    let seconds: f64 = arguments.next()?.parse().ok()?;
    let start = Instant::now();
    let mut late: Vec<f64> = (0..(rate * seconds) as u32)
        .map(|number| {
            let due = f64::from(number) / rate;
            loop {
                let now = start.elapsed().as_secs_f64();
                if now >= due {
                    return (now - due) * 1e3;
                }
            }
        })
        .collect();
    late.sort_by(f64::total_cmp);
    println!("{} {}", late[late.len() / 2], late[late.len() * 99 / 100]);
    Some(())
}
