use tidegate_policy::{Decision, RejectedBy, longest_rejection};

use crate::charge::Charged;

/// What happens to requests while Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureMode {
    /// They pass, unlimited. Only the [`Observer`](crate::Observer) hears of it.
    #[default]
    Open,
    /// They are rejected.
    Closed,
    /// They are limited in memory, by this process alone, starting from an unused limit: with N processes up to N
    /// limits come on top of what was used in Redis.
    Local,
}

impl FailureMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Local];

    /// Its name, as configurations and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
        }
    }
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Redis, or a lease from it.
    Shared,
    /// Redis is away: the mode decided, or this process' own memory.
    Failure(FailureMode),
}

/// Whether a request is admitted, why, and what it takes to return what it was charged.
#[derive(Debug)]
#[must_use = "a limit whose verdicts nobody follows limits nothing"]
pub struct Verdict {
    /// Whether it may go.
    pub admitted: bool,
    /// Who decided.
    pub source: Source,
    /// What each level decided, in their order; empty if none was asked.
    pub decisions: Vec<Decision>,
    /// The rejecting level that keeps it away longest, and for how long (`None`: for ever). While Redis is away and the
    /// mode is `closed`, no level has rejected: it names the first, and the longest pause until Redis is tried again.
    pub rejected_by: Option<RejectedBy>,
    /// What was charged.
    pub charged: Charged,
}

impl Verdict {
    pub(crate) fn new(source: Source, decisions: Vec<Decision>, charged: Charged) -> Self {
        let rejected_by = longest_rejection(decisions.iter().copied());
        Self { admitted: rejected_by.is_none(), source, decisions, rejected_by, charged }
    }
}
