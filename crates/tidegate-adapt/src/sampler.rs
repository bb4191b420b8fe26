//! From counters that only grow to what came in each second.

use std::time::Duration;

use tidegate_policy::Timestamp;

use crate::second::Second;

/// What had been counted at a moment, by counters that only grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Requests that the limit admitted.
    pub admitted: u64,
    /// Requests that it rejected.
    pub rejected: u64,
    /// Responses of upstreams with a status of 5xx.
    pub errors: u64,
    /// Requests that upstreams did not respond to, or not wholly.
    pub failed: u64,
    /// Responses of upstreams, by bucket of latency.
    pub latency: Vec<u64>,
}

/// How far from a second's border a look may be and still stand for it.
const TOLERANCE: Duration = Duration::from_millis(200);
/// A machine that stood still for longer reports no seconds before that.
const LONGEST_GAP: u64 = 600;
const NANOS: u64 = 1_000_000_000;

/// Makes seconds of counters, which it is shown at each border between two seconds.
#[derive(Default)]
pub struct Sampler {
    last: Option<Look>,
}

struct Look {
    /// The border that it is for.
    border: u64,
    is_near: bool,
    totals: Totals,
}

impl Sampler {
    /// Forgets what was seen: the counters are others now.
    pub fn reset(&mut self) {
        self.last = None;
    }

    /// The seconds that have ended since the last look. Those that were not looked at when they ended are not whole:
    /// what came since then stands with the last of them, and nobody knows how much of it belongs to which.
    pub fn look(&mut self, now: Timestamp, totals: Totals) -> Vec<Second> {
        let border = (now.as_nanos() + NANOS / 2) / NANOS;
        let is_near = now.as_nanos().abs_diff(border * NANOS) <= TOLERANCE.as_nanos() as u64;
        let Some(last) = &self.last else {
            self.last = Some(Look { border, is_near, totals });
            return Vec::new();
        };
        if border <= last.border {
            return Vec::new();
        }
        let is_whole = border == last.border + 1 && last.is_near && is_near;
        let counted = between(&last.totals, &totals, border - 1, is_whole);
        let first = last.border.max(border.saturating_sub(LONGEST_GAP));
        let gap = (first..border - 1).map(|at| Second { at, ..Second::default() });
        let seconds = gap.chain([counted]).collect();
        self.last = Some(Look { border, is_near, totals });
        seconds
    }
}

fn between(then: &Totals, now: &Totals, at: u64, is_whole: bool) -> Second {
    let more = |of: fn(&Totals) -> u64| of(now).saturating_sub(of(then));
    let rejected = more(|totals| totals.rejected);
    let latency = now.latency.iter().enumerate();
    let latency = latency.map(|(index, count)| count.saturating_sub(then.latency.get(index).copied().unwrap_or(0)));
    Second {
        at,
        is_whole,
        is_partial: false,
        offered: more(|totals| totals.admitted).saturating_add(rejected),
        rejected,
        errors: more(|totals| totals.errors),
        failed: more(|totals| totals.failed),
        latency: latency.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(admitted: u64) -> Totals {
        Totals { admitted, rejected: admitted / 2, latency: vec![admitted], ..Totals::default() }
    }

    /// When it looks (in milliseconds after second 100), what has been counted; and which seconds that makes: which
    /// one, whether it is whole, how many were offered.
    type Row = (u64, u64, &'static [(u64, bool, u64)]);

    fn play(rows: &[Row]) {
        let mut sampler = Sampler::default();
        for (millis, admitted, expected) in rows {
            let now = Timestamp::from_nanos(100 * NANOS + millis * 1_000_000);
            let found: Vec<_> = sampler
                .look(now, totals(*admitted))
                .iter()
                .map(|second| (second.at, second.is_whole, second.offered))
                .collect();
            assert_eq!(found, *expected, "at {millis} ms");
        }
    }

    #[test]
    fn each_second_is_what_was_counted_in_it() {
        play(&[
            (3, 10, &[]),
            (1_001, 30, &[(100, true, 30)]),
            (2_150, 30, &[(101, true, 0)]),
            (3_000, 32, &[(102, true, 3)]),
        ]);
    }

    #[test]
    fn a_second_that_was_not_looked_at_in_time_is_not_made_up() {
        play(&[
            (0, 0, &[]),
            (1_300, 20, &[(100, false, 30)]),
            (2_000, 24, &[(101, false, 6)]),
            (3_000, 26, &[(102, true, 3)]),
            (6_000, 56, &[(103, false, 0), (104, false, 0), (105, false, 45)]),
            (6_100, 58, &[]),
            (7_000, 60, &[(106, true, 6)]),
        ]);
    }

    #[test]
    fn counters_that_begin_anew_count_nothing() {
        play(&[(0, 100, &[]), (1_000, 4, &[(100, true, 0)]), (2_000, 6, &[(101, true, 3)])]);
    }

    #[test]
    fn a_machine_that_slept_for_a_day_reports_a_bounded_time() {
        let mut sampler = Sampler::default();
        sampler.look(Timestamp::from_nanos(100 * NANOS), totals(0));
        let seconds = sampler.look(Timestamp::from_nanos(100_000 * NANOS), totals(8));
        assert_eq!((seconds.len() as u64, seconds.last().map(|second| second.at)), (LONGEST_GAP, Some(99_999)));
    }
}
