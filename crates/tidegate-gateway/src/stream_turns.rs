//! Turns of the requests on an HTTP/2 connection. While a client does not take the responses that it has, no more of
//! its requests begin: a response without a window would only cost the upstream work.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long requests that have no response yet keep others waiting: then their upstream is slow, not their client.
const SLOW_UPSTREAM: Duration = Duration::from_millis(250);
/// A client that takes so many bytes of a response may have one more response at a time. It is just above the window
/// that a stream has by default: what a client lets through without doing anything shows nothing.
const BYTES_OF_ANOTHER: u32 = 64 * 1024;

/// The turns of one connection.
#[derive(Debug)]
pub(crate) struct StreamTurns {
    counts: Mutex<Counts>,
    /// A request may begin.
    freed: Notify,
}

#[derive(Debug)]
struct Counts {
    /// Requests of the last batch that have no response yet.
    begun: u32,
    /// A batch ends when [`SLOW_UPSTREAM`] have passed since its first request began.
    batch: u32,
    batch_began: Option<Instant>,
    /// Responses with something in them that the client has not taken.
    untaken: u32,
    /// How many of both there may be: from `least` to `most`. One more with each response that the client has taken,
    /// and with each [`BYTES_OF_ANOTHER`]; half of them when it was cut off.
    allowed: u32,
    least: u32,
    most: u32,
}

impl Counts {
    /// Whether one more may begin. `is_quiet`: requests without a response do not count.
    fn has_room(&mut self, now: Instant, is_quiet: bool) -> bool {
        if self.slow_from().is_some_and(|slow_from| now >= slow_from) {
            (self.begun, self.batch, self.batch_began) = (0, self.batch.wrapping_add(1), None);
        }
        let begun = if is_quiet { 0 } else { self.begun };
        begun + self.untaken < self.allowed
    }

    /// When the requests of the batch no longer count, because their upstream is slow.
    fn slow_from(&self) -> Option<Instant> {
        self.batch_began.map(|began| began + SLOW_UPSTREAM)
    }

    /// A request is no longer in this phase.
    fn leave(&mut self, phase: Phase) {
        match phase {
            Phase::Begun(batch) if batch == self.batch => self.begun = self.begun.saturating_sub(1),
            Phase::Begun(_) | Phase::Taken | Phase::Ended => {}
            Phase::Untaken => self.untaken -= 1,
        }
    }

    fn allow_another(&mut self) {
        self.allowed = (self.allowed + 1).min(self.most.max(self.least));
    }
}

impl StreamTurns {
    /// For a connection whose client has not shown yet that it takes its responses.
    pub(crate) fn new(allowed: u32, most: u32) -> Arc<Self> {
        let counts = Counts { begun: 0, batch: 0, batch_began: None, untaken: 0, allowed, least: allowed, most };
        Arc::new(Self { counts: Mutex::new(counts), freed: Notify::new() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request may begin, at most until `end`; then there is no turn for it. `is_quiet`: so few requests
    /// of all clients are under way that those without a response keep nobody waiting.
    pub(crate) async fn begin(self: Arc<Self>, end: Instant, is_quiet: impl Fn() -> bool) -> Option<Turn> {
        loop {
            let now = Instant::now();
            let until = match self.try_begin(now, is_quiet()) {
                Ok(turn) => return Some(turn),
                Err(_) if now >= end => return None,
                Err(slow_from) => slow_from.map_or(end, |slow_from| slow_from.min(end)),
            };
            // A timeout leads to another look.
            let _woken = timeout_at(until, self.freed.notified()).await;
        }
    }

    /// Begins a request, if one may begin at once.
    #[cfg(test)]
    pub(crate) fn begin_now(self: &Arc<Self>) -> Option<Turn> {
        self.try_begin(Instant::now(), false).ok()
    }

    /// How many responses the client may leave untaken.
    #[cfg(test)]
    pub(crate) fn allowed(&self) -> u32 {
        self.counts().allowed
    }

    /// Begins a request, if one may begin. Otherwise: when there may be room though nothing is freed.
    fn try_begin(self: &Arc<Self>, now: Instant, is_quiet: bool) -> Result<Turn, Option<Instant>> {
        let mut counts = self.counts();
        if !counts.has_room(now, is_quiet) {
            return Err(counts.slow_from());
        }
        counts.begun += 1;
        counts.batch_began.get_or_insert(now);
        // Several may have become free since the last one was notified. In vain, it would lose its turn.
        if counts.has_room(now, is_quiet) {
            self.freed.notify_one();
        }
        let phase = Mutex::new(Phase::Begun(counts.batch));
        Ok(Turn { turns: Arc::clone(self), phase, taken_bytes: AtomicU32::new(0) })
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has no response yet. It began in this batch.
    Begun(u32),
    /// The client has not taken all that is there of the response.
    Untaken,
    /// The client has taken all that is there.
    Taken,
    /// Nothing more comes of it: the client has taken it whole, or it has broken off.
    Ended,
}

/// The turn of a request, from its beginning until its client has taken the response.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<StreamTurns>,
    phase: Mutex<Phase>,
    /// Bytes that the client has taken and that have not counted yet.
    taken_bytes: AtomicU32,
}

impl Turn {
    /// There is something that the client has to take.
    pub(crate) fn given(&self) {
        self.enter(Phase::Untaken);
    }

    /// The client has taken all that is there so far.
    pub(crate) fn taken(&self) {
        self.enter(Phase::Taken);
    }

    /// The client has taken so many bytes.
    pub(crate) fn moved(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(BYTES_OF_ANOTHER);
        let taken = self.taken_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        // Only the connection's own task sends.
        self.taken_bytes.store(taken % BYTES_OF_ANOTHER, Ordering::Relaxed);
        if taken >= BYTES_OF_ANOTHER {
            self.allow_another();
        }
    }

    /// The client has taken the whole response.
    pub(crate) fn taken_whole(&self) {
        if self.enter(Phase::Ended) {
            self.allow_another();
        }
    }

    /// A client that takes its responses gets more of them at a time.
    fn allow_another(&self) {
        self.turns.counts().allow_another();
        self.turns.freed.notify_one();
    }

    /// The response has broken off before the client had taken it.
    pub(crate) fn broken_off(&self) {
        self.enter(Phase::Ended);
    }

    /// The client was cut off, because it did not take the response.
    pub(crate) fn cut_off(&self) {
        let mut counts = self.turns.counts();
        counts.allowed = (counts.allowed / 2).max(counts.least);
        drop(counts);
        self.enter(Phase::Ended);
    }

    /// Returns whether this changes anything.
    fn enter(&self, phase: Phase) -> bool {
        let mut current = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == phase || *current == Phase::Ended {
            return false;
        }
        let mut counts = self.turns.counts();
        counts.leave(std::mem::replace(&mut *current, phase));
        if phase == Phase::Untaken {
            counts.untaken += 1;
        } else {
            self.turns.freed.notify_one();
        }
        true
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.enter(Phase::Ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test);
    }

    impl StreamTurns {
        fn is_unused(&self) -> bool {
            let counts = self.counts();
            (counts.begun, counts.untaken) == (0, 0)
        }
    }

    /// Whether a request may begin at once.
    async fn begins(turns: &Arc<StreamTurns>) -> Option<Turn> {
        Arc::clone(turns).begin(Instant::now(), || false).await
    }

    #[test]
    fn responses_that_are_not_taken_keep_others_waiting() {
        run(async {
            let turns = StreamTurns::new(2, 10);
            let (one, two) = (begins(&turns).await.expect("room"), begins(&turns).await.expect("room"));
            assert!(begins(&turns).await.is_none());
            one.given();
            two.given();
            assert!(begins(&turns).await.is_none());
            one.taken();
            let three = begins(&turns).await.expect("the client takes");
            one.given();
            assert!(begins(&turns).await.is_none(), "there is more for it");
            drop((two, three));
            assert!(begins(&turns).await.is_some(), "they have ended");
        });
    }

    #[test]
    fn a_waiting_request_begins_as_soon_as_another_is_taken_or_ends() {
        run(async {
            let turns = StreamTurns::new(1, 1);
            for ends in [false, true] {
                let first = begins(&turns).await.expect("room");
                first.given();
                let start = Instant::now();
                let waiting: Vec<_> = (0..3)
                    .map(|_| {
                        let turn = Arc::clone(&turns).begin(start + LONG, || false);
                        tokio::spawn(async { turn.await.is_some() })
                    })
                    .collect();
                tokio::task::yield_now().await;
                first.taken();
                if ends {
                    drop(first);
                }
                for waiting in waiting {
                    assert!(waiting.await.expect("it ends"));
                }
                assert_eq!(start.elapsed(), Duration::ZERO);
            }
        });
    }

    #[test]
    fn a_client_that_takes_its_responses_gets_more_at_a_time() {
        run(async {
            let turns = StreamTurns::new(1, 3);
            for _ in 0..5 {
                let turn = begins(&turns).await.expect("room");
                turn.given();
                turn.taken_whole();
            }
            let held = [begins(&turns).await, begins(&turns).await, begins(&turns).await];
            assert!(held.iter().all(Option::is_some) && begins(&turns).await.is_none());
            drop(held);
            assert_eq!(turns.allowed(), 3, "they were not taken");
        });
    }

    /// A client that resets its streams, or whose responses break off, had more of them each time.
    #[test]
    fn only_a_response_that_is_taken_whole_allows_another() {
        run(async {
            let turns = StreamTurns::new(2, 10);
            let ways: [fn(&Turn); 5] = [
                |_| {},
                Turn::given,
                |turn| {
                    turn.given();
                    turn.broken_off();
                    turn.taken();
                    turn.taken_whole();
                },
                |turn| {
                    turn.given();
                    turn.taken();
                },
                |turn| {
                    turn.given();
                    turn.moved(BYTES_OF_ANOTHER as usize - 1);
                },
            ];
            for way in ways {
                let turn = begins(&turns).await.expect("room");
                way(&turn);
                drop(turn);
                assert!(turns.is_unused());
                assert_eq!(turns.allowed(), 2);
            }
        });
    }

    /// A client that took large responses at full speed never had taken all that there was: its other requests waited,
    /// and were rejected.
    #[test]
    fn bytes_that_are_taken_allow_others_while_a_response_goes_on() {
        run(async {
            let turns = StreamTurns::new(1, 3);
            let large = begins(&turns).await.expect("room");
            large.given();
            let waiting = tokio::spawn(Arc::clone(&turns).begin(Instant::now() + LONG, || false));
            tokio::task::yield_now().await;
            for _ in 0..64 {
                assert!(!waiting.is_finished());
                large.moved(1_024);
            }
            let small = waiting.await.expect("it ends").expect("the client takes");
            large.moved(10 * BYTES_OF_ANOTHER as usize);
            large.moved(10 * BYTES_OF_ANOTHER as usize);
            assert_eq!(turns.allowed(), 3, "not more than may be");
            drop((large, small));
            assert!(turns.is_unused());
        });
    }

    #[test]
    fn a_client_that_is_cut_off_has_fewer_at_a_time() {
        run(async {
            let turns = StreamTurns::new(2, 100);
            turns.counts().allowed = 50;
            for allowed in [25, 12, 6, 3, 2, 2] {
                let turn = begins(&turns).await.expect("room");
                turn.given();
                turn.cut_off();
                turn.broken_off();
                assert_eq!(turns.allowed(), allowed);
            }
            assert!(turns.is_unused());
        });
    }

    #[test]
    fn a_slow_upstream_keeps_others_waiting_for_a_moment_and_not_at_all_while_few_are_under_way() {
        run(async {
            let turns = StreamTurns::new(1, 1);
            let (start, slow) = (Instant::now(), begins(&turns).await.expect("room"));
            let second = Arc::clone(&turns).begin(start, || true).await.expect("few are under way");
            let third = Arc::clone(&turns).begin(start + LONG, || false).await.expect("the upstream is slow");
            assert_eq!(start.elapsed(), SLOW_UPSTREAM);
            assert!(begins(&turns).await.is_none(), "the third counts for as long");
            slow.given();
            assert!(Arc::clone(&turns).begin(start, || true).await.is_none(), "the client is slow");
            drop((slow, second, third));
            assert!(turns.is_unused());
        });
    }

    /// Those that had waited for long began all at once when one slot was free.
    #[test]
    fn requests_that_have_waited_for_long_still_begin_a_few_at_a_time() {
        run(async {
            let turns = StreamTurns::new(2, 10);
            let held = [begins(&turns).await, begins(&turns).await].map(|turn| turn.expect("room"));
            held.iter().for_each(Turn::given);
            let start = Instant::now();
            let waiting: Vec<_> =
                (0..10).map(|_| tokio::spawn(Arc::clone(&turns).begin(start + LONG, || false))).collect();
            tokio::time::advance(LONG / 3).await;
            drop(held);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(waiting.iter().filter(|waiting| waiting.is_finished()).count(), 2);
        });
    }

    #[test]
    fn no_request_waits_for_ever() {
        run(async {
            let turns = StreamTurns::new(1, 1);
            let (start, first) = (Instant::now(), begins(&turns).await.expect("room"));
            first.given();
            assert!(Arc::clone(&turns).begin(start + LONG, || false).await.is_none());
            assert_eq!(start.elapsed(), LONG);
            drop(first);
            assert!(turns.is_unused());
        });
    }
}
