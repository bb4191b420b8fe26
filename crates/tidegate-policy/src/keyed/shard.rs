use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use crate::{Cost, Decision, Limiter, Ticket, Timestamp};

/// A part of the keys, behind its own lock.
pub(crate) struct Shard<K, L: Limiter> {
    limiter: L,
    /// Counts changes of the limiter, so that a ticket from before one is known.
    generation: u32,
    table: HashTable<Entry<K, L::State>>,
    max_keys: usize,
    /// The bucket where the search for keys to forget goes on.
    hand: usize,
}

struct Entry<K, S> {
    key: K,
    state: S,
}

impl<K: Hash + Eq, L: Limiter> Shard<K, L> {
    pub(super) fn new(limiter: L, max_keys: usize) -> Self {
        Self { limiter, generation: 0, table: HashTable::new(), max_keys, hand: 0 }
    }

    pub(super) fn limiter(&self) -> &L {
        &self.limiter
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.table.allocation_size()
    }

    #[inline]
    pub(crate) fn check<Q>(
        &mut self,
        hasher: &impl BuildHasher,
        hash: u64,
        key: &Q,
        cost: Cost,
        now: Timestamp,
    ) -> Decision
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(entry) = self.table.find_mut(hash, |entry| entry.key.borrow() == key) {
            return self.limiter.check(&mut entry.state, cost, now);
        }
        let mut state = L::State::default();
        let decision = self.limiter.check(&mut state, cost, now);
        if decision.is_admitted() {
            self.insert(hasher, hash, key.to_owned(), state, now);
        }
        decision
    }

    pub(crate) fn decide<Q>(&self, hash: u64, key: &Q, cost: Cost, now: Timestamp) -> Decision
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        match self.table.find(hash, |entry| entry.key.borrow() == key) {
            Some(entry) => self.limiter.decide(&entry.state, cost, now),
            None => self.limiter.decide(&L::State::default(), cost, now),
        }
    }

    /// Takes what [`Self::decide`] has just admitted.
    pub(crate) fn take<Q>(
        &mut self,
        hasher: &impl BuildHasher,
        hash: u64,
        key: &Q,
        cost: Cost,
        now: Timestamp,
    ) -> Ticket
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let receipt = if let Some(entry) = self.table.find_mut(hash, |entry| entry.key.borrow() == key) {
            self.limiter.take(&mut entry.state, cost, now)
        } else {
            let mut state = L::State::default();
            let receipt = self.limiter.take(&mut state, cost, now);
            self.insert(hasher, hash, key.to_owned(), state, now);
            receipt
        };
        Ticket::new(receipt, self.generation, self.limiter.holds_slots())
    }

    pub(super) fn update<Q, R>(
        &mut self,
        hasher: &impl BuildHasher,
        hash: u64,
        key: &Q,
        now: Timestamp,
        f: impl FnOnce(&mut L::State) -> R,
    ) -> R
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(entry) = self.table.find_mut(hash, |entry| entry.key.borrow() == key) {
            return f(&mut entry.state);
        }
        let mut state = L::State::default();
        let result = f(&mut state);
        self.insert(hasher, hash, key.to_owned(), state, now);
        result
    }

    pub(crate) fn give_back<Q>(&mut self, hash: u64, key: &Q, ticket: &Ticket, now: Timestamp)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        if !ticket.is_good(self.generation, self.limiter.receipts_survive_a_change()) {
            return;
        }
        if let Some(entry) = self.table.find_mut(hash, |entry| entry.key.borrow() == key) {
            self.limiter.give_back(&mut entry.state, ticket.receipt(), now);
        }
    }

    pub(super) fn update_known<Q, R>(&mut self, hash: u64, key: &Q, f: impl FnOnce(&mut L::State) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.table.find_mut(hash, |entry| entry.key.borrow() == key).map(|entry| f(&mut entry.state))
    }

    pub(super) fn change(&mut self, limiter: L, now: Timestamp) {
        for entry in &mut self.table {
            limiter.adopt(&mut entry.state, &self.limiter, now);
        }
        self.limiter = limiter;
        self.generation = self.generation.wrapping_add(1);
    }

    pub(super) fn forget_unused(&mut self, hasher: &impl BuildHasher, now: Timestamp) {
        let limiter = &self.limiter;
        self.table.retain(|entry| limiter.spent(&entry.state, now) > 0);
        self.table.shrink_to_fit(|entry| hasher.hash_one(&entry.key));
    }

    /// Out of line, and rare: a key's first request.
    #[cold]
    fn insert(&mut self, hasher: &impl BuildHasher, hash: u64, key: K, state: L::State, now: Timestamp) {
        if self.table.len() < self.max_keys {
            self.forget_some(now);
        } else {
            self.push_one_out(now);
        }
        self.table.insert_unique(hash, Entry { key, state }, |entry| hasher.hash_one(&entry.key));
    }

    /// Looks at a few keys for each new one, so that the unused ones among them are found before the table has to grow:
    /// the hand is round after a quarter as many new keys as there are buckets.
    fn forget_some(&mut self, now: Timestamp) {
        const BUCKETS_A_STEP: usize = 4;
        for _ in 0..BUCKETS_A_STEP.min(self.table.num_buckets()) {
            let bucket = self.advance();
            if self.spent_at(bucket, now) == Some(0) {
                self.remove(bucket);
            }
        }
    }

    /// Makes room in a full shard: forgets an unused key, or else the least used of the next few.
    fn push_one_out(&mut self, now: Timestamp) {
        const KEYS_TO_COMPARE: usize = 16;
        let mut compared = 0;
        let mut least: Option<(u64, usize)> = None;
        for _ in 0..self.table.num_buckets() {
            let bucket = self.advance();
            let Some(spent) = self.spent_at(bucket, now) else { continue };
            if least.is_none_or(|(least, _)| spent < least) {
                least = Some((spent, bucket));
            }
            compared += 1;
            if spent == 0 || compared == KEYS_TO_COMPARE {
                break;
            }
        }
        if let Some((_, bucket)) = least {
            self.remove(bucket);
        }
    }

    fn advance(&mut self) -> usize {
        self.hand = (self.hand + 1) & (self.table.num_buckets() - 1); // the table's size is a power of two
        self.hand
    }

    /// How much the key in this bucket has spent, if there is a key.
    fn spent_at(&self, bucket: usize, now: Timestamp) -> Option<u64> {
        self.table.get_bucket(bucket).map(|entry| self.limiter.spent(&entry.state, now))
    }

    fn remove(&mut self, bucket: usize) {
        if let Ok(entry) = self.table.get_bucket_entry(bucket) {
            entry.remove();
        }
    }
}
