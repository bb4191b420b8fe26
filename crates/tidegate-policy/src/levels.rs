use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::keyed::Shard;
use crate::lock::lock;
use crate::{Cost, Decision, Keyed, Limiter, Ticket, Timestamp};

/// The most limits one request can be checked against together.
pub const MAX_LEVELS: usize = 16;

/// One of the limits that a request must pass: which limit, which key, at what cost.
pub struct Level<'a, K, L: Limiter, Q: ?Sized = K> {
    /// The limit's name, to be shown to a client that is rejected.
    pub name: &'a str,
    /// The limit.
    pub limit: &'a Keyed<K, L>,
    /// The key it counts by.
    pub key: &'a Q,
    /// What it takes here. Levels may count different things: one requests, another bytes.
    pub cost: Cost,
    /// What this level decided, once asked. If another level rejected, an admission here is what would have been:
    /// nothing was taken.
    pub decision: Option<Decision>,
    ticket: Option<Ticket>,
}

impl<'a, K, L: Limiter, Q: ?Sized> Level<'a, K, L, Q> {
    /// A level that has not been asked yet.
    pub const fn new(name: &'a str, limit: &'a Keyed<K, L>, key: &'a Q, cost: Cost) -> Self {
        Self { name, limit, key, cost, decision: None, ticket: None }
    }

    /// For what was taken here, if the last [`check_all`] admitted and it was not given back since. The caller then
    /// gives it back.
    pub const fn take_ticket(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }
}

/// Which limit rejected, and when to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedBy {
    /// The index among the levels of the limit that keeps the request away longest.
    pub level: usize,
    /// When all levels together would admit the request, if nobody else comes; `None` is never.
    pub retry_after: Option<Duration>,
}

/// Why [`check_all`] did not admit a request. Nothing was taken at any level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// A level rejected it.
    Rejected(RejectedBy),
    /// There are more than [`MAX_LEVELS`] levels. None was asked.
    TooManyLevels {
        /// How many there are.
        count: usize,
    },
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(RejectedBy { level, retry_after: Some(after) }) => {
                write!(f, "rejected by level {level}; retry after {after:?}")
            }
            Self::Rejected(RejectedBy { level, retry_after: None }) => {
                write!(f, "rejected by level {level}: the cost is above the whole limit")
            }
            Self::TooManyLevels { count } => {
                write!(f, "too many levels to check together: must be at most {MAX_LEVELS}, got {count}")
            }
        }
    }
}

impl std::error::Error for NotAdmitted {}

/// Asks all levels together: the request takes its cost from every one of them, or, if any rejects, nothing from any.
///
/// Every level is asked and keeps its [`decision`](Level::decision). Of those that reject, the one with the longest
/// `retry_after` is returned: by then the others will admit too. The check is atomic: all keys are locked at once.
/// Limits of different algorithms go together as [`Rule`](crate::Rule)s. More than [`MAX_LEVELS`] levels are an error.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use tidegate_policy::{Cost, FixedWindow, Keyed, Level, NotAdmitted, RejectedBy, Rule, Timestamp, check_all};
///
/// let keys = NonZeroUsize::new(1_000).expect("not zero");
/// let minute = Duration::from_secs(60);
/// let everyone = Keyed::<String, Rule>::new(FixedWindow::new(1_000_000, minute)?.into(), keys);
/// let per_user = Keyed::<String, Rule>::new(FixedWindow::new(1, minute)?.into(), keys);
///
/// let mut levels = [
///     Level::new("global", &everyone, "", Cost::ONE),
///     Level::new("user", &per_user, "ann", Cost::ONE),
/// ];
/// let now = Timestamp::from_nanos(0);
/// assert!(check_all(&mut levels, now).is_ok());
/// let by_user = RejectedBy { level: 1, retry_after: Some(minute) };
/// assert_eq!(check_all(&mut levels, now), Err(NotAdmitted::Rejected(by_user)));
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
pub fn check_all<K, L, Q>(levels: &mut [Level<'_, K, L, Q>], now: Timestamp) -> Result<(), NotAdmitted>
where
    K: Hash + Eq + Borrow<Q>,
    L: Limiter + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    let mut locked = Locked::all(levels).ok_or(NotAdmitted::TooManyLevels { count: levels.len() })?;
    for index in 0..levels.len() {
        let (cost, hash) = (cost_with_earlier(levels, index), locked.hashes[index]);
        let level = &mut levels[index];
        level.ticket = None;
        level.decision = Some(locked.shard(index).decide(hash, level.key, cost, now));
    }
    if let Some(rejected) = longest_rejection(levels.iter().filter_map(|level| level.decision)) {
        return Err(NotAdmitted::Rejected(rejected));
    }
    for (index, level) in levels.iter_mut().enumerate() {
        let hash = locked.hashes[index];
        level.ticket = Some(locked.shard(index).take(level.limit.hasher(), hash, level.key, level.cost, now));
    }
    Ok(())
}

/// Gives back what an admitted [`check_all`] took from these levels, at every level; twice does no more than once.
pub fn give_back_all<K, L, Q>(levels: &mut [Level<'_, K, L, Q>], now: Timestamp)
where
    K: Hash + Eq + Borrow<Q>,
    L: Limiter + Clone,
    Q: Hash + Eq + ?Sized,
{
    for level in levels {
        if let Some(ticket) = level.ticket.take() {
            level.limit.give_back(level.key, ticket, now);
        }
    }
}

/// Of the decisions that reject, the one that keeps the request away longest (never is longest); the first of several
/// alike.
pub fn longest_rejection(decisions: impl IntoIterator<Item = Decision>) -> Option<RejectedBy> {
    let rejections = decisions.into_iter().enumerate().filter_map(|(level, decision)| match decision {
        Decision::Reject { retry_after, .. } => Some(RejectedBy { level, retry_after }),
        Decision::Admit { .. } => None,
    });
    let wait = |rejection: &RejectedBy| rejection.retry_after.unwrap_or(Duration::MAX);
    rejections.reduce(|longest, other| if wait(&other) > wait(&longest) { other } else { longest })
}

/// A level's cost, with those of earlier levels of the same key of the same limit: it pays the sum.
fn cost_with_earlier<K, L: Limiter, Q: Eq + ?Sized>(levels: &[Level<'_, K, L, Q>], index: usize) -> Cost {
    let level = &levels[index];
    let same = |other: &&Level<'_, K, L, Q>| std::ptr::eq(other.limit, level.limit) && other.key == level.key;
    let earlier = levels[..index].iter().filter(same);
    let sum = earlier.fold(level.cost.get(), |sum, other| sum.saturating_add(other.cost.get()));
    Cost::new(sum).unwrap_or(level.cost)
}

/// The shards of all levels, locked in the order of their addresses, so that two requests never wait for each other.
struct Locked<'a, K, L: Limiter> {
    guards: [Option<MutexGuard<'a, Shard<K, L>>>; MAX_LEVELS],
    /// Which guard is a level's own: levels that share a shard share its lock.
    guard_of: [usize; MAX_LEVELS],
    hashes: [u64; MAX_LEVELS],
}

impl<'a, K, L: Limiter + Clone> Locked<'a, K, L> {
    /// `None` if there are too many.
    fn all<Q>(levels: &[Level<'a, K, L, Q>]) -> Option<Self>
    where
        K: Hash + Eq,
        Q: Hash + ?Sized,
    {
        let count = levels.len();
        if count > MAX_LEVELS {
            return None;
        }
        let mut locked =
            Self { guards: [const { None }; MAX_LEVELS], guard_of: [0; MAX_LEVELS], hashes: [0; MAX_LEVELS] };
        let mut shards: [Option<&'a Mutex<Shard<K, L>>>; MAX_LEVELS] = [None; MAX_LEVELS];
        let mut order: [usize; MAX_LEVELS] = std::array::from_fn(|index| index);
        for (index, level) in levels.iter().enumerate() {
            locked.hashes[index] = level.limit.hash(level.key);
            shards[index] = Some(level.limit.shard(locked.hashes[index]));
        }
        let address = |index: usize| shards[index].map(|shard| std::ptr::from_ref(shard).addr());
        order[..count].sort_unstable_by_key(|index| address(*index));
        let mut before: Option<usize> = None;
        for index in order.into_iter().take(count) {
            locked.guard_of[index] = match before {
                Some(other) if address(other) == address(index) => locked.guard_of[other],
                Some(_) | None => {
                    locked.guards[index] = shards[index].map(lock);
                    index
                }
            };
            before = Some(index);
        }
        Some(locked)
    }

    fn shard(&mut self, index: usize) -> &mut Shard<K, L> {
        self.guards[self.guard_of[index]].as_mut().expect("every level's shard was locked above")
    }
}
