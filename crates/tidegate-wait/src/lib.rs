#![doc = include_str!("../README.md")]

mod bulkhead;
mod circuit_breaker;
mod clock;
mod gate;
mod permit;
mod queue;
mod retry;
mod signal;

pub use tidegate_policy as policy;

pub use bulkhead::{Begun, Bulkhead, NotEntered, Slot, Waiting};
pub use circuit_breaker::{CallError, CircuitBreaker};
pub use clock::Clock;
pub use gate::{Gate, NotAcquired};
pub use permit::Permit;
pub use retry::{Again, RetryPolicy, retry, retry_blocking};
