use std::time::Duration;

use crate::budget::{Budget, run_mark};
use crate::receipt::{Marks, Receipt};
use crate::{Cost, Decision, InvalidLimit, Limiter, Rate, Timestamp};

/// The generic cell rate algorithm: a token bucket kept as one moment, the *theoretical arrival time*.
///
/// With `T` the time one token takes to come back and `B` the burst:
///
/// ```text
/// admit at t   iff   max(TAT, t) + cost·T − t ≤ B·T        then   TAT := max(TAT, t) + cost·T
/// ```
///
/// It admits exactly what a [`TokenBucket`](crate::TokenBucket) of capacity `B` admits, with the smallest state of all.
/// A clock that goes back makes `TAT − t` larger, so it can only make the limiter stricter.
///
/// Against the exact log: up to `B + rate·window` in a window, so 2× for `B` = a window's worth.
/// Measured on an hour of bursts (`make demo`): worst window 1.99 ×, 8.6 % of decisions unlike the log's.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::{Cost, Gcra, Limiter, Rate, Timestamp};
///
/// let limit = Gcra::new(Rate::per_second(10)?, 2)?; // 10/s, two at once
/// let (mut key, now) = (Default::default(), Timestamp::from_nanos(1));
/// assert!(limit.check(&mut key, Cost::ONE, now).is_admitted());
/// assert!(limit.check(&mut key, Cost::ONE, now).is_admitted());
/// assert_eq!(limit.check(&mut key, Cost::ONE, now).retry_after(), Some(Duration::from_millis(100)));
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    budget: Budget,
}

/// A key's theoretical arrival time, to a fraction of a nanosecond, and what is needed to give tokens back.
///
/// Packed to 20 bytes, so that a [`RuleState`](crate::state::RuleState) takes 24 instead of 32: there may be millions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct GcraState {
    tat: Timestamp,
    /// Units that the nanosecond after `tat` still has to pay.
    part: u32,
    /// Tokens ever given back. It wraps, after 4 · 10⁹ of them within the life of one request.
    returned: u32,
    /// Marks the run of requests since `tat` last lay in the past.
    run: u32,
}

impl Gcra {
    /// `rate` on average, at most `burst` at once.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, InvalidLimit> {
        Ok(Self { budget: Budget::new(rate, burst, "burst")? })
    }

    /// The most that is ever admitted at once.
    pub const fn burst(&self) -> u64 {
        self.budget.capacity()
    }

    /// The rate on average.
    pub fn rate(&self) -> Rate {
        self.budget.rate()
    }

    /// How long until the theoretical arrival time, as units owed.
    const fn owed(&self, state: &GcraState, now: Timestamp) -> u128 {
        if state.tat.as_nanos() < now.as_nanos() {
            return 0;
        }
        self.budget.paid_in(state.tat.nanos_since(now)) + state.part as u128
    }

    fn set(&self, state: &mut GcraState, owed: u64, now: Timestamp) {
        let (nanos, part) = self.budget.split(owed);
        (state.tat, state.part) = (now.later(nanos), part);
    }

    /// Whether nobody has taken or returned anything since this receipt was issued.
    pub(crate) fn is_latest(&self, state: &GcraState, receipt: &Receipt) -> bool {
        let mut then = *state;
        self.set(&mut then, receipt.marks().owed, receipt.at());
        then == *state && receipt.marks().returned == state.returned
    }

    /// [`Limiter::decide`], with the wait that `wait` makes of what is owed before this request.
    pub(crate) fn decide_with(
        &self,
        state: &GcraState,
        cost: Cost,
        now: Timestamp,
        wait: impl Fn(&Budget, u64) -> Duration,
    ) -> Decision {
        let owed = self.owed(state, now);
        match self.budget.price(cost) {
            Some(price) if self.budget.fits(owed, price) => {
                let owed = owed as u64; // it fits below `full`, which is a u64
                self.budget.admit(owed + price, wait(&self.budget, owed))
            }
            price => self.budget.reject(owed, price),
        }
    }
}

impl Limiter for Gcra {
    type State = GcraState;

    fn decide(&self, state: &GcraState, cost: Cost, now: Timestamp) -> Decision {
        self.decide_with(state, cost, now, |_, _| Duration::ZERO)
    }

    fn take(&self, state: &mut GcraState, cost: Cost, now: Timestamp) -> Receipt {
        let price = self.budget.price(cost).unwrap_or(0);
        let owed = self.owed(state, now) as u64 + price; // admitted, so at most `full`
        if owed == price {
            state.run = run_mark(now);
        }
        self.set(state, owed, now);
        Receipt::new(now, cost, Marks { owed, returned: state.returned, run: state.run })
    }

    fn give_back(&self, state: &mut GcraState, receipt: &Receipt, now: Timestamp) {
        let back = self.budget.returnable(receipt, state.run, state.returned, now);
        if let (1.., Ok(owed)) = (back, u64::try_from(self.owed(state, now))) {
            self.set(state, owed.saturating_sub(back), now);
            state.returned = state.returned.wrapping_add(self.budget.tokens(back.into()) as u32);
        }
    }

    fn adopt(&self, state: &mut GcraState, before: &Self, now: Timestamp) {
        if self != before {
            let owed = self.budget.convert(before.owed(state, now), &before.budget);
            self.set(state, owed, now);
        }
    }

    fn spent(&self, state: &GcraState, now: Timestamp) -> u64 {
        self.budget.tokens(self.owed(state, now))
    }
}
