//! Deadlines: one periodic sweep in each worker instead of one timer for each request.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often deadlines are checked. None fires early, and none later than twice this.
pub const TICK: Duration = Duration::from_millis(20);

/// No deadline.
const NONE: u64 = u64::MAX >> WAITING_BITS;
/// A deadline's last bits are its [`Waiting`].
const WAITING_BITS: u32 = 4;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Work that must not be cut short: a request under way, an upstream.
    Work = 0,
    /// The first byte of a client's first request.
    First = 1,
    /// Another request of a client that has sent one before.
    Next = 2,
    /// The rest of a request's head, or of a TLS handshake.
    Head = 3,
    /// A client, to take what is written.
    Taking = 4,
    /// A client that holds an upstream's connection: more of its request's body, or that it takes its response.
    Client = 5,
    /// A client that holds nothing yet: more of its request's body.
    Body = 6,
    /// A client, on one of the streams of its connection. Ending the stream frees no connection.
    Stream = 7,
    /// The same while it holds an upstream's connection.
    StreamClient = 8,
    /// The end of a connection whose last response has been written.
    Ending = 9,
}

impl Waiting {
    fn of(state: u64) -> Self {
        match state & ((1 << WAITING_BITS) - 1) {
            1 => Self::First,
            2 => Self::Next,
            3 => Self::Head,
            4 => Self::Taking,
            5 => Self::Client,
            6 => Self::Body,
            7 => Self::Stream,
            8 => Self::StreamClient,
            9 => Self::Ending,
            _ => Self::Work,
        }
    }
}

/// What was lacking when a connection was closed for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Connections that clients may have, or connections that an upstream may have.
    Slots = 14,
    /// Descriptors that the process may have open.
    Descriptors = 15,
}

impl Shortage {
    /// The state of a connection that is closed for it. A deadline that is set later undoes it.
    fn state(self) -> u64 {
        NONE << WAITING_BITS | self as u64
    }
}

/// Why a connection was ended before its client did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// To make room for another.
    Evicted(Shortage),
    /// What it waited for did not happen in time.
    Late(Waiting),
}

/// Who holds a connection: a client's address, or the upstream that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u32);

impl Owner {
    /// Nobody in particular.
    pub const NONE: Self = Self(0);

    /// One that no other is equal to, until four billion more have been made.
    pub fn unique() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1))
    }

    /// Its index in a table of this size.
    pub(crate) fn index(self, size: usize) -> usize {
        self.0 as usize % size.max(1)
    }
}

/// A deadline of a task that waits. When it [passes](Self::has_passed), the task is woken.
pub struct Deadline {
    now_millis: Arc<AtomicU64>,
    owner: Owner,
    /// The deadline and its [`Waiting`]. They share one integer, so that another thread evicts a connection only while
    /// it still waits for the same.
    state: AtomicU64,
    /// When it was set.
    since_millis: AtomicU64,
    passed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Deadline {
    /// Sets the deadline, counted from now. An earlier one that has passed unnoticed is forgotten.
    pub fn set(&self, after: Duration) {
        self.set_for(Waiting::Work, after);
    }

    /// Sets the deadline and what it is for.
    pub fn set_for(&self, waiting: Waiting, after: Duration) {
        self.set_since(self.now_millis(), waiting, after);
    }

    /// Sets the deadline and what it is for, counted from an earlier [time](Self::now_millis).
    pub fn set_since(&self, since_millis: u64, waiting: Waiting, after: Duration) {
        self.passed.store(false, Ordering::Relaxed);
        let after = u64::try_from((after + TICK).as_millis()).unwrap_or(NONE);
        let at = since_millis.saturating_add(after).min(NONE - 1);
        self.since_millis.store(since_millis, Ordering::Relaxed);
        // Another thread that sees this state must not see an earlier `since_millis`.
        self.state.store(at << WAITING_BITS | waiting as u64, Ordering::Release);
    }

    /// Removes the deadline.
    pub fn clear(&self) {
        self.passed.store(false, Ordering::Relaxed);
        self.state.store(NONE << WAITING_BITS, Ordering::Relaxed);
    }

    /// The worker's milliseconds, as of the last tick.
    pub fn now_millis(&self) -> u64 {
        self.now_millis.load(Ordering::Relaxed)
    }

    fn at_millis(&self) -> u64 {
        self.state.load(Ordering::Relaxed) >> WAITING_BITS
    }

    /// Whether it has passed, or its connection was evicted.
    pub fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed) || self.is_evicted()
    }

    /// Whether it has passed. Forgets that it has.
    pub fn take_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed) && self.passed.swap(false, Ordering::Relaxed)
    }

    /// Whether the connection must make room for another.
    pub fn is_evicted(&self) -> bool {
        self.evicted_for().is_some()
    }

    /// Whether its connection is about to end.
    fn is_ending(&self) -> bool {
        let waiting = Waiting::of(self.state.load(Ordering::Relaxed));
        self.ended().is_some() || self.at_millis() != NONE && waiting == Waiting::Ending
    }

    fn evicted_for(&self) -> Option<Shortage> {
        let state = self.state.load(Ordering::Relaxed);
        [Shortage::Slots, Shortage::Descriptors].into_iter().find(|shortage| shortage.state() == state)
    }

    /// Why the connection must end, if it must.
    pub fn ended(&self) -> Option<Ended> {
        if let Some(shortage) = self.evicted_for() {
            return Some(Ended::Evicted(shortage));
        }
        let is_late = self.passed.load(Ordering::Relaxed);
        is_late.then(|| Ended::Late(Waiting::of(self.state.load(Ordering::Relaxed))))
    }

    /// Wakes this task when it passes.
    pub fn watch(&self, context: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    /// It has passed. What it was for stays readable.
    fn pass(&self) {
        self.state.fetch_or(NONE << WAITING_BITS, Ordering::Relaxed);
        self.passed.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Wakes the task that watches it.
    pub fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What a search finds.
#[derive(Default)]
pub struct Found {
    /// Connections that wait for their clients.
    pub idlers: Vec<Idler>,
    /// Connections that are about to end.
    pub ending: Vec<Ending>,
}

/// A connection that was about to end when it was found.
#[derive(Debug)]
pub struct Ending {
    /// Who holds it.
    pub owner: Owner,
    deadline: Weak<Deadline>,
}

impl Ending {
    fn of(deadline: &Arc<Deadline>) -> Self {
        Self { owner: deadline.owner, deadline: Arc::downgrade(deadline) }
    }

    /// Whether it is still there, and still about to end.
    pub fn is_there(&self) -> bool {
        // One handle is that of the worker, which sweeps it.
        self.deadline.strong_count() > 1 && self.deadline.upgrade().is_some_and(|deadline| deadline.is_ending())
    }
}

/// A connection that waited for its client when it was found.
pub struct Idler {
    /// What it waits for.
    pub waiting: Waiting,
    /// How long it has waited.
    pub waited: Duration,
    /// Who holds it.
    pub owner: Owner,
    state: u64,
    deadline: Weak<Deadline>,
}

impl Idler {
    /// Ends the connection, if it still waits for the same. If a request arrives at the same moment, that request is
    /// served and this has no effect.
    pub fn evict(&self, shortage: Shortage) -> Option<Ending> {
        let deadline = self.deadline.upgrade()?;
        let (from, to) = (self.state, shortage.state());
        deadline.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        deadline.wake();
        Some(Ending::of(&deadline))
    }
}

/// All deadlines of a worker.
pub struct Deadlines {
    started: Instant,
    now_millis: Arc<AtomicU64>,
    all: Mutex<Vec<Arc<Deadline>>>,
}

impl Deadlines {
    /// None so far; time begins now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), now_millis: Arc::default(), all: Mutex::default() })
    }

    /// A deadline that is not set. It is swept until its last handle is dropped.
    pub fn deadline(&self, owner: Owner) -> Arc<Deadline> {
        let deadline = Arc::new(Deadline {
            now_millis: Arc::clone(&self.now_millis),
            owner,
            state: AtomicU64::new(NONE << WAITING_BITS),
            since_millis: AtomicU64::new(0),
            passed: AtomicBool::new(false),
            waker: Mutex::default(),
        });
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&deadline));
        deadline
    }

    /// Milliseconds since the worker began, as of the last tick.
    pub fn now_millis(&self) -> u64 {
        self.now_millis.load(Ordering::Relaxed)
    }

    /// Finds all connections of clients that wait for them, in a walk like that of each tick.
    pub fn idlers(&self, found: &mut Found) {
        let of_clients =
            [Waiting::First, Waiting::Next, Waiting::Head, Waiting::Taking, Waiting::Body, Waiting::Client];
        self.waiting_for(&of_clients, found);
    }

    /// Finds all connections to upstreams that wait for a client, likewise.
    pub fn stalled(&self, found: &mut Found) {
        self.waiting_for(&[Waiting::Client, Waiting::StreamClient], found);
    }

    fn waiting_for(&self, wanted: &[Waiting], found: &mut Found) {
        let now = self.now_millis();
        for deadline in &*self.all.lock().unwrap_or_else(PoisonError::into_inner) {
            // Without another handle it belongs to a connection that has ended.
            if Arc::strong_count(deadline) == 1 {
                continue;
            }
            let state = deadline.state.load(Ordering::Acquire);
            let waiting = Waiting::of(state);
            if state >> WAITING_BITS == NONE {
                if deadline.ended().is_some() {
                    found.ending.push(Ending::of(deadline));
                }
            } else if waiting == Waiting::Ending {
                found.ending.push(Ending::of(deadline));
            } else if wanted.contains(&waiting) {
                let waited = now.saturating_sub(deadline.since_millis.load(Ordering::Relaxed));
                let (owner, waited) = (deadline.owner, Duration::from_millis(waited));
                found.idlers.push(Idler { waiting, waited, owner, state, deadline: Arc::downgrade(deadline) });
            }
        }
    }

    /// Sweeps without end. Calls `each` at every tick, about once a second with `true`.
    pub async fn run(self: Arc<Self>, mut each: impl FnMut(bool)) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = 0_u32;
        loop {
            ticks.tick().await;
            let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(NONE - 1);
            self.sweep(now);
            count = count.wrapping_add(1);
            each(count.is_multiple_of(50));
        }
    }

    /// Wakes the tasks whose deadlines have passed at this millisecond, and forgets deadlines without another handle.
    pub fn sweep(&self, now_millis: u64) {
        self.now_millis.store(now_millis, Ordering::Relaxed);
        let mut deadlines = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        deadlines.retain(|deadline| {
            if Arc::strong_count(deadline) == 1 {
                return false;
            }
            if deadline.at_millis() <= now_millis {
                deadline.pass();
            }
            true
        });
        if deadlines.capacity() > 1_024 && deadlines.len() * 4 < deadlines.capacity() {
            deadlines.shrink_to_fit();
        }
    }

    /// Wakes all tasks, so that they notice what has changed.
    pub fn wake_all(&self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|deadline| deadline.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_set_anew_has_not_passed_whatever_came_before() {
        let deadlines = Deadlines::new();
        let deadline = deadlines.deadline(Owner::NONE);
        deadline.set(Duration::ZERO);
        deadlines.sweep(1_000);
        assert!(deadline.has_passed());
        // The request came in the very moment in which the connection's time was up: it is served.
        deadline.clear();
        assert!(!deadline.has_passed());
        deadline.set(Duration::ZERO);
        deadlines.sweep(2_000);
        assert!(deadline.has_passed());
        deadline.set(Duration::from_secs(10));
        assert!(!deadline.has_passed());
    }

    fn idler(deadlines: &Deadlines) -> Option<Idler> {
        let mut found = Found::default();
        deadlines.idlers(&mut found);
        found.idlers.pop()
    }

    #[test]
    fn only_what_waits_for_its_client_can_be_evicted() {
        let deadlines = Deadlines::new();
        let deadline = deadlines.deadline(Owner::NONE);
        assert!(idler(&deadlines).is_none(), "it waits for nothing");
        for (waiting, is_idle) in [
            (Waiting::Work, false),
            (Waiting::First, true),
            (Waiting::Next, true),
            (Waiting::Head, true),
            (Waiting::Taking, true),
            (Waiting::Client, true),
            (Waiting::Body, true),
            (Waiting::Stream, false),
            (Waiting::StreamClient, false),
            (Waiting::Ending, false),
        ] {
            deadline.set_for(waiting, Duration::from_secs(10));
            let found = idler(&deadlines);
            assert_eq!(found.is_some(), is_idle, "{waiting:?}");
            if let Some(found) = found {
                assert_eq!(found.waiting, waiting);
                let ending = found.evict(Shortage::Descriptors);
                assert!(ending.is_some_and(|ending| ending.is_there()) && deadline.has_passed(), "{waiting:?}");
                assert!(found.evict(Shortage::Slots).is_none(), "once");
                assert_eq!(deadline.ended(), Some(Ended::Evicted(Shortage::Descriptors)));
                assert!(idler(&deadlines).is_none(), "it is about to end");
            }
        }
        deadline.set_for(Waiting::Next, Duration::ZERO);
        deadlines.sweep(1_000);
        assert_eq!(deadline.ended(), Some(Ended::Late(Waiting::Next)));
        assert!(idler(&deadlines).is_none(), "it is about to end");
        deadline.set_for(Waiting::Next, Duration::ZERO);
        drop(deadline);
        assert!(idler(&deadlines).is_none(), "it has ended");
    }

    /// A connection to an upstream is needed by others. A connection of a client is not closed for it.
    #[test]
    fn what_waits_for_a_client_is_found_apart_with_its_owner() {
        let deadlines = Deadlines::new();
        let owner = Owner::unique();
        assert_ne!(owner, Owner::unique());
        let (client, upstream) = (deadlines.deadline(Owner::NONE), deadlines.deadline(owner));
        client.set_for(Waiting::Next, Duration::from_secs(10));
        upstream.set_for(Waiting::Client, Duration::from_secs(10));
        deadlines.sweep(500);
        let stalled = || {
            let mut found = Found::default();
            deadlines.stalled(&mut found);
            found
        };
        let mut found = stalled();
        assert!(found.ending.is_empty());
        let found = found.idlers.pop().expect("one waits");
        assert_eq!((found.owner, found.waited), (owner, Duration::from_millis(500)));
        assert!(found.evict(Shortage::Slots).is_some() && upstream.is_evicted() && !client.is_evicted());
        assert_eq!(
            stalled().ending.iter().map(|ending| ending.owner).collect::<Vec<_>>(),
            [owner],
            "it is about to end"
        );
    }

    /// Eviction comes from another thread. What the connection's own thread has done since the connection was found
    /// wins: a request that came is served.
    #[test]
    fn a_connection_that_has_moved_on_is_not_evicted() {
        let deadlines = Deadlines::new();
        let deadline = deadlines.deadline(Owner::NONE);
        let waits = || deadline.set_for(Waiting::Next, Duration::from_secs(10));
        waits();
        let found = idler(&deadlines).expect("it waits");
        deadline.clear();
        assert!(found.evict(Shortage::Slots).is_none() && !deadline.has_passed(), "a request began");
        deadlines.sweep(40);
        waits();
        assert!(
            found.evict(Shortage::Slots).is_none() && !deadline.has_passed(),
            "and ended: it has not waited for long"
        );
        let found = idler(&deadlines).expect("it waits");
        let ending = found.evict(Shortage::Slots).expect("it is idle");
        assert!(ending.is_there());
        deadline.clear();
        assert!(!ending.is_there(), "it goes on");
        assert!(!deadline.has_passed(), "a request began before the connection saw that it should end");
    }
}
