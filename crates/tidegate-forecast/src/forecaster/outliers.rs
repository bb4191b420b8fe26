use std::collections::VecDeque;

use crate::History;

/// Holds back implausible values: one far above all before it, or one from a time so late that everything known would
/// be forgotten. Such a value is accepted when the next one confirms it. A spike is also accepted when there were a few
/// like it.
///
/// A single such value would otherwise become the forecast of the next second, hide the cycle for as long as it is
/// remembered, and make all models look equally bad. A real rise is accepted a step later.
#[derive(Default)]
pub(super) struct OutlierFilter {
    /// The newest implausible values.
    held: VecDeque<(i64, f64)>,
    /// Whether the last value of the series is the last of them.
    is_last: bool,
}

/// A value is implausible above this many times what has been seen [`SEEN`] times, and above this many requests.
const STRANGE: f64 = 5.0;
const HIGH: f64 = 100.0;
const SEEN: usize = 5;
/// With fewer known values than this, every value is accepted.
const FEWEST: usize = 10;

impl OutlierFilter {
    /// Whether this value is accepted. `kept` are the steps after which what is known would be forgotten.
    pub(super) fn accepts(&mut self, history: History<'_>, kept: usize, second: i64, value: f64) -> bool {
        let memory = kept as i64 * i64::from(history.step);
        let is_far = second >= history.end() + memory;
        let is_strange = value > HIGH && value > STRANGE * self.seen(history);
        if !(is_far || is_strange) || history.values.len() < FEWEST {
            self.is_last = false;
            return true;
        }
        let last = self.held.back().filter(|_| self.is_last);
        let is_repeated = last.is_some_and(|(at, before)| {
            let is_near = !is_far || second - at < memory;
            second > *at && is_near && (!is_strange || value <= STRANGE * before)
        });
        // A late value fills a gap at best, and confirms nothing.
        if second >= history.end() {
            self.held.push_back((second, value));
            self.held.drain(..self.held.len().saturating_sub(SEEN));
            self.is_last = true;
        }
        is_repeated
    }

    /// The highest value that has been seen [`SEEN`] times, held back or not.
    fn seen(&self, history: History<'_>) -> f64 {
        let held = self.held.iter().filter(|(second, _)| *second >= history.start).map(|(_, value)| *value as f32);
        let mut highest = [0.0_f32; SEEN];
        for value in history.values.iter().copied().chain(held) {
            if value > highest[0] {
                let above = highest.iter().filter(|known| value > **known).count();
                highest.copy_within(1..above, 0);
                highest[above - 1] = value;
            }
        }
        f64::from(highest[0])
    }
}
