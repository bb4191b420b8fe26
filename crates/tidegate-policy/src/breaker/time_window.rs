use std::time::Duration;

use super::counts::{Counts, Ended};
use crate::Timestamp;
use crate::timestamp::nanos;

/// Into so many parts a window is divided.
const PARTS: usize = 32;

/// The calls of a span of time, counted in parts of it. The oldest part leaves as a whole.
pub(super) struct TimeWindow {
    part_nanos: u64,
    /// The number of the latest part, counted from the epoch.
    latest: u64,
    parts: [Counts; PARTS],
    sum: Counts,
}

impl TimeWindow {
    pub(super) fn new(time: Duration) -> Self {
        let part_nanos = nanos(time).div_ceil(PARTS as u64).max(1);
        Self { part_nanos, latest: 0, parts: [Counts::default(); PARTS], sum: Counts::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, ended: Ended, now: Timestamp) -> Counts {
        self.advance(now);
        self.parts[index(self.latest)].add(ended);
        self.sum.add(ended);
        self.sum
    }

    /// What is in the window at this time.
    pub(super) fn counts(&self, now: Timestamp) -> Counts {
        let passed = self.number(now).saturating_sub(self.latest).min(PARTS as u64);
        let mut counts = self.sum;
        for part in 1..=passed {
            counts.remove(self.parts[index(self.latest + part)]);
        }
        counts
    }

    pub(super) fn clear(&mut self) {
        (self.parts, self.sum) = ([Counts::default(); PARTS], Counts::default());
    }

    const fn number(&self, now: Timestamp) -> u64 {
        now.as_nanos() / self.part_nanos
    }

    /// Empties the parts that begin. A time before the latest part counts in it.
    fn advance(&mut self, now: Timestamp) {
        let number = self.number(now);
        let passed = number.saturating_sub(self.latest);
        for part in 1..=passed.min(PARTS as u64) {
            let slot = &mut self.parts[index(self.latest + part)];
            self.sum.remove(std::mem::take(slot));
        }
        self.latest = self.latest.max(number);
    }
}

const fn index(number: u64) -> usize {
    (number % PARTS as u64) as usize
}
