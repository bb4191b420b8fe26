use std::time::Duration;

use super::transition::{Forced, Phase};

/// A breaker at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerSnapshot {
    /// What it does with calls. An open breaker stays so until the first call after its time.
    pub phase: Phase,
    /// What an operator wants of it.
    pub forced: Forced,
    /// The calls in the window.
    pub calls: u32,
    /// How many of them failed.
    pub failures: u32,
    /// How many of them were slow.
    pub slow: u32,
    /// How many calls in a row failed last.
    pub failures_in_a_row: u32,
    /// How much longer it is open, unless it is open until an operator changes that.
    pub open_for: Option<Duration>,
    /// Probes that were let through since it is half-open, without those that were given back.
    pub probes: u32,
    /// How many of them succeeded.
    pub probes_succeeded: u32,
    /// What it has counted since it was made.
    pub totals: Totals,
}

/// What a breaker has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls that succeeded.
    pub successes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Calls of either kind that were slow.
    pub slow: u64,
    /// Calls that were rejected.
    pub rejected: u64,
    /// Results that came after the state had changed, and counted nowhere.
    pub late: u64,
    /// Transitions to each phase: closed, open, half-open.
    pub transitions: [u64; 3],
}
