//! Bulkheads: how many calls to one service may be in flight, so that it can't take all that a program has.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

use crate::invalid_setting::InvalidSetting;
use crate::lock::lock;

/// How many calls may be in flight, and how many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkheadSettings {
    /// The most calls in flight, from 1 to 1,000,000.
    pub limit: u32,
    /// The most calls that wait, up to 100,000.
    pub queue: u32,
}

/// Bounds the calls in flight, so that one slow service can't take all that a program has. A bounded number may wait
/// for a slot, in the order of arrival.
///
/// `W` is how one that waits is woken: this crate wakes nobody itself. `tidegate_wait::Bulkhead` waits in tasks and
/// threads.
///
/// ```
/// use tidegate_policy::bulkhead::{Bulkhead, BulkheadSettings, Entry};
///
/// let bulkhead = Bulkhead::new(BulkheadSettings { limit: 1, queue: 1 })?;
/// assert_eq!(bulkhead.enter(true, || "ann"), Entry::Entered);
/// assert!(matches!(bulkhead.enter(true, || "bob"), Entry::Queued(_)));
/// assert_eq!(bulkhead.enter(true, || "cem"), Entry::Full);
/// assert_eq!(bulkhead.leave(), Some("bob")); // ann is done, and bob has the slot
/// assert_eq!(bulkhead.leave(), None);
/// # Ok::<(), tidegate_policy::InvalidSetting>(())
/// ```
pub struct Bulkhead<W> {
    inner: Mutex<Inner<W>>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It has a slot: [`Bulkhead::leave`] gives it back.
    Entered,
    /// It waits: it has a slot once [`Bulkhead::leave`] returns its waiter. [`Bulkhead::cancel`] ends the wait.
    Queued(Ticket),
    /// There is neither a slot nor room to wait.
    Full,
}

/// The place of a call in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A bulkhead at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkheadSnapshot {
    /// How many may be in flight, and how many may wait.
    pub settings: BulkheadSettings,
    /// The calls in flight.
    pub in_flight: u32,
    /// The calls that wait.
    pub waiting: u32,
    /// The calls that got a slot since the bulkhead was made.
    pub entered: u64,
    /// The calls that had to wait.
    pub queued: u64,
    /// The calls that found neither a slot nor room to wait.
    pub rejected: u64,
    /// The calls that ended their wait without a slot.
    pub cancelled: u64,
}

struct Inner<W> {
    settings: BulkheadSettings,
    in_flight: u32,
    /// In the order of their tickets.
    waiting: VecDeque<(Ticket, W)>,
    next_ticket: u64,
    entered: u64,
    rejected: u64,
    cancelled: u64,
}

impl BulkheadSettings {
    /// These settings, if a bulkhead can have them.
    pub fn checked(self) -> Result<Self, InvalidSetting> {
        const MOST: u32 = 1_000_000;
        const MOST_WAITING: u32 = 100_000;
        if !(1..=MOST).contains(&self.limit) {
            return Err(InvalidSetting::new("limit", format!("must be between 1 and {MOST}, got {}", self.limit)));
        }
        if self.queue > MOST_WAITING {
            return Err(InvalidSetting::new("queue", format!("must be at most {MOST_WAITING}, got {}", self.queue)));
        }
        Ok(self)
    }
}

impl<W> Bulkhead<W> {
    /// An empty bulkhead.
    pub fn new(settings: BulkheadSettings) -> Result<Self, InvalidSetting> {
        let settings = settings.checked()?;
        let inner = Inner {
            settings,
            in_flight: 0,
            waiting: VecDeque::new(),
            next_ticket: 0,
            entered: 0,
            rejected: 0,
            cancelled: 0,
        };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Takes a slot, or a place in the queue if it `may_wait`. `waiter` makes what wakes it.
    #[inline]
    pub fn enter(&self, may_wait: bool, waiter: impl FnOnce() -> W) -> Entry {
        let mut inner = lock(&self.inner);
        if inner.in_flight < inner.settings.limit {
            inner.in_flight += 1;
            inner.entered += 1;
            return Entry::Entered;
        }
        if !may_wait || inner.waiting.len() >= inner.settings.queue as usize {
            inner.rejected += 1;
            return Entry::Full;
        }
        let ticket = Ticket(inner.next_ticket);
        inner.next_ticket += 1;
        inner.waiting.push_back((ticket, waiter()));
        Entry::Queued(ticket)
    }

    /// Takes a slot if one is free, for work that can be left undone: otherwise nothing is counted as rejected.
    pub fn enter_if_free(&self) -> bool {
        let mut inner = lock(&self.inner);
        let is_free = inner.in_flight < inner.settings.limit;
        inner.in_flight += u32::from(is_free);
        inner.entered += u64::from(is_free);
        is_free
    }

    /// Gives a slot back. If somebody waits, the first of them has it now: wake this waiter.
    #[inline]
    #[must_use = "the waiter that is returned has the slot, and must be woken"]
    pub fn leave(&self) -> Option<W> {
        let mut inner = lock(&self.inner);
        inner.in_flight = inner.in_flight.saturating_sub(1);
        inner.admit_next()
    }

    /// Ends a wait. False: it does not wait any more, because it has a slot, which it must give back.
    #[must_use = "if it is false, a slot must be given back"]
    pub fn cancel(&self, ticket: Ticket) -> bool {
        let mut inner = lock(&self.inner);
        let Ok(index) = inner.waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else { return false };
        let removed = inner.waiting.remove(index);
        inner.cancelled += 1;
        drop(inner);
        drop(removed);
        true
    }

    /// Takes over other settings. Calls in flight and those that wait stay, also where they are more than may now be.
    /// Returns the waiters that have a slot now: wake them.
    #[must_use = "the waiters that are returned have slots, and must be woken"]
    pub fn change(&self, settings: BulkheadSettings) -> Result<Vec<W>, InvalidSetting> {
        let settings = settings.checked()?;
        let mut inner = lock(&self.inner);
        inner.settings = settings;
        Ok(std::iter::from_fn(|| inner.admit_next()).collect())
    }

    /// What it is and has counted.
    pub fn snapshot(&self) -> BulkheadSnapshot {
        let inner = lock(&self.inner);
        BulkheadSnapshot {
            settings: inner.settings,
            in_flight: inner.in_flight,
            waiting: u32::try_from(inner.waiting.len()).unwrap_or(u32::MAX),
            entered: inner.entered,
            queued: inner.next_ticket,
            rejected: inner.rejected,
            cancelled: inner.cancelled,
        }
    }
}

impl<W> Inner<W> {
    fn admit_next(&mut self) -> Option<W> {
        if self.in_flight >= self.settings.limit {
            return None;
        }
        let (_, waiter) = self.waiting.pop_front()?;
        self.in_flight += 1;
        self.entered += 1;
        Some(waiter)
    }
}

impl<W> fmt::Debug for Bulkhead<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bulkhead").field(&self.snapshot()).finish()
    }
}
