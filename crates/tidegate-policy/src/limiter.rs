use crate::decision::Decision;
use crate::receipt::Receipt;
use crate::{Cost, Timestamp};

/// A rule that decides: a pure step from a key's state to a decision. No clock, no lock, no key.
///
/// The state lives elsewhere ([`Keyed`](crate::Keyed) keeps it for many keys, [`Direct`](crate::Direct) for one limit);
/// its default is a key that was never used. Time is whatever the caller says it is. Do not assume that it only moves
/// forward: every rule stays within its limit when it does not.
pub trait Limiter {
    /// What is remembered of one key. Its default is a key that was never used.
    type State: Default;

    /// The decision for this request at `now`. Changes nothing.
    fn decide(&self, state: &Self::State, cost: Cost, now: Timestamp) -> Decision;

    /// Takes `cost`. Call it only when [`decide`](Self::decide) has just admitted the same request on the same state.
    fn take(&self, state: &mut Self::State, cost: Cost, now: Timestamp) -> Receipt;

    /// Returns what was taken, as far as that leaves nobody with more than if it had never been taken: what time has
    /// refilled since is not returned a second time. (What a clock that went back in between had refilled before, may
    /// be.) A receipt is good for once.
    fn give_back(&self, state: &mut Self::State, receipt: &Receipt, now: Timestamp);

    /// Whether a receipt is still good after the limit's numbers have changed. Where it is not, a store drops it.
    fn receipts_survive_a_change(&self) -> bool {
        false
    }

    /// Whether what is taken is a slot that is held and comes back when the request is done, so that `retry_after` is
    /// only the latest moment.
    fn holds_slots(&self) -> bool {
        false
    }

    /// Takes over a state that was kept under other numbers: what was used stays used. A bucket owes at most all of its
    /// new capacity, a window of another length starts with at most its new limit spent; counts and logs are kept as
    /// they are.
    fn adopt(&self, state: &mut Self::State, before: &Self, now: Timestamp);

    /// How many tokens are in use at `now`, begun ones counted whole. Zero means the state may be forgotten: it decides
    /// like a new one.
    fn spent(&self, state: &Self::State, now: Timestamp) -> u64;

    /// Decides, and takes if admitted.
    fn check(&self, state: &mut Self::State, cost: Cost, now: Timestamp) -> Decision {
        let decision = self.decide(state, cost, now);
        if decision.is_admitted() {
            self.take(state, cost, now);
        }
        decision
    }
}
