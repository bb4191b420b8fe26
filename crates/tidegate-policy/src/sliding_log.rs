use std::collections::VecDeque;
use std::time::Duration;

use crate::invalid_limit::{count, span};
use crate::receipt::Receipt;
use crate::{Cost, Decision, InvalidLimit, Limiter, Timestamp};

/// The exact one: remembers every admission for one window.
///
/// ```text
/// used(t) = Σ costs admitted in (t − window, t]        admit iff used(t) + cost ≤ limit
/// ```
///
/// In no span as long as the window are there ever more than `limit`: this is what the other algorithms are measured
/// against. The price is memory: 16 bytes an admission, at most `limit` of them a key. A clock that goes back counts as
/// standing still.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::{Cost, Limiter, SlidingLog, Timestamp};
///
/// let limit = SlidingLog::new(2, Duration::from_secs(10))?;
/// let (mut key, second) = (Default::default(), |s: u64| Timestamp::from_nanos(s * 1_000_000_000));
/// assert!(limit.check(&mut key, Cost::ONE, second(1)).is_admitted());
/// assert!(limit.check(&mut key, Cost::ONE, second(4)).is_admitted());
/// assert_eq!(limit.check(&mut key, Cost::ONE, second(9)).retry_after(), Some(Duration::from_secs(2)));
/// assert!(limit.check(&mut key, Cost::ONE, second(11)).is_admitted());
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window: u64,
}

/// A key's admissions, oldest first; those of the same moment stand together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingLogState {
    entries: VecDeque<(Timestamp, u32)>,
    used: u64,
    latest: Timestamp,
}

impl SlidingLog {
    /// The largest limit: a key's log takes up to 16 bytes times the limit.
    pub const MAX_LIMIT: u64 = 1 << 20;

    /// At most `limit` tokens in any `window`.
    pub fn new(limit: u64, window: Duration) -> Result<Self, InvalidLimit> {
        Ok(Self { limit: count("limit", limit, Self::MAX_LIMIT)?, window: span("window", window)? })
    }

    /// Tokens per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// How many entries have left the window by `now`, and the tokens they took with them.
    fn expired(&self, state: &SlidingLogState, now: Timestamp) -> (usize, u64) {
        let now = now.max(state.latest);
        let gone = state.entries.iter().take_while(|(at, _)| at.later(self.window) <= now);
        gone.fold((0, 0), |(entries, tokens), (_, cost)| (entries + 1, tokens + u64::from(*cost)))
    }

    fn forget_expired(&self, state: &mut SlidingLogState, now: Timestamp) {
        let (entries, tokens) = self.expired(state, now);
        state.entries.drain(..entries);
        state.used -= tokens;
    }

    /// When so many entries have left the window that `tokens` of them are gone.
    fn gone_after(&self, state: &SlidingLogState, tokens: u64, now: Timestamp) -> Duration {
        let mut gone = 0;
        let last_to_go = state.entries.iter().find(|(_, cost)| {
            gone += u64::from(*cost);
            gone >= tokens
        });
        last_to_go.map_or(Duration::ZERO, |(at, _)| at.later(self.window).since(now))
    }
}

impl Limiter for SlidingLog {
    type State = SlidingLogState;

    fn decide(&self, state: &SlidingLogState, cost: Cost, now: Timestamp) -> Decision {
        let (_, expired) = self.expired(state, now);
        let left = self.limit.saturating_sub(state.used - expired);
        match left.checked_sub(cost.tokens()) {
            Some(remaining) => Decision::Admit {
                wait: Duration::ZERO,
                remaining,
                reset_after: now.max(state.latest).later(self.window).since(now),
            },
            None => Decision::Reject {
                retry_after: (cost.tokens() <= self.limit)
                    .then(|| self.gone_after(state, state.used + cost.tokens() - self.limit, now)),
                remaining: left,
                reset_after: state.entries.back().map_or(Duration::ZERO, |(at, _)| at.later(self.window).since(now)),
            },
        }
    }

    fn take(&self, state: &mut SlidingLogState, cost: Cost, now: Timestamp) -> Receipt {
        self.forget_expired(state, now);
        let at = now.max(state.latest);
        match state.entries.back_mut() {
            Some((last, tokens)) if *last == at => *tokens += cost.get(), // admitted, so at most `limit`
            _ => state.entries.push_back((at, cost.get())),
        }
        state.used += cost.tokens();
        state.latest = at;
        Receipt::unmarked(at, cost)
    }

    fn give_back(&self, state: &mut SlidingLogState, receipt: &Receipt, _now: Timestamp) {
        if let Ok(index) = state.entries.binary_search_by_key(&receipt.at(), |(at, _)| *at) {
            let (_, tokens) = &mut state.entries[index];
            let back = receipt.cost().get().min(*tokens);
            *tokens -= back;
            state.used -= u64::from(back);
            if *tokens == 0 {
                state.entries.remove(index);
            }
        }
    }

    fn receipts_survive_a_change(&self) -> bool {
        true // an entry is found by its moment, whatever the numbers are now
    }

    /// Every admission keeps its moment; another window is laid over those that the old one still holds.
    fn adopt(&self, state: &mut SlidingLogState, before: &Self, now: Timestamp) {
        if self.window != before.window {
            before.forget_expired(state, now);
            state.latest = state.latest.max(now);
        }
    }

    fn spent(&self, state: &SlidingLogState, now: Timestamp) -> u64 {
        state.used - self.expired(state, now).1
    }
}
