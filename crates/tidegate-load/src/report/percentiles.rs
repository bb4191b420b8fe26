//! Percentiles, marked where they are only lower bounds.

use std::time::Duration;

use hdrhistogram::Counter;

use super::numbers::seconds;
use crate::record::{Counts, TimeHistogram, rank};

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// A time in seconds, a share from 0 to 1, or requests a second.
    pub value: f64,
    /// Whether all that is known is that it is not below.
    pub is_at_least: bool,
}

/// Times of requests; some may be unknown.
pub(super) struct Percentiles<'a, C: Counter, const DIGITS: u8> {
    known: &'a TimeHistogram<C, DIGITS>,
    /// How many are slower than all of them.
    unknown: u64,
    /// In microseconds, if some timed out.
    timeout: Option<u64>,
    /// In microseconds: none of them was longer, whatever a coarse histogram makes of it.
    longest: u64,
}

impl<'a, C: Counter, const DIGITS: u8> Percentiles<'a, C, DIGITS> {
    /// From when requests were due: what was never sent is slower than all others.
    pub(super) fn latency(known: &'a TimeHistogram<C, DIGITS>, counts: &Counts, timeout: Duration) -> Self {
        Self { unknown: counts.missed() + counts.unfinished, ..Self::service(known, counts, timeout) }
    }

    /// From when requests were due, of responses of one class: what was never sent, or got no response before a stop,
    /// might have been one of them, and is slower than all others here too. A request that timed out got no response,
    /// and is in no class.
    pub(super) fn of_class(known: &'a TimeHistogram<C, DIGITS>, counts: &Counts) -> Self {
        Self { known, unknown: counts.missed() + counts.unfinished, timeout: None, longest: u64::MAX }
    }

    /// From when requests were sent.
    pub(super) fn service(known: &'a TimeHistogram<C, DIGITS>, counts: &Counts, timeout: Duration) -> Self {
        let timeout = (counts.timed_out() > 0).then_some(timeout.as_micros() as u64);
        Self { known, unknown: counts.unfinished, timeout, longest: u64::MAX }
    }

    /// Where a finer histogram knows the longest of them, or of more than them.
    pub(super) fn within(self, longest: u64) -> Self {
        Self { longest, ..self }
    }

    /// Nothing if nothing is known.
    pub(super) fn at(&self, percent: f64) -> Option<Reading> {
        let known = self.known.len();
        let rank = rank(percent, known + self.unknown);
        if rank > known {
            return self.max();
        }
        let micros = self.known.at_rank(rank);
        let is_at_least = self.timeout.is_some_and(|timeout| micros >= timeout);
        Some(Reading { value: seconds(micros.min(self.longest)), is_at_least })
    }

    pub(super) fn max(&self) -> Option<Reading> {
        let is_at_least = self.unknown > 0 || self.timeout.is_some();
        (!self.known.is_empty()).then(|| Reading { value: seconds(self.known.max().min(self.longest)), is_at_least })
    }

    pub(super) fn mean(&self) -> Option<Reading> {
        let is_at_least = self.unknown > 0 || self.timeout.is_some();
        // To the microsecond: what is beyond is below what a histogram knows.
        let micros = self.known.mean().round() as u64;
        (!self.known.is_empty()).then(|| Reading { value: seconds(micros), is_at_least })
    }
}
