use std::time::Duration;

use crate::{Cost, Timestamp};

/// What a limiter says to one request.
///
/// All spans count from the moment the decision was asked for. "Nobody else" means: no other request on the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a limiter whose decisions nobody follows limits nothing"]
pub enum Decision {
    /// The request may go.
    Admit {
        /// How long to wait before sending it on. Only the [leaky bucket](crate::LeakyBucket) ever asks for it.
        wait: Duration,
        /// How many tokens are left after this request: a request of that cost would be admitted at once, one more would not.
        remaining: u64,
        /// When the limit is as good as unused, if nobody else comes.
        reset_after: Duration,
    },
    /// The request must not go. It was charged nothing.
    Refuse {
        /// The earliest moment at which the same request is admitted if nobody else comes: to the nanosecond, neither earlier
        /// nor later. `None` if it never will be, because its cost is above all that the limit can ever hold.
        retry_after: Option<Duration>,
        /// How many tokens are left: fewer than the request costs.
        remaining: u64,
        /// When the limit is as good as unused, if nobody else comes.
        reset_after: Duration,
    },
}

impl Decision {
    /// Whether the request may go.
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Admit { .. })
    }

    /// How many tokens are left.
    pub const fn remaining(&self) -> u64 {
        match self {
            Self::Admit { remaining, .. } | Self::Refuse { remaining, .. } => *remaining,
        }
    }

    /// When the limit is as good as unused, if nobody else comes.
    pub const fn reset_after(&self) -> Duration {
        match self {
            Self::Admit { reset_after, .. } | Self::Refuse { reset_after, .. } => *reset_after,
        }
    }

    /// When to come back: zero for an admitted request, `None` for one whose cost is above the whole limit.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Admit { .. } => Some(Duration::ZERO),
            Self::Refuse { retry_after, .. } => *retry_after,
        }
    }
}

/// Proof of what was taken, needed to [give it back](crate::Limiter::give_back).
///
/// It is good only for the limiter that issued it, under the numbers it had then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// When it was taken, by the limiter's own reckoning of a clock that may have gone back.
    pub at: Timestamp,
    /// What was taken.
    pub cost: Cost,
    /// What the key owed right after, in the limiter's own units; zero where a limiter needs no such mark.
    pub owed: u64,
    /// How many tokens had ever been given back on this key by then; zero where a limiter needs no such mark.
    pub returned: u32,
    /// Marks the run of requests it belongs to, from one full bucket to the next; zero where a limiter needs no such mark.
    pub run: u32,
}
