//! What can be seen of a run on a terminal while it goes on.
#![allow(clippy::cast_precision_loss, reason = "figures to look at")]

use std::io::Write as _;
use std::time::{Duration, Instant};

use tidegate_load::{Progress, Run};

/// Lines on standard error: one that changes on a terminal, one every five seconds elsewhere.
pub(crate) struct Display {
    is_quiet: bool,
    is_terminal: bool,
    before: Progress,
    shown: Instant,
}

const ELSEWHERE: Duration = Duration::from_secs(5);
const BAR: usize = 20;

impl Display {
    pub(crate) fn new(run: &Run, is_quiet: bool, is_terminal: bool) -> Self {
        let display = Self { is_quiet, is_terminal, before: run.progress(), shown: Instant::now() };
        if !is_quiet {
            eprintln!("{}", run.plan.about());
        }
        display
    }

    /// Shows how far it is, if it is time to.
    pub(crate) fn show(&mut self, run: &Run) {
        let span = if self.is_terminal { Duration::from_millis(900) } else { ELSEWHERE };
        let passed = self.shown.elapsed();
        if self.is_quiet || passed < span {
            return;
        }
        let line = if let Some(ahead) = run.starts_in() {
            self.shown = Instant::now();
            format!("waiting for the start, in {:.0} s", ahead.as_secs_f64().ceil())
        } else {
            let now = run.progress();
            let line = line(run, &self.before, &now, passed.min(run.elapsed()));
            (self.before, self.shown) = (now, Instant::now());
            line
        };
        if self.is_terminal {
            // Over the line before, which may have been longer.
            eprint!("\r\x1b[2K{}", fitted(&line));
            let _flushed = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    /// Leaves the terminal as the summary needs it.
    pub(crate) fn end(&self) {
        if self.is_terminal && !self.is_quiet {
            eprint!("\r\x1b[2K");
        }
    }
}

/// As much of a line as the terminal is wide: a longer one would not be wiped out by the next.
fn fitted(line: &str) -> String {
    let columns = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    line.chars().take(columns.saturating_sub(1)).collect()
}

/// `12s of 60s ███░░░ 1,000/s  ok 98.2 %  429 1.5 %  errors 0.3 %  missed 0  in flight 12  p50 1.2 ms  p99 9.8 ms`
fn line(run: &Run, before: &Progress, now: &Progress, passed: Duration) -> String {
    let (elapsed, duration) = (run.elapsed().as_secs_f64(), run.plan.duration.as_secs_f64());
    if elapsed > duration + 1.0 {
        return format!("all is sent; waiting for {} responses", now.in_flight);
    }
    let filled = ((elapsed / duration).min(1.0) * BAR as f64) as usize;
    let bar = "█".repeat(filled) + &"░".repeat(BAR - filled);
    let sent = now.planned.sent + now.retried.sent - before.planned.sent - before.retried.sent;
    let rate = sent as f64 / passed.as_secs_f64();
    let ended =
        |progress: &Progress| progress.planned.success + progress.planned.rate_limited + progress.planned.errors;
    let ended_now = ended(now) - ended(before);
    let share = |now: u64, before: u64| match ended_now {
        0 => "–".to_owned(),
        ended => format!("{:.1}%", (now - before) as f64 / ended as f64 * 100.0),
    };
    let recent = now.latency.since(&before.latency);
    let time = |share: f64| recent.quantile(share).map_or("–".to_owned(), shown);
    format!(
        "{:>3.0}s/{duration:.0}s {bar} {rate:>6.0}/s  ok {}  429 {}  errors {}  missed {}  in flight {}  p50 {}  \
         p99 {}",
        elapsed.min(duration),
        share(now.planned.success, before.planned.success),
        share(now.planned.rate_limited, before.planned.rate_limited),
        share(now.planned.errors, before.planned.errors),
        now.too_late + now.no_room,
        now.in_flight,
        time(0.5),
        time(0.99),
    )
}

fn shown(seconds: f64) -> String {
    match seconds {
        seconds if seconds.is_infinite() => "> 2min".to_owned(),
        seconds if seconds >= 1.0 => format!("{seconds:.1}s"),
        seconds if seconds >= 0.01 => format!("{:.0}ms", seconds * 1e3),
        seconds => format!("{:.2}ms", seconds * 1e3),
    }
}
