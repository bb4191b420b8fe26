//! Which connection is closed when another is needed more: one that waits for its client, and has waited longest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::deadlines::{Deadlines, Found, Idler, Owner, Shortage, TICK};

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
pub type Find = fn(&Deadlines, &mut Found);

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
    /// By owner. One search is for all owners, so that many of them cost no more than one.
    of_owners: HashMap<Owner, Candidates>,
    owners_searched_at: Option<Instant>,
}

/// What was found of some connections.
#[derive(Default)]
struct Candidates {
    /// Those that could be closed at the search. The last one is closed next.
    idlers: Vec<Idler>,
    /// Some wait that could not be closed yet, or were about to end.
    will_end: bool,
    searched_at: Option<Instant>,
}

impl Candidates {
    /// Closes the next one.
    fn evict(&mut self, shortage: Shortage) -> Eviction {
        while let Some(idler) = self.idlers.pop() {
            if idler.evict(shortage) {
                // Its end takes a moment.
                self.will_end = true;
                return Eviction::Started;
            }
        }
        if self.will_end { Eviction::NotYet } else { Eviction::AllBusy }
    }
}

/// Whether a search is younger than this.
fn is_younger(searched_at: Option<Instant>, now: Instant, age: Duration) -> bool {
    searched_at.is_some_and(|at| now.saturating_duration_since(at) < age)
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
        let searches = &mut *self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        match owner {
            None => self.evict_any(&mut searches.of_all, now, shortage),
            Some(owner) => self.evict_one_of(searches, owner, now, shortage),
        }
    }

    fn evict_any(&self, candidates: &mut Candidates, now: Instant, shortage: Shortage) -> Eviction {
        let is_remembered = is_younger(candidates.searched_at, now, REMEMBERED_FOR);
        if is_remembered && candidates.evict(shortage) == Eviction::Started {
            return Eviction::Started;
        }
        if is_younger(candidates.searched_at, now, TICK) {
            return Eviction::NotYet;
        }
        let Found { idlers, ending } = self.search();
        *candidates = self.candidates(idlers, now);
        candidates.will_end |= !ending.is_empty();
        candidates.evict(shortage)
    }

    fn evict_one_of(&self, searches: &mut Searches, owner: Owner, now: Instant, shortage: Shortage) -> Eviction {
        let evict = |owners: &mut HashMap<Owner, Candidates>| {
            owners.get_mut(&owner).map_or(Eviction::AllBusy, |candidates| candidates.evict(shortage))
        };
        let searched_at = searches.owners_searched_at;
        let is_remembered = is_younger(searched_at, now, REMEMBERED_FOR);
        if is_remembered && evict(&mut searches.of_owners) == Eviction::Started {
            return Eviction::Started;
        }
        if is_younger(searched_at, now, TICK) {
            // Some of this owner's may have begun to wait since.
            return Eviction::NotYet;
        }
        let Found { idlers, ending } = self.search();
        let mut by_owner: HashMap<Owner, Vec<Idler>> = HashMap::new();
        for idler in idlers {
            by_owner.entry(idler.owner).or_default().push(idler);
        }
        let owners = by_owner.into_iter();
        searches.of_owners = owners.map(|(owner, idlers)| (owner, self.candidates(idlers, now))).collect();
        for owner in ending {
            searches.of_owners.entry(owner).or_default().will_end = true;
        }
        searches.owners_searched_at = Some(now);
        evict(&mut searches.of_owners)
    }

    /// All connections that wait.
    fn search(&self) -> Found {
        let mut found = Found::default();
        self.deadlines.iter().for_each(|deadlines| (self.find)(deadlines, &mut found));
        found
    }

    /// Those of these connections that can be closed, in their order.
    fn candidates(&self, mut idlers: Vec<Idler>, now: Instant) -> Candidates {
        let waiting = idlers.len();
        idlers.retain(|idler| (self.rank)(idler).is_some());
        let will_end = idlers.len() < waiting;
        let remembered = LEAST_REMEMBERED.max(idlers.len() / 8);
        let order = |idler: &Idler| ((self.rank)(idler), std::cmp::Reverse(idler.waited));
        if idlers.len() > remembered {
            idlers.select_nth_unstable_by_key(remembered, order);
            idlers.truncate(remembered);
            idlers.shrink_to_fit();
        }
        idlers.sort_unstable_by_key(|idler| std::cmp::Reverse(order(idler)));
        Candidates { idlers, will_end, searched_at: Some(now) }
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

    /// A search for one owner forgot what was found for the others, so that each tick helped only one of them.
    #[test]
    fn one_search_is_for_all_owners() {
        let mut connections = Connections::new();
        let (one, other) = (Owner::unique(), Owner::unique());
        let held = [one, other, one, other].map(|owner| connections.opens(0, Waiting::Client, owner));
        connections.passes(1_000);
        let now = Instant::now();
        let evict = |after, owner| connections.evictor.evict_at(now + after, Shortage::Slots, Some(owner));
        for owner in [one, other, one, other] {
            assert_eq!(evict(Duration::ZERO, owner), Eviction::Started);
        }
        assert!(held.iter().all(|held| held.is_evicted()));
        assert_eq!(evict(Duration::ZERO, Owner::unique()), Eviction::NotYet, "the search is young");
        assert_eq!(evict(TICK, one), Eviction::NotYet, "its connections are about to end");
        assert_eq!(evict(2 * TICK, Owner::unique()), Eviction::AllBusy, "it has none");
    }
}
