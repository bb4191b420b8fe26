//! The state of a run at a moment, for showing its progress.

use std::time::Duration;

use crate::observation::Observation;
use crate::run::{Event, Levels};

/// The state of a live run.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// How much of the load is over.
    pub elapsed: Duration,
    /// How long it lasts.
    pub duration: Duration,
    /// The requests that have ended so far, also those of the second that is not over yet.
    pub observation: &'a Observation,
    /// Limit and target at the end of each second.
    pub levels: &'a Levels,
    /// What has happened so far, in the order in which it was noticed.
    pub events: &'a [Event],
}

impl Moment<'_> {
    /// The share of the load that is over, from 0 to 1.
    pub fn share(&self) -> f64 {
        (self.elapsed.as_secs_f64() / self.duration.as_secs_f64()).min(1.0)
    }
}
