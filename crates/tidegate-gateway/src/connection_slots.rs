//! Slots of connections: how many there may be at once, and which connection is closed when a new client finds no slot.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_http::deadlines::{Deadlines, Idler, Shortage, TICK, Waiting};
use tidegate_http::descriptors;
use tidegate_http::eviction::{Eviction, Evictor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a client may be silent after it has connected before its connection may be closed: a first packet that was
/// lost is sent again within that time. Until then, new clients wait.
const SILENT: Duration = Duration::from_secs(1);
/// How long the rest of a head may take before its connection may be closed. Until then, new clients wait.
const SLOW_HEAD: Duration = Duration::from_secs(1);
/// How long a client may keep the gateway waiting in the middle of a request before its connection may be closed.
const STALLED: Duration = Duration::from_secs(1);
/// Slots of connections, shared by all workers.
pub(crate) struct ConnectionSlots {
    /// The log text when all slots are taken: how many there are, and why there are not more.
    pub(crate) taken: String,
    /// How many there are.
    pub(crate) most: usize,
    /// Connections with requests under way.
    pub(crate) busy: Arc<AtomicUsize>,
    free: Arc<Semaphore>,
    /// How many clients wait for a slot.
    waiting: AtomicUsize,
    evictor: Evictor,
}

impl ConnectionSlots {
    /// Slots for `most` connections, with these deadlines.
    pub(crate) fn new(most: usize, taken: String, deadlines: &[Arc<Deadlines>]) -> Arc<Self> {
        let (free, evictor) = (Arc::new(Semaphore::new(most)), Evictor::new(deadlines, Deadlines::idlers, rank));
        Arc::new(Self { taken, most, busy: Arc::default(), free, waiting: AtomicUsize::new(0), evictor })
    }

    /// Takes a slot for a connection. While none is free, others are closed. `full` is called each time all are found
    /// busy.
    pub(crate) async fn acquire(&self, mut full: impl FnMut()) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(slot);
        }
        let mut acquiring = pin!(Arc::clone(&self.free).acquire_owned());
        let _waits = descriptors::Waiting::new(&self.waiting);
        loop {
            // A client whose connection is closed has a moment to read why. Until then no other one is closed instead.
            let wanted = self.waiting.load(Ordering::Relaxed);
            if self.evictor.evict_any(Shortage::Slots, wanted) == Eviction::AllBusy {
                full();
            }
            // The end takes a moment, and a request may come instead.
            if let Ok(slot) = timeout(TICK, acquiring.as_mut()).await {
                return slot.ok();
            }
        }
    }

    /// Closes the connection that is needed least, for its descriptor: one with a request under way only if its client
    /// is waited for.
    pub(crate) fn free_a_descriptor(&self) -> Eviction {
        self.evictor.evict_any(Shortage::Descriptors, usize::MAX)
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
        Waiting::Body | Waiting::Client if idler.waited >= STALLED => Some(3),
        Waiting::Taking if idler.waited >= STALLED => Some(4),
        Waiting::First
        | Waiting::Head
        | Waiting::Taking
        | Waiting::Client
        | Waiting::Body
        | Waiting::Stream
        | Waiting::StreamClient
        | Waiting::Ending
        | Waiting::Work => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use tidegate_http::deadlines::{Deadline, Owner};

    use super::*;

    /// Searches that are older are made anew.
    const REMEMBERED_FOR: Duration = Duration::from_secs(1);
    const LATER: Duration = Duration::from_secs(3_600);

    /// Connections of two workers, and the time.
    struct Connections {
        slots: Arc<ConnectionSlots>,
        deadlines: [Arc<Deadlines>; 2],
        now_millis: u64,
        now: Cell<Instant>,
    }

    impl Connections {
        fn new() -> Self {
            let deadlines = [Deadlines::new(), Deadlines::new()];
            let (slots, now) = (ConnectionSlots::new(1, String::new(), &deadlines), Cell::new(Instant::now()));
            Self { slots, deadlines, now_millis: 0, now }
        }

        fn opens(&self, worker: usize, waiting: Waiting) -> Arc<Deadline> {
            let deadline = self.deadlines[worker].deadline(Owner::NONE);
            deadline.set_for(waiting, LATER);
            deadline
        }

        fn passes(&mut self, millis: u64) {
            self.now_millis += millis;
            self.deadlines.iter().for_each(|deadlines| deadlines.sweep(self.now_millis));
        }

        fn evict_at(&self, now: Instant) -> Eviction {
            self.slots.evictor.evict_any_at(now, Shortage::Slots, usize::MAX)
        }

        /// Which of these is closed next, if any. Candidates are searched anew.
        fn next(&self, deadlines: &[&Arc<Deadline>]) -> Option<usize> {
            self.now.set(self.now.get() + REMEMBERED_FOR);
            let before: Vec<bool> = deadlines.iter().map(|deadline| deadline.is_evicted()).collect();
            let evicted = self.evict_at(self.now.get()) == Eviction::Started;
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
    fn a_connection_with_a_request_under_way_is_never_closed_unless_its_client_is_waited_for() {
        let mut connections = Connections::new();
        let (work, taking) = (connections.opens(0, Waiting::Work), connections.opens(1, Waiting::Taking));
        connections.passes(999);
        assert_eq!(connections.next(&[&work, &taking]), None);
        connections.passes(1);
        assert_eq!(connections.next(&[&work, &taking]), Some(1));
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
    fn silent_connections_are_closed_before_idle_ones_then_slow_heads_and_slow_bodies() {
        let mut connections = Connections::new();
        let (head, idle) = (connections.opens(0, Waiting::Head), connections.opens(0, Waiting::Next));
        let (body, taking) = (connections.opens(1, Waiting::Body), connections.opens(1, Waiting::Taking));
        connections.passes(1_000);
        let (silent, newer) = (connections.opens(0, Waiting::First), connections.opens(1, Waiting::Head));
        connections.passes(999);
        let all = [&head, &idle, &silent, &newer, &body, &taking];
        assert_eq!(connections.next(&all), Some(1), "a new connection has a moment for its first request");
        idle.set_for(Waiting::Next, LATER);
        connections.passes(1);
        let order: Vec<_> = std::iter::from_fn(|| connections.next(&all)).collect();
        assert_eq!(order, [2, 1, 0, 3, 4, 5]);
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
            assert_eq!(connections.slots.free_a_descriptor(), Eviction::Started);
            assert!(all[number].is_evicted() && !all[number + 1].is_evicted(), "{number}");
        }
    }

    /// With all connections busy, each new client that waits would otherwise search them all again and again.
    #[test]
    fn a_search_in_vain_is_not_repeated_at_once() {
        let mut connections = Connections::new();
        let connection = connections.opens(0, Waiting::Work);
        let now = Instant::now();
        assert_eq!(connections.evict_at(now), Eviction::AllBusy);
        connection.set_for(Waiting::Next, LATER);
        connections.passes(20);
        assert_eq!(connections.evict_at(now), Eviction::NotYet);
        assert_eq!(connections.evict_at(now + TICK), Eviction::Started);
    }

    /// A list of some minutes ago had only clients that send a request now and then: they were closed before silent
    /// ones that had come since.
    #[test]
    fn a_connection_that_became_silent_since_the_last_search_is_closed_first() {
        let mut connections = Connections::new();
        let kept = [(); 3].map(|()| connections.opens(0, Waiting::Next));
        connections.passes(20);
        let now = Instant::now();
        assert_eq!(connections.evict_at(now), Eviction::Started);
        let silent = connections.opens(1, Waiting::First);
        connections.passes(1_000);
        assert_eq!(connections.evict_at(now + REMEMBERED_FOR), Eviction::Started);
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
        assert_eq!(connections.evict_at(now), Eviction::NotYet, "it may still send a request");
        connections.passes(1_000);
        assert_eq!(connections.evict_at(now + later(1)), Eviction::Started);
        assert_eq!(connections.evict_at(now + later(2)), Eviction::NotYet, "it is ending");
        drop(silent);
        assert_eq!(connections.evict_at(now + later(3)), Eviction::AllBusy);
    }
}
