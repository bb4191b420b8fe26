use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::lock::lock;
use crate::{Cost, Decision, Limiter, Ticket, Timestamp};

mod shard;

pub(crate) use shard::Shard;

/// One limiter for many keys, in memory, for many threads at once.
///
/// It never holds more than `max_keys` keys. A key that has become as good as unused is forgotten, which changes no
/// decision. When all `max_keys` are in use, a new key pushes out the least used of a few it looks at: an attacker who
/// sprays keys makes the store forget his own keys, each used once, not the clients who are at their limit.
///
/// Keys are hashed with a secret seed, so nobody outside can choose keys that collide.
///
/// ```
/// use std::num::NonZeroUsize;
/// use tidegate_policy::{Cost, Gcra, Keyed, Rate, Timestamp};
///
/// let limit = Gcra::new(Rate::per_second(10)?, 1)?;
/// let users = Keyed::<String, _>::new(limit, NonZeroUsize::new(100_000).expect("not zero"));
/// let now = Timestamp::from_nanos(0);
/// assert!(users.check("ann", Cost::ONE, now).is_admitted());
/// assert!(!users.check("ann", Cost::ONE, now).is_admitted());
/// assert!(users.check("bob", Cost::ONE, now).is_admitted());
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
pub struct Keyed<K, L: Limiter> {
    shards: Box<[PaddedShard<K, L>]>,
    hasher: SeedableRandomState,
}

/// Keeps two shards from sharing a cache line, so that threads on different shards do not slow each other down.
#[repr(align(128))]
struct PaddedShard<K, L: Limiter>(Mutex<Shard<K, L>>);

impl<K: Hash + Eq, L: Limiter + Clone> Keyed<K, L> {
    /// An empty store of at most `max_keys` keys, hashed with a seed of its own.
    #[expect(clippy::needless_pass_by_value, reason = "the store is the limiter's new home")]
    pub fn new(limiter: L, max_keys: NonZeroUsize) -> Self {
        let seed = std::hash::RandomState::new().hash_one(0);
        Self::with_hasher(&limiter, max_keys, SeedableRandomState::with_seed(seed, SharedSeed::global_random()))
    }

    /// The same with a given seed, for runs that must repeat: which key is pushed out at the bound depends on it.
    #[expect(clippy::needless_pass_by_value, reason = "the store is the limiter's new home")]
    pub fn with_seed(limiter: L, max_keys: NonZeroUsize, seed: u64) -> Self {
        Self::with_hasher(&limiter, max_keys, SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
    }

    fn with_hasher(limiter: &L, max_keys: NonZeroUsize, hasher: SeedableRandomState) -> Self {
        const SHARDS: usize = 64;
        const KEYS_WORTH_A_SHARD: usize = 256;
        let shards = (max_keys.get() / KEYS_WORTH_A_SHARD).clamp(1, SHARDS);
        let shards = 1 << shards.ilog2(); // rounded down to a power of two
        let max_keys = max_keys.get() / shards;
        let shard = || PaddedShard(Mutex::new(Shard::new(limiter.clone(), max_keys)));
        Self { shards: std::iter::repeat_with(shard).take(shards).collect(), hasher }
    }

    /// Decides on a request of `key`, and takes its cost if it is admitted. For a limit whose slots come back, such as
    /// [`Concurrency`](crate::Concurrency), [`take`](Self::take) a ticket instead.
    pub fn check<Q>(&self, key: &Q, cost: Cost, now: Timestamp) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hash(key);
        self.lock(hash).check(&self.hasher, hash, key, cost, now)
    }

    /// The same, with a ticket to [give back](Self::give_back) what was taken.
    pub fn take<Q>(&self, key: &Q, cost: Cost, now: Timestamp) -> (Decision, Option<Ticket>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.take_within(key, cost, now, Duration::MAX)
    }

    /// The same, for a request that can wait no longer than `max_wait`: if a shaper would delay it for longer, it takes
    /// nothing and gets no ticket.
    pub fn take_within<Q>(&self, key: &Q, cost: Cost, now: Timestamp, max_wait: Duration) -> (Decision, Option<Ticket>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hash(key);
        let mut shard = self.lock(hash);
        let decision = shard.decide(hash, key, cost, now);
        let in_time = matches!(decision, Decision::Admit { wait, .. } if wait <= max_wait);
        (decision, in_time.then(|| shard.take(&self.hasher, hash, key, cost, now)))
    }

    /// Gives back what `ticket` stands for, as [`Limiter::give_back`] says.
    #[expect(clippy::needless_pass_by_value, reason = "what is given back is gone")]
    pub fn give_back<Q>(&self, key: &Q, ticket: Ticket, now: Timestamp)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.lock(hash).give_back(hash, key, &ticket, now);
    }

    /// The limiter as it is now.
    pub fn limiter(&self) -> L {
        lock(&self.shards[0].0).limiter().clone()
    }

    /// Hands the state of `key` to `f`, for limiters whose state is filled from elsewhere. A key that is not there
    /// starts unused.
    pub fn update<Q, R>(&self, key: &Q, now: Timestamp, f: impl FnOnce(&mut L::State) -> R) -> R
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hash(key);
        self.lock(hash).update(&self.hasher, hash, key, now, f)
    }

    /// The same for a key that is there. One that is not stays away.
    pub fn update_known<Q, R>(&self, key: &Q, f: impl FnOnce(&mut L::State) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.lock(hash).update_known(hash, key, f)
    }

    /// Sets other numbers, for all keys: what they used stays used ([`Limiter::adopt`]). Another algorithm (of a
    /// [`Rule`](crate::Rule)) starts every key anew.
    ///
    /// Requests go on in the meantime, each under the old limiter or the new one; it takes some ten nanoseconds a key.
    pub fn change(&self, limiter: &L, now: Timestamp) {
        for shard in &self.shards {
            lock(&shard.0).change(limiter.clone(), now);
        }
    }

    /// Forgets all keys that are as good as unused at `now`, and returns the memory they took. Nobody has to call this
    /// to keep the store within its bound; it serves a store that has grown and then lost its visitors.
    pub fn forget_unused(&self, now: Timestamp) {
        for shard in &self.shards {
            lock(&shard.0).forget_unused(&self.hasher, now);
        }
    }

    /// How many keys it holds, those not yet forgotten included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(&shard.0).len()).sum()
    }

    /// Whether it holds no key at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes its tables take. What keys and logs own on the heap comes on top.
    pub fn table_bytes(&self) -> usize {
        self.shards.iter().map(|shard| size_of_val(shard) + lock(&shard.0).table_bytes()).sum()
    }

    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(crate) fn hasher(&self) -> &SeedableRandomState {
        &self.hasher
    }

    pub(crate) fn shard(&self, hash: u64) -> &Mutex<Shard<K, L>> {
        // The table itself uses the lowest and the seven highest bits.
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)].0
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, Shard<K, L>> {
        lock(self.shard(hash))
    }
}
