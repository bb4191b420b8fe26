use std::time::Duration;

use crate::invalid_limit::{count, span};
use crate::receipt::Receipt;
use crate::sliding_log::SlidingLogState;
use crate::{Cost, Decision, InvalidLimit, Limiter, SlidingLog, Timestamp};

/// At most `limit` in flight at the same time.
///
/// ```text
/// in_flight(t) = Σ costs admitted in (t − hold, t] and not given back        admit iff in_flight(t) + cost ≤ limit
/// ```
///
/// An admitted request holds a slot and [gives it back](Limiter::give_back) when it is done. A slot that never comes
/// back (its process crashed) is free again after `hold`, so nothing leaks for ever: choose `hold` longer than any
/// request may last. It is a [log](SlidingLog) whose entries leave when they are done; `retry_after` is the latest
/// moment at which a slot comes free, with luck it is sooner.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use tidegate_policy::{Concurrency, Cost, Keyed, Timestamp};
///
/// let limit = Concurrency::new(1, Duration::from_secs(30))?;
/// let users = Keyed::<String, _>::new(limit, NonZeroUsize::new(1_000).expect("not zero"));
/// let now = Timestamp::from_nanos(0);
/// let (decision, slot) = users.take("ann", Cost::ONE, now);
/// assert!(decision.is_admitted());
/// assert_eq!(users.check("ann", Cost::ONE, now).retry_after(), Some(Duration::from_secs(30)));
/// users.give_back("ann", slot.expect("it was admitted"), now);
/// assert!(users.take("ann", Cost::ONE, now).1.is_some());
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    slots: SlidingLog,
}

/// The slots a key holds, and since when.
pub type ConcurrencyState = SlidingLogState;

impl Concurrency {
    /// At most `limit` at once, each for at most `hold`.
    pub fn new(limit: u64, hold: Duration) -> Result<Self, InvalidLimit> {
        let limit = count("limit", limit, SlidingLog::MAX_LIMIT)?;
        span("hold", hold)?;
        Ok(Self { slots: SlidingLog::new(limit, hold)? })
    }

    /// How many at once.
    pub const fn limit(&self) -> u64 {
        self.slots.limit()
    }

    /// How long a slot that is not given back counts.
    pub const fn hold(&self) -> Duration {
        self.slots.window()
    }
}

impl Limiter for Concurrency {
    type State = ConcurrencyState;

    fn decide(&self, state: &ConcurrencyState, cost: Cost, now: Timestamp) -> Decision {
        self.slots.decide(state, cost, now)
    }

    fn take(&self, state: &mut ConcurrencyState, cost: Cost, now: Timestamp) -> Receipt {
        self.slots.take(state, cost, now)
    }

    fn give_back(&self, state: &mut ConcurrencyState, receipt: &Receipt, now: Timestamp) {
        self.slots.give_back(state, receipt, now);
    }

    fn receipts_survive_a_change(&self) -> bool {
        true
    }

    fn holds_slots(&self) -> bool {
        true
    }

    fn adopt(&self, state: &mut ConcurrencyState, before: &Self, now: Timestamp) {
        self.slots.adopt(state, &before.slots, now);
    }

    fn spent(&self, state: &ConcurrencyState, now: Timestamp) -> u64 {
        self.slots.spent(state, now)
    }
}
