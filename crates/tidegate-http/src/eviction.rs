//! Which connection is closed when another is needed more: one that waits for its client, and has waited longest.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::deadlines::{Deadlines, Idler, Owner, Shortage, TICK};

/// How many of the connections that could be closed are remembered for the next search (or an eighth, if that is more)
/// …
const LEAST_REMEMBERED: usize = 256;
/// … and for how long: others may have waited longer since, and are closed first.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// The result of the search for a connection to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// One connection ends now.
    Started,
    /// Some are about to end, or will soon have waited for long enough.
    NotYet,
    /// All are busy.
    AllBusy,
}

/// Finds the connections that wait.
pub type Find = fn(&Deadlines, &mut Vec<Idler>) -> bool;

/// Connections of the lowest rank are closed first, and of these the one that has waited longest. None if the
/// connection must not be closed.
pub type Rank = fn(&Idler) -> Option<u8>;

/// Closes connections that wait for their clients. Shared by all workers.
pub struct Evictor {
    deadlines: Box<[Arc<Deadlines>]>,
    find: Find,
    rank: Rank,
    searches: Mutex<Searches>,
}

/// The last searches.
#[derive(Default)]
struct Searches {
    /// Among all connections.
    of_all: Candidates,
    /// Among those of one owner.
    of_one: Option<(Owner, Candidates)>,
}

#[derive(Default)]
struct Candidates {
    /// Those that could be closed at the search. The last one is closed next.
    idlers: Vec<Idler>,
    searched_at: Option<Instant>,
}

impl Candidates {
    fn age(&self, now: Instant) -> Option<Duration> {
        self.searched_at.map(|at| now.saturating_duration_since(at))
    }
}

impl Evictor {
    /// Closes connections with these deadlines: those that `find` finds, in the order of `rank`.
    pub fn new(deadlines: &[Arc<Deadlines>], find: Find, rank: Rank) -> Self {
        Self { deadlines: deadlines.into(), find, rank, searches: Mutex::default() }
    }

    /// Closes the connection that is needed least, of this owner or of any.
    ///
    /// Candidates are searched at most once a tick, by a walk along all connections such as each tick makes anyway, and
    /// then used one after the other. One that has become busy since is skipped. So an eviction costs little however
    /// many connections there are.
    pub fn evict(&self, shortage: Shortage, owner: Option<Owner>) -> Eviction {
        self.evict_at(Instant::now(), shortage, owner)
    }

    /// The same at this time.
    pub fn evict_at(&self, now: Instant, shortage: Shortage, owner: Option<Owner>) -> Eviction {
        let mut searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        let candidates = match owner {
            None => &mut searches.of_all,
            Some(owner) => {
                let (last, candidates) = searches.of_one.get_or_insert_with(|| (owner, Candidates::default()));
                if *last != owner {
                    // The time of the last search stays, so that many owners cost no more than one.
                    candidates.idlers.clear();
                    *last = owner;
                }
                candidates
            }
        };
        if candidates.age(now).is_some_and(|age| age >= REMEMBERED_FOR) {
            candidates.idlers.clear();
        }
        loop {
            while let Some(idler) = candidates.idlers.pop() {
                if idler.evict(shortage) {
                    return Eviction::Started;
                }
            }
            if candidates.age(now).is_some_and(|age| age < TICK) {
                return Eviction::NotYet;
            }
            let (idlers, are_all_busy) = self.search(owner);
            *candidates = Candidates { idlers, searched_at: Some(now) };
            if candidates.idlers.is_empty() {
                return if are_all_busy { Eviction::AllBusy } else { Eviction::NotYet };
            }
        }
    }

    /// The connections that can be closed, and whether all others are busy.
    fn search(&self, owner: Option<Owner>) -> (Vec<Idler>, bool) {
        let (mut idlers, mut are_some_ending) = (Vec::new(), false);
        for deadlines in &self.deadlines {
            are_some_ending |= (self.find)(deadlines, &mut idlers);
        }
        idlers.retain(|idler| owner.is_none_or(|owner| owner == idler.owner));
        let are_all_busy = idlers.is_empty() && !are_some_ending;
        idlers.retain(|idler| (self.rank)(idler).is_some());
        let remembered = LEAST_REMEMBERED.max(idlers.len() / 8);
        let order = |idler: &Idler| ((self.rank)(idler), std::cmp::Reverse(idler.waited));
        if idlers.len() > remembered {
            idlers.select_nth_unstable_by_key(remembered, order);
            idlers.truncate(remembered);
            idlers.shrink_to_fit();
        }
        idlers.sort_unstable_by_key(|idler| std::cmp::Reverse(order(idler)));
        (idlers, are_all_busy)
    }

    /// Forgets the last searches, so that the next one sees what is there now.
    #[cfg(test)]
    fn forget(&self) {
        *self.searches.lock().unwrap_or_else(PoisonError::into_inner) = Searches::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadlines::{Deadline, Waiting};

    const LATER: Duration = Duration::from_secs(3_600);

    /// Connections of two workers, and the time.
    struct Connections {
        evictor: Evictor,
        deadlines: [Arc<Deadlines>; 2],
        now_millis: u64,
    }

    impl Connections {
        fn new() -> Self {
            let deadlines = [Deadlines::new(), Deadlines::new()];
            let rank: Rank = |idler| (idler.waited >= Duration::from_secs(1)).then_some(0);
            Self { evictor: Evictor::new(&deadlines, Deadlines::stalled, rank), deadlines, now_millis: 0 }
        }

        fn opens(&self, worker: usize, waiting: Waiting, owner: Owner) -> Arc<Deadline> {
            let deadline = self.deadlines[worker].deadline(owner);
            deadline.set_for(waiting, LATER);
            deadline
        }

        fn passes(&mut self, millis: u64) {
            self.now_millis += millis;
            self.deadlines.iter().for_each(|deadlines| deadlines.sweep(self.now_millis));
        }

        fn evict(&self, owner: Option<Owner>) -> Eviction {
            self.evictor.forget();
            self.evictor.evict(Shortage::Slots, owner)
        }
    }

    #[test]
    fn only_connections_of_the_owner_are_closed_if_one_is_named() {
        let mut connections = Connections::new();
        let (one, other) = (Owner::unique(), Owner::unique());
        let of_one = connections.opens(0, Waiting::Client, one);
        connections.passes(10);
        let of_other = connections.opens(1, Waiting::Client, other);
        connections.passes(1_000);
        assert_eq!(connections.evict(Some(Owner::unique())), Eviction::AllBusy);
        assert_eq!(connections.evict(Some(other)), Eviction::Started);
        assert!(of_other.is_evicted() && !of_one.is_evicted());
        assert_eq!(connections.evict(None), Eviction::Started);
        assert!(of_one.is_evicted());
    }

    #[test]
    fn a_connection_that_has_not_waited_for_long_is_not_closed_yet() {
        let mut connections = Connections::new();
        let owner = Owner::unique();
        let (_busy, waits) = (connections.opens(0, Waiting::Work, owner), connections.opens(1, Waiting::Client, owner));
        connections.passes(999);
        assert_eq!(connections.evict(Some(owner)), Eviction::NotYet);
        connections.passes(1);
        assert_eq!(connections.evict(Some(owner)), Eviction::Started);
        drop(waits);
        connections.passes(1);
        assert_eq!(connections.evict(Some(owner)), Eviction::AllBusy);
    }

    /// A flood from many addresses would otherwise walk along all connections for each of them.
    #[test]
    fn many_owners_cost_no_more_than_one_search_a_tick() {
        let mut connections = Connections::new();
        let (one, other) = (Owner::unique(), Owner::unique());
        let held = [one, other].map(|owner| connections.opens(0, Waiting::Client, owner));
        connections.passes(1_000);
        let now = Instant::now();
        let evict = |after, owner| connections.evictor.evict_at(now + after, Shortage::Slots, Some(owner));
        assert_eq!(evict(Duration::ZERO, one), Eviction::Started);
        assert_eq!(evict(Duration::ZERO, other), Eviction::NotYet);
        assert_eq!(evict(TICK, other), Eviction::Started);
        assert!(held.iter().all(|held| held.is_evicted()));
    }
}
