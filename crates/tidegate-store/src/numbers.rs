use std::fmt;
use std::time::Duration;

use tidegate_policy::{Algorithm, Rate, Rule};

/// The largest integer up to which every integer is a double: what a Lua number holds exactly.
const EXACT: u128 = 1 << 53;

/// A rule as the scripts take it: its algorithm and three integers, times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) algorithm: Algorithm,
    pub(crate) args: [u64; 3],
}

/// Why a rule that works in memory can't be shared through Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unshareable {
    /// Redis' clock ticks in microseconds; this span has a fraction of one.
    SubMicrosecond {
        /// Which span.
        field: &'static str,
    },
    /// A product of its numbers exceeds 2⁵³, up to which Lua counts exactly.
    TooFine {
        /// The product.
        product: u128,
    },
    /// A log of so many entries would keep Redis busy for longer than others can wait.
    LongLog {
        /// The limit.
        limit: u64,
        /// The largest allowed.
        max: u64,
    },
    /// This algorithm can't be leased: its decisions need every request in one process.
    NotLeasable {
        /// Which algorithm.
        algorithm: Algorithm,
    },
}

impl fmt::Display for Unshareable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SubMicrosecond { field } => write!(f, "`{field}` must be a whole number of microseconds"),
            Self::TooFine { product } => write!(
                f,
                "the limit's numbers can't be counted exactly in Redis: their product {product} is above 2^53; \
                 use a smaller limit, a shorter window, or a count and a span with a common divisor"
            ),
            Self::LongLog { limit, max } => {
                write!(f, "`limit` must be at most {max} for a log or a concurrency limit in Redis, got {limit}")
            }
            Self::NotLeasable { algorithm } => write!(
                f,
                "`{algorithm}` can't be leased; use it exactly, or lease one of \
                 `fixed` `sliding` `sliding_log` `token` `gcra`"
            ),
        }
    }
}

impl std::error::Error for Unshareable {}

impl Numbers {
    pub(crate) fn of(rule: &Rule) -> Result<Self, Unshareable> {
        let args = match rule {
            Rule::FixedWindow(r) => window(r.limit(), r.window(), "window")?,
            Rule::SlidingCounter(r) => {
                let [limit, window, _] = window(r.limit(), r.window(), "window")?;
                // The script divides products beyond 2^53 in steps of ten bits, if the window leaves room for them.
                if window > 1 << 42 {
                    exact(u128::from(limit) * u128::from(window))?;
                }
                [limit, window, 0]
            }
            Rule::SlidingLog(r) => log(r.limit(), r.window(), "window")?,
            Rule::Concurrency(r) => log(r.limit(), r.hold(), "hold")?,
            Rule::TokenBucket(r) => bucket(r.capacity(), r.rate())?,
            Rule::LeakyBucket(r) => bucket(r.queue() + 1, r.rate())?,
            Rule::Gcra(r) => bucket(r.burst(), r.rate())?,
        };
        Ok(Self { algorithm: rule.algorithm(), args })
    }

    /// The most tokens the limit can ever hold.
    pub(crate) const fn capacity(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => self.args[0] / self.args[1],
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog | Algorithm::Concurrency => {
                self.args[0]
            }
        }
    }

    /// How many Redis keys it keeps its state in.
    pub(crate) const fn key_count(&self) -> usize {
        match self.algorithm {
            Algorithm::SlidingLog | Algorithm::Concurrency => 2,
            Algorithm::FixedWindow
            | Algorithm::SlidingCounter
            | Algorithm::TokenBucket
            | Algorithm::LeakyBucket
            | Algorithm::Gcra => 1,
        }
    }

    pub(crate) fn check_leasable(&self) -> Result<(), Unshareable> {
        match self.algorithm {
            Algorithm::LeakyBucket | Algorithm::Concurrency => {
                Err(Unshareable::NotLeasable { algorithm: self.algorithm })
            }
            Algorithm::FixedWindow
            | Algorithm::SlidingCounter
            | Algorithm::SlidingLog
            | Algorithm::TokenBucket
            | Algorithm::Gcra => Ok(()),
        }
    }
}

fn exact(product: u128) -> Result<u64, Unshareable> {
    if product > EXACT { Err(Unshareable::TooFine { product }) } else { Ok(product as u64) }
}

fn window(limit: u64, span: Duration, field: &'static str) -> Result<[u64; 3], Unshareable> {
    let nanos = span.as_nanos();
    if !nanos.is_multiple_of(1_000) {
        return Err(Unshareable::SubMicrosecond { field });
    }
    Ok([limit, exact(nanos / 1_000)?, 0])
}

/// A script walks through all entries at worst: ten thousand take it some ten milliseconds.
fn log(limit: u64, span: Duration, field: &'static str) -> Result<[u64; 3], Unshareable> {
    const MAX: u64 = 10_000;
    if limit > MAX {
        return Err(Unshareable::LongLog { limit, max: MAX });
    }
    window(limit, span, field)
}

/// An empty bucket in units, the units of a token, and what a microsecond pays: as in `tidegate-policy`, with a coarser
/// clock.
fn bucket(capacity: u64, rate: Rate) -> Result<[u64; 3], Unshareable> {
    // So many tokens in so many nanoseconds are a thousand times as many in as many microseconds; in lowest terms
    // again.
    let (pay, token) = (u128::from(rate.tokens()) * 1_000, rate.span().as_nanos());
    let (mut a, mut b) = (pay, token);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let (pay, token) = (pay / a, token / a);
    let full = exact(2 * u128::from(capacity) * token)? / 2;
    Ok([full, token as u64, exact(pay)?])
}
