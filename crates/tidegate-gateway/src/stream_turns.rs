//! Turns of the requests on an HTTP/2 connection. While a client does not take the responses that it has, no more of
//! its requests begin: a response without a window would only cost the upstream work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long requests that have no response yet keep others waiting: then their upstream is slow, not their client.
const SLOW_UPSTREAM: Duration = Duration::from_millis(250);

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
    /// How many of both there may be. One more with each response that the client has taken, up to `most`.
    allowed: u32,
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
            Phase::Begun(_) | Phase::Taken => {}
            Phase::Untaken => self.untaken -= 1,
        }
    }
}

impl StreamTurns {
    /// For a connection whose client has not shown yet that it takes its responses.
    pub(crate) fn new(allowed: u32, most: u32) -> Arc<Self> {
        let counts = Counts { begun: 0, batch: 0, batch_began: None, untaken: 0, allowed, most };
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
        Ok(Turn { turns: Arc::clone(self), phase: Mutex::new(Phase::Begun(counts.batch)) })
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
}

/// The turn of a request, from its beginning until its client has taken the response.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<StreamTurns>,
    phase: Mutex<Phase>,
}

impl Turn {
    /// There is something that the client has to take.
    pub(crate) fn given(&self) {
        self.enter(Phase::Untaken);
    }

    /// The client has taken all that is there.
    pub(crate) fn taken(&self) {
        self.enter(Phase::Taken);
    }

    fn enter(&self, phase: Phase) {
        let mut current = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, phase);
        if before == phase {
            return;
        }
        let mut counts = self.turns.counts();
        counts.leave(before);
        if phase == Phase::Untaken {
            counts.untaken += 1;
        } else {
            self.turns.freed.notify_one();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let phase = *self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = self.turns.counts();
        counts.leave(phase);
        if phase == Phase::Taken && counts.allowed < counts.most {
            // A client that takes its responses gets more of them at a time.
            counts.allowed += 1;
        }
        self.turns.freed.notify_one();
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
                turn.taken();
            }
            let held = [begins(&turns).await, begins(&turns).await, begins(&turns).await];
            assert!(held.iter().all(Option::is_some) && begins(&turns).await.is_none());
            drop(held);
            assert_eq!(turns.counts().allowed, 3, "they were not taken");
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

    /// Those that had waited for long began all at once when one place was free.
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
