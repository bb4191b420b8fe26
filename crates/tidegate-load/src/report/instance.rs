//! One of the runs that a report is of.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Ended;
use crate::plan::Part;
use crate::record::Record;

/// The most characters of a test's id.
pub(super) const LONGEST_ID: usize = 100;

/// The most notes of a run.
pub(super) const MOST_NOTES: usize = 20;
/// The most characters of one.
pub(super) const LONGEST_NOTE: usize = 200;

/// One run: what is needed to name it and to judge it by itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instance {
    pub(super) started_millis: u64,
    pub(super) part: Option<Part>,
    pub(super) test_id: String,
    pub(super) ended: Ended,
    pub(super) elapsed: Duration,
    pub(super) sent: u64,
    pub(super) too_late: u64,
    /// The lowest that the 99th percentile of its lag can be, in microseconds.
    pub(super) lag_p99_micros: u64,
    /// What else to bear in mind.
    pub(super) notes: Vec<String>,
}

impl Instance {
    pub(super) fn new(
        record: &Record,
        part: Option<Part>,
        ended: Ended,
        started: SystemTime,
        elapsed: Duration,
        test_id: &str,
    ) -> Self {
        let printable = |character: char| if character.is_control() { '?' } else { character };
        let counts = record.all().counts;
        Self {
            started_millis: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            part,
            test_id: test_id.chars().take(LONGEST_ID).map(printable).collect(),
            ended,
            // As much of it as the file holds.
            elapsed: Duration::from_micros(elapsed.as_micros() as u64),
            sent: counts.sent(),
            too_late: counts.too_late,
            lag_p99_micros: record.lag.lowest_like(record.lag.percentile(99.0)),
            notes: Vec::new(),
        }
    }

    /// As many and as much of them as the file holds.
    pub(super) fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        let printable = |character: char| if character.is_control() { ' ' } else { character };
        let notes = notes.into_iter().map(|note| note.chars().take(LONGEST_NOTE).map(printable).collect());
        self.notes.extend(notes.take(MOST_NOTES.saturating_sub(self.notes.len())));
    }

    /// As a sentence names it.
    pub(super) fn name(&self) -> String {
        match self.part {
            Some(part) => format!("part {part}"),
            None => format!("run {}", self.test_id),
        }
    }

    /// What they are sorted by.
    pub(super) fn order(&self) -> impl Ord + '_ {
        (self.started_millis, self.part, &self.test_id)
    }
}
