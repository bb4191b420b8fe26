//! Waiting for limits. `tidegate-policy` decides and never waits; this crate does the waiting: [`Gate::acquire`] for async code,
//! [`Gate::acquire_blocking`] for threads, both with a timeout, both in the order of arrival.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tidegate_policy::{Cost, Gcra, Keyed, Rate};
//! use tidegate_wait::{Clock, Gate};
//!
//! let limit = Gcra::new(Rate::new(1_000, Duration::from_secs(1))?, 1)?;
//! let users = Arc::new(Keyed::<String, _>::new(limit, NonZeroUsize::new(10_000).ok_or("zero")?));
//! let gate = Gate::new(users, Clock::start(), 100);
//!
//! for _ in 0..3 {
//!     gate.acquire_blocking("ann", Cost::ONE, Duration::from_secs(1))?; // one each millisecond
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod gate;
mod line;

pub use clock::Clock;
pub use gate::{Acquired, Gate, NotAcquired};
