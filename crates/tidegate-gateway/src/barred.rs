//! Why a request does not come to an attempt.

use tidegate_policy::breaker::Rejected;
use tidegate_wait::NotEntered;

use crate::admission::Rejection;
use crate::source::Source;

/// Why a request does not come to an attempt.
pub(crate) enum Barred {
    /// The upstream's limits reject it.
    Limits(Rejection),
    /// The circuit breaker is open.
    Breaker(Rejected),
    /// The bulkhead has no slot for it.
    Bulkhead(NotEntered),
    /// The policy's `timeout` is over.
    TimedOut,
}

impl Barred {
    /// Where the response comes from.
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::Limits(_) => Source::Limit,
            Self::Breaker(_) => Source::Breaker,
            Self::Bulkhead(_) => Source::Bulkhead,
            Self::TimedOut => Source::Gateway,
        }
    }
}
