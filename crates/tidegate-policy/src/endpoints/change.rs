use std::time::Duration;

use super::ejection::Reason;
use super::health::Health;
use super::standing::Forced;

/// What has changed for the endpoint at `index`, for logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// It is ejected: it gets no requests for a while.
    Ejected {
        /// Which endpoint.
        index: usize,
        /// Why.
        reason: Reason,
        /// For how long.
        length: Duration,
        /// How many ejections in a row this is; the length grows with it.
        in_a_row: u32,
    },
    /// It should be ejected, but it is the last one that is up, or as many as may be out at once are out already.
    NotEjected {
        /// Which endpoint.
        index: usize,
        /// Why it should be.
        reason: Reason,
    },
    /// Its ejection is over.
    Returned {
        /// Which endpoint.
        index: usize,
    },
    /// Its active checks changed their verdict.
    HealthChanged {
        /// Which endpoint.
        index: usize,
        /// The new one.
        health: Health,
    },
    /// An operator forced it into a state, or no longer does.
    ForcedChanged {
        /// Which endpoint.
        index: usize,
        /// The new state.
        forced: Forced,
    },
}
