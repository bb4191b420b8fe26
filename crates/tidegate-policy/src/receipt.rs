use crate::{Cost, Timestamp};

/// Proof of what was taken, needed to [give it back](crate::Limiter::give_back).
///
/// It is good only for the limiter that issued it, under the numbers it had then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    at: Timestamp,
    cost: Cost,
    marks: Marks,
}

/// What a limiter writes on a [`Receipt`] to recognise it later; zero where it needs no such mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// What the key owed right after, in the limiter's own units.
    pub owed: u64,
    /// How many tokens had ever been given back on this key by then.
    pub returned: u32,
    /// The run of requests it belongs to, from one full bucket to the next.
    pub run: u32,
}

impl Receipt {
    /// A receipt for `cost`, taken `at` this moment, by the limiter's own reckoning of a clock that may have gone back.
    pub const fn new(at: Timestamp, cost: Cost, marks: Marks) -> Self {
        Self { at, cost, marks }
    }

    /// A receipt without marks, for a limiter that needs none.
    pub(crate) const fn unmarked(at: Timestamp, cost: Cost) -> Self {
        Self::new(at, cost, Marks { owed: 0, returned: 0, run: 0 })
    }

    /// When it was taken.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// What was taken.
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// What the limiter has written on it.
    pub const fn marks(&self) -> Marks {
        self.marks
    }
}
