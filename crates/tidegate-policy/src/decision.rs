use std::time::Duration;

/// What a limiter decides about one request.
///
/// All spans count from the moment at which the decision was asked for. "Nobody else" means: no other request of the
/// same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a limiter whose decisions nobody follows limits nothing"]
pub enum Decision {
    /// The request may go.
    Admit {
        /// How long to wait before sending it on. Only the [leaky bucket](crate::LeakyBucket) ever asks for it.
        wait: Duration,
        /// How many tokens are left after this request: a request of that cost would be admitted at once, one more
        /// would not.
        remaining: u64,
        /// When the limit is as good as unused, if nobody else comes.
        reset_after: Duration,
    },
    /// The request must not go. It was charged nothing.
    Reject {
        /// The earliest moment at which the same request is admitted if nobody else comes: to the nanosecond, neither
        /// earlier nor later. `None` if it never will be, because its cost is above all that the limit can ever hold.
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
            Self::Admit { remaining, .. } | Self::Reject { remaining, .. } => *remaining,
        }
    }

    /// When the limit is as good as unused, if nobody else comes.
    pub const fn reset_after(&self) -> Duration {
        match self {
            Self::Admit { reset_after, .. } | Self::Reject { reset_after, .. } => *reset_after,
        }
    }

    /// When to come back: zero for an admitted request, `None` for one whose cost is above the whole limit.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Admit { .. } => Some(Duration::ZERO),
            Self::Reject { retry_after, .. } => *retry_after,
        }
    }
}
