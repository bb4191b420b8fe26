use std::borrow::Borrow;
use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_policy::{Cost, Decision, Keyed, Limiter, Timestamp};

use crate::clock::Clock;
use crate::permit::{Permit, Shared};
use crate::queue::{Queue, Waiter};
use crate::signal::{Signal, unparker};

/// A limit in memory that can be waited for. (Several at once, and limits in Redis, can't.) Clones are the same gate.
///
/// Those who wait for a key are served in the order of arrival. At most `max_waiting` wait at the same time, over all
/// keys; those that a shaper delays are bounded by its own queue. A request that can't be admitted before its timeout
/// fails at once, if it is the first of its key: waiting would not help. A change of the limit's numbers is noticed at
/// the next look.
pub struct Gate<K, L: Limiter>(Arc<Shared<K, L>>);

impl<K, L: Limiter> Clone for Gate<K, L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Why nothing was acquired. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAcquired {
    /// It can't be had in time.
    Timeout {
        /// When it could be had, if nobody else came; `None` if others wait before this request.
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
    /// A gate before `limit` (a [`Keyed`], or an [`Arc`] of one that is used elsewhere too), where at most
    /// `max_waiting` may wait.
    pub fn new(limit: impl Into<Arc<Keyed<K, L>>>, max_waiting: usize) -> Self {
        Self::with_clock(limit, max_waiting, Clock::start())
    }

    /// The same with a clock of yours, for a limit that others ask by that clock.
    pub fn with_clock(limit: impl Into<Arc<Keyed<K, L>>>, max_waiting: usize, clock: Clock) -> Self {
        Self(Arc::new(Shared { limit: limit.into(), clock, queue: Queue::new(max_waiting) }))
    }

    /// Waits until `cost` is admitted for `key`, at most for `timeout`. Dropping the future leaves the queue, and gives
    /// back what was taken.
    ///
    /// Needs a Tokio runtime with timers.
    pub async fn acquire<Q>(&self, key: &Q, cost: Cost, timeout: Duration) -> Result<Permit<K, L>, NotAcquired>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut acquiring = Acquiring::new(&self.0, key.to_owned(), cost, timeout);
        loop {
            match acquiring.step() {
                Step::Done(result) => return result,
                Step::Wait { span, signal } => {
                    let signalled =
                        poll_fn(|context| signal.as_ref().map_or(Poll::Pending, |s| s.poll(context.waker())));
                    // Woken or not, the next step looks for itself.
                    let _woken = tokio::time::timeout(span, signalled).await;
                }
            }
        }
    }

    /// The same for threads: blocks this one.
    pub fn acquire_blocking<Q>(&self, key: &Q, cost: Cost, timeout: Duration) -> Result<Permit<K, L>, NotAcquired>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let waker = unparker();
        let mut acquiring = Acquiring::new(&self.0, key.to_owned(), cost, timeout);
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
}

enum Step<K: Hash + Eq + Clone, L: Limiter + Clone> {
    Done(Result<Permit<K, L>, NotAcquired>),
    /// Wait so long, or until the signal comes, then step again.
    Wait {
        span: Duration,
        signal: Option<Arc<Signal>>,
    },
}

/// One who wants to acquire: everything but the waiting itself, which is done differently by tasks and by threads.
struct Acquiring<'a, K: Hash + Eq + Clone, L: Limiter + Clone> {
    shared: &'a Arc<Shared<K, L>>,
    key: K,
    cost: Cost,
    deadline: Timestamp,
    waiter: Option<Waiter<'a, K>>,
    /// Admitted, but only to go on then.
    departing: Option<(Permit<K, L>, Timestamp)>,
}

impl<'a, K: Hash + Eq + Clone, L: Limiter + Clone> Acquiring<'a, K, L> {
    fn new(shared: &'a Arc<Shared<K, L>>, key: K, cost: Cost, timeout: Duration) -> Self {
        let deadline = shared.clock.now() + timeout;
        Self { shared, key, cost, deadline, waiter: None, departing: None }
    }

    fn step(&mut self) -> Step<K, L> {
        let now = self.shared.clock.now();
        if let Some((_, departure)) = &self.departing
            && now < *departure
        {
            return Step::Wait { span: departure.since(now), signal: None };
        }
        if let Some((permit, _)) = self.departing.take() {
            return Step::Done(Ok(permit));
        }
        let may_ask = match &self.waiter {
            Some(waiter) => waiter.is_first(),
            None => self.shared.queue.is_empty(&self.key),
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
    fn ask(&mut self, now: Timestamp) -> Result<Step<K, L>, Duration> {
        let left = self.deadline.since(now);
        let (decision, ticket) = self.shared.limit.take_within(&self.key, self.cost, now, left);
        match (decision, ticket) {
            (Decision::Admit { wait, .. }, Some(ticket)) => {
                let permit = Permit::new(Arc::clone(self.shared), self.key.clone(), decision, ticket);
                self.departing = Some((permit, now + wait));
                self.waiter = None; // the next one may ask
                Ok(self.step())
            }
            (Decision::Admit { wait, .. }, None) => {
                Ok(Step::Done(Err(NotAcquired::Timeout { retry_after: Some(wait) })))
            }
            (Decision::Reject { retry_after: None, .. }, _) => Ok(Step::Done(Err(NotAcquired::Never))),
            (Decision::Reject { retry_after: Some(after), .. }, _) if after > left && !self.may_come_sooner(left) => {
                Ok(Step::Done(Err(NotAcquired::Timeout { retry_after: Some(after) })))
            }
            (Decision::Reject { retry_after: Some(after), .. }, _) => Err(after),
        }
    }

    /// Slots come back when requests are done: as long as there is time, it may be in time.
    fn may_come_sooner(&self, left: Duration) -> bool {
        left > Duration::ZERO && self.shared.limit.limiter().holds_slots()
    }

    /// Waits in the queue, at most for `span` and not beyond the deadline.
    fn wait(&mut self, now: Timestamp, span: Duration) -> Step<K, L> {
        if self.waiter.is_none() {
            return match self.shared.queue.enter(&self.key) {
                Ok(waiter) => {
                    self.waiter = Some(waiter);
                    self.step() // what came free between our question and our entry woke nobody: ask again
                }
                Err(_full) => Step::Done(Err(NotAcquired::TooManyWaiting)),
            };
        }
        let signal = self.waiter.as_ref().map(|waiter| Arc::clone(&waiter.signal));
        Step::Wait { span: span.min(self.deadline.since(now)), signal }
    }
}

/// A client that goes away while a shaper delays it gives back what it took.
impl<K: Hash + Eq + Clone, L: Limiter + Clone> Drop for Acquiring<'_, K, L> {
    fn drop(&mut self) {
        if let Some((permit, _)) = self.departing.take() {
            permit.give_back();
        }
    }
}
