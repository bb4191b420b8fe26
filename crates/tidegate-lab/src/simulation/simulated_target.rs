//! One target in simulated time.

use std::time::Duration;

use fastrand::Rng;

use super::Job;
use crate::scenario::TargetModel;
use crate::target::{Faults, Station};

pub(super) struct SimulatedTarget {
    pub(super) station: Station<Job>,
    /// The faults that all targets have.
    pub(super) faults: Faults,
    /// It does not respond.
    pub(super) is_frozen: bool,
    /// It refuses connections.
    pub(super) is_killed: bool,
    /// How many times as long services take that begin now.
    pub(super) slowness: f64,
    /// Requests that hang.
    pub(super) stuck: Vec<Job>,
    service_time: Duration,
    /// Which requests fail, apart from service times.
    chances: Rng,
}

/// The difference between the random seeds of two targets.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl SimulatedTarget {
    /// The target with this index.
    pub(super) fn new(model: &TargetModel, seed: u64, index: usize) -> Self {
        let seed = seed ^ SEED_STEP.wrapping_mul(index as u64);
        Self {
            station: Station::new(model.workers, model.queue, model.service_time, model.contention, seed),
            faults: Faults::default(),
            is_frozen: false,
            is_killed: false,
            slowness: 1.0,
            stuck: Vec::new(),
            service_time: model.service_time.mean(),
            chances: Rng::with_seed(seed ^ 0x00fa_0175),
        }
    }

    /// Whether a request is one of those that fail, and how.
    pub(super) fn draw_error(&mut self) -> Option<u16> {
        self.faults.draw_error(&mut self.chances)
    }

    /// How long a service takes that begins now and would take `time`.
    pub(super) fn slowed(&self, time: Duration) -> Duration {
        let slow = Faults { slowness: self.slowness, ..Faults::default() };
        self.faults.slowed(slow.slowed(time))
    }

    /// Whether there are no responses.
    pub(super) fn hangs(&self) -> bool {
        self.is_frozen || self.faults.hang
    }

    /// How long a check takes that sends a request; none if there is no response.
    pub(super) fn check_time(&self) -> Option<Duration> {
        (!self.hangs()).then(|| self.slowed(self.service_time))
    }

    /// Takes the requests that hang and for which this holds.
    pub(super) fn take_stuck(&mut self, is_taken: impl Fn(&Job) -> bool) -> Vec<Job> {
        let (taken, left) = std::mem::take(&mut self.stuck).into_iter().partition(is_taken);
        self.stuck = left;
        taken
    }
}
