//! What a request was charged: in Redis, and in this process' own memory.

use std::fmt;

use tidegate_policy::{Algorithm, Ticket, Timestamp};

use crate::key::Key;
use crate::limit::SharedLimit;
use crate::numbers::Numbers;

/// What Redis charged one level, with all that is needed to return it.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) keys: Vec<String>,
    pub(crate) numbers: Numbers,
    pub(crate) cost: u32,
    /// When, owed, returned, run: the script's own marks.
    pub(crate) receipt: [i64; 4],
}

impl Charge {
    pub(crate) fn is_slot(&self) -> bool {
        self.numbers.algorithm == Algorithm::Concurrency
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let numbers = Numbers { algorithm: Algorithm::Concurrency, args: [1, 1, 0] };
        Self { keys: Vec::new(), numbers, cost: 1, receipt: [0; 4] }
    }
}

/// What was taken from memory.
pub(crate) struct LocalTicket {
    pub(crate) limit: SharedLimit,
    pub(crate) key: Key,
    pub(crate) ticket: Ticket,
    /// From a lease, or from the counts that this process keeps while Redis is away.
    pub(crate) of_lease: bool,
}

impl fmt::Debug for LocalTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalTicket({}, {:?})", self.limit.name(), self.key)
    }
}

impl LocalTicket {
    /// The limit and the key of its lease, if that lease runs low.
    pub(crate) fn low_lease(&self) -> Option<(&SharedLimit, Key)> {
        (self.of_lease && self.ticket.receipt().marks().owed > 0).then_some((&self.limit, self.key))
    }

    fn is_slot(&self) -> bool {
        !self.of_lease && self.ticket.is_slot()
    }

    pub(crate) fn give_back(self, now: Timestamp) {
        if self.of_lease {
            self.limit.leases().give_back(&self.key, self.ticket, now);
        } else {
            self.limit.local().give_back(&self.key, self.ticket, now);
        }
    }
}

/// What a request was charged, to [give it back](crate::Store::give_back). Dropping it gives nothing back.
#[derive(Debug, Default)]
pub struct Charged {
    pub(crate) exact: Vec<Charge>,
    pub(crate) local: Vec<LocalTicket>,
}

impl Charged {
    /// Only the slots: what must come back when a request is done, while what it spent stays spent.
    #[must_use]
    pub fn only_slots(mut self) -> Self {
        self.exact.retain(Charge::is_slot);
        self.local.retain(LocalTicket::is_slot);
        self
    }

    /// Takes over what is charged in `other`.
    pub fn append(&mut self, mut other: Self) {
        self.exact.append(&mut other.exact);
        self.local.append(&mut other.local);
    }

    /// Whether there is nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.local.is_empty()
    }
}
