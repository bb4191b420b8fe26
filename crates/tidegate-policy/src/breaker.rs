//! A circuit breaker: it stops calls to what keeps failing, and lets a few through later to see whether it works again.
//!
//! Closed, it counts how calls end. When too many of the last ones failed or were slow, it opens: calls are rejected at
//! once. After a while it is half-open: a few calls, the probes, go through. If all succeed it closes, if one fails it
//! opens again. A result that comes after the state has changed counts nowhere.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tidegate_policy::Timestamp;
//! use tidegate_policy::breaker::{Breaker, BreakerSettings, Phase, Verdict, Window};
//!
//! let settings = BreakerSettings { window: Window::Calls(10), minimum: 5, ..BreakerSettings::default() };
//! let breaker = Arc::new(Breaker::new(settings)?);
//! let now = Timestamp::from_nanos(0); // in a program: SystemTime::now().into(), or tidegate_wait::Clock
//! for _ in 0..5 {
//!     let call = breaker.ask(now).expect("it is closed");
//!     breaker.record(call, Verdict::Failure, Duration::from_millis(3), now);
//! }
//! let rejected = breaker.ask(now).expect_err("half of the calls failed");
//! assert_eq!(rejected.retry_after, Some(Duration::from_secs(30)));
//!
//! let later = now + Duration::from_secs(30);
//! let probe = breaker.ask(later).expect("a probe");
//! assert_eq!(breaker.snapshot(later).phase, Phase::HalfOpen);
//! breaker.record(probe, Verdict::Failure, Duration::from_millis(3), later);
//! assert_eq!(breaker.snapshot(later).phase, Phase::Open);
//! # Ok::<(), tidegate_policy::InvalidSetting>(())
//! ```

mod calls_window;
mod counts;
mod machine;
mod settings;
mod shared;
mod snapshot;
mod time_window;
mod transition;
mod window;

pub use settings::{BreakerSettings, SlowCalls, Window};
pub use shared::{Breaker, Call, Generation, Rejected, Verdict};
pub use snapshot::{BreakerSnapshot, Totals};
pub use transition::{Forced, Phase, Transition, Trigger};
