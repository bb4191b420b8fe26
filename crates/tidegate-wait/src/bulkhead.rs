use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::InvalidSetting;
use tidegate_policy::bulkhead::{Bulkhead as Slots, BulkheadSettings, BulkheadSnapshot, Entry, Ticket};
use tokio::time::Instant;

use crate::signal::{Signal, unparker};

/// Bounds the calls in flight, and lets a bounded number wait for a slot, in tasks and in threads, in the order of
/// arrival. Clones are the same bulkhead.
#[derive(Clone, Debug)]
pub struct Bulkhead(Arc<Slots<Arc<Signal>>>);

/// There is neither a slot nor room to wait, or the wait was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEntered {
    /// All slots are taken, and as many wait as may.
    Full,
    /// No slot became free in time.
    Timeout,
}

impl fmt::Display for NotEntered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the bulkhead is full"),
            Self::Timeout => f.write_str("no slot of the bulkhead became free in time"),
        }
    }
}

impl std::error::Error for NotEntered {}

/// A slot of a [`Bulkhead`]. Dropping it gives it back, and the next one that waits has it.
#[derive(Debug)]
#[must_use = "dropping it gives the slot back"]
pub struct Slot(Bulkhead);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Bulkhead {
    /// An empty bulkhead.
    pub fn new(settings: BulkheadSettings) -> Result<Self, InvalidSetting> {
        Ok(Self(Arc::new(Slots::new(settings)?)))
    }

    /// Takes a slot if one is free.
    #[inline]
    pub fn try_enter(&self) -> Option<Slot> {
        let is_entered = self.0.enter(false, Arc::default) == Entry::Entered;
        is_entered.then(|| Slot(self.clone()))
    }

    /// The same for work that can be left undone: if no slot is free, nothing is counted as rejected.
    pub fn enter_if_free(&self) -> Option<Slot> {
        self.0.enter_if_free().then(|| Slot(self.clone()))
    }

    /// Takes a slot, and waits for one up to `timeout`. Dropping the future leaves the queue.
    ///
    /// Needs a Tokio runtime with timers if it has to wait.
    pub async fn enter(&self, timeout: Duration) -> Result<Slot, NotEntered> {
        match self.begin(timeout)? {
            Begun::Entered(slot) => Ok(slot),
            Begun::Waits(waiting) => waiting.wait().await,
        }
    }

    /// The first step of [`enter`](Self::enter), which does not wait: takes a slot if one is free, and otherwise queues
    /// for up to `timeout`.
    #[inline]
    pub fn begin(&self, timeout: Duration) -> Result<Begun, NotEntered> {
        let mut signal = None;
        let waiter = || Arc::clone(signal.insert(Arc::new(Signal::default())));
        match self.0.enter(!timeout.is_zero(), waiter) {
            Entry::Entered => Ok(Begun::Entered(Slot(self.clone()))),
            Entry::Queued(ticket) => {
                let (bulkhead, signal) = (self.clone(), signal.unwrap_or_default());
                Ok(Begun::Waits(Waiting { bulkhead, ticket: Some(ticket), signal, timeout }))
            }
            Entry::Full => Err(NotEntered::Full),
        }
    }

    /// The same for threads: blocks this one.
    pub fn enter_blocking(&self, timeout: Duration) -> Result<Slot, NotEntered> {
        let mut waiting = match self.begin(timeout)? {
            Begun::Entered(slot) => return Ok(slot),
            Begun::Waits(waiting) => waiting,
        };
        let (waker, until) = (unparker(), Instant::now() + timeout);
        while waiting.signal.poll(&waker).is_pending() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return waiting.give_up();
            }
            std::thread::park_timeout(left);
        }
        Ok(waiting.entered())
    }

    /// Takes over other settings. Calls in flight and those that wait stay.
    pub fn change(&self, settings: BulkheadSettings) -> Result<(), InvalidSetting> {
        self.0.change(settings)?.iter().for_each(|admitted| admitted.send());
        Ok(())
    }

    /// What it is and has counted.
    pub fn snapshot(&self) -> BulkheadSnapshot {
        self.0.snapshot()
    }

    fn leave(&self) {
        if let Some(admitted) = self.0.leave() {
            admitted.send();
        }
    }
}

/// What becomes of a call that may wait.
#[derive(Debug)]
pub enum Begun {
    /// It has a slot.
    Entered(Slot),
    /// It is in the queue.
    Waits(Waiting),
}

/// One that waits for a slot. Dropping it leaves the queue, or gives back the slot that it has had since.
#[derive(Debug)]
#[must_use = "dropping it leaves the queue"]
pub struct Waiting {
    bulkhead: Bulkhead,
    /// Taken when the wait is over.
    ticket: Option<Ticket>,
    signal: Arc<Signal>,
    timeout: Duration,
}

impl Waiting {
    /// Waits for the slot. Dropping the future leaves the queue.
    ///
    /// Needs a Tokio runtime with timers.
    pub async fn wait(mut self) -> Result<Slot, NotEntered> {
        let signalled = poll_fn(|context| self.signal.poll(context.waker()));
        match tokio::time::timeout(self.timeout, signalled).await {
            Ok(()) => Ok(self.entered()),
            Err(_) => self.give_up(),
        }
    }

    /// It has been woken, because it has a slot.
    fn entered(&mut self) -> Slot {
        self.ticket = None;
        Slot(self.bulkhead.clone())
    }

    /// Its time is over. It may have got a slot at this very moment.
    fn give_up(&mut self) -> Result<Slot, NotEntered> {
        let is_out = self.ticket.take().is_none_or(|ticket| self.bulkhead.0.cancel(ticket));
        if is_out { Err(NotEntered::Timeout) } else { Ok(Slot(self.bulkhead.clone())) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take()
            && !self.bulkhead.0.cancel(ticket)
        {
            self.bulkhead.leave();
        }
    }
}
