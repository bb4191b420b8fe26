//! Histograms of times.

use std::time::Duration;

use hdrhistogram::{Counter, Histogram};

/// What is longer counts as so long.
const LONGEST: Duration = Duration::from_secs(3_600);
/// The highest value that stands for a time up to the longest one, in microseconds: values that follow closely are one.
const HIGHEST: u64 = 1 << 32;

/// Times and how often each occurred, to so many digits. Costs nothing until there is one.
#[derive(Clone, Debug)]
pub struct TimeHistogram<C: Counter, const DIGITS: u8>(Option<Histogram<C>>);

/// Of a whole run.
pub type Fine = TimeHistogram<u64, 3>;
/// Of one step of a run.
pub type Coarse = TimeHistogram<u32, 2>;

impl<C: Counter, const DIGITS: u8> Default for TimeHistogram<C, DIGITS> {
    fn default() -> Self {
        Self(None)
    }
}

impl<C: Counter, const DIGITS: u8> PartialEq for TimeHistogram<C, DIGITS> {
    fn eq(&self, other: &Self) -> bool {
        self.pairs().eq(other.pairs())
    }
}

impl<C: Counter, const DIGITS: u8> TimeHistogram<C, DIGITS> {
    fn histogram(&mut self) -> &mut Histogram<C> {
        self.0.get_or_insert_with(|| Histogram::new(DIGITS).expect("one to five digits are allowed"))
    }

    pub(crate) fn note(&mut self, time: Duration) {
        // At least one: a histogram of this kind can't hold zero.
        let micros = (time.min(LONGEST).as_micros() as u64).max(1);
        self.histogram().record(micros).expect("histograms grow by themselves");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if let Some(other) = &other.0 {
            self.histogram().add(other).expect("histograms grow by themselves");
        }
    }

    /// From what [`pairs`](Self::pairs) gave; an error if it can't have given them.
    pub fn from_pairs(pairs: &[(u64, C)]) -> Result<Self, &'static str> {
        let mut times = Self::default();
        let mut last = 0;
        for (value, count) in pairs {
            if *value <= last {
                return Err("has times that are zero or not in ascending order");
            }
            if *value > HIGHEST {
                return Err("has a time of more than an hour");
            }
            if *count == C::zero() {
                return Err("has a time that never occurred");
            }
            let histogram = times.histogram();
            if last > 0 && histogram.equivalent(*value, last) {
                return Err("has times that are too close to each other");
            }
            histogram.record_n(*value, *count).expect("histograms grow by themselves");
            last = *value;
        }
        Ok(times)
    }

    /// Each time in microseconds, the highest of those that count as one, with how often it occurred.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, C)> + '_ {
        let recorded = self.0.iter().flat_map(Histogram::iter_recorded);
        recorded.map(|at| (at.value_iterated_to(), at.count_at_value()))
    }

    /// How many times there are.
    pub fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of this rank from 1 on, in microseconds; 0 if there are fewer.
    pub fn at_rank(&self, rank: u64) -> u64 {
        let mut passed = 0_u64;
        let reached = self.pairs().find(|(_, count)| {
            passed = passed.saturating_add(count.as_u64());
            passed >= rank
        });
        reached.map_or(0, |(value, _)| value)
    }

    /// The time that this percentage of all is not above, in microseconds.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.at_rank(rank(percent, self.len()))
    }

    /// The longest time, in microseconds.
    pub fn max(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::max)
    }

    /// Their mean, in microseconds.
    pub fn mean(&self) -> f64 {
        self.0.as_ref().map_or(0.0, Histogram::mean)
    }

    /// The shortest of the times that count as one with this, in microseconds.
    pub fn lowest_like(&self, micros: u64) -> u64 {
        self.0.as_ref().map_or(micros, |histogram| histogram.lowest_equivalent(micros))
    }
}

/// Which of `count` is the one at this percentage: exact for percentages of up to six decimals, whatever the count.
pub(crate) fn rank(percent: f64, count: u64) -> u64 {
    let millionths = (percent * 1e6).round() as u128;
    let rank = (millionths * u128::from(count)).div_ceil(100_000_000);
    // No more than the count, as nothing is beyond 100 percent.
    (rank as u64).clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What floating point gets wrong: 0.999 × 3,000 is a little more than 2,997 there, and rounds up.
    #[test]
    fn ranks_are_exact() {
        for (percent, count, expected) in [
            (50.0, 1, 1),
            (50.0, 2, 1),
            (50.0, 3, 2),
            (99.0, 100, 99),
            (99.0, 101, 100),
            (99.9, 1_000, 999),
            (99.9, 3_000, 2_997),
            (99.99, 10_000, 9_999),
            (99.999_999, 100_000_000, 99_999_999),
            (0.0, 10, 1),
            (100.0, 10, 10),
            (100.0, u64::MAX, u64::MAX),
            (99.0, 0, 1),
        ] {
            assert_eq!(rank(percent, count), expected, "{percent} % of {count}");
        }
    }

    #[test]
    fn pairs_make_the_same_spread_again() {
        let mut times = Fine::default();
        for number in 0..10_000_u64 {
            times.note(Duration::from_micros(number * number * 37));
        }
        let pairs: Vec<(u64, u64)> = times.pairs().collect();
        let again = Fine::from_pairs(&pairs).expect("its own pairs");
        assert_eq!(again, times);
        assert_eq!((again.max(), again.len()), (times.max(), times.len()));
        assert!((again.mean() - times.mean()).abs() < 1e-9);
        for pairs in [
            &[(0, 1)][..],
            &[(5, 1), (5, 1)],
            &[(5, 0)],
            &[(5, 1), (4, 1)],
            &[(u64::MAX, 1)],
            &[(9_999_998, 1), (9_999_999, 1)],
        ] {
            assert!(Fine::from_pairs(pairs).is_err(), "{pairs:?}");
        }
    }
}
