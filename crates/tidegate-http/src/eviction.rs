//! Which connection is closed when another is needed more: one that waits for its client, and has waited longest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::deadlines::{Deadlines, Ending, Found, Idler, Owner, Shortage, TICK, Waiting};

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
    /// Those of all that were about to end then, or were closed since.
    ending: Vec<Ending>,
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
    fn evict(&mut self, shortage: Shortage) -> Result<(Ending, Waiting), Eviction> {
        while let Some(idler) = self.idlers.pop() {
            if let Some(ending) = idler.evict(shortage) {
                // Its end takes a moment.
                self.will_end = true;
                return Ok((ending, idler.waiting));
            }
        }
        Err(if self.will_end { Eviction::NotYet } else { Eviction::AllBusy })
    }
}

impl Searches {
    fn evict_any(&mut self, shortage: Shortage, wanted: usize) -> Eviction {
        self.ending.retain(Ending::is_there);
        if self.ending.len() >= wanted {
            return Eviction::NotYet;
        }
        match self.of_all.evict(shortage) {
            Ok((ending, waiting)) => {
                self.ending.push(ending);
                if matches!(waiting, Waiting::Body | Waiting::Client) && wanted < usize::MAX {
                    // The connection lingers for a little longer than this wait: only another search finds it then.
                    self.of_all.idlers.clear();
                }
                Eviction::Started
            }
            Err(Eviction::AllBusy) if !self.ending.is_empty() => Eviction::NotYet,
            Err(not_started) => not_started,
        }
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

    /// Closes the connection that is needed least, unless as many as `wanted` are about to end.
    ///
    /// Candidates are searched at most once a tick, by a walk along all connections such as each tick makes anyway, and
    /// then used one after the other. One that has become busy since is skipped. So an eviction costs little however
    /// many connections there are.
    pub fn evict_any(&self, shortage: Shortage, wanted: usize) -> Eviction {
        self.evict_any_at(Instant::now(), shortage, wanted)
    }

    /// The same at this time.
    pub fn evict_any_at(&self, now: Instant, shortage: Shortage, wanted: usize) -> Eviction {
        let searches = &mut *self.searches();
        let searched_at = searches.of_all.searched_at;
        if is_younger(searched_at, now, REMEMBERED_FOR) && searches.evict_any(shortage, wanted) == Eviction::Started {
            return Eviction::Started;
        }
        if is_younger(searched_at, now, TICK) {
            return Eviction::NotYet;
        }
        let Found { idlers, ending } = self.search();
        searches.of_all = self.candidates(idlers, now);
        searches.ending = ending;
        searches.evict_any(shortage, wanted)
    }

    /// Closes the connection of this owner that is needed least, for someone who has waited since then. All are busy
    /// only if a search has found so since.
    pub fn evict_of(&self, owner: Owner, waited_since: Instant, shortage: Shortage) -> Eviction {
        self.evict_of_at(Instant::now(), owner, waited_since, shortage)
    }

    /// The same at this time.
    pub fn evict_of_at(&self, now: Instant, owner: Owner, waited_since: Instant, shortage: Shortage) -> Eviction {
        let searches = &mut *self.searches();
        let evict = |owners: &mut HashMap<Owner, Candidates>| {
            let evicted = owners.get_mut(&owner).map_or(Err(Eviction::AllBusy), |found| found.evict(shortage));
            evicted.err().unwrap_or(Eviction::Started)
        };
        let searched_at = searches.owners_searched_at;
        if is_younger(searched_at, now, REMEMBERED_FOR) {
            let is_young = is_younger(searched_at, now, TICK);
            match evict(&mut searches.of_owners) {
                Eviction::Started => return Eviction::Started,
                // Some of this owner's may have begun to wait between that search and now.
                Eviction::AllBusy if is_young && searched_at < Some(waited_since) => return Eviction::NotYet,
                found if is_young => return found,
                Eviction::NotYet | Eviction::AllBusy => {}
            }
        }
        let Found { idlers, ending } = self.search();
        let mut by_owner: HashMap<Owner, Vec<Idler>> = HashMap::new();
        for idler in idlers {
            by_owner.entry(idler.owner).or_default().push(idler);
        }
        let owners = by_owner.into_iter();
        searches.of_owners = owners.map(|(owner, idlers)| (owner, self.candidates(idlers, now))).collect();
        for ending in ending {
            searches.of_owners.entry(ending.owner).or_default().will_end = true;
        }
        searches.owners_searched_at = Some(now);
        evict(&mut searches.of_owners)
    }

    fn searches(&self) -> MutexGuard<'_, Searches> {
        self.searches.lock().unwrap_or_else(PoisonError::into_inner)
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
        *self.searches() = Searches::default();
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
            match owner {
                None => self.evictor.evict_any(Shortage::Slots, usize::MAX),
                Some(owner) => self.evictor.evict_of(owner, Instant::now(), Shortage::Slots),
            }
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
        let evict = |after, owner| connections.evictor.evict_of_at(now + after, owner, now, Shortage::Slots);
        for owner in [one, other, one, other] {
            assert_eq!(evict(Duration::ZERO, owner), Eviction::Started);
        }
        assert!(held.iter().all(|held| held.is_evicted()));
        assert_eq!(evict(TICK, one), Eviction::NotYet, "its connections are about to end");
        assert_eq!(evict(2 * TICK, Owner::unique()), Eviction::AllBusy, "it has none");
    }

    /// While searches were young, everybody waited, also those for whom they had found nothing: only one request a tick
    /// was rejected at once.
    #[test]
    fn a_search_that_found_nothing_is_good_for_all_who_waited_by_then() {
        let connections = Connections::new();
        let (start, half) = (Instant::now(), TICK / 2);
        let evict = |after, since| {
            connections.evictor.evict_of_at(start + after, Owner::unique(), start + since, Shortage::Slots)
        };
        for _ in 0..3 {
            assert_eq!(evict(Duration::ZERO, Duration::ZERO), Eviction::AllBusy);
        }
        assert_eq!(evict(half, half), Eviction::NotYet, "it came after the search");
        assert_eq!(evict(TICK, half), Eviction::AllBusy);
        assert_eq!(evict(TICK + half, half), Eviction::AllBusy);
    }
}
