//! Limits in this process' own memory: leases in hand, and all of them while Redis is away.

use tidegate_policy::{Keyed, Level, Limiter, Rule, Timestamp, check_all, give_back_all};

use crate::charge::{Charged, LocalTicket};
use crate::key::Key;
use crate::lease::Lease;
use crate::limit::SharedLevel;
use crate::verdict::{FailureMode, Source, Verdict};

/// Decides from memory, by this process' own counts.
pub(crate) fn check(levels: &[SharedLevel<'_>], now: Timestamp) -> Verdict {
    let mut asked: Vec<Level<'_, Key, Rule>> = levels.iter().map(|level| ask(level, level.limit.local())).collect();
    let admitted = check_all(&mut asked, now).is_ok();
    let local = if admitted { tickets(levels.iter(), &mut asked, false) } else { Vec::new() };
    let decisions = asked.iter().filter_map(|level| level.decision).collect();
    Verdict::new(Source::Failure(FailureMode::Local), decisions, Charged { local, exact: Vec::new() })
}

fn ask<'a, L: Limiter>(level: &'a SharedLevel<'_>, store: &'a Keyed<Key, L>) -> Level<'a, Key, L> {
    Level::new(level.limit.name(), store, &level.key, level.cost)
}

/// Tickets for what an admitted [`check_all`] took.
pub(crate) fn tickets<'a, 'b: 'a, L: Limiter>(
    levels: impl Iterator<Item = &'a SharedLevel<'b>>,
    asked: &mut [Level<'_, Key, L>],
    of_lease: bool,
) -> Vec<LocalTicket> {
    let taken = levels.zip(asked).filter_map(|(level, asked)| Some((level, asked.take_ticket()?)));
    taken.map(|(level, ticket)| LocalTicket { limit: level.limit.clone(), key: level.key, ticket, of_lease }).collect()
}

/// The leases of a request's levels. What was taken from them is put back when this goes out of scope, unless its
/// tickets were taken: a client may go away at any await.
pub(crate) struct FromLeases<'a> {
    pub(crate) levels: Vec<Level<'a, Key, Lease>>,
    now: Timestamp,
}

impl<'a> FromLeases<'a> {
    pub(crate) fn new(levels: &[&'a SharedLevel<'_>], now: Timestamp) -> Self {
        Self { levels: levels.iter().map(|level| ask(level, level.limit.leases())).collect(), now }
    }
}

impl Drop for FromLeases<'_> {
    fn drop(&mut self) {
        give_back_all(&mut self.levels, self.now);
    }
}
