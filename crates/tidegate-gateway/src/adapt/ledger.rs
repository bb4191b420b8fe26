//! The last ten minutes, second by second, and what of them the forecaster has been told.

use std::collections::VecDeque;

use super::second::Second;
use crate::config::numbers::figure;

/// Seconds that are kept, and that a snapshot may have.
pub(crate) const MOST_SECONDS: usize = 600;

/// The last seconds.
#[derive(Default)]
pub(crate) struct Ledger {
    kept: VecDeque<Entry>,
    /// The forecaster knows everything before this second.
    told_until: u64,
}

struct Entry {
    second: Second,
    /// What the forecaster may learn from it.
    told: Option<u64>,
}

/// What a snapshot tells of the seconds since the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Period {
    /// All of them together.
    pub(crate) sum: Second,
    /// Requests a second, of those that are known; all that were offered, as beside it the share of them that was refused.
    pub(crate) rate: Option<f64>,
    /// The first second of the series.
    pub(crate) start: u64,
    /// What was offered in each, and may be learnt from; none is not known.
    pub(crate) series: Vec<Option<u64>>,
}

impl Ledger {
    /// Keeps a second. During an attack the forecaster's series has no more than `clip`.
    pub(crate) fn push(&mut self, second: Second, clip: Option<f64>) {
        if self.kept.back().is_some_and(|last| last.second.at >= second.at) {
            return;
        }
        let clipped = clip.map_or(second.offered, |clip| second.offered.min(clip.max(0.0).round() as u64));
        let told = second.is_whole.then_some(clipped);
        self.kept.push_back(Entry { second, told });
        if self.kept.len() > MOST_SECONDS {
            self.kept.pop_front();
        }
    }

    /// What the forecaster has not been told yet.
    pub(crate) fn period(&self) -> Period {
        let new = || self.kept.iter().filter(|entry| entry.second.at >= self.told_until);
        let Some((first, last)) = new().next().zip(self.kept.back()) else { return Period::default() };
        let (start, end) = (first.second.at, last.second.at);
        let start = start.max((end + 1).saturating_sub(MOST_SECONDS as u64));
        let mut period = Period { start, series: vec![None; (end + 1 - start) as usize], ..Period::default() };
        let (mut known, mut seconds) = (Second::default(), 0_u64);
        for entry in new().filter(|entry| entry.second.at >= start) {
            let place = (entry.second.at - start) as usize;
            period.series[place] = entry.told;
            period.sum.add(&entry.second);
            if entry.second.is_whole {
                known.add(&entry.second);
                seconds += 1;
            }
        }
        period.rate = (seconds > 0).then(|| figure(known.offered) / figure(seconds));
        period
    }

    /// The forecaster has answered a snapshot with this period.
    pub(crate) fn told(&mut self, period_end: u64) {
        self.told_until = self.told_until.max(period_end);
    }
}

impl Period {
    /// The first second after it.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.series.len() as u64
    }

    /// Whether the forecaster can be asked with it: a second that is known there must be, unless it is late already.
    pub(crate) fn is_telling(&self, is_late: bool) -> bool {
        self.rate.is_some() || (is_late && !self.series.is_empty())
    }

    /// The share of requests that were refused.
    pub(crate) fn refused_share(&self) -> f64 {
        match self.sum.offered {
            0 => 0.0,
            offered => figure(self.sum.refused) / figure(offered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64, offered: u64, is_whole: bool) -> Second {
        Second { at, offered, refused: offered / 4, is_whole, ..Second::default() }
    }

    #[test]
    fn a_period_is_what_has_not_been_told_with_its_gaps() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.period(), Period::default());
        for (at, offered, is_whole) in [(10, 60, true), (11, 62, true), (12, 99, false), (15, 58, true)] {
            ledger.push(second(at, offered, is_whole), None);
        }
        let period = ledger.period();
        assert_eq!((period.start, period.end()), (10, 16));
        assert_eq!(period.series, [Some(60), Some(62), None, None, None, Some(58)]);
        assert_eq!((period.rate, period.sum.offered), (Some(60.0), 279));
        ledger.told(period.end());
        assert_eq!(ledger.period(), Period::default());
        ledger.push(second(15, 7, true), None);
        ledger.push(second(16, 8, true), None);
        assert_eq!(ledger.period().series, [Some(8)], "a second comes once");
    }

    #[test]
    fn an_attack_is_told_clipped() {
        let mut ledger = Ledger::default();
        ledger.push(second(1, 1_000, true), Some(250.4));
        ledger.push(second(2, 100, true), Some(250.4));
        let period = ledger.period();
        assert_eq!((period.series, period.rate, period.sum.offered), (vec![Some(250), Some(100)], Some(550.0), 1_100));
    }

    /// A forecaster would learn a rate of zero.
    #[test]
    fn nothing_is_asked_while_there_is_nothing_to_tell() {
        let mut ledger = Ledger::default();
        assert_eq!([false, true].map(|is_late| ledger.period().is_telling(is_late)), [false, false]);
        ledger.push(second(1, 40, false), None);
        assert_eq!(
            [false, true].map(|is_late| ledger.period().is_telling(is_late)),
            [false, true],
            "gaps wait, not for ever"
        );
        ledger.push(second(2, 40, true), None);
        assert!(ledger.period().is_telling(false));
    }

    #[test]
    fn counts_beyond_all_measure_are_added_up() {
        let mut ledger = Ledger::default();
        (1..4).for_each(|at| ledger.push(second(at, u64::MAX, true), None));
        assert_eq!(ledger.period().sum.offered, u64::MAX);
        let full = Second { latency: vec![u64::MAX; 3], ..Second::default() };
        assert_eq!(full.calls(), u64::MAX);
        assert!(full.latency_quantile(0.95, &[0.1, 0.2]).is_some());
    }

    #[test]
    fn it_is_bounded_whatever_comes() {
        let mut ledger = Ledger::default();
        (0..2_000).for_each(|at| ledger.push(second(at, 1, true), None));
        assert_eq!((ledger.period().series.len(), ledger.period().start), (MOST_SECONDS, 1_400));
        ledger.push(second(1_000_000, 1, true), None);
        assert_eq!((ledger.period().series.len(), ledger.kept.len()), (MOST_SECONDS, MOST_SECONDS));
    }
}
