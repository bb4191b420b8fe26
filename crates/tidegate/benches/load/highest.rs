//! The highest rate that one core holds.

use crate::responder::Responder;
use crate::scratch::Scratch;
use crate::tool;
use crate::{ROOM, Setting, TOOL_CORE, usage};

/// From one rate to the next.
const STEP: f64 = 1.15;
/// How often a rate is tried: the machine may be busy with something else for a moment.
const TRIES: usize = 8;

/// Raises the rate until it is no longer held: all requests sent and all responses received, and 99 of 100 less than a
/// millisecond late.
pub(crate) fn search(setting: &Setting, scratch: &Scratch, server: &Responder) -> f64 {
    println!("\nThe highest rate that core {TOOL_CORE} holds (lag p99 < 1 ms, nothing missed)\n");
    println!("{:>10} {:>10} {:>12} {:>10} {:>12}", "rate/s", "lag p50", "lag p99", "missed", "core stolen");
    let (mut rate, mut held) = (10_000.0, 0.0);
    loop {
        let is_held = (0..TRIES).any(|_| holds(setting, scratch, server, rate));
        if !is_held {
            println!("\nheld: {held:.0} requests a second");
            return held;
        }
        held = rate;
        rate *= STEP;
    }
}

fn holds(setting: &Setting, scratch: &Scratch, server: &Responder, rate: f64) -> bool {
    let before = usage::stolen(TOOL_CORE);
    let work = tool::tidegate(scratch, server, rate, ROOM, setting.seconds);
    drop(server.take_arrivals());
    let lag = |figure: &str| work.result["lagSeconds"][figure].as_f64().expect("a figure") * 1e3;
    let missed = ["tooLate", "noRoom"].map(|kind| work.result["requests"]["missed"][kind].as_u64().expect("a count"));
    let missed: u64 = missed.iter().sum();
    let stolen = (usage::stolen(TOOL_CORE) - before) / work.seconds * 100.0;
    println!("{rate:>10.0} {:>8.0}µs {:>10.0}µs {missed:>10} {stolen:>11.1}%", lag("p50") * 1e3, lag("p99") * 1e3);
    lag("p99") < 1.0 && missed == 0
}
