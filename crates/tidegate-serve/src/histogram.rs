use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::nanos::{nanos, seconds};

/// The upper bounds of a histogram's buckets, in rising order; one more bucket, without a bound, comes after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    bounds_nanos: Arc<[u64]>,
}

/// How many durations fell into each of the buckets, and their sum.
///
/// Observing is a search among integers and two additions. The sum is kept in nanoseconds: it starts anew after 584
/// years of durations together, which a reader takes for a restart.
#[derive(Debug)]
pub struct Histogram {
    buckets: Buckets,
    counts: Box<[AtomicU64]>,
    sum_nanos: AtomicU64,
}

/// What one histogram, or several shards of one together, had counted at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    buckets: Buckets,
    counts: Vec<u64>,
    sum_nanos: u128,
}

impl Buckets {
    /// Buckets up to and including each of `bounds`, which may come in any order; equal ones are one.
    pub fn new(bounds: &[Duration]) -> Self {
        let mut nanos: Vec<u64> = bounds.iter().copied().map(nanos).collect();
        nanos.sort_unstable();
        nanos.dedup();
        Self { bounds_nanos: nanos.into() }
    }

    /// The bounds in seconds, without the last that is infinite.
    pub fn bounds_seconds(&self) -> impl Iterator<Item = f64> {
        self.bounds_nanos.iter().map(|nanos| seconds(u128::from(*nanos)))
    }

    fn len(&self) -> usize {
        self.bounds_nanos.len() + 1
    }

    fn index_of(&self, nanos: u64) -> usize {
        self.bounds_nanos.partition_point(|bound| *bound < nanos)
    }
}

impl Histogram {
    /// An empty one. Shards that will be merged are given the same buckets.
    pub fn new(buckets: &Buckets) -> Self {
        Self {
            buckets: buckets.clone(),
            counts: (0..buckets.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_nanos: AtomicU64::new(0),
        }
    }

    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let nanos = nanos(duration);
        self.counts[self.buckets.index_of(nanos)].fetch_add(1, Relaxed);
        self.sum_nanos.fetch_add(nanos, Relaxed);
    }

    /// What it has counted until now.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut snapshot = HistogramSnapshot::empty(&self.buckets);
        snapshot.merge(self);
        snapshot
    }
}

impl HistogramSnapshot {
    /// Nothing counted, to merge shards into.
    pub fn empty(buckets: &Buckets) -> Self {
        Self { buckets: buckets.clone(), counts: vec![0; buckets.len()], sum_nanos: 0 }
    }

    /// Adds what a shard has counted until now. If its buckets are others, each counts in the bucket that its bound
    /// falls into, so that no bucket claims what may lie above it.
    pub fn merge(&mut self, shard: &Histogram) {
        let counts = shard.counts.iter().map(|count| count.load(Relaxed));
        self.put(&shard.buckets, counts, u128::from(shard.sum_nanos.load(Relaxed)));
    }

    /// The same for what was counted at another moment.
    pub fn add(&mut self, other: &Self) {
        self.put(&other.buckets, other.counts.iter().copied(), other.sum_nanos);
    }

    fn put(&mut self, buckets: &Buckets, counts: impl Iterator<Item = u64>, sum_nanos: u128) {
        for (index, count) in counts.enumerate() {
            let bound = buckets.bounds_nanos.get(index);
            let into = bound.map_or(self.counts.len() - 1, |bound| self.buckets.index_of(*bound));
            self.counts[into] += count;
        }
        self.sum_nanos += sum_nanos;
    }

    /// What has come since an earlier moment of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then)).collect();
        let sum_nanos = self.sum_nanos.saturating_sub(earlier.sum_nanos);
        Self { buckets: self.buckets.clone(), counts, sum_nanos }
    }

    /// The bound of the bucket below which this share of all lies, in seconds: nothing of nothing, and infinite beyond
    /// the last bound.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.count() as f64 * share).ceil().max(1.0);
        let mut passed = 0;
        let place = self.counts.iter().position(|count| {
            passed += count;
            passed as f64 >= rank
        })?;
        Some(self.buckets.bounds_nanos.get(place).map_or(f64::INFINITY, |nanos| seconds(u128::from(*nanos))))
    }

    /// The buckets it counts in.
    pub fn buckets(&self) -> &Buckets {
        &self.buckets
    }

    /// How many fell into each bucket alone, the last being the one without a bound.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        seconds(self.sum_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::new(&Buckets::new(&[ms(1), ms(10)]));
        for duration in [Duration::ZERO, ms(1), ms(1) + Duration::from_nanos(1), ms(10), ms(11), Duration::MAX / 2] {
            histogram.observe(duration);
        }
        assert_eq!(histogram.snapshot().counts(), [2, 2, 2]);
        assert_eq!(histogram.snapshot().count(), 6);
    }

    #[test]
    fn bounds_may_come_in_any_order_or_not_at_all() {
        assert_eq!(Buckets::new(&[ms(10), ms(1), ms(10)]), Buckets::new(&[ms(1), ms(10)]));
        assert!(Buckets::new(&[ms(5), Duration::from_micros(2_500)]).bounds_seconds().eq([0.0025, 0.005]));
        let histogram = Histogram::new(&Buckets::new(&[]));
        histogram.observe(ms(1500));
        assert_eq!((histogram.snapshot().counts(), histogram.snapshot().sum_seconds()), (&[1][..], 1.5));
    }

    #[test]
    fn shards_add_up() {
        let buckets = Buckets::new(&[ms(1), ms(10)]);
        let shards = [(); 3].map(|()| Histogram::new(&buckets));
        shards[0].observe(ms(1));
        shards[1].observe(ms(2));
        shards[2].observe(ms(20));
        let mut all = HistogramSnapshot::empty(&buckets);
        for shard in &shards {
            all.merge(shard);
        }
        assert_eq!(all.counts(), [1, 1, 1]);
        assert!((all.sum_seconds() - 0.023).abs() < 1e-12);
    }

    #[test]
    fn two_moments_tell_what_came_between() {
        let buckets = Buckets::new(&[ms(1), ms(10), ms(100)]);
        let histogram = Histogram::new(&buckets);
        histogram.observe(ms(1));
        let before = histogram.snapshot();
        assert_eq!(before.since(&before).quantile(0.5), None);
        for _ in 0..98 {
            histogram.observe(ms(10));
        }
        histogram.observe(ms(100));
        histogram.observe(ms(200));
        let between = histogram.snapshot().since(&before);
        assert_eq!((between.counts(), between.count()), (&[0, 98, 1, 1][..], 100));
        assert!((between.sum_seconds() - 1.28).abs() < 1e-12);
        let quantiles = [0.0, 0.5, 0.98, 0.99, 1.0].map(|share| between.quantile(share));
        assert_eq!(quantiles, [Some(0.01), Some(0.01), Some(0.01), Some(0.1), Some(f64::INFINITY)]);
        let mut both = before;
        both.add(&between);
        assert_eq!(both, histogram.snapshot());
    }

    #[test]
    fn a_shard_with_other_buckets_never_counts_too_low() {
        let other = Histogram::new(&Buckets::new(&[ms(1), ms(5), ms(50)]));
        for duration in [ms(1), ms(2), ms(20), ms(60)] {
            other.observe(duration);
        }
        let mut all = HistogramSnapshot::empty(&Buckets::new(&[ms(1), ms(10)]));
        all.merge(&other);
        assert_eq!(all.counts(), [1, 1, 2]);
    }
}
