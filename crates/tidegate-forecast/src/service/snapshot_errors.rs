//! Errors with snapshots, counted and logged.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_input::{Problem, grouped};
use tidegate_serve::{Aggregate, Log};

use super::COMPONENT;

/// How often each kind is reported at most.
pub(super) const REPORT_EVERY: Duration = Duration::from_secs(10);
/// The most letters of a reason: it may quote what was sent, such as a name of 200 kB that stands twice.
const LONGEST_REASON: usize = 160;

/// Logs a line now and then, not one for each error: any client that reaches the port could fill the log.
pub(super) struct SnapshotErrors {
    invalid: ErrorKind,
    without_response: ErrorKind,
    log: Log,
}

/// Errors of one kind.
struct ErrorKind {
    what: &'static str,
    count: Aggregate,
    /// Why, the last time.
    last: Mutex<String>,
}

impl SnapshotErrors {
    pub(super) fn new(log: Log) -> Self {
        Self {
            invalid: ErrorKind::new("Snapshot can't be used"),
            without_response: ErrorKind::new("No response to snapshot"),
            log,
        }
    }

    /// A snapshot was invalid; the first of its problems is reported.
    pub(super) fn note_invalid(&self, problems: &[Problem]) {
        let reason = match problems.first() {
            Some(Problem { path, message }) if path.is_empty() => message.clone(),
            Some(Problem { path, message }) => format!("`{path}`: {message}"),
            None => String::new(),
        };
        self.invalid.note(&reason, &self.log);
    }

    /// A snapshot was good, but there is no advice.
    pub(super) fn note_missing_response(&self, reason: &str) {
        self.without_response.note(reason, &self.log);
    }

    /// Reports what has waited long enough, for as long as it is polled.
    pub(super) async fn report_from_time_to_time(&self) -> Infallible {
        loop {
            tokio::time::sleep(REPORT_EVERY / 10).await;
            self.report(|count| count.take_due(Instant::now()));
        }
    }

    /// Reports what was not reported yet, at the end.
    pub(super) fn report_rest(&self) {
        self.report(Aggregate::take_rest);
    }

    fn report(&self, take: impl Fn(&Aggregate) -> Option<u64>) {
        for kind in [&self.invalid, &self.without_response] {
            kind.report(take(&kind.count), &self.log);
        }
    }
}

impl ErrorKind {
    fn new(what: &'static str) -> Self {
        Self { what, count: Aggregate::new(REPORT_EVERY, Instant::now()), last: Mutex::default() }
    }

    fn note(&self, reason: &str, log: &Log) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = harmless(reason);
        self.report(self.count.note(Instant::now()), log);
    }

    fn report(&self, count: Option<u64>, log: &Log) {
        let Some(count) = count else { return };
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let times = if count == 1 { String::new() } else { format!("{} times, last: ", grouped(count)) };
        log.warn(COMPONENT, format_args!("{} ({times}{last})", self.what));
    }
}

/// Short, and without what steers a terminal: a log in JSON leaves some of that as it is.
fn harmless(reason: &str) -> String {
    let plain = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    let mut text: String = reason.chars().take(LONGEST_REASON).map(plain).collect();
    if reason.chars().nth(LONGEST_REASON).is_some() {
        text.push('…');
    }
    text
}
