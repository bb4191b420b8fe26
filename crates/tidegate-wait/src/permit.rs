use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use tidegate_policy::{Decision, Keyed, Limiter, Ticket};

use crate::clock::Clock;
use crate::queue::Queue;

/// A limit, its clock, and the queue before it: what a gate and its permits share.
pub(crate) struct Shared<K, L: Limiter> {
    pub(crate) limit: Arc<Keyed<K, L>>,
    pub(crate) clock: Clock,
    pub(crate) queue: Queue<K>,
}

/// The right to go on, from [`Gate::acquire`](crate::Gate::acquire).
///
/// Dropping it gives back the slot of a [`Concurrency`](tidegate_policy::Concurrency) limit, and lets the next waiter
/// in: keep it for as long as the work lasts. Tokens of a rate limit are spent; dropping the permit does not return
/// them. Call [`give_back`](Self::give_back) to return them too, for work that was not done after all.
#[must_use = "dropping a permit gives its slot back"]
pub struct Permit<K: Hash + Eq + Clone, L: Limiter + Clone> {
    shared: Arc<Shared<K, L>>,
    key: K,
    decision: Decision,
    /// Taken when it is given back.
    ticket: Option<Ticket>,
}

impl<K: Hash + Eq + Clone, L: Limiter + Clone> Permit<K, L> {
    pub(crate) fn new(shared: Arc<Shared<K, L>>, key: K, decision: Decision, ticket: Ticket) -> Self {
        Self { shared, key, decision, ticket: Some(ticket) }
    }

    /// What the limit decided. If it asked for a wait, that is over.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Gives everything back, tokens too, as if it had never been acquired. What time has refilled since is not
    /// returned a second time ([`Limiter::give_back`]).
    pub fn give_back(mut self) {
        let ticket = self.ticket.take();
        self.return_ticket(ticket);
    }

    fn return_ticket(&self, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else { return };
        self.shared.limit.give_back(&self.key, ticket, self.shared.clock.now());
        self.shared.queue.wake_first(&self.key);
    }
}

impl<K: Hash + Eq + Clone, L: Limiter + Clone> Drop for Permit<K, L> {
    fn drop(&mut self) {
        let slot = self.ticket.take().filter(Ticket::is_slot);
        self.return_ticket(slot);
    }
}

impl<K: Hash + Eq + Clone, L: Limiter + Clone> fmt::Debug for Permit<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("decision", &self.decision).finish_non_exhaustive()
    }
}
