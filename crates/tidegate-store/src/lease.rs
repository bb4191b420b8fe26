use std::time::Duration;

use tidegate_policy::{Cost, Decision, Limiter, Receipt, Timestamp};

/// How much a process may take in advance, and for how long.
///
/// What is taken and not spent is lost to the others until it is returned or its time is over: the limit is under-used by at most `tokens`
/// for each process, and never exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The most tokens taken at once. A process starts with one and doubles while it uses them up in time.
    pub tokens: u32,
    /// How long they may be kept.
    pub span: Duration,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self { tokens: 1_000, span: Duration::from_secs(1) }
    }
}

/// The holder's side of leases, as a limiter: it admits what it has in hand. What it lacks it asks for; a refusal that means
/// "ask first" has a `retry_after` of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease;

/// What a process holds of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseState {
    /// By which Redis knows the lease.
    id: u64,
    /// Outstanding as Redis knows it, and how much of that is spent: the difference is in hand.
    held: u32,
    spent: u32,
    /// When it was granted, by Redis' clock, in microseconds.
    granted_at: u64,
    /// Until when it may be spent, by ours.
    deadline: Timestamp,
    /// What to ask for next time.
    want: u32,
    /// What is left in Redis, and when it would all be there again, as of the last answer.
    left: u64,
    reset_at: Timestamp,
    /// A request of this cost was refused until then (`None`: for ever).
    refused: Option<(u32, Option<Timestamp>)>,
    /// Somebody is asking; until then, nobody else does.
    asking_until: Timestamp,
    /// Counts leases, so that a receipt of an older one is known.
    generation: u32,
}

/// A question to Redis about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) id: u64,
    pub(crate) new_id: u64,
    pub(crate) held: u32,
    pub(crate) spent: u32,
    pub(crate) granted_at: u64,
    /// Keep what is unspent, or return it.
    pub(crate) keep: bool,
    pub(crate) want: u32,
    /// What a waiting request costs; zero if none waits.
    pub(crate) cost: u32,
}

/// Redis' answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) granted: u32,
    pub(crate) kept: bool,
    pub(crate) span: Duration,
    pub(crate) left: u64,
    pub(crate) reset_after: Duration,
    /// Zero: not refused. `None`: for ever.
    pub(crate) retry_after: Option<Duration>,
    /// Redis' clock, in microseconds.
    pub(crate) at: u64,
}

impl LeaseState {
    fn in_hand(&self, now: Timestamp) -> u32 {
        if now < self.deadline { self.held - self.spent } else { 0 }
    }

    /// Whether so little is left that more should be fetched before it runs out.
    pub(crate) fn is_low(&self, now: Timestamp) -> bool {
        const WORTH_IT: u32 = 16;
        self.want >= WORTH_IT && self.in_hand(now) < self.want / 4
    }

    /// The question to ask for a request of `cost` (zero: to stock up), unless somebody is asking already. He has until
    /// `patience` is over to come back with the answer.
    pub(crate) fn ask(
        &mut self,
        cost: u32,
        now: Timestamp,
        terms: &LeaseTerms,
        new_id: u64,
        patience: Duration,
    ) -> Option<Ask> {
        if now < self.asking_until {
            return None;
        }
        self.asking_until = now + patience;
        let keep = self.held > 0 && now < self.deadline;
        self.want = match (self.want, self.held) {
            (0, _) | (_, 0) => self.want.max(1),
            (want, _) if keep => want.saturating_mul(2), // used up in time
            (want, held) if self.spent > held / 2 => want,
            (_, _) => self.spent.max(1),
        };
        self.want = self.want.min(terms.tokens).max(cost);
        let ask = Ask {
            id: self.id,
            new_id,
            held: self.held,
            spent: self.spent,
            granted_at: self.granted_at,
            keep,
            want: self.want,
            cost,
        };
        if !keep {
            self.void(); // what is unspent goes back with the question
        }
        Some(ask)
    }

    fn void(&mut self) {
        (self.held, self.spent) = (0, 0);
        self.generation = self.generation.wrapping_add(1);
    }

    /// The answer to `ask`, which was put at `asked_at`: spans count from then, which is before Redis began to count them.
    pub(crate) fn answer(&mut self, ask: &Ask, grant: &Grant, asked_at: Timestamp, terms: &LeaseTerms) {
        if ask.keep && grant.kept {
            self.held = self.held.saturating_sub(ask.spent);
            self.spent = self.spent.saturating_sub(ask.spent);
        } else {
            self.void();
        }
        self.held = self.held.saturating_add(grant.granted);
        self.id = ask.new_id;
        self.granted_at = grant.at;
        self.deadline = asked_at + grant.span.min(terms.span);
        self.left = grant.left;
        self.reset_at = asked_at + grant.reset_after;
        self.refused = match grant.retry_after {
            Some(Duration::ZERO) => None,
            retry_after => Some((ask.cost, retry_after.map(|after| asked_at + after))),
        };
        self.asking_until = Timestamp::default();
    }

    /// There was no answer. What Redis made of the question is unknown: what was offered back may be gone, what was kept may not.
    pub(crate) fn no_answer(&mut self, ask: &Ask) {
        if ask.keep {
            // The grant may have been made: then Redis knows this lease by its new id, with more than we hold. It ends by itself.
            self.void();
            self.deadline = Timestamp::default();
        }
        self.asking_until = Timestamp::default();
    }
}

impl Limiter for Lease {
    type State = LeaseState;

    fn decide(&self, state: &LeaseState, cost: Cost, now: Timestamp) -> Decision {
        let in_hand = state.in_hand(now);
        let reset_after = state.reset_at.since(now);
        if let Some(rest) = in_hand.checked_sub(cost.get()) {
            let remaining = u64::from(rest) + state.left;
            return Decision::Admit { wait: Duration::ZERO, remaining, reset_after };
        }
        let retry_after = match state.refused {
            Some((refused, None)) if cost.get() >= refused => None,
            Some((refused, Some(until))) if cost.get() >= refused => Some(until.since(now)),
            _ => Some(Duration::ZERO),
        };
        Decision::Refuse { retry_after, remaining: u64::from(in_hand) + state.left, reset_after }
    }

    fn take(&self, state: &mut LeaseState, cost: Cost, now: Timestamp) -> Receipt {
        state.spent += cost.get(); // admitted, so at most `held`
        Receipt { at: now, cost, owed: 0, returned: 0, run: state.generation }
    }

    /// Only what Redis has not yet been told is spent can be taken back in hand.
    fn give_back(&self, state: &mut LeaseState, receipt: &Receipt, _now: Timestamp) {
        if receipt.run == state.generation {
            state.spent = state.spent.saturating_sub(receipt.cost.get());
        }
    }

    /// Under other numbers a lease is worth nothing: it is dropped, and ends in Redis by itself.
    fn adopt(&self, state: &mut LeaseState, _before: &Self, _now: Timestamp) {
        let generation = state.generation.wrapping_add(1);
        *state = LeaseState { generation, ..LeaseState::default() };
    }

    fn spent(&self, state: &LeaseState, now: Timestamp) -> u64 {
        let refused = state.refused.is_some_and(|(_, until)| until.is_none_or(|until| now < until));
        u64::from(state.in_hand(now)) + u64::from(now < state.deadline || now < state.asking_until || refused)
    }
}
