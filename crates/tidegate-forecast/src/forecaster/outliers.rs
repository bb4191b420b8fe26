use std::collections::VecDeque;

use crate::History;

/// Holds back what is too strange to be believed at once: a value far above all before it, or one from a time at which
/// nothing that is known would count any more. It is believed when the next one tells the same, and so is a spike when
/// there were a few like it.
///
/// One such value would otherwise be what the next second is expected to be, hide the cycle for as long as it is
/// remembered, and make all models look equally bad. A rise that is real is believed a step later.
#[derive(Default)]
pub(super) struct Doubt {
    /// The newest ones that were strange.
    held: VecDeque<(i64, f64)>,
    /// Whether the last value of all was the last of them.
    is_last: bool,
}

/// So many times as high as what has been seen a few times is strange; not below so many requests.
const STRANGE: f64 = 5.0;
const HIGH: f64 = 100.0;
/// So often.
const SEEN: usize = 5;
/// Before so many are known nothing is strange.
const FEWEST: usize = 10;

impl Doubt {
    /// Whether this value can be believed. `kept` are the steps after which what is known would be forgotten.
    pub(super) fn believes(&mut self, history: History<'_>, kept: usize, second: i64, value: f64) -> bool {
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
        // A late one fills a gap at best, and says nothing about what comes.
        if second >= history.end() {
            self.held.push_back((second, value));
            self.held.drain(..self.held.len().saturating_sub(SEEN));
            self.is_last = true;
        }
        is_repeated
    }

    /// The highest value that has been seen so often, held back or not.
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
