//! What a run, or several together, came to: figures for people and scripts, a verdict, and everything that is needed
//! to go on counting.
//!
//! # What is a latency
//! It counts from the time at which the request was due, not from when it was sent, so that a target (or a generator)
//! that stands still is seen by every request that was due in that time. It ends with the response, or with the
//! timeout: a request that timed out has waited at least that long. Failures of another kind have no latency.
//!
//! # When a run is invalid
//! The instrument itself failed, and its figures prove nothing:
//! - it sent nothing;
//! - the 99th percentile of its lag (from due to sent) is above `lagBudget`;
//! - it was more than `maxLag` behind and left requests out (`missed.tooLate`).
//!
//! Several runs together are invalid if one of them is.
//!
//! # Which percentiles are bounds
//! Requests that were never sent for want of room, and those that a stop left without a response, have no latency, and
//! leaving them out would make the figures better the worse the target is. They count as slower than all others: with A
//! known latencies and U unknown ones, percentile p is the one of rank ⌈p · (A + U)⌉ among the known ones. If that is
//! beyond A, all that is known is that it is at least the highest known one. A timeout is a latency that would have
//! been longer: a percentile that is not below the timeout is at least so high, if some timed out. Figures that are
//! bounds are named in `atLeast`; a threshold such as `p99<50ms` does not hold by a bound.

mod figures;
mod file;
mod instance;
mod judged;
mod merge;
mod numbers;
mod percentiles;
mod setting;
mod summary;
mod verdict;

use std::time::{Duration, SystemTime};

pub use file::InvalidReport;
pub use judged::{Judged, Unit};
pub use merge::CannotMerge;
pub use percentiles::Reading;
pub use verdict::Verdict;

use crate::plan::Plan;
use crate::record::Record;
use instance::Instance;
use setting::Setting;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Completed,
    /// Before its time.
    Stopped,
}

impl Ended {
    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Stopped => "stopped",
        }
    }
}

/// What a run came to, or several together.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    setting: Setting,
    record: Record,
    /// In the order of their starts.
    instances: Vec<Instance>,
}

impl Report {
    /// Of a run. `elapsed` counts from its start to its end; `test_id` names the run, on whatever instance.
    pub fn new(
        plan: &Plan,
        record: Record,
        ended: Ended,
        started: SystemTime,
        elapsed: Duration,
        test_id: &str,
    ) -> Self {
        let mut instance = Instance::new(&record, plan.part, ended, started, elapsed, test_id);
        instance.note(verdict::short_trace(plan));
        Self { setting: Setting::new(plan), record, instances: vec![instance] }
    }

    /// With what else is to bear in mind of the run, such as a rate that was changed: at most 20 notes of 200
    /// characters.
    #[must_use]
    pub fn with_notes(mut self, notes: Vec<String>) -> Self {
        if let Some(instance) = self.instances.first_mut() {
            instance.note(notes);
        }
        self
    }

    /// What was recorded.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Stopped if one of them was.
    pub fn ended(&self) -> Ended {
        let is_stopped = self.instances.iter().any(|instance| instance.ended == Ended::Stopped);
        if is_stopped { Ended::Stopped } else { Ended::Completed }
    }

    /// For how long requests were due.
    fn window(&self) -> Duration {
        let whole = self.setting.duration;
        let windows = self.instances.iter().map(|instance| match instance.ended {
            Ended::Completed => whole,
            Ended::Stopped => instance.elapsed.min(whole),
        });
        windows.max().unwrap_or(whole)
    }

    /// So many in the time in which they were due, a second.
    fn rate(&self, count: u64) -> f64 {
        let seconds = self.window().as_secs_f64();
        if seconds > 0.0 { numbers::float(count) / seconds } else { 0.0 }
    }
}
