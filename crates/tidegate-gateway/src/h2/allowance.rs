//! Bounds on how often a client may do something, and what is left of them.

/// How often something may happen.
pub(super) struct Bound {
    pub(super) at_once: u64,
    pub(super) per_second: u64,
}

/// What is left of a bound, in thousandths of one.
pub(super) struct Allowance(u64);

impl Allowance {
    pub(super) fn full(bound: &Bound) -> Self {
        Self(bound.at_once * 1_000)
    }

    pub(super) fn refill(&mut self, bound: &Bound, millis: u64) {
        // What was earned on top of the bound is kept.
        if self.0 < bound.at_once * 1_000 {
            self.0 = (self.0 + millis.saturating_mul(bound.per_second)).min(bound.at_once * 1_000);
        }
    }

    pub(super) fn earn(&mut self, thousandths: u64, most: u64) {
        self.0 = (self.0 + thousandths).min(most * 1_000);
    }

    /// False if there is not enough left.
    pub(super) fn spend(&mut self, count: u64) -> bool {
        let left = self.0.checked_sub(count * 1_000);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}
