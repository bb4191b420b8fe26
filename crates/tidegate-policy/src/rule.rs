use std::fmt;
use std::str::FromStr;

use crate::concurrency::ConcurrencyState;
use crate::fixed_window::FixedWindowState;
use crate::gcra::GcraState;
use crate::leaky_bucket::LeakyBucketState;
use crate::receipt::Receipt;
use crate::sliding_counter::SlidingCounterState;
use crate::sliding_log::SlidingLogState;
use crate::token_bucket::TokenBucketState;
use crate::{
    Concurrency, Cost, Decision, FixedWindow, Gcra, LeakyBucket, Limiter, SlidingCounter, SlidingLog, Timestamp,
    TokenBucket,
};

/// Writes [`Rule`], [`RuleState`], [`Algorithm`] and the step from each to its limiter: one row an algorithm.
macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $state:ty;)*) => {
        /// The algorithms by name, as configuration and keys spell them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[$doc])* $variant,)*
        }

        impl Algorithm {
            /// Every algorithm there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in configuration, metrics and keys.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        /// A limiter chosen at run time: any of the algorithms behind one type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[$doc])* $variant($variant),)*
        }

        impl Rule {
            /// Which algorithm it is.
            pub const fn algorithm(&self) -> Algorithm {
                match self { $(Self::$variant(_) => Algorithm::$variant,)* }
            }
        }

        $(impl From<$variant> for Rule {
            fn from(limiter: $variant) -> Self {
                Self::$variant(limiter)
            }
        })*

        /// The state of a key under a [`Rule`]. One of another algorithm counts as unused: a new algorithm starts anew.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub enum RuleState {
            /// Never used.
            #[default]
            Unused,
            $($(#[$doc])* $variant($state),)*
        }

        impl Limiter for Rule {
            type State = RuleState;

            fn decide(&self, state: &RuleState, cost: Cost, now: Timestamp) -> Decision {
                match self {
                    $(Self::$variant(limiter) => {
                        if let RuleState::$variant(state) = state {
                            limiter.decide(state, cost, now)
                        } else {
                            limiter.decide(&Default::default(), cost, now)
                        }
                    })*
                }
            }

            fn take(&self, state: &mut RuleState, cost: Cost, now: Timestamp) -> Receipt {
                match self {
                    $(Self::$variant(limiter) => {
                        if let RuleState::$variant(state) = state {
                            return limiter.take(state, cost, now);
                        }
                        let mut unused = Default::default();
                        let receipt = limiter.take(&mut unused, cost, now);
                        *state = RuleState::$variant(unused.into());
                        receipt
                    })*
                }
            }

            fn give_back(&self, state: &mut RuleState, receipt: &Receipt, now: Timestamp) {
                match self {
                    $(Self::$variant(limiter) => {
                        if let RuleState::$variant(state) = state {
                            limiter.give_back(state, receipt, now);
                        }
                    })*
                }
            }

            fn receipts_survive_a_change(&self) -> bool {
                match self { $(Self::$variant(limiter) => limiter.receipts_survive_a_change(),)* }
            }

            fn holds_slots(&self) -> bool {
                match self { $(Self::$variant(limiter) => limiter.holds_slots(),)* }
            }

            fn adopt(&self, state: &mut RuleState, before: &Self, now: Timestamp) {
                match self {
                    $(Self::$variant(limiter) => {
                        if let (Self::$variant(before), RuleState::$variant(state)) = (before, &mut *state) {
                            limiter.adopt(state, before, now);
                        } else {
                            *state = RuleState::Unused;
                        }
                    })*
                }
            }

            fn spent(&self, state: &RuleState, now: Timestamp) -> u64 {
                match self {
                    $(Self::$variant(limiter) => {
                        if let RuleState::$variant(state) = state { limiter.spent(state, now) } else { 0 }
                    })*
                }
            }
        }
    };
}

rules! {
    /// See [`FixedWindow`](crate::FixedWindow).
    FixedWindow, "fixed", FixedWindowState;
    /// See [`SlidingCounter`](crate::SlidingCounter).
    SlidingCounter, "sliding", SlidingCounterState;
    /// See [`SlidingLog`](crate::SlidingLog).
    SlidingLog, "sliding_log", Box<SlidingLogState>;
    /// See [`TokenBucket`](crate::TokenBucket).
    TokenBucket, "token", TokenBucketState;
    /// See [`LeakyBucket`](crate::LeakyBucket).
    LeakyBucket, "leaky", LeakyBucketState;
    /// See [`Gcra`](crate::Gcra).
    Gcra, "gcra", GcraState;
    /// See [`Concurrency`](crate::Concurrency).
    Concurrency, "concurrency", Box<ConcurrencyState>;
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not in [`Algorithm::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(pub String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown algorithm `{}`; must be one of", self.0)?;
        Algorithm::ALL.iter().try_for_each(|algorithm| write!(f, " `{algorithm}`"))
    }
}

impl std::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let found = Self::ALL.iter().find(|algorithm| algorithm.name() == name);
        found.copied().ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}
