/// How a call ended, as windows count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) is_failure: bool,
    pub(super) is_slow: bool,
}

/// How many calls there were, and how many of them failed or were slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u32,
    pub(super) failures: u32,
    pub(super) slow: u32,
}

impl Counts {
    pub(super) const fn add(&mut self, ended: Ended) {
        self.calls = self.calls.saturating_add(1);
        self.failures = self.failures.saturating_add(ended.is_failure as u32);
        self.slow = self.slow.saturating_add(ended.is_slow as u32);
    }

    pub(super) const fn remove(&mut self, others: Self) {
        self.calls = self.calls.saturating_sub(others.calls);
        self.failures = self.failures.saturating_sub(others.failures);
        self.slow = self.slow.saturating_sub(others.slow);
    }
}
