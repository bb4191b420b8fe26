//! Room for connections: how many there may be at once, and which is closed when a new client finds no room.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_http::deadlines::{Deadlines, Idler, Shortage, TICK, Waiting};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a client may be silent after it has connected before its connection may be closed: a first packet that was lost is sent again
/// within that time. Until then, others wait.
const SILENT: Duration = Duration::from_secs(1);
/// How long the rest of a head may take before its connection may be closed. Within it, others wait.
const SLOW_HEAD: Duration = Duration::from_secs(1);
/// Of the connections that could be closed, so many (or an eighth, if that is more) are remembered for those who come next, …
const LEAST_REMEMBERED: usize = 256;
/// … and for so long: others may have become silent since, and go first.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// Room for connections, shared by all who serve them.
pub(crate) struct Room {
    /// What the log says when it is full: how many connections are taken, and why there are not more.
    pub(crate) taken: String,
    slots: Arc<Semaphore>,
    deadlines: Box<[Arc<Deadlines>]>,
    candidates: Mutex<Candidates>,
}

#[derive(Default)]
struct Candidates {
    /// Those that could be closed when they were last looked for; the next to go comes last.
    idlers: Vec<Idler>,
    looked_at: Option<Instant>,
}

impl Candidates {
    fn age(&self, now: Instant) -> Option<Duration> {
        self.looked_at.map(|at| now.saturating_duration_since(at))
    }
}

/// What came of the search for a connection to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// One is asked to leave.
    Asked,
    /// Some are about to end, or will be idle for long enough in a moment.
    NotYet,
    /// All have requests under way.
    AllBusy,
}

impl Room {
    /// Room for `most` connections, with these deadlines.
    pub(crate) fn new(most: usize, taken: String, deadlines: &[Arc<Deadlines>]) -> Arc<Self> {
        let (slots, candidates) = (Arc::new(Semaphore::new(most)), Mutex::default());
        Arc::new(Self { taken, slots, deadlines: deadlines.into(), candidates })
    }

    /// A slot for a connection; while there is none, others are asked to leave. `full` is called each time all are found busy.
    pub(crate) async fn enter(&self, mut full: impl FnMut()) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(slot);
        }
        let mut entering = pin!(Arc::clone(&self.slots).acquire_owned());
        loop {
            if self.evict(Shortage::Slots) == Eviction::AllBusy {
                full();
            }
            // To leave takes a moment, and a request may come instead.
            if let Ok(slot) = timeout(TICK, entering.as_mut()).await {
                return slot.ok();
            }
        }
    }

    /// Closes the connection that can best be spared, never one with a request under way.
    ///
    /// Candidates are looked for once a tick at most, by a walk along all connections such as each tick takes anyway, and then used one
    /// after the other: what has moved on since is passed over. So an eviction costs little however many connections there are.
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
                    return Eviction::Asked;
                }
            }
            if candidates.age(now).is_some_and(|age| age < TICK) {
                return Eviction::NotYet;
            }
            let (idlers, are_all_busy) = self.look();
            *candidates = Candidates { idlers, looked_at: Some(now) };
            if candidates.idlers.is_empty() {
                return if are_all_busy { Eviction::AllBusy } else { Eviction::NotYet };
            }
        }
    }

    /// The connections that can be closed, and whether all others have requests under way.
    fn look(&self) -> (Vec<Idler>, bool) {
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

/// Which connections go first: those of the lowest rank, and of these the one that has waited longest. None if it must stay.
fn rank(idler: &Idler) -> Option<u8> {
    match idler.waiting {
        // A flood of silent connections must not push out clients that ask now and then.
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
    struct House {
        room: Arc<Room>,
        deadlines: [Arc<Deadlines>; 2],
        now_millis: u64,
    }

    impl House {
        fn new() -> Self {
            let deadlines = [Deadlines::new(), Deadlines::new()];
            Self { room: Room::new(1, String::new(), &deadlines), deadlines, now_millis: 0 }
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

        /// Which of these is closed next, if any. Candidates are looked for anew.
        fn next(&self, connections: &[&Arc<Deadline>]) -> Option<usize> {
            *self.room.candidates.lock().expect("no panic") = Candidates::default();
            let before: Vec<bool> = connections.iter().map(|deadline| deadline.is_evicted()).collect();
            let evicted = self.room.evict(Shortage::Slots) == Eviction::Asked;
            let found = connections.iter().zip(before).position(|(deadline, was)| deadline.is_evicted() && !was);
            assert_eq!(evicted, found.is_some());
            found
        }
    }

    #[test]
    fn the_longest_idle_goes_first_whichever_worker_has_it() {
        let mut house = House::new();
        let oldest = house.opens(0, Waiting::Next);
        house.passes(10);
        let used = house.opens(1, Waiting::Next);
        house.passes(10);
        let newest = house.opens(1, Waiting::Next);
        house.passes(10);
        used.set_for(Waiting::Next, LATER);
        house.passes(10);
        let all = [&oldest, &newest, &used];
        assert_eq!([house.next(&all), house.next(&all), house.next(&all)], [Some(0), Some(1), Some(2)]);
        assert_eq!(house.next(&all), None);
    }

    #[test]
    fn a_request_under_way_is_never_cut_short() {
        let mut house = House::new();
        let (work, taking) = (house.opens(0, Waiting::Work), house.opens(1, Waiting::Taking));
        house.passes(1_000_000);
        assert_eq!(house.next(&[&work, &taking]), None);
    }

    #[test]
    fn a_client_that_has_just_connected_has_a_moment_to_ask() {
        let mut house = House::new();
        let new = house.opens(0, Waiting::First);
        house.passes(999);
        assert_eq!(house.next(&[&new]), None);
        house.passes(1);
        assert_eq!(house.next(&[&new]), Some(0));
    }

    #[test]
    fn who_never_asked_goes_before_who_asked_and_a_slow_head_comes_last() {
        let mut house = House::new();
        let (head, idle) = (house.opens(0, Waiting::Head), house.opens(0, Waiting::Next));
        house.passes(1_000);
        let (silent, newer) = (house.opens(0, Waiting::First), house.opens(1, Waiting::Head));
        house.passes(999);
        let all = [&head, &idle, &silent, &newer];
        assert_eq!(house.next(&all), Some(1), "who has just connected has a moment to ask");
        idle.set_for(Waiting::Next, LATER);
        house.passes(1);
        let order: Vec<_> = std::iter::from_fn(|| house.next(&all)).collect();
        assert_eq!(order, [2, 1, 0, 3]);
    }

    #[test]
    fn of_many_connections_those_that_have_waited_longest_go_in_their_order() {
        let mut house = House::new();
        let mut all = Vec::new();
        for number in 0..4_000 {
            all.push(house.opens(number % 2, Waiting::Next));
            house.passes(20);
        }
        // One look is enough for an eighth of them.
        for number in 0..500 {
            assert_eq!(house.room.evict(Shortage::Slots), Eviction::Asked);
            assert!(all[number].is_evicted() && !all[number + 1].is_evicted(), "{number}");
        }
    }

    /// With all connections busy, each new client that waits would otherwise have them all looked at again and again.
    #[test]
    fn a_look_in_vain_is_not_repeated_at_once() {
        let mut house = House::new();
        let connection = house.opens(0, Waiting::Work);
        let now = Instant::now();
        assert_eq!(house.room.evict_at(now, Shortage::Slots), Eviction::AllBusy);
        connection.set_for(Waiting::Next, LATER);
        house.passes(20);
        assert_eq!(house.room.evict_at(now, Shortage::Slots), Eviction::NotYet);
        assert_eq!(house.room.evict_at(now + TICK, Shortage::Slots), Eviction::Asked);
    }

    /// A list of some minutes ago had only clients that ask now and then: they were closed before the silent ones that had come since.
    #[test]
    fn who_has_become_silent_since_the_last_look_goes_first() {
        let mut house = House::new();
        let kept = [(); 3].map(|()| house.opens(0, Waiting::Next));
        house.passes(20);
        let now = Instant::now();
        assert_eq!(house.room.evict_at(now, Shortage::Slots), Eviction::Asked);
        let silent = house.opens(1, Waiting::First);
        house.passes(1_000);
        assert_eq!(house.room.evict_at(now + REMEMBERED_FOR, Shortage::Slots), Eviction::Asked);
        assert!(silent.is_evicted());
        assert_eq!(kept.iter().filter(|kept| kept.is_evicted()).count(), 1);
    }

    /// The log said that no connection was idle while the last idle one was leaving, or while silent ones had some time left.
    #[test]
    fn all_are_busy_only_if_none_is_idle_or_about_to_end() {
        let mut house = House::new();
        let (_busy, silent) = (house.opens(0, Waiting::Work), house.opens(1, Waiting::First));
        let (now, later) = (Instant::now(), |ticks| TICK * ticks);
        assert_eq!(house.room.evict_at(now, Shortage::Slots), Eviction::NotYet, "it may still ask");
        house.passes(1_000);
        assert_eq!(house.room.evict_at(now + later(1), Shortage::Slots), Eviction::Asked);
        assert_eq!(house.room.evict_at(now + later(2), Shortage::Slots), Eviction::NotYet, "it is leaving");
        drop(silent);
        assert_eq!(house.room.evict_at(now + later(3), Shortage::Slots), Eviction::AllBusy);
    }
}
