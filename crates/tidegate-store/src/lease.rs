use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate_policy::state::{Marks, Receipt};
use tidegate_policy::{Cost, Decision, Limiter, Timestamp};

use crate::link::BUDGET;

/// How much a process may take in advance, and for how long.
///
/// What is taken and not spent is lost to the others until it is returned or its time is over: the limit is under-used
/// by at most `tokens` (or the cost of one request, if that is more) for each process, and never exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The most tokens taken at once. A process starts with one and doubles while it uses them up in time.
    pub tokens: u32,
    /// How long they may be kept.
    pub span: Duration,
}

impl LeaseTerms {
    /// What `tokens` may be.
    pub const TOKENS: RangeInclusive<u32> = 1..=1 << 30;
    /// What `span` may be.
    pub const SPAN: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3_600);
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self { tokens: 1_000, span: Duration::from_secs(1) }
    }
}

/// How long a rejection is repeated without asking Redis again, if it lasts that long. Redis may forget counts that
/// would have lasted for days: they are deleted, or Redis is emptied.
const REJECTION_KNOWN: Duration = Duration::from_secs(60);
// No call takes longer, so a reply is never too old already when it comes.
const _: () = assert!(BUDGET.end().as_nanos() <= REJECTION_KNOWN.as_nanos());

/// A process' side of leases, as a limiter: it admits what it has in hand. What it lacks it asks for; a rejection that
/// means "ask first" has a `retry_after` of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The most the limit can ever hold: what costs more need not ask.
    pub capacity: u64,
}

/// What a process holds of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// By which Redis knows the lease.
    id: u64,
    /// Outstanding as Redis knows it, and how much of that is spent: the difference is in hand.
    held: u32,
    spent: u32,
    /// When it was granted, by Redis' clock, in microseconds.
    granted_at: u64,
    /// Until when it may be spent, by ours. This and the moments below are nanoseconds that may lie past the end of
    /// time, where a [`Timestamp`] would stand still.
    deadline: u64,
    /// What to ask for next time.
    want: u32,
    /// What is left in Redis, and when it would all be there again, as of the last reply.
    left: u64,
    reset_at: u64,
    rejected: Option<Rejection>,
    /// A question of this id is under way; until then, there is no other.
    asking: u64,
    asking_until: u64,
    /// Until when Redis would take unspent tokens back: the entry is kept so long.
    returnable_until: u64,
    /// Marks receipts whose tokens are spent, but not yet reported to Redis as such.
    mark: u32,
}

/// What Redis has rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rejection {
    /// What the request cost.
    cost: u32,
    /// When it ends; `None`: never.
    end: Option<u64>,
    /// Until when it is repeated without asking again.
    known_until: u64,
    /// The connection over which it came.
    epoch: u32,
}

/// A question to Redis about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Of the lease it has.
    pub id: u64,
    /// Of the lease it will have.
    pub new_id: u64,
    /// What it has.
    pub held: u32,
    /// And how much of that is spent.
    pub spent: u32,
    /// When that was granted, by Redis' clock, in microseconds.
    pub granted_at: u64,
    /// Keep what is unspent, or return it.
    pub keep: bool,
    /// How much more it would like.
    pub want: u32,
    /// What a waiting request costs; zero if none waits.
    pub cost: u32,
}

/// Redis' reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How much more it has now.
    pub granted: u32,
    /// Whether what was unspent is still good.
    pub kept: bool,
    /// For how long.
    pub span: Duration,
    /// What is left in Redis.
    pub left: u64,
    /// When it would all be there again.
    pub reset_after: Duration,
    /// Zero: not rejected. `None`: for ever.
    pub retry_after: Option<Duration>,
    /// Redis' clock, in microseconds.
    pub at: u64,
    /// The connection over which it was asked for: they are counted.
    pub epoch: u32,
}

fn after(now: Timestamp, span: Duration) -> u64 {
    now.as_nanos().saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

fn until(now: Timestamp, end: u64) -> Duration {
    Duration::from_nanos(end.saturating_sub(now.as_nanos()))
}

impl LeaseState {
    fn in_hand(&self, now: Timestamp) -> u32 {
        if now.as_nanos() < self.deadline { self.held - self.spent } else { 0 }
    }

    /// Whether so little is left that more should be fetched before it runs out, and no question is under way.
    pub fn is_low(&self, now: Timestamp) -> bool {
        const WORTH_IT: u32 = 16;
        self.asking == 0
            && self.rejected.is_none()
            && self.left > 0
            && self.want >= WORTH_IT
            && self.in_hand(now) < self.want / 4
    }

    /// The question to ask for a request of `cost` (zero: to stock up), unless one is under way already. After
    /// `timeout` another may be asked.
    pub fn ask(
        &mut self,
        cost: u32,
        now: Timestamp,
        terms: &LeaseTerms,
        new_id: u64,
        timeout: Duration,
    ) -> Option<Ask> {
        if now.as_nanos() < self.asking_until {
            return None;
        }
        (self.asking, self.asking_until) = (new_id, after(now, timeout));
        self.mark = new_id as u32; // what is spent by now is reported now, and can't be taken back in hand
        let keep = self.held > 0 && now.as_nanos() < self.deadline;
        self.want = match (self.want, self.held) {
            (0, _) | (_, 0) => self.want.max(1),
            (want, _) if self.rejected.is_some() => want,
            (want, _) if keep => want.saturating_mul(2), // used up in time
            (want, held) if self.spent > held / 2 => want,
            (_, _) => self.spent.max(1),
        };
        self.want = self.want.min(terms.tokens).max(cost);
        let unspent = if keep { self.held - self.spent } else { 0 };
        let ask = Ask {
            id: self.id,
            new_id,
            held: self.held,
            spent: self.spent,
            granted_at: self.granted_at,
            keep,
            want: self.want.saturating_sub(unspent),
            cost,
        };
        if !keep {
            self.void(); // what is unspent goes back with the question
        }
        Some(ask)
    }

    fn void(&mut self) {
        (self.id, self.held, self.spent, self.deadline) = (0, 0, 0, 0);
        self.mark ^= 1 << 31; // a mark no question has had for two thousand million of them
    }

    /// The reply to `ask`, which was put at `asked_at`: spans count from then, which is before Redis began to count
    /// them. A reply to a question that this state did not ask (it was dropped, or forgotten, in between) is ignored:
    /// what was granted ends by itself.
    pub fn receive(&mut self, ask: &Ask, grant: &Grant, asked_at: Timestamp, terms: &LeaseTerms) {
        if self.asking != ask.new_id {
            return;
        }
        if ask.keep && grant.kept {
            self.held = self.held.saturating_sub(ask.spent);
            self.spent = self.spent.saturating_sub(ask.spent);
        } else {
            self.void();
        }
        self.held = self.held.saturating_add(grant.granted);
        self.id = ask.new_id;
        self.granted_at = grant.at;
        self.deadline = after(asked_at, grant.span.min(terms.span));
        self.returnable_until = after(asked_at, grant.span);
        self.left = grant.left;
        self.reset_at = after(asked_at, grant.reset_after);
        self.rejected = match grant.retry_after {
            Some(Duration::ZERO) => None,
            retry_after => Some(Rejection {
                cost: ask.cost,
                end: retry_after.map(|span| after(asked_at, span)),
                known_until: after(asked_at, REJECTION_KNOWN),
                epoch: grant.epoch,
            }),
        };
        (self.asking, self.asking_until) = (0, 0);
    }

    /// There was no reply to `ask`. What Redis made of it is unknown, so nothing that was held counts any more: it ends
    /// by itself.
    pub fn no_reply(&mut self, ask: &Ask) {
        if self.asking == ask.new_id {
            self.void();
            (self.asking, self.asking_until) = (0, 0);
        }
    }

    /// Drops a rejection that came over another connection than this: a Redis that was away may not remember it. What
    /// is in hand stays there, for Redis may remember that. Returns whether there was one.
    pub fn drop_stale_rejection(&mut self, epoch: u32) -> bool {
        self.rejected.take_if(|rejection| rejection.epoch != epoch).is_some()
    }

    /// The rejection that needs no question at `now`.
    fn known_rejection(&self, now: Timestamp) -> Option<Rejection> {
        self.rejected.filter(|known| now.as_nanos() < known.known_until.min(known.end.unwrap_or(u64::MAX)))
    }
}

impl Limiter for Lease {
    type State = LeaseState;

    fn decide(&self, state: &LeaseState, cost: Cost, now: Timestamp) -> Decision {
        let in_hand = state.in_hand(now);
        let reset_after = until(now, state.reset_at);
        if let Some(rest) = in_hand.checked_sub(cost.get()) {
            let remaining = u64::from(rest) + state.left;
            return Decision::Admit { wait: Duration::ZERO, remaining, reset_after };
        }
        // What was rejected for less is rejected for more, at least as long.
        let retry_after = match state.known_rejection(now) {
            _ if u64::from(cost.get()) > self.capacity => None,
            Some(known) if cost.get() >= known.cost => known.end.map(|end| until(now, end)),
            Some(_) | None => Some(Duration::ZERO),
        };
        Decision::Reject { retry_after, remaining: u64::from(in_hand) + state.left, reset_after }
    }

    /// A receipt whose `owed` is above zero says that the lease runs low.
    fn take(&self, state: &mut LeaseState, cost: Cost, now: Timestamp) -> Receipt {
        state.spent += cost.get(); // admitted, so at most `held`
        let marks = Marks { owed: state.is_low(now).into(), returned: 0, run: state.mark };
        Receipt::new(now, cost, marks)
    }

    /// Only what has not yet been reported to Redis as spent can be taken back in hand.
    fn give_back(&self, state: &mut LeaseState, receipt: &Receipt, _now: Timestamp) {
        if receipt.marks().run == state.mark {
            state.spent = state.spent.saturating_sub(receipt.cost().get());
        }
    }

    /// Under other numbers a lease is worth nothing: it is dropped, and ends in Redis by itself.
    fn adopt(&self, state: &mut LeaseState, _before: &Self, _now: Timestamp) {
        *state = LeaseState::default();
    }

    fn spent(&self, state: &LeaseState, now: Timestamp) -> u64 {
        let moment = now.as_nanos();
        let rejected = state.known_rejection(now).is_some();
        let unspent = state.held > state.spent && moment < state.returnable_until;
        let alive = moment < state.deadline || moment < state.asking_until || unspent || rejected;
        u64::from(state.in_hand(now)) + u64::from(alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: LeaseTerms = LeaseTerms { tokens: 100, span: Duration::from_secs(1) };

    /// A process that was rejected at the time zero, for thirty days.
    fn rejected(retry_after: Option<Duration>) -> LeaseState {
        let mut state = LeaseState::default();
        let ask = state.ask(1, Timestamp::from_nanos(0), &TERMS, 1, Duration::from_secs(1)).expect("a question");
        let (granted, kept, span, left, reset_after, at) = (0, false, Duration::ZERO, 0, Duration::ZERO, 0);
        let grant = Grant { granted, kept, span, left, reset_after, retry_after, at, epoch: 3 };
        state.receive(&ask, &grant, Timestamp::from_nanos(0), &TERMS);
        state
    }

    fn retry_after(state: &LeaseState, at: Duration) -> Option<Duration> {
        let now = Timestamp::from_nanos(at.as_nanos() as u64);
        Lease { capacity: 5 }.decide(state, Cost::ONE, now).retry_after()
    }

    /// Redis was emptied, and a limit over thirty days rejected for thirty days.
    #[test]
    fn a_rejection_is_repeated_for_a_minute_and_then_redis_is_asked_again() {
        let month = Duration::from_secs(30 * 86_400);
        for lasts in [Some(month), None] {
            let state = rejected(lasts);
            let before = REJECTION_KNOWN.saturating_sub(Duration::from_nanos(1));
            assert_eq!(retry_after(&state, before), lasts.map(|lasts| lasts.saturating_sub(before)));
            assert_eq!(retry_after(&state, REJECTION_KNOWN), Some(Duration::ZERO), "that is a question");
        }
    }

    #[test]
    fn a_rejection_that_is_over_sooner_is_repeated_no_longer() {
        let state = rejected(Some(Duration::from_secs(1)));
        assert_eq!(retry_after(&state, Duration::from_millis(400)), Some(Duration::from_millis(600)));
        assert_eq!(retry_after(&state, Duration::from_secs(1)), Some(Duration::ZERO));
    }

    #[test]
    fn a_rejection_over_an_earlier_connection_is_a_question_and_what_is_in_hand_stays() {
        let now = Timestamp::from_nanos(0);
        let mut state = rejected(None);
        (state.held, state.deadline) = (3, u64::MAX);
        let before = state.clone();
        assert!(!state.drop_stale_rejection(3));
        assert_eq!(state, before, "it came over this connection");
        assert!(state.drop_stale_rejection(4));
        assert!(!state.drop_stale_rejection(4), "it is gone");
        let lease = Lease { capacity: 5 };
        assert!(lease.decide(&state, Cost::new(3).expect("a cost"), now).is_admitted());
        assert_eq!(lease.decide(&state, Cost::new(4).expect("a cost"), now).retry_after(), Some(Duration::ZERO));
    }
}
