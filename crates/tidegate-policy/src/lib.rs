//! Policies that decide who may go on: rate limiters and concurrency limits, as plain state machines that are handed the time.
//!
//! Nothing here reads a clock, does I/O, spawns or waits. The same objects guard a live gateway and run in a simulation, where an hour
//! passes in a second and the same input always gives the same result.
//!
//! | algorithm | a key remembers | good for |
//! |---|---|---|
//! | [`FixedWindow`] | a count | quotas that people reason about ("100 a minute") |
//! | [`SlidingCounter`] | two counts | the same without the double burst at the border |
//! | [`SlidingLog`] | every admission | small limits that must be exact |
//! | [`TokenBucket`] | what it owes, since when | a steady rate with bursts, costs above one |
//! | [`Gcra`] | one moment | the same, smallest and fastest |
//! | [`LeakyBucket`] | one moment | smoothing: early requests wait instead of being refused |
//! | [`Concurrency`] | who is in flight | what is slow rather than frequent |
//!
//! A [`Limiter`] is the rule, a pure step over one key's state. [`Keyed`] keeps the states of many keys, bounded.
//! [`check_all`] asks several limits at once. [`Rule`] is a limiter chosen at run time, made of [`numbers`] that a
//! file or an API names.
//!
//! All arithmetic is in integers: nothing drifts, and [`Decision::retry_after`] is exact to the nanosecond.

mod budget;
mod concurrency;
mod cost;
mod decision;
mod fixed_window;
mod gcra;
mod invalid_limit;
mod keyed;
mod leaky_bucket;
mod levels;
mod limiter;
pub mod numbers;
mod rate;
mod rule;
pub mod shape;
mod sliding_counter;
mod sliding_log;
mod timestamp;
mod token_bucket;

pub use concurrency::{Concurrency, ConcurrencyState};
pub use cost::Cost;
pub use decision::{Decision, Receipt};
pub use fixed_window::{FixedWindow, FixedWindowState};
pub use gcra::{Gcra, GcraState};
pub use invalid_limit::InvalidLimit;
pub use keyed::{Keyed, Ticket};
pub use leaky_bucket::{LeakyBucket, LeakyBucketState};
pub use levels::{Level, MAX_LEVELS, RefusedBy, check_all, give_back_all, longest_refusal};
pub use limiter::Limiter;
pub use rate::Rate;
pub use rule::{Algorithm, Rule, RuleState, UnknownAlgorithm};
pub use sliding_counter::{SlidingCounter, SlidingCounterState};
pub use sliding_log::{SlidingLog, SlidingLogState};
pub use timestamp::{LONGEST_SPAN, Timestamp};
pub use token_bucket::{TokenBucket, TokenBucketState};
