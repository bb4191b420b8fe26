//! What is logged of a test while it runs, and its report at the end.
#![allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use http::StatusCode;
use tidegate_serve::Log;

use super::Run;
use crate::live::{self, Trouble};
use crate::record::{Cause, Record};
use crate::report::{Ended, Report};

const TICK: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// How often errors are logged.
const ERRORS_EVERY: Duration = Duration::from_secs(5);
/// The component that the log names.
const COMPONENT: &str = "LoadGenerator";

/// Waits for all senders, and reports what happens until then.
pub(super) fn watch(run: &Run, ends: &Receiver<(Record, io::Result<()>)>, log: &Log) -> io::Result<Report> {
    log.info(COMPONENT, format_args!("Starting load test {} ({})", run.id, run.plan.about()));
    let mut reported = Reported::default();
    let (mut record, mut failure, mut parts) = (None::<Record>, None, 0);
    loop {
        match ends.recv_timeout(TICK) {
            Ok((part, result)) => {
                parts += 1;
                failure = failure.or(result.err());
                match &mut record {
                    None => record = Some(part),
                    Some(whole) => whole.merge(&part).expect("records of the same plan"),
                }
            }
            Err(RecvTimeoutError::Timeout) => reported.tick(run, log),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    run.rate.store(0_f64.to_bits(), Relaxed);
    run.is_over.store(true, Relaxed);
    reported.errors(run, log);
    let elapsed = run.elapsed();
    if parts < run.commands.len() {
        failure = failure.or_else(|| Some(io::Error::other("a sender has died, and its record with it")));
    }
    if let Some(error) = failure {
        log.error(COMPONENT, format_args!("Load test failed after {:.1}s: {error}", elapsed.as_secs_f64()));
        return Err(error);
    }
    let ended = if run.is_stopped() { Ended::Stopped } else { Ended::Completed };
    let classes: Vec<_> = run.plan.clients.iter().map(|group| group.class).collect();
    let record = record.unwrap_or_else(|| Record::new(run.plan.duration, &classes));
    let mut notes = std::mem::take(&mut *run.notes.lock().unwrap_or_else(PoisonError::into_inner));
    // What a name such as `tls` does not show.
    notes.extend(live::reasons(run.live()).iter().map(|(cause, why)| format!("{}: {why}", cause.name())));
    let report = Report::new(&run.plan, record, ended, run.started, elapsed, &run.id).with_notes(notes);
    log_end(&report, elapsed, log);
    Ok(report)
}

/// What has been logged, and when.
#[derive(Default)]
struct Reported {
    until: Duration,
    /// How many had been sent, at times of the last second.
    sent: VecDeque<(Duration, u64)>,
    errors: Duration,
    missed: u64,
}

impl Reported {
    fn tick(&mut self, run: &Run, log: &Log) {
        let now = run.elapsed();
        self.bursts(run, now, log);
        self.rate(run, now);
        if now >= self.errors + ERRORS_EVERY {
            self.errors = now;
            self.errors(run, log);
        }
    }

    /// Only where the profile is one of bursts: any other may rise as often as it likes.
    fn bursts(&mut self, run: &Run, now: Duration, log: &Log) {
        let from = std::mem::replace(&mut self.until, now);
        if !matches!(run.plan.kind, "burst" | "ddos") {
            return;
        }
        if let Some((time, rate)) = run.with_profile(|profile| profile.burst_between(from, now)).flatten() {
            let (time, rate) = (time.as_secs_f64(), (rate * 10.0).round() / 10.0);
            log.info(COMPONENT, format_args!("Burst peak started at t={time:.1}s (target RPS={rate})"));
        }
    }

    /// What was sent within the last second, or since the start.
    fn rate(&mut self, run: &Run, now: Duration) {
        let progress = run.progress();
        let sent = progress.planned.sent + progress.retried.sent;
        self.sent.push_back((now, sent));
        while self.sent.get(1).is_some_and(|(time, _)| *time + SECOND <= now) {
            self.sent.pop_front();
        }
        if let Some((time, before)) = self.sent.front().filter(|(time, _)| *time < now) {
            let rate = (sent - before) as f64 / now.saturating_sub(*time).as_secs_f64();
            run.rate.store(((rate * 10.0).round() / 10.0).to_bits(), Relaxed);
        }
    }

    /// Errors and missed requests since the last time, each in one line.
    fn errors(&mut self, run: &Run, log: &Log) {
        let errors = live::take_errors(run.live());
        if !errors.is_empty() {
            let reasons = live::reasons(run.live());
            log.warn(COMPONENT, format_args!("Request errors: {} (counted as failures)", listed(&errors, &reasons)));
        }
        let progress = run.progress();
        let missed = progress.too_late + progress.no_room;
        if missed > self.missed {
            let more = missed - self.missed;
            log.warn(COMPONENT, format_args!("{more} requests were not sent: too late, or too many in flight"));
            self.missed = missed;
        }
    }
}

fn listed(errors: &BTreeMap<Trouble, u64>, reasons: &BTreeMap<Cause, String>) -> String {
    let one = |(trouble, count): (&Trouble, &u64)| match trouble {
        Trouble::Status(status) => {
            let reason = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
            format!("{count} × HTTP {status} {}", reason.unwrap_or_default()).trim_end().to_owned()
        }
        Trouble::Failed(cause) => match reasons.get(cause) {
            Some(why) => format!("{count} × {} ({why})", cause.name()),
            None => format!("{count} × {}", cause.name()),
        },
    };
    errors.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn log_end(report: &Report, elapsed: Duration, log: &Log) {
    let all = report.record().all();
    let seconds = elapsed.as_secs_f64();
    let counts = &all.counts;
    let latency = all.latency.all();
    let latency = if latency.is_empty() {
        "no response".to_owned()
    } else {
        let (mean, p95) = (latency.mean() / 1e3, latency.percentile(95.0) as f64 / 1e3);
        format!("avg latency {mean:.1}ms, p95 {p95:.1}ms")
    };
    let totals = format!(
        "{} errors, {} rate limited, {} missed, {latency}",
        counts.errors(),
        counts.rate_limited(),
        counts.missed()
    );
    let sent = counts.sent();
    match report.ended() {
        Ended::Completed => log.info(COMPONENT, format_args!("Test completed: {sent} requests sent, {totals}")),
        Ended::Stopped => {
            log.info(
                COMPONENT,
                format_args!("Load test stopped by user after {seconds:.1}s. Sent {sent} requests: {totals}"),
            );
        }
    }
    if let Some(rejections) = report.mostly_rejected() {
        log.warn(COMPONENT, format_args!("Most responses are rejections: {rejections}"));
    }
}
