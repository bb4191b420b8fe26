use std::fmt;
use std::time::Duration;

use crate::timestamp::{LONGEST_SPAN, nanos};

/// Why a limit can't be built. Each names the number at fault and what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidLimit {
    /// A number that must be at least one is zero.
    Zero {
        /// Which number.
        field: &'static str,
    },
    /// A count is larger than this algorithm can keep.
    TooLarge {
        /// Which number.
        field: &'static str,
        /// What it was.
        value: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A span is longer than [`LONGEST_SPAN`].
    TooLong {
        /// Which span.
        field: &'static str,
    },
    /// Capacity and rate together can't be kept exactly in 64 bits: `capacity × units` must stay below 2⁶³, where
    /// `units` is the rate's span in nanoseconds after dividing out what it has in common with its count.
    TooFine {
        /// What the capacity is called there.
        field: &'static str,
        /// The capacity.
        capacity: u64,
        /// The units one token is divided into.
        units: u64,
    },
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { field } => write!(f, "`{field}` must be greater than zero, got 0"),
            Self::TooLarge { field, value, max } => write!(f, "`{field}` must be at most {max}, got {value}"),
            Self::TooLong { field } => write!(f, "`{field}` must be at most {} s", LONGEST_SPAN.as_secs()),
            Self::TooFine { field, capacity, units } => write!(
                f,
                "`{field}` {capacity} at this `rate` can't be counted exactly ({capacity} × {units} ≥ 2^63); \
                 use a smaller capacity, a shorter span, or a count and a span with a common divisor"
            ),
        }
    }
}

impl std::error::Error for InvalidLimit {}

/// `value`, if it is from 1 to `max`.
pub(crate) fn count(field: &'static str, value: u64, max: u64) -> Result<u64, InvalidLimit> {
    match value {
        0 => Err(InvalidLimit::Zero { field }),
        _ if value > max => Err(InvalidLimit::TooLarge { field, value, max }),
        _ => Ok(value),
    }
}

/// `span` in nanoseconds, if it is from 1 ns to [`LONGEST_SPAN`].
pub(crate) fn span(field: &'static str, span: Duration) -> Result<u64, InvalidLimit> {
    match nanos(span) {
        0 => Err(InvalidLimit::Zero { field }),
        ns if ns > nanos(LONGEST_SPAN) => Err(InvalidLimit::TooLong { field }),
        ns => Ok(ns),
    }
}
