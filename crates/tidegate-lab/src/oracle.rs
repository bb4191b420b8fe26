//! The exact definition of a limit, by which every algorithm is judged: at most so many in any window, wherever it
//! begins.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Judges decisions by what was admitted before them, and nothing else: one request too many counts in every window
/// that holds it.
///
/// Decisions come in the order of their times, in nanoseconds. A shaper's request counts when it leaves.
#[derive(Debug)]
pub struct Oracle {
    window: u64,
    /// How far the times may be off.
    tolerance: u64,
    /// When each key's requests left, in order.
    keys: HashMap<u64, VecDeque<u64>, FixedState>,
    /// What was found.
    pub found: Judged,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judged {
    /// Admitted at all.
    pub admitted: u64,
    /// Admitted though the window was full.
    pub over: u64,
    /// Rejected though there was room in the window.
    pub under: u64,
    /// The most that was admitted in any window, as a multiple of what may be.
    pub worst: f64,
}

impl Oracle {
    /// For windows of so many seconds.
    pub fn new(window_seconds: f64) -> Self {
        let window = (window_seconds * 1e9).round().max(1.0) as u64;
        Self { window, tolerance: 0, keys: HashMap::default(), found: Judged::default() }
    }

    /// Measured times are off by some milliseconds. So windows are shorter by this much where too many are counted, and
    /// longer where too few are.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = u64::try_from(tolerance.as_nanos()).unwrap_or(u64::MAX).min(self.window / 2);
        self
    }

    /// A request came at this time and left at that one. `quota` is how many a window may have now, `burst` how many
    /// more the algorithm is meant to admit.
    pub fn admitted(&mut self, key: u64, came: u64, left: u64, quota: f64, burst: f64) {
        let window = self.window - self.tolerance;
        let past = self.past(key, came);
        let is_before = |at: &u64| at.saturating_add(window) <= left;
        // What is before the window has mostly been dropped just now.
        let before = if past.front().is_some_and(is_before) { past.partition_point(is_before) } else { 0 };
        let earlier = past.len() - before;
        // A shaper whose rate is raised lets the next request leave before others that it keeps.
        let index = if past.back().is_some_and(|last| *last > left) {
            past.partition_point(|at| *at <= left)
        } else {
            past.len()
        };
        past.insert(index, left);
        self.found.admitted += 1;
        let in_window = count(earlier) + 1.0;
        // Binary arithmetic may leave a little on top of a whole number.
        if in_window > quota + burst + 1e-6 {
            self.found.over += 1;
        }
        self.found.worst = self.found.worst.max(in_window / quota.max(1.0));
    }

    /// A request came at this time and was rejected.
    pub fn rejected(&mut self, key: u64, came: u64, quota: f64) {
        let past = self.past(key, came);
        // Those a shaper still keeps have not left.
        let has_kept = past.back().is_some_and(|left| *left > came);
        let in_window = if has_kept { past.partition_point(|left| *left <= came) } else { past.len() };
        if count(in_window) + 1.0 <= quota {
            self.found.under += 1;
        }
    }

    /// What left within the window before this moment, or will leave later.
    fn past(&mut self, key: u64, came: u64) -> &mut VecDeque<u64> {
        let past = self.keys.entry(key).or_default();
        while past.front().is_some_and(|left| left.saturating_add(self.window + self.tolerance) <= came) {
            past.pop_front();
        }
        past
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn twice_the_limit_around_a_boundary_is_seen() {
        let mut oracle = Oracle::new(1.0);
        for number in 0..10 {
            oracle.admitted(0, SECOND - 10 + number, SECOND - 10 + number, 10.0, 0.0);
        }
        for number in 0..10 {
            oracle.admitted(0, SECOND + number, SECOND + number, 10.0, 0.0);
        }
        assert_eq!(oracle.found, Judged { admitted: 20, over: 10, under: 0, worst: 2.0 });
    }

    #[test]
    fn a_window_is_as_long_as_it_says() {
        let mut oracle = Oracle::new(1.0);
        oracle.admitted(0, 0, 0, 1.0, 0.0);
        oracle.rejected(0, SECOND - 1, 1.0);
        oracle.rejected(0, SECOND, 1.0);
        oracle.admitted(0, SECOND, SECOND, 1.0, 0.0);
        assert_eq!(oracle.found, Judged { admitted: 2, over: 0, under: 1, worst: 1.0 });
        oracle.admitted(0, 2 * SECOND - 1, 2 * SECOND - 1, 1.0, 0.0);
        assert_eq!((oracle.found.over, oracle.found.worst), (1, 2.0));
    }

    #[test]
    fn what_is_measured_may_be_off_a_little() {
        let mut oracle = Oracle::new(1.0).with_tolerance(Duration::from_millis(5));
        oracle.admitted(0, 0, 0, 1.0, 0.0);
        oracle.admitted(0, SECOND - 4_000_000, SECOND - 4_000_000, 1.0, 0.0);
        oracle.rejected(0, 2 * SECOND, 1.0);
        assert_eq!(oracle.found, Judged { admitted: 2, over: 0, under: 0, worst: 1.0 });
        oracle.admitted(0, 2 * SECOND - 20_000_000, 2 * SECOND - 20_000_000, 1.0, 0.0);
        assert_eq!(oracle.found.over, 1);
    }

    #[test]
    fn keys_have_a_window_each() {
        let mut oracle = Oracle::new(1.0);
        oracle.admitted(1, 0, 0, 1.0, 0.0);
        oracle.admitted(2, 0, 0, 1.0, 0.0);
        assert_eq!((oracle.found.over, oracle.found.worst), (0, 1.0));
    }

    /// A shaper admits a burst at once and lets it out evenly.
    #[test]
    fn what_waits_counts_when_it_leaves() {
        let mut oracle = Oracle::new(1.0);
        for number in 0..20 {
            oracle.admitted(0, 0, number * SECOND / 10, 10.0, 0.0);
        }
        assert_eq!((oracle.found.over, oracle.found.worst), (0, 1.0));
        oracle.rejected(0, 0, 10.0);
        assert_eq!(oracle.found.under, 1, "only one has left by then");
        oracle.rejected(0, SECOND, 10.0);
        assert_eq!(oracle.found.under, 1);
    }

    #[test]
    fn a_burst_that_is_meant_is_none_too_many_but_is_seen() {
        let mut oracle = Oracle::new(1.0);
        (0..13).for_each(|number| oracle.admitted(0, number, number, 10.0, 2.0));
        assert_eq!((oracle.found.over, oracle.found.worst), (1, 1.3));
    }

    /// Counted one by one, with requests that wait, in any order, and times that are off.
    #[test]
    fn it_finds_what_counting_all_of_them_finds() {
        let mut random = fastrand::Rng::with_seed(11);
        for tolerance in [0, 5] {
            let millis = |count: u64| count * 1_000_000;
            let mut oracle = Oracle::new(0.1).with_tolerance(Duration::from_millis(tolerance));
            let (mut left, mut expected, mut now) = (Vec::<u64>::new(), Judged::default(), 0);
            for _ in 0..5_000 {
                now += random.u64(..millis(30));
                // Of what has left longer ago nothing is to be known.
                let is_known = |at: u64| at + millis(100 + tolerance) > now;
                if random.u8(..4) > 0 {
                    let leaves = now + if random.bool() { random.u64(..millis(80)) } else { 0 };
                    let is_earlier = |at: &&u64| is_known(**at) && **at + millis(100 - tolerance) > leaves;
                    let in_window = count(left.iter().filter(is_earlier).count()) + 1.0;
                    expected.admitted += 1;
                    expected.over += u64::from(in_window > 7.0);
                    expected.worst = expected.worst.max(in_window / 5.0);
                    oracle.admitted(0, now, leaves, 5.0, 2.0);
                    left.push(leaves);
                } else {
                    let has_left = |at: &&u64| is_known(**at) && **at <= now;
                    expected.under += u64::from(count(left.iter().filter(has_left).count()) + 1.0 <= 5.0);
                    oracle.rejected(0, now, 5.0);
                }
            }
            assert_eq!(oracle.found, expected);
            assert!(expected.over > 100 && expected.under > 100, "{expected:?}");
        }
    }

    /// The sliding log is this very definition.
    #[test]
    fn it_agrees_with_the_sliding_log() {
        use tidegate_policy::{Cost, Limiter, SlidingLog, Timestamp};
        let limiter = SlidingLog::new(7, Duration::from_millis(100)).expect("a limit");
        let (mut state, mut oracle, mut random) = (Default::default(), Oracle::new(0.1), fastrand::Rng::with_seed(3));
        let mut now = 0;
        for _ in 0..20_000 {
            now += random.u64(..30_000_000);
            let at = Timestamp::from_nanos(now);
            if limiter.decide(&state, Cost::ONE, at).is_admitted() {
                let _receipt = limiter.take(&mut state, Cost::ONE, at);
                oracle.admitted(0, now, now, 7.0, 0.0);
            } else {
                oracle.rejected(0, now, 7.0);
            }
        }
        assert_eq!((oracle.found.over, oracle.found.under, oracle.found.worst), (0, 0, 1.0));
    }
}
