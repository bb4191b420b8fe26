//! What happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Job;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Occurrence {
    /// A shaper lets a request go.
    Leaves(Job),
    /// A client sends a request again.
    Again(Job),
    /// A wait of a request is over.
    GoesOn {
        passage: u64,
        /// Its number among those of the request.
        wait: u64,
    },
    /// A worker is done with a request.
    Served(Job),
    /// A client has waited for too long.
    GivesUp,
    /// The fault with this index.
    FaultBegins(usize),
    FaultEnds(usize),
    /// The gateway notices that Redis is away.
    RedisIsAway,
    RedisIsBack {
        /// Whether Redis has lost its data.
        forgets: bool,
    },
    /// Adaptation has something to do.
    Pilot,
    /// An attempt ends without a response, if it has none by now.
    Deadline {
        /// Its number.
        attempt: u64,
    },
    /// A first attempt gets another one beside it, if it has no response by now.
    Hedge {
        /// Its number.
        attempt: u64,
    },
    /// The gateway checks all targets of an upstream.
    ChecksBegin {
        upstream: usize,
    },
    /// The result of a check.
    Checked {
        upstream: usize,
        endpoint: usize,
        passed: bool,
    },
}

/// Occurrences in the order of their times; those of the same time in the order in which they were added.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Entry>>,
    count: u64,
}

struct Entry {
    at: u64,
    number: u64,
    what: Occurrence,
}

impl Entry {
    fn order(&self) -> (u64, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl Events {
    pub(super) fn push(&mut self, at: u64, what: Occurrence) {
        self.heap.push(Reverse(Entry { at, number: self.count, what }));
        self.count += 1;
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Occurrence)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}
