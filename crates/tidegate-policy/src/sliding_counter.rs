use std::time::Duration;

use crate::invalid_limit::{count, span};
use crate::receipt::Receipt;
use crate::{Cost, Decision, InvalidLimit, Limiter, Timestamp};

/// Two fixed windows, the previous one weighted by how much of it still lies within reach: a sliding window for two
/// counters.
///
/// ```text
/// estimate(t) = previous · (window − elapsed)/window + current        admit iff estimate(t) + cost ≤ limit
/// ```
///
/// The comparison is exact, in integers; only the assumption behind it, that the previous window's requests came
/// evenly, is not. A clock that goes back counts as the start of the latest window seen.
///
/// Against the exact log: wrong by as much as the previous window was uneven.
/// Measured on an hour of bursts (`make demo`): worst window 1.79 ×, 3.8 % of decisions unlike the log's.
/// Cloudflare saw 0.003 % wrong decisions on 400 million requests.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::{Cost, Limiter, SlidingCounter, Timestamp};
///
/// let limit = SlidingCounter::new(10, Duration::from_secs(10))?;
/// let (mut key, second) = (Default::default(), |s: u64| Timestamp::from_nanos(s * 1_000_000_000));
/// assert!(limit.check(&mut key, Cost::new(10).expect("ten"), second(9)).is_admitted());
/// // 4 s into the next window 60 % of the ten still count, so four are left.
/// assert_eq!(limit.check(&mut key, Cost::ONE, second(14)).remaining(), 3);
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: u64,
    window: u64,
}

/// The latest window a key was admitted in, what it used of it and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlidingCounterState {
    index: u64,
    current: u32,
    previous: u32,
}

/// A state looked at from a moment: the counts, and how much of the previous window is still within reach.
struct View {
    state: SlidingCounterState,
    reach: u64,
    frozen: u64,
}

impl SlidingCounter {
    /// About `limit` tokens in any `window`.
    pub fn new(limit: u64, window: Duration) -> Result<Self, InvalidLimit> {
        Ok(Self { limit: count("limit", limit, u32::MAX.into())?, window: span("window", window)? })
    }

    /// Tokens per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    fn view(&self, state: &SlidingCounterState, now: Timestamp) -> View {
        let now = now.as_nanos();
        let index = (now / self.window).max(state.index);
        let state = match index - state.index {
            0 => *state,
            1 => SlidingCounterState { index, current: 0, previous: state.current },
            _ => SlidingCounterState { index, current: 0, previous: 0 },
        };
        let start = index * self.window;
        View { state, reach: self.window - now.saturating_sub(start), frozen: start.saturating_sub(now) }
    }

    /// The estimate, begun tokens counted whole: `current + ⌈previous · reach / window⌉`.
    fn estimate(&self, View { state, reach, .. }: &View) -> u64 {
        let weighted = u128::from(state.previous) * u128::from(*reach);
        u64::from(state.current) + weighted.div_ceil(self.window.into()) as u64
    }

    /// How far the previous window may still reach if `used` of it are to weigh no more than `room`.
    fn reach_for(&self, room: u64, used: u32) -> u64 {
        (u128::from(room) * u128::from(self.window) / u128::from(used.max(1))) as u64
    }

    fn retry_after(&self, View { state, reach, frozen }: &View, cost: u64) -> Option<Duration> {
        let room = self.limit.checked_sub(cost)?;
        let nanos = match room.checked_sub(state.current.into()) {
            // This window has room once the previous one weighs less …
            Some(room) => reach - self.reach_for(room, state.previous),
            // … or it has none, and will be the previous one itself.
            None => reach + (self.window - self.reach_for(room, state.current)),
        };
        Some(Duration::from_nanos(frozen + nanos))
    }
}

impl Limiter for SlidingCounter {
    type State = SlidingCounterState;

    fn decide(&self, state: &SlidingCounterState, cost: Cost, now: Timestamp) -> Decision {
        let view = self.view(state, now);
        let left = self.limit.saturating_sub(self.estimate(&view));
        let this_window = view.frozen + view.reach;
        match left.checked_sub(cost.tokens()) {
            Some(remaining) => Decision::Admit {
                wait: Duration::ZERO,
                remaining,
                reset_after: Duration::from_nanos(this_window + self.window),
            },
            None => Decision::Reject {
                retry_after: self.retry_after(&view, cost.tokens()),
                remaining: left,
                reset_after: Duration::from_nanos(match view.state {
                    SlidingCounterState { current: 0, previous: 0, .. } => 0,
                    SlidingCounterState { current: 0, .. } => this_window,
                    _ => this_window + self.window,
                }),
            },
        }
    }

    fn take(&self, state: &mut SlidingCounterState, cost: Cost, now: Timestamp) -> Receipt {
        let view = self.view(state, now);
        *state = view.state;
        state.current += cost.get(); // admitted, so at most `limit`, which is a u32
        Receipt::unmarked(now.later(view.frozen), cost)
    }

    fn give_back(&self, state: &mut SlidingCounterState, receipt: &Receipt, now: Timestamp) {
        let mut seen = self.view(state, now).state;
        match seen.index.checked_sub(receipt.at().as_nanos() / self.window) {
            Some(0) => seen.current = seen.current.saturating_sub(receipt.cost().get()),
            Some(1) => seen.previous = seen.previous.saturating_sub(receipt.cost().get()),
            _ => return,
        }
        *state = seen;
    }

    /// Another limit: what was used stays used. Another window length: it starts with the estimate spent, at most all.
    fn adopt(&self, state: &mut SlidingCounterState, before: &Self, now: Timestamp) {
        if self.window != before.window {
            let view = before.view(state, now);
            let current = before.estimate(&view).min(self.limit) as u32;
            *state =
                SlidingCounterState { index: now.later(view.frozen).as_nanos() / self.window, current, previous: 0 };
        }
    }

    fn spent(&self, state: &SlidingCounterState, now: Timestamp) -> u64 {
        self.estimate(&self.view(state, now))
    }
}
