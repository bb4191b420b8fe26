//! Slots of connections: how many there may be at once, and which connection is closed when a new client finds no slot.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_http::deadlines::{Deadlines, Idler, Shortage, TICK, Waiting};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a client may be silent after it has connected before its connection may be closed: a first packet that was
/// lost is sent again within that time. Until then, new clients wait.
const SILENT: Duration = Duration::from_secs(1);
/// How long the rest of a head may take before its connection may be closed. Until then, new clients wait.
const SLOW_HEAD: Duration = Duration::from_secs(1);
/// How many of the connections that could be closed are remembered for the next new clients (or an eighth, if that is
/// more) …
const LEAST_REMEMBERED: usize = 256;
/// … and for how long: others may have become silent since, and are closed first.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// Slots of connections, shared by all workers.
pub(crate) struct ConnectionSlots {
    /// The log text when all slots are taken: how many there are, and why there are not more.
    pub(crate) taken: String,
    free: Arc<Semaphore>,
    deadlines: Box<[Arc<Deadlines>]>,
    candidates: Mutex<Candidates>,
}

#[derive(Default)]
struct Candidates {
    /// Those that could be closed at the last search. The last one is closed next.
    idlers: Vec<Idler>,
    searched_at: Option<Instant>,
}

impl Candidates {
    fn age(&self, now: Instant) -> Option<Duration> {
        self.searched_at.map(|at| now.saturating_duration_since(at))
    }
}

/// The result of the search for a connection to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// One connection ends now.
    Started,
    /// Some are about to end, or will soon have been idle for long enough.
    NotYet,
    /// All have requests under way.
    AllBusy,
}

impl ConnectionSlots {
    /// Slots for `most` connections, with these deadlines.
    pub(crate) fn new(most: usize, taken: String, deadlines: &[Arc<Deadlines>]) -> Arc<Self> {
        let (free, candidates) = (Arc::new(Semaphore::new(most)), Mutex::default());
        Arc::new(Self { taken, free, deadlines: deadlines.into(), candidates })
    }

    /// Takes a slot for a connection. While none is free, others are closed. `full` is called each time all are found
    /// busy.
    pub(crate) async fn acquire(&self, mut full: impl FnMut()) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(slot);
        }
        let mut acquiring = pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            if self.evict(Shortage::Slots) == Eviction::AllBusy {
                full();
            }
            // The end takes a moment, and a request may come instead.
            if let Ok(slot) = timeout(TICK, acquiring.as_mut()).await {
                return slot.ok();
            }
        }
    }

    /// Closes the connection that is needed least, never one with a request under way.
    ///
    /// Candidates are searched at most once a tick, by a walk along all connections such as each tick makes anyway, and
    /// then used one after the other. One that has become busy since is skipped. So an eviction costs little however
    /// many connections there are.
    pub(crate) fn evict(&self, shortage: Shortage) -> Eviction {
        self.evict_at(Instant::now(), shortage)
    }

    fn evict_at(&self, now: Instant, shortage: Shortage) -> Eviction {
        let mut candidates = self.candidates.lock().unwrap_or_else(PoisonError::into_inner);
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
            let (idlers, are_all_busy) = self.search();
            *candidates = Candidates { idlers, searched_at: Some(now) };
            if candidates.idlers.is_empty() {
                return if are_all_busy { Eviction::AllBusy } else { Eviction::NotYet };
            }
        }
    }

    /// The connections that can be closed, and whether all others have requests under way.
    fn search(&self) -> (Vec<Idler>, bool) {
        let (mut idlers, mut are_some_ending) = (Vec::new(), false);
        for deadlines in &self.deadlines {
            are_some_ending |= deadlines.idlers(&mut idlers);
        }
        let are_all_busy = idlers.is_empty() && !are_some_ending;
        idlers.retain(|idler| rank(idler).is_some());
        let remembered = LEAST_REMEMBERED.max(idlers.len() / 8);
        let order = |idler: &Idler| (rank(idler), std::cmp::Reverse(idler.waited));
        if idlers.len() > remembered {
            idlers.select_nth_unstable_by_key(remembered, order);
            idlers.truncate(remembered);
            idlers.shrink_to_fit();
        }
        idlers.sort_unstable_by_key(|idler| std::cmp::Reverse(order(idler)));
        (idlers, are_all_busy)
    }
}

/// Connections of the lowest rank are closed first, and of these the one that has waited longest. `None` if the
/// connection must not be closed.
fn rank(idler: &Idler) -> Option<u8> {
    match idler.waiting {
        // A flood of silent connections must not push out clients that send a request now and then.
        Waiting::First if idler.waited >= SILENT => Some(0),
        Waiting::Next => Some(1),
        Waiting::Head if idler.waited >= SLOW_HEAD => Some(2),
        Waiting::First | Waiting::Head | Waiting::Taking | Waiting::Work => None,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_http::deadlines::Deadline;

    use super::*;

    const LATER: Duration = Duration::from_secs(3_600);

    /// Connections of two workers, and the time.
    struct Connections {
        slots: Arc<ConnectionSlots>,
        deadlines: [Arc<Deadlines>; 2],
        now_millis: u64,
    }

    impl Connections {
        fn new() -> Self {
            let deadlines = [Deadlines::new(), Deadlines::new()];
            Self { slots: ConnectionSlots::new(1, String::new(), &deadlines), deadlines, now_millis: 0 }
        }

        fn opens(&self, worker: usize, waiting: Waiting) -> Arc<Deadline> {
            let deadline = self.deadlines[worker].deadline();
            deadline.set_for(waiting, LATER);
            deadline
        }

        fn passes(&mut self, millis: u64) {
            self.now_millis += millis;
            self.deadlines.iter().for_each(|deadlines| deadlines.sweep(self.now_millis));
        }

        /// Which of these is closed next, if any. Candidates are searched anew.
        fn next(&self, deadlines: &[&Arc<Deadline>]) -> Option<usize> {
            *self.slots.candidates.lock().expect("no panic") = Candidates::default();
            let before: Vec<bool> = deadlines.iter().map(|deadline| deadline.is_evicted()).collect();
            let evicted = self.slots.evict(Shortage::Slots) == Eviction::Started;
            let found = deadlines.iter().zip(before).position(|(deadline, was)| deadline.is_evicted() && !was);
            assert_eq!(evicted, found.is_some());
            found
        }
    }

    #[test]
    fn the_longest_idle_is_closed_first_whichever_worker_has_it() {
        let mut connections = Connections::new();
        let oldest = connections.opens(0, Waiting::Next);
        connections.passes(10);
        let used = connections.opens(1, Waiting::Next);
        connections.passes(10);
        let newest = connections.opens(1, Waiting::Next);
        connections.passes(10);
        used.set_for(Waiting::Next, LATER);
        connections.passes(10);
        let all = [&oldest, &newest, &used];
        assert_eq!(
            [connections.next(&all), connections.next(&all), connections.next(&all)],
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(connections.next(&all), None);
    }

    #[test]
    fn a_connection_with_a_request_under_way_is_never_closed() {
        let mut connections = Connections::new();
        let (work, taking) = (connections.opens(0, Waiting::Work), connections.opens(1, Waiting::Taking));
        connections.passes(1_000_000);
        assert_eq!(connections.next(&[&work, &taking]), None);
    }

    #[test]
    fn a_client_that_has_just_connected_has_a_moment_to_send_a_request() {
        let mut connections = Connections::new();
        let new = connections.opens(0, Waiting::First);
        connections.passes(999);
        assert_eq!(connections.next(&[&new]), None);
        connections.passes(1);
        assert_eq!(connections.next(&[&new]), Some(0));
    }

    #[test]
    fn silent_connections_are_closed_before_idle_ones_and_slow_heads_last() {
        let mut connections = Connections::new();
        let (head, idle) = (connections.opens(0, Waiting::Head), connections.opens(0, Waiting::Next));
        connections.passes(1_000);
        let (silent, newer) = (connections.opens(0, Waiting::First), connections.opens(1, Waiting::Head));
        connections.passes(999);
        let all = [&head, &idle, &silent, &newer];
        assert_eq!(connections.next(&all), Some(1), "a new connection has a moment for its first request");
        idle.set_for(Waiting::Next, LATER);
        connections.passes(1);
        let order: Vec<_> = std::iter::from_fn(|| connections.next(&all)).collect();
        assert_eq!(order, [2, 1, 0, 3]);
    }

    #[test]
    fn of_many_connections_those_that_have_waited_longest_are_closed_in_their_order() {
        let mut connections = Connections::new();
        let mut all = Vec::new();
        for number in 0..4_000 {
            all.push(connections.opens(number % 2, Waiting::Next));
            connections.passes(20);
        }
        // One search is enough for an eighth of them.
        for number in 0..500 {
            assert_eq!(connections.slots.evict(Shortage::Slots), Eviction::Started);
            assert!(all[number].is_evicted() && !all[number + 1].is_evicted(), "{number}");
        }
    }

    /// With all connections busy, each new client that waits would otherwise search them all again and again.
    #[test]
    fn a_search_in_vain_is_not_repeated_at_once() {
        let mut connections = Connections::new();
        let connection = connections.opens(0, Waiting::Work);
        let now = Instant::now();
        assert_eq!(connections.slots.evict_at(now, Shortage::Slots), Eviction::AllBusy);
        connection.set_for(Waiting::Next, LATER);
        connections.passes(20);
        assert_eq!(connections.slots.evict_at(now, Shortage::Slots), Eviction::NotYet);
        assert_eq!(connections.slots.evict_at(now + TICK, Shortage::Slots), Eviction::Started);
    }

    /// A list of some minutes ago had only clients that send a request now and then: they were closed before silent
    /// ones that had come since.
    #[test]
    fn a_connection_that_became_silent_since_the_last_search_is_closed_first() {
        let mut connections = Connections::new();
        let kept = [(); 3].map(|()| connections.opens(0, Waiting::Next));
        connections.passes(20);
        let now = Instant::now();
        assert_eq!(connections.slots.evict_at(now, Shortage::Slots), Eviction::Started);
        let silent = connections.opens(1, Waiting::First);
        connections.passes(1_000);
        assert_eq!(connections.slots.evict_at(now + REMEMBERED_FOR, Shortage::Slots), Eviction::Started);
        assert!(silent.is_evicted());
        assert_eq!(kept.iter().filter(|kept| kept.is_evicted()).count(), 1);
    }

    /// The log reported that no connection was idle while the last idle one was ending, or while silent ones had some
    /// time left.
    #[test]
    fn all_are_busy_only_if_none_is_idle_or_about_to_end() {
        let mut connections = Connections::new();
        let (_busy, silent) = (connections.opens(0, Waiting::Work), connections.opens(1, Waiting::First));
        let (now, later) = (Instant::now(), |ticks| TICK * ticks);
        assert_eq!(connections.slots.evict_at(now, Shortage::Slots), Eviction::NotYet, "it may still send a request");
        connections.passes(1_000);
        assert_eq!(connections.slots.evict_at(now + later(1), Shortage::Slots), Eviction::Started);
        assert_eq!(connections.slots.evict_at(now + later(2), Shortage::Slots), Eviction::NotYet, "it is ending");
        drop(silent);
        assert_eq!(connections.slots.evict_at(now + later(3), Shortage::Slots), Eviction::AllBusy);
    }
}
