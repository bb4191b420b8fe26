//! How evenly requests arrive where they should arrive evenly.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::responder::Responder;
use crate::scratch::Scratch;
use crate::spin;
use crate::tool;
use crate::{ROOM, Setting, median, verdict};

const RATES: [f64; 3] = [1_000.0, 5_000.0, 20_000.0];
/// In milliseconds, of 99 of 100 requests at 5,000 a second.
const GOAL: f64 = 0.2;

/// The error of one round, in milliseconds.
#[derive(Clone, Copy)]
struct Error {
    p50: f64,
    p99: f64,
}

pub(crate) fn compare(setting: &Setting, scratch: &Scratch, server: &Responder) -> Value {
    println!("\nPacing error in ms, {} rounds (wrk has no pace)\n", setting.rounds);
    println!("{:>8} {:<28} {:>8} {:>8} {:>14}", "rate/s", "", "p50", "p99", "best round's");
    let mut report = Vec::new();
    for rate in RATES {
        let (mut machine, mut own, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..setting.rounds {
            let (p50, p99) = spin::lateness(scratch, rate, setting.seconds);
            machine.push(Error { p50, p99 });
            drop(server.take_arrivals());
            let work = tool::tidegate(scratch, server, rate, ROOM, setting.seconds);
            ours.push(unevenness(&server.take_arrivals()));
            let lag = |figure: &str| work.result["lagSeconds"][figure].as_f64().expect("a figure") * 1e3;
            own.push(Error { p50: lag("p50"), p99: lag("p99") });
            let _work = tool::hey(scratch, server, Some(rate), setting.seconds);
            theirs.push(unevenness(&server.take_arrivals()));
        }
        let rows = [
            ("the machine alone", &machine),
            ("tidegate, by itself", &own),
            ("tidegate, as it arrives", &ours),
            ("hey, as it arrives", &theirs),
        ];
        for (name, errors) in rows {
            let (p50, p99) = (over(errors, |error| error.p50), over(errors, |error| error.p99));
            let best = errors.iter().map(|error| error.p99).fold(f64::INFINITY, f64::min);
            println!("{rate:>8.0} {name:<28} {p50:>8.3} {p99:>8.3} {best:>14.3}");
            report.push(json!({ "rate": rate, "what": name, "p50_ms": p50, "p99_ms": p99, "best_p99_ms": best }));
        }
        if (rate - RATES[1]).abs() < 1.0 {
            let (ours, machine) = (over(&own, |error| error.p99), over(&machine, |error| error.p99));
            println!(
                "         goal p99 ≤ {GOAL}: {}; the machine alone: {}",
                verdict(ours <= GOAL),
                verdict(machine <= GOAL)
            );
        }
    }
    report.into()
}

fn over(errors: &[Error], figure: impl Fn(&Error) -> f64) -> f64 {
    median(errors.iter().map(figure).collect())
}

/// How far arrivals are from an even line through the first and the last, behind the earliest of them: how late each
/// is.
fn unevenness(arrivals: &[Instant]) -> Error {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return Error { p50: f64::NAN, p99: f64::NAN };
    };
    let step = (*last - *first).as_secs_f64() / (arrivals.len() - 1).max(1) as f64;
    let off = |(place, time): (usize, &Instant)| time.duration_since(*first).as_secs_f64() - place as f64 * step;
    let mut off: Vec<f64> = arrivals.iter().enumerate().map(off).collect();
    off.sort_by(f64::total_cmp);
    // The earliest hundredth may have come early by chance of the line.
    let zero = off[off.len() / 100];
    let at = |share: f64| {
        Duration::from_secs_f64((off[(off.len() as f64 * share) as usize] - zero).max(0.0)).as_secs_f64() * 1e3
    };
    Error { p50: at(0.5), p99: at(0.99) }
}
