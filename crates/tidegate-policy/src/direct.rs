use std::sync::Mutex;
use std::time::Duration;

use crate::lock::lock;
use crate::{Cost, Decision, Limiter, Ticket, Timestamp};

/// One limiter for everybody, without keys, for many threads at once.
///
/// [`Keyed`](crate::Keyed) is its counterpart for a limit per client.
///
/// ```
/// use tidegate_policy::{Cost, Direct, Rate, Timestamp, TokenBucket};
///
/// let limit = Direct::new(TokenBucket::new(Rate::per_second(10)?, 2)?);
/// let now = Timestamp::from_nanos(0);
/// assert!(limit.check(Cost::ONE, now).is_admitted());
/// assert!(limit.check(Cost::ONE, now).is_admitted());
/// assert!(!limit.check(Cost::ONE, now).is_admitted());
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
pub struct Direct<L: Limiter>(Mutex<Limit<L>>);

struct Limit<L: Limiter> {
    limiter: L,
    /// Counts changes of the limiter, so that a ticket from before one is known.
    generation: u32,
    state: L::State,
}

impl<L: Limiter + Clone> Direct<L> {
    /// An unused limit.
    pub fn new(limiter: L) -> Self {
        Self(Mutex::new(Limit { limiter, generation: 0, state: L::State::default() }))
    }

    /// Decides on a request, and takes its cost if it is admitted. For a limit whose slots come back, such as
    /// [`Concurrency`](crate::Concurrency), [`take`](Self::take) a ticket instead.
    pub fn check(&self, cost: Cost, now: Timestamp) -> Decision {
        let Limit { limiter, state, .. } = &mut *lock(&self.0);
        limiter.check(state, cost, now)
    }

    /// The same, with a ticket to [give back](Self::give_back) what was taken.
    pub fn take(&self, cost: Cost, now: Timestamp) -> (Decision, Option<Ticket>) {
        self.take_within(cost, now, Duration::MAX)
    }

    /// The same, for a request that can wait no longer than `max_wait`: if a shaper would delay it for longer, it takes
    /// nothing and gets no ticket.
    pub fn take_within(&self, cost: Cost, now: Timestamp, max_wait: Duration) -> (Decision, Option<Ticket>) {
        let Limit { limiter, generation, state } = &mut *lock(&self.0);
        let decision = limiter.decide(state, cost, now);
        let in_time = matches!(decision, Decision::Admit { wait, .. } if wait <= max_wait);
        let ticket = in_time.then(|| Ticket::new(limiter.take(state, cost, now), *generation, limiter.holds_slots()));
        (decision, ticket)
    }

    /// Gives back what `ticket` stands for, as [`Limiter::give_back`] says.
    #[expect(clippy::needless_pass_by_value, reason = "what is given back is gone")]
    pub fn give_back(&self, ticket: Ticket, now: Timestamp) {
        let Limit { limiter, generation, state } = &mut *lock(&self.0);
        if ticket.is_good(*generation, limiter.receipts_survive_a_change()) {
            limiter.give_back(state, ticket.receipt(), now);
        }
    }

    /// The limiter as it is now.
    pub fn limiter(&self) -> L {
        lock(&self.0).limiter.clone()
    }

    /// Sets other numbers: what was used stays used ([`Limiter::adopt`]). Another algorithm (of a
    /// [`Rule`](crate::Rule)) starts anew.
    pub fn change(&self, limiter: &L, now: Timestamp) {
        let limit = &mut *lock(&self.0);
        limiter.adopt(&mut limit.state, &limit.limiter, now);
        limit.limiter = limiter.clone();
        limit.generation = limit.generation.wrapping_add(1);
    }
}
