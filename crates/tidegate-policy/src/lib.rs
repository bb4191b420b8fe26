#![doc = include_str!("../README.md")]

pub mod breaker;
mod budget;
pub mod bulkhead;
mod concurrency;
mod cost;
mod decision;
mod direct;
pub mod endpoints;
mod failures;
mod fixed_window;
mod gcra;
mod invalid_limit;
mod invalid_setting;
pub mod journey;
mod keyed;
mod leaky_bucket;
mod levels;
mod limiter;
mod lock;
pub mod numbers;
mod rate;
mod receipt;
pub mod retry;
mod rule;
pub mod shape;
mod sliding_counter;
mod sliding_log;
mod ticket;
mod timestamp;
mod token_bucket;

/// What limiters remember and hand out: for those who implement [`Limiter`], or keep the state of one themselves.
pub mod state {
    pub use crate::concurrency::ConcurrencyState;
    pub use crate::fixed_window::FixedWindowState;
    pub use crate::gcra::GcraState;
    pub use crate::leaky_bucket::LeakyBucketState;
    pub use crate::receipt::{Marks, Receipt};
    pub use crate::rule::RuleState;
    pub use crate::sliding_counter::SlidingCounterState;
    pub use crate::sliding_log::SlidingLogState;
    pub use crate::token_bucket::TokenBucketState;
}

pub use concurrency::Concurrency;
pub use cost::Cost;
pub use decision::Decision;
pub use direct::Direct;
pub use failures::{Failure, FailureSet, UnknownFailure};
pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use invalid_limit::InvalidLimit;
pub use invalid_setting::InvalidSetting;
pub use keyed::Keyed;
pub use leaky_bucket::LeakyBucket;
pub use levels::{Level, MAX_LEVELS, NotAdmitted, RejectedBy, check_all, give_back_all, longest_rejection};
pub use limiter::Limiter;
pub use rate::Rate;
pub use rule::{Algorithm, Rule, UnknownAlgorithm};
pub use sliding_counter::SlidingCounter;
pub use sliding_log::SlidingLog;
pub use ticket::Ticket;
pub use timestamp::{LONGEST_SPAN, Timestamp};
pub use token_bucket::TokenBucket;
