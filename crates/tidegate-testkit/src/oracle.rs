//! The definitions of the algorithms in their naive form: every admission is kept with its moment, and each question is
//! computed from that list anew, in 128-bit arithmetic. Slow, and with nothing in common with the code they judge.

use std::collections::VecDeque;

use crate::walk::Numbers;

pub trait Oracle {
    fn new(numbers: Numbers) -> Self;
    fn numbers(&self) -> Numbers;
    /// Would a request of so many tokens be admitted at this moment?
    fn admits(&self, tokens: u64, now: u64) -> bool;
    /// It was.
    fn admit(&mut self, tokens: u64, now: u64);
    /// What was admitted at `at` (by the oracle's reckoning) did not happen after all, as is known from `now` on.
    fn undo(&mut self, tokens: u64, at: u64, now: u64);
    fn change(&mut self, numbers: Numbers, now: u64);
    /// How long an admitted request has to wait.
    fn wait(&self, _now: u64) -> u64 {
        0
    }
}

type Admissions = VecDeque<(u64, u64)>;

/// An admission so old that it was dropped from the list weighs nothing any more, before and after.
fn remove(admissions: &mut Admissions, tokens: u64, at: u64) {
    if let Some(found) = admissions.iter().position(|entry| *entry == (at, tokens)) {
        admissions.remove(found);
    }
}

/// Counts by window, for the fixed window and the sliding counter.
struct Windows {
    numbers: Numbers,
    admissions: Admissions,
    latest: u64,
}

impl Windows {
    /// A clock that went back counts as the start of the latest window.
    fn clock(&self, now: u64) -> u64 {
        now.max(self.latest - self.latest % self.numbers.span)
    }

    fn used_in(&self, window: Option<u64>) -> u64 {
        let inside = |entry: &&(u64, u64)| Some(entry.0 / self.numbers.span) == window;
        self.admissions.iter().filter(inside).map(|(_, tokens)| tokens).sum()
    }

    fn admit(&mut self, tokens: u64, now: u64) {
        let now = self.clock(now);
        let old = now.saturating_sub(3 * self.numbers.span);
        self.admissions.retain(|(at, _)| *at >= old);
        self.admissions.push_back((now, tokens));
        self.latest = now;
    }

    /// Counts only if it was in one of the last windows, up to `reach` before the one of `now`.
    fn undo(&mut self, tokens: u64, at: u64, now: u64, reach: u64) {
        let now = self.clock(now);
        if now / self.numbers.span - at / self.numbers.span <= reach {
            remove(&mut self.admissions, tokens, at);
            self.latest = now;
        }
    }

    fn change(&mut self, numbers: Numbers, now: u64, used: u64) {
        if numbers.span != self.numbers.span {
            let now = self.clock(now);
            self.admissions = [(now, used.min(numbers.limit))].into();
            self.latest = now;
        }
        self.numbers = numbers;
    }
}

pub struct FixedWindowOracle(Windows);

impl Oracle for FixedWindowOracle {
    fn new(numbers: Numbers) -> Self {
        Self(Windows { numbers, admissions: VecDeque::new(), latest: 0 })
    }

    fn numbers(&self) -> Numbers {
        self.0.numbers
    }

    fn admits(&self, tokens: u64, now: u64) -> bool {
        let window = self.0.clock(now) / self.0.numbers.span;
        self.0.used_in(Some(window)) + tokens <= self.0.numbers.limit
    }

    fn admit(&mut self, tokens: u64, now: u64) {
        self.0.admit(tokens, now);
    }

    fn undo(&mut self, tokens: u64, at: u64, now: u64) {
        self.0.undo(tokens, at, now, 0);
    }

    fn change(&mut self, numbers: Numbers, now: u64) {
        let used = self.0.used_in(Some(self.0.clock(now) / self.0.numbers.span));
        self.0.change(numbers, now, used);
    }
}

pub struct SlidingCounterOracle(Windows);

impl SlidingCounterOracle {
    /// `previous · (window − elapsed) + current · window`: the estimate times the window.
    fn estimate(&self, now: u64) -> u128 {
        let (now, span) = (self.0.clock(now), self.0.numbers.span);
        let window = now / span;
        let previous = u128::from(self.0.used_in(window.checked_sub(1)));
        let current = u128::from(self.0.used_in(Some(window)));
        previous * u128::from(span - now % span) + current * u128::from(span)
    }
}

impl Oracle for SlidingCounterOracle {
    fn new(numbers: Numbers) -> Self {
        Self(Windows { numbers, admissions: VecDeque::new(), latest: 0 })
    }

    fn numbers(&self) -> Numbers {
        self.0.numbers
    }

    fn admits(&self, tokens: u64, now: u64) -> bool {
        let Numbers { limit, span, .. } = self.0.numbers;
        self.estimate(now) + u128::from(tokens) * u128::from(span) <= u128::from(limit) * u128::from(span)
    }

    fn admit(&mut self, tokens: u64, now: u64) {
        self.0.admit(tokens, now);
    }

    fn undo(&mut self, tokens: u64, at: u64, now: u64) {
        self.0.undo(tokens, at, now, 1);
    }

    fn change(&mut self, numbers: Numbers, now: u64) {
        let used = self.estimate(now).div_ceil(self.0.numbers.span.into()) as u64;
        self.0.change(numbers, now, used);
    }
}

/// The exact log; with `undo`, the concurrency limit.
pub struct LogOracle {
    numbers: Numbers,
    admissions: Admissions,
    latest: u64,
}

impl Oracle for LogOracle {
    fn new(numbers: Numbers) -> Self {
        Self { numbers, admissions: VecDeque::new(), latest: 0 }
    }

    fn numbers(&self) -> Numbers {
        self.numbers
    }

    fn admits(&self, tokens: u64, now: u64) -> bool {
        let now = now.max(self.latest);
        let inside = self.admissions.iter().filter(|(at, _)| now < at + self.numbers.span);
        inside.map(|(_, tokens)| tokens).sum::<u64>() + tokens <= self.numbers.limit
    }

    fn admit(&mut self, tokens: u64, now: u64) {
        self.latest = now.max(self.latest);
        self.admissions.retain(|(at, _)| self.latest < at + self.numbers.span);
        self.admissions.push_back((self.latest, tokens));
    }

    fn undo(&mut self, tokens: u64, at: u64, _now: u64) {
        remove(&mut self.admissions, tokens, at);
    }

    fn change(&mut self, numbers: Numbers, now: u64) {
        if numbers.span != self.numbers.span {
            self.latest = now.max(self.latest);
            self.admissions.retain(|(at, _)| self.latest < at + self.numbers.span);
        }
        self.numbers = numbers;
    }
}

/// A token bucket without a level: what was admitted in any span up to now, and this request, fit into the capacity and
/// what flowed in during that span. Counted in units of `1/span` tokens, so that everything is whole.
pub struct BucketOracle {
    numbers: Numbers,
    admissions: VecDeque<(u64, u128)>,
}

impl BucketOracle {
    /// The most by which any span up to now has used more than flowed in.
    fn owed(&self, now: u64) -> i128 {
        let mut since = 0_i128;
        let spans = self.admissions.iter().rev().map(|(at, units)| {
            since += *units as i128;
            since - i128::from(self.numbers.tokens) * (i128::from(now) - i128::from(*at))
        });
        spans.fold(0, i128::max)
    }

    fn units(&self, tokens: u64) -> i128 {
        i128::from(tokens) * i128::from(self.numbers.span)
    }
}

impl Oracle for BucketOracle {
    fn new(numbers: Numbers) -> Self {
        Self { numbers, admissions: VecDeque::new() }
    }

    fn numbers(&self) -> Numbers {
        self.numbers
    }

    fn admits(&self, tokens: u64, now: u64) -> bool {
        self.owed(now) + self.units(tokens) <= self.units(self.numbers.limit)
    }

    fn admit(&mut self, tokens: u64, now: u64) {
        let units = self.units(tokens) as u128;
        if self.owed(now) == 0 {
            self.admissions.clear(); // whatever came before has flowed in again
        }
        self.admissions.push_back((now, units));
    }

    fn undo(&mut self, tokens: u64, at: u64, _now: u64) {
        let entry = (at, self.units(tokens) as u128);
        if let Some(found) = self.admissions.iter().position(|other| *other == entry) {
            self.admissions.remove(found);
        }
    }

    fn change(&mut self, numbers: Numbers, now: u64) {
        if numbers == self.numbers {
            return;
        }
        let owed = self.owed(now).min(self.units(self.numbers.limit)) as u128;
        // A fraction is carried over, rounded up to the units in which the limiter counts: the fraction in lowest
        // terms.
        let divisor = |n: Numbers| u128::from(gcd(n.tokens, n.span));
        let (before, after) = (divisor(self.numbers), divisor(numbers));
        let (unit_before, unit_after) = (u128::from(self.numbers.span) / before, u128::from(numbers.span) / after);
        let converted = (owed.div_ceil(before) * unit_after).div_ceil(unit_before) * after;
        self.numbers = numbers;
        self.admissions = [(now, converted.min(self.units(numbers.limit) as u128))].into();
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A queue before a way out that lets one token pass each `span / tokens`: all departures are worked out one after
/// another.
pub struct LeakyOracle {
    bucket: BucketOracle,
}

impl LeakyOracle {
    /// When the way out is free, in units of `1/tokens` nanoseconds.
    fn free(&self) -> u128 {
        let Numbers { tokens, .. } = self.bucket.numbers;
        self.bucket
            .admissions
            .iter()
            .fold(0, |free, (at, units)| free.max(u128::from(*at) * u128::from(tokens)) + units)
    }
}

impl Oracle for LeakyOracle {
    fn new(numbers: Numbers) -> Self {
        Self { bucket: BucketOracle::new(numbers) }
    }

    fn numbers(&self) -> Numbers {
        self.bucket.numbers
    }

    /// `limit` is the queue and one more: the request that need not wait.
    fn admits(&self, tokens: u64, now: u64) -> bool {
        let Numbers { limit, tokens: pay, span } = self.bucket.numbers;
        let wait = self.free().saturating_sub(u128::from(now) * u128::from(pay));
        wait + u128::from(tokens) * u128::from(span) <= u128::from(limit) * u128::from(span)
    }

    fn admit(&mut self, tokens: u64, now: u64) {
        self.bucket.admit(tokens, now);
    }

    fn undo(&mut self, tokens: u64, at: u64, now: u64) {
        self.bucket.undo(tokens, at, now);
    }

    fn change(&mut self, numbers: Numbers, now: u64) {
        self.bucket.change(numbers, now);
    }

    fn wait(&self, now: u64) -> u64 {
        let pay = u128::from(self.bucket.numbers.tokens);
        self.free().saturating_sub(u128::from(now) * pay).div_ceil(pay) as u64
    }
}
