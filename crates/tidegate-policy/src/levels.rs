use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::keyed::{Shard, lock};
use crate::{Cost, Decision, Keyed, Limiter, Ticket, Timestamp};

/// The most limits one request can be checked against together.
pub const MAX_LEVELS: usize = 16;

/// One of the limits that a request must pass: which limit, on whose account, at what cost.
pub struct Level<'a, K, L: Limiter, Q: ?Sized = K> {
    /// The limit's name, for whoever is refused.
    pub name: &'a str,
    /// The limit.
    pub limit: &'a Keyed<K, L>,
    /// On whose account.
    pub key: &'a Q,
    /// What it takes here. Levels may count different things: one requests, another bytes.
    pub cost: Cost,
    /// What this level said, once asked. If another level refused, an admission here is what would have been: nothing was taken.
    pub decision: Option<Decision>,
    ticket: Option<Ticket>,
}

/// Which limit refused, and when to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedBy {
    /// The place among the levels of the limit that keeps the request away longest.
    pub level: usize,
    /// When all levels together would admit the request, if nobody else comes; `None` is never.
    pub retry_after: Option<Duration>,
}

impl<'a, K, L: Limiter, Q: ?Sized> Level<'a, K, L, Q> {
    /// A level that has not been asked yet.
    pub const fn new(name: &'a str, limit: &'a Keyed<K, L>, key: &'a Q, cost: Cost) -> Self {
        Self { name, limit, key, cost, decision: None, ticket: None }
    }

    /// For what was taken here, if the last [`check_all`] admitted and it was not given back since. Whoever takes it gives it back.
    pub const fn take_ticket(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }
}

/// Asks all levels together: the request takes its cost from every one of them, or, if any refuses, nothing from any.
///
/// Every level is asked and answers in its [`decision`](Level::decision). Of those that refuse, the one with the longest
/// `retry_after` is returned: by then the others will admit too. The check is atomic: all keys are locked at once. Limits of different
/// algorithms go together as [`Rule`](crate::Rule)s.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use tidegate_policy::{Cost, FixedWindow, Keyed, Level, Rule, Timestamp, check_all};
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
/// let refused = check_all(&mut levels, now).expect_err("her second request");
/// assert_eq!((levels[refused.level].name, refused.retry_after), ("user", Some(minute)));
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
///
/// # Panics
/// With more than [`MAX_LEVELS`] levels.
pub fn check_all<K, L, Q>(levels: &mut [Level<'_, K, L, Q>], now: Timestamp) -> Result<(), RefusedBy>
where
    K: Hash + Eq + Borrow<Q>,
    L: Limiter + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    let mut locked = Locked::all(levels);
    for place in 0..levels.len() {
        let (cost, hash) = (cost_with_earlier(levels, place), locked.hashes[place]);
        let level = &mut levels[place];
        level.ticket = None;
        level.decision = Some(locked.shard(place).decide(hash, level.key, cost, now));
    }
    if let Some(refused) = longest_refusal(levels.iter().filter_map(|level| level.decision)) {
        return Err(refused);
    }
    for (place, level) in levels.iter_mut().enumerate() {
        let hash = locked.hashes[place];
        level.ticket = Some(locked.shard(place).take(level.limit.hasher(), hash, level.key, level.cost, now));
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

/// Of the decisions that refuse, the one that keeps the request away longest (never is longest); the first of several alike.
pub fn longest_refusal(decisions: impl IntoIterator<Item = Decision>) -> Option<RefusedBy> {
    let refusals = decisions.into_iter().enumerate().filter_map(|(level, decision)| match decision {
        Decision::Refuse { retry_after, .. } => Some(RefusedBy { level, retry_after }),
        Decision::Admit { .. } => None,
    });
    let wait = |refusal: &RefusedBy| refusal.retry_after.unwrap_or(Duration::MAX);
    refusals.reduce(|longest, other| if wait(&other) > wait(&longest) { other } else { longest })
}

/// A level's cost, with those of earlier levels on the same account: the same key of the same limit pays the sum.
fn cost_with_earlier<K, L: Limiter, Q: Eq + ?Sized>(levels: &[Level<'_, K, L, Q>], place: usize) -> Cost {
    let level = &levels[place];
    let same = |other: &&Level<'_, K, L, Q>| std::ptr::eq(other.limit, level.limit) && other.key == level.key;
    let earlier = levels[..place].iter().filter(same);
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
    fn all<Q>(levels: &[Level<'a, K, L, Q>]) -> Self
    where
        K: Hash + Eq,
        Q: Hash + ?Sized,
    {
        let count = levels.len();
        assert!(count <= MAX_LEVELS, "{count} levels; at most {MAX_LEVELS} can be checked together");
        let mut locked =
            Self { guards: [const { None }; MAX_LEVELS], guard_of: [0; MAX_LEVELS], hashes: [0; MAX_LEVELS] };
        let mut shards: [Option<&'a Mutex<Shard<K, L>>>; MAX_LEVELS] = [None; MAX_LEVELS];
        let mut order: [usize; MAX_LEVELS] = std::array::from_fn(|place| place);
        for (place, level) in levels.iter().enumerate() {
            locked.hashes[place] = level.limit.hash(level.key);
            shards[place] = Some(level.limit.shard(locked.hashes[place]));
        }
        let address = |place: usize| shards[place].map(|shard| std::ptr::from_ref(shard).addr());
        order[..count].sort_unstable_by_key(|place| address(*place));
        let mut before: Option<usize> = None;
        for place in order.into_iter().take(count) {
            locked.guard_of[place] = match before {
                Some(other) if address(other) == address(place) => locked.guard_of[other],
                _ => {
                    locked.guards[place] = shards[place].map(lock);
                    place
                }
            };
            before = Some(place);
        }
        locked
    }

    fn shard(&mut self, place: usize) -> &mut Shard<K, L> {
        self.guards[self.guard_of[place]].as_mut().expect("every level's shard was locked above")
    }
}
