//! What is said of a test while it goes on, and its report at the end.
#![allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use http::StatusCode;
use tidegate_serve::Log;

use super::Run;
use crate::live::{self, Trouble};
use crate::record::Record;
use crate::report::{Ended, Report};

const TICK: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// How often errors are told.
const ERRORS_EVERY: Duration = Duration::from_secs(5);
/// Who says it.
const NAME: &str = "LoadGenerator";

/// Waits for all senders, and tells meanwhile what happens.
pub(super) fn watch(run: &Run, ends: &Receiver<(Record, io::Result<()>)>, log: &Log) -> io::Result<Report> {
    log.info(NAME, format_args!("Starting load test {} ({})", run.id, run.plan.about()));
    let mut told = Told::default();
    let (mut record, mut failure) = (None::<Record>, None);
    loop {
        match ends.recv_timeout(TICK) {
            Ok((part, result)) => {
                failure = failure.or(result.err());
                match &mut record {
                    None => record = Some(part),
                    Some(whole) => whole.merge(&part).expect("records of the same plan"),
                }
            }
            Err(RecvTimeoutError::Timeout) => told.tick(run, log),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    run.rate.store(0_f64.to_bits(), Relaxed);
    run.is_over.store(true, Relaxed);
    told.errors(run, log);
    let elapsed = run.elapsed();
    if let Some(error) = failure {
        log.error(NAME, format_args!("Load test failed after {:.1}s: {error}", elapsed.as_secs_f64()));
        return Err(error);
    }
    let ended = if run.is_stopped() { Ended::Stopped } else { Ended::Completed };
    let classes: Vec<_> = run.plan.clients.iter().map(|group| group.class).collect();
    let record = record.unwrap_or_else(|| Record::new(run.plan.duration, &classes));
    let report = Report::new(&run.plan, record, ended, run.started, elapsed, &run.id);
    tell_end(&report, elapsed, log);
    Ok(report)
}

/// What has been told.
#[derive(Default)]
struct Told {
    until: Duration,
    second: Duration,
    sent: u64,
    errors: Duration,
    missed: u64,
}

impl Told {
    fn tick(&mut self, run: &Run, log: &Log) {
        let now = run.elapsed();
        if let Some((time, rate)) = run.with_profile(|profile| profile.burst_between(self.until, now)).flatten() {
            log.info(NAME, format_args!("Burst peak started at t={:.1}s (target RPS={rate})", time.as_secs_f64()));
        }
        self.until = now;
        if now >= self.second + SECOND {
            let progress = run.progress();
            let sent = progress.planned.sent + progress.retried.sent;
            let rate = (sent - self.sent) as f64 / now.saturating_sub(self.second).as_secs_f64();
            run.rate.store(rate.to_bits(), Relaxed);
            (self.second, self.sent) = (now, sent);
        }
        if now >= self.errors + ERRORS_EVERY {
            self.errors = now;
            self.errors(run, log);
        }
    }

    /// Errors and missed requests since the last time, each in one line.
    fn errors(&mut self, run: &Run, log: &Log) {
        let errors = live::take_errors(run.live());
        if !errors.is_empty() {
            log.warn(NAME, format_args!("Request errors: {} (counted as failures)", listed(&errors)));
        }
        let progress = run.progress();
        let missed = progress.too_late + progress.no_room;
        if missed > self.missed {
            let more = missed - self.missed;
            log.warn(NAME, format_args!("{more} requests were not sent: too late, or too many in flight"));
            self.missed = missed;
        }
    }
}

fn listed(errors: &BTreeMap<Trouble, u64>) -> String {
    let one = |(trouble, count): (&Trouble, &u64)| match trouble {
        Trouble::Status(status) => {
            let reason = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
            format!("{count} × HTTP {status} {}", reason.unwrap_or_default()).trim_end().to_owned()
        }
        Trouble::Failed(cause) => format!("{count} × {}", cause.name()),
    };
    errors.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn tell_end(report: &Report, elapsed: Duration, log: &Log) {
    let all = report.record().all();
    let seconds = elapsed.as_secs_f64();
    let (sent, errors) = (all.counts.sent(), all.counts.errors());
    match report.ended() {
        Ended::Completed => log.info(
            NAME,
            format_args!(
                "Test completed: {sent} requests sent, {errors} errors, {} rate limited, {} missed, avg latency {:.1}ms, p95 {:.1}ms",
                all.counts.rate_limited(),
                all.counts.missed(),
                all.latency.mean() / 1e3,
                all.latency.percentile(95.0) as f64 / 1e3,
            ),
        ),
        Ended::Stopped => {
            log.info(NAME, format_args!("Load test stopped by user after {seconds:.1}s. Sent {sent} requests."));
        }
    }
}
