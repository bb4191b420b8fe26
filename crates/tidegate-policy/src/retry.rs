//! Retries: how long to pause before the next attempt ([`Backoff`]), how many retries the whole program may make
//! ([`RetryBudget`]), so that retries never make an overload worse, and after how long without a response another
//! attempt is worth it ([`HedgeDelay`]).
//!
//! ```
//! use std::time::Duration;
//! use tidegate_policy::Timestamp;
//! use tidegate_policy::retry::{Backoff, BudgetSettings, Jitter, RetryBudget};
//!
//! let (base, max) = (Duration::from_millis(200), Duration::from_secs(2));
//! let backoff = Backoff::new(base, max, 2.0, Jitter::Full)?;
//! let random = 0x8000_0000_0000_0000; // the middle; in a program: any random number
//! let first = backoff.pause(1, Duration::ZERO, random);
//! assert_eq!(first, Duration::from_millis(100)); // from nothing to 200 ms
//! assert_eq!(backoff.pause(2, first, random), Duration::from_millis(200)); // from nothing to 400 ms
//!
//! let budget = RetryBudget::new(BudgetSettings { share: 0.2, floor: 0.0 })?;
//! let now = Timestamp::from_nanos(0);
//! for _ in 0..5 {
//!     budget.call_began(now);
//! }
//! assert!(budget.take(now)); // one retry for five calls
//! assert!(!budget.take(now));
//! # Ok::<(), tidegate_policy::InvalidSetting>(())
//! ```

mod backoff;
mod budget;
mod hedge;

pub use backoff::{Backoff, Jitter};
pub use budget::{BudgetSettings, BudgetSnapshot, RetryBudget};
pub use hedge::{HedgeDelay, HedgeSettings};
