use std::sync::Mutex;

use crate::Timestamp;
use crate::invalid_setting::InvalidSetting;
use crate::lock::lock;
use crate::numbers::figure;

/// How long calls and retries count.
const SECONDS: usize = 10;
const NANOS_OF_SECOND: u64 = 1_000_000_000;

/// How many retries a program may make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSettings {
    /// So many retries for each call, from 0 to 10.
    pub share: f64,
    /// And so many each second whatever the calls, from 0 to 1,000,000: without them a program with few calls could
    /// hardly ever retry.
    pub floor: f64,
}

/// A fifth of the calls, and 10 a second.
impl Default for BudgetSettings {
    fn default() -> Self {
        Self { share: 0.2, floor: 10.0 }
    }
}

/// Bounds the retries of a whole program: in any ten seconds there are at most `share` of the calls that began in
/// them, and `floor` each second. All threads share it.
#[derive(Debug)]
pub struct RetryBudget {
    inner: Mutex<Inner>,
}

/// A budget at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSnapshot {
    /// The calls that began in the last ten seconds.
    pub calls: u64,
    /// The retries in the same time.
    pub retries: u64,
    /// The retries that are left.
    pub left: u64,
    /// The retries that were permitted since the budget was made.
    pub permitted: u64,
    /// The retries that were not.
    pub denied: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    calls: u64,
    retries: u64,
}

#[derive(Debug)]
struct Inner {
    settings: BudgetSettings,
    /// The latest second, counted from the epoch.
    latest: u64,
    seconds: [Second; SECONDS],
    sum: Second,
    permitted: u64,
    denied: u64,
}

impl BudgetSettings {
    /// These settings, if a budget can have them.
    pub fn checked(self) -> Result<Self, InvalidSetting> {
        let check = |field, value: f64, most: f64| {
            let is_valid = (0.0..=most).contains(&value);
            let invalid = || InvalidSetting::new(field, format!("must be between 0 and {most}, got {value}"));
            if is_valid { Ok(()) } else { Err(invalid()) }
        };
        check("share", self.share, 10.0)?;
        check("floor", self.floor, 1e6)?;
        Ok(self)
    }
}

impl RetryBudget {
    /// A budget that has counted nothing yet.
    pub fn new(settings: BudgetSettings) -> Result<Self, InvalidSetting> {
        let settings = settings.checked()?;
        let seconds = [Second::default(); SECONDS];
        let inner = Inner { settings, latest: 0, seconds, sum: Second::default(), permitted: 0, denied: 0 };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Counts a call: its first attempt, not its retries.
    #[inline]
    pub fn call_began(&self, now: Timestamp) {
        let mut inner = lock(&self.inner);
        let second = inner.second(now);
        second.calls += 1;
        inner.sum.calls += 1;
    }

    /// Takes a retry, if there is one left.
    pub fn take(&self, now: Timestamp) -> bool {
        let mut inner = lock(&self.inner);
        inner.second(now);
        if inner.left() == 0 {
            inner.denied += 1;
            return false;
        }
        inner.second(now).retries += 1;
        inner.sum.retries += 1;
        inner.permitted += 1;
        true
    }

    /// Whether one is left: what it takes to get ready for a retry is not worth it otherwise.
    pub fn has_left(&self, now: Timestamp) -> bool {
        let mut inner = lock(&self.inner);
        inner.second(now);
        inner.left() > 0
    }

    /// Counts something that was sent again without asking: it leaves less for others.
    pub fn spend(&self, now: Timestamp) {
        let mut inner = lock(&self.inner);
        inner.second(now).retries += 1;
        inner.sum.retries += 1;
        inner.permitted += 1;
    }

    /// Takes over other settings. What it counted stays.
    pub fn change(&self, settings: BudgetSettings) -> Result<(), InvalidSetting> {
        let settings = settings.checked()?;
        lock(&self.inner).settings = settings;
        Ok(())
    }

    /// What is left, and what was counted.
    pub fn snapshot(&self, now: Timestamp) -> BudgetSnapshot {
        let mut inner = lock(&self.inner);
        inner.second(now);
        let Second { calls, retries } = inner.sum;
        BudgetSnapshot { calls, retries, left: inner.left(), permitted: inner.permitted, denied: inner.denied }
    }
}

impl Inner {
    /// This second. Those that are over for ten seconds count no more. A time before the latest second counts in it.
    fn second(&mut self, now: Timestamp) -> &mut Second {
        let number = now.as_nanos() / NANOS_OF_SECOND;
        let passed = number.saturating_sub(self.latest);
        for second in 1..=passed.min(SECONDS as u64) {
            let over = std::mem::take(&mut self.seconds[index(self.latest + second)]);
            self.sum.calls -= over.calls;
            self.sum.retries -= over.retries;
        }
        self.latest = self.latest.max(number);
        &mut self.seconds[index(self.latest)]
    }

    fn left(&self) -> u64 {
        // What arithmetic leaves of a whole number is one: a fifth of 15 is 3.
        const FUZZ: f64 = 1e-9;
        let budget = self.settings.share * figure(self.sum.calls) + self.settings.floor * figure(SECONDS as u64);
        ((budget + FUZZ).floor() as u64).saturating_sub(self.sum.retries)
    }
}

const fn index(second: u64) -> usize {
    (second % SECONDS as u64) as usize
}
