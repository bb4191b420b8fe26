use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One worker's part of something that all workers count, kept away from its neighbours in memory: workers that write
/// to the same cache line (or to two that are fetched together, hence 128) would slow each other down.
///
/// One thread writes a shard, any may read it. (More writers lose nothing but speed.)
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Shard<T>(
    /// What the worker counts.
    pub T,
);

impl<T> Deref for Shard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Starts at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// How many until now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_no_cache_line() {
        let shards: [Shard<Counter>; 2] = Default::default();
        let [first, second] = shards.each_ref().map(|shard| std::ptr::from_ref(shard).addr());
        assert_eq!(first % 128, 0);
        assert!(second - first >= 128);
    }

    #[test]
    fn a_counter_counts() {
        let shard = Shard(Counter::new());
        shard.inc();
        shard.add(41);
        assert_eq!(shard.get(), 42);
    }
}
