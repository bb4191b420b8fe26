use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::key::Name;
use crate::lease::LeaseTerms;
use crate::link::{self, Observer};
use crate::topology::Topology;
use crate::verdict::FailureMode;

/// How a [`Store`](crate::Store) reaches Redis, and what it does when it can't.
#[derive(Clone)]
pub struct StoreConfig {
    /// Where Redis is.
    pub topology: Topology,
    /// Limits of one namespace are checked together on one master; scale by having several.
    pub namespace: Name,
    /// The longest a request waits for Redis: from 1 ms to 60 s.
    pub budget: Duration,
    /// What happens to requests while Redis is away.
    pub on_failure: FailureMode,
    /// How much is taken in advance, for limits that are leased: from 1 to 2³⁰ tokens, for 1 ms to 1 h.
    pub lease: LeaseTerms,
    /// Hears of what happens between this process and Redis.
    pub observer: Observer,
}

impl StoreConfig {
    /// What [`budget`](Self::budget) may be.
    pub const BUDGET: RangeInclusive<Duration> = link::BUDGET;

    /// The usual settings: 20 ms for a call, fail open, leases of up to 1000 tokens for a second.
    pub fn new(topology: Topology, namespace: Name) -> Self {
        Self {
            topology,
            namespace,
            budget: Duration::from_millis(20),
            on_failure: FailureMode::default(),
            lease: LeaseTerms::default(),
            observer: Arc::new(|_| {}),
        }
    }

    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        if !Self::BUDGET.contains(&self.budget) {
            return Err(InvalidConfig { field: "budget", expected: "from 1 ms to 60 s" });
        }
        if !LeaseTerms::SPAN.contains(&self.lease.span) {
            return Err(InvalidConfig { field: "lease.span", expected: "from 1 ms to 1 h" });
        }
        if !LeaseTerms::TOKENS.contains(&self.lease.tokens) {
            return Err(InvalidConfig { field: "lease.tokens", expected: "from 1 to 2^30" });
        }
        Ok(())
    }
}

/// A setting that makes no sense, of a [`StoreConfig`] or of [`Lifetimes`](crate::election::Lifetimes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig {
    /// Which setting.
    pub field: &'static str,
    /// What is expected.
    pub expected: &'static str,
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be {}", self.field, self.expected)
    }
}

impl std::error::Error for InvalidConfig {}
