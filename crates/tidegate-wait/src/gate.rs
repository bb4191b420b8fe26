use std::borrow::Borrow;
use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tidegate_policy::{Cost, Decision, Keyed, Limiter, Ticket, Timestamp};
use tokio::time::timeout;

use crate::Clock;
use crate::line::{Line, Place, Signal};

/// A limit in memory that can be waited for. (Several at once, and limits in Redis, can't.)
///
/// Whoever waits for a key is served in the order of arrival. At most `max_waiting` stand in line at the same time, over all keys; those
/// whom a shaper has told when to go are bounded by its own queue. A request that can't be admitted before its timeout is told so at once,
/// if it is the first of its key: waiting would not help. A change of the limit's numbers is noticed at the next look.
pub struct Gate<K, L: Limiter> {
    limit: Arc<Keyed<K, L>>,
    clock: Clock,
    line: Line<K>,
}

/// What was acquired. Dropping it gives nothing back.
#[derive(Debug)]
pub struct Acquired {
    /// What the limit said. If it asked for a wait, that is over.
    pub decision: Decision,
    ticket: Ticket,
}

/// Why nothing was acquired. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAcquired {
    /// It can't be had in time.
    Timeout {
        /// When it could be had, if nobody else came; `None` if there are others before us.
        retry_after: Option<Duration>,
    },
    /// The cost is above all that the limit can ever hold.
    Never,
    /// As many are waiting as may.
    TooManyWaiting,
}

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { retry_after: Some(after) } => write!(f, "not available in time, only in {after:?}"),
            Self::Timeout { retry_after: None } => f.write_str("not available in time: others are waiting"),
            Self::Never => f.write_str("the cost is above the whole limit"),
            Self::TooManyWaiting => f.write_str("too many are waiting already"),
        }
    }
}

impl std::error::Error for NotAcquired {}

impl<K: Hash + Eq + Clone, L: Limiter + Clone> Gate<K, L> {
    /// A gate before `limit`, where at most `max_waiting` may wait.
    pub fn new(limit: Arc<Keyed<K, L>>, clock: Clock, max_waiting: usize) -> Self {
        Self { limit, clock, line: Line::new(max_waiting) }
    }

    /// Waits until `cost` is admitted for `key`, at most for `patience`. Dropping the future gives the place in line, and what was
    /// taken, back.
    ///
    /// Needs a Tokio runtime with timers.
    pub async fn acquire<Q>(&self, key: &Q, cost: Cost, patience: Duration) -> Result<Acquired, NotAcquired>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut acquiring = Acquiring::new(self, key.to_owned(), cost, patience);
        loop {
            match acquiring.step() {
                Step::Done(result) => return result,
                Step::Wait { span, signal } => {
                    let signalled =
                        poll_fn(|context| signal.as_ref().map_or(Poll::Pending, |s| s.poll(context.waker())));
                    // Woken or not, the next step looks for itself.
                    let _woken = timeout(span, signalled).await;
                }
            }
        }
    }

    /// The same for threads: blocks this one.
    pub fn acquire_blocking<Q>(&self, key: &Q, cost: Cost, patience: Duration) -> Result<Acquired, NotAcquired>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut acquiring = Acquiring::new(self, key.to_owned(), cost, patience);
        loop {
            match acquiring.step() {
                Step::Done(result) => return result,
                Step::Wait { span, signal } => {
                    if signal.is_none_or(|signal| signal.poll(&waker).is_pending()) {
                        std::thread::park_timeout(span);
                    }
                }
            }
        }
    }

    /// Gives back what was acquired, as [`Limiter::give_back`] says, and lets the next one in line know. Whoever holds a place of a
    /// [`Concurrency`](tidegate_policy::Concurrency) limit calls this when done.
    pub fn give_back<Q>(&self, key: &Q, acquired: Acquired)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.limit.give_back(key, acquired.ticket, self.clock.now());
        self.line.wake_first(&key.to_owned());
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

enum Step {
    Done(Result<Acquired, NotAcquired>),
    /// Wait so long, or until the signal comes, then step again.
    Wait {
        span: Duration,
        signal: Option<Arc<Signal>>,
    },
}

/// One who wants to acquire: everything but the waiting itself, which is done differently by tasks and by threads.
struct Acquiring<'a, K: Hash + Eq + Clone, L: Limiter + Clone> {
    gate: &'a Gate<K, L>,
    key: K,
    cost: Cost,
    deadline: Timestamp,
    place: Option<Place<'a, K>>,
    /// Admitted, but told to wait until then.
    departing: Option<(Acquired, Timestamp)>,
}

impl<'a, K: Hash + Eq + Clone, L: Limiter + Clone> Acquiring<'a, K, L> {
    fn new(gate: &'a Gate<K, L>, key: K, cost: Cost, patience: Duration) -> Self {
        let deadline = gate.clock.now() + patience;
        Self { gate, key, cost, deadline, place: None, departing: None }
    }

    fn step(&mut self) -> Step {
        let now = self.gate.clock.now();
        if let Some((_, departure)) = &self.departing
            && now < *departure
        {
            return Step::Wait { span: departure.since(now), signal: None };
        }
        if let Some((acquired, _)) = self.departing.take() {
            return Step::Done(Ok(acquired));
        }
        let may_ask = match &self.place {
            Some(place) => place.is_first(),
            None => self.gate.line.is_empty(&self.key),
        };
        if may_ask {
            self.ask(now).unwrap_or_else(|retry_after| self.wait(now, retry_after))
        } else if now >= self.deadline {
            Step::Done(Err(NotAcquired::Timeout { retry_after: None }))
        } else {
            self.wait(now, Duration::MAX)
        }
    }

    /// Asks the limit. An error says when to ask again.
    fn ask(&mut self, now: Timestamp) -> Result<Step, Duration> {
        let left = self.deadline.since(now);
        match self.gate.limit.take_within(&self.key, self.cost, now, left) {
            (decision @ Decision::Admit { wait, .. }, Some(ticket)) => {
                self.departing = Some((Acquired { decision, ticket }, now + wait));
                self.place = None; // the next one may ask
                Ok(self.step())
            }
            (Decision::Admit { wait, .. }, None) => {
                Ok(Step::Done(Err(NotAcquired::Timeout { retry_after: Some(wait) })))
            }
            (Decision::Refuse { retry_after: None, .. }, _) => Ok(Step::Done(Err(NotAcquired::Never))),
            (Decision::Refuse { retry_after: Some(after), .. }, _) if after > left && !self.may_come_sooner(left) => {
                Ok(Step::Done(Err(NotAcquired::Timeout { retry_after: Some(after) })))
            }
            (Decision::Refuse { retry_after: Some(after), .. }, _) => Err(after),
        }
    }

    /// Places in flight come back when their holders are done: as long as there is time, it may be in time.
    fn may_come_sooner(&self, left: Duration) -> bool {
        left > Duration::ZERO && self.gate.limit.limiter().holds_places()
    }

    /// Waits in line, at most for `span` and not beyond the deadline.
    fn wait(&mut self, now: Timestamp, span: Duration) -> Step {
        if self.place.is_none() {
            return match self.gate.line.enter(&self.key) {
                Ok(place) => {
                    self.place = Some(place);
                    self.step() // what came free between our question and our place woke nobody: ask again
                }
                Err(_full) => Step::Done(Err(NotAcquired::TooManyWaiting)),
            };
        }
        let signal = self.place.as_ref().map(|place| Arc::clone(&place.signal));
        Step::Wait { span: span.min(self.deadline.since(now)), signal }
    }
}

/// A client that goes away while it is told to wait gives back what it took.
impl<K: Hash + Eq + Clone, L: Limiter + Clone> Drop for Acquiring<'_, K, L> {
    fn drop(&mut self) {
        if let Some((acquired, _)) = self.departing.take() {
            self.gate.give_back(&self.key, acquired);
        }
    }
}
