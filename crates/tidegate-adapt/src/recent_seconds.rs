//! The last ten minutes, second by second, and how far the forecaster knows them.

use std::collections::VecDeque;

use crate::second::{Second, figure};

/// Seconds that are kept, and that a snapshot may have.
pub(crate) const MOST_SECONDS: usize = 600;

/// The last seconds.
#[derive(Default)]
pub struct RecentSeconds {
    kept: VecDeque<Entry>,
    /// The forecaster knows everything before this second.
    sent_until: u64,
}

struct Entry {
    second: Second,
    /// What the forecaster may learn from it.
    learnable: Option<u64>,
}

/// The seconds since the last snapshot that the forecaster responded to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Period {
    /// All of them together.
    pub sum: Second,
    /// Requests a second, of those that are known: all that were offered, as beside it stands the share that was
    /// rejected.
    pub rate: Option<f64>,
    /// The first second of the series.
    pub start: u64,
    /// What was offered in each, and may be learnt from; none is not known.
    pub series: Vec<Option<u64>>,
}

impl RecentSeconds {
    /// Keeps a second. During an attack the forecaster's series has no more than `clip`.
    pub fn push(&mut self, second: Second, clip: Option<f64>) {
        if self.kept.back().is_some_and(|last| last.second.at >= second.at) {
            return;
        }
        let clipped = clip.map_or(second.offered, |clip| second.offered.min(clip.max(0.0).round() as u64));
        let learnable = second.is_whole.then_some(clipped);
        self.kept.push_back(Entry { second, learnable });
        if self.kept.len() > MOST_SECONDS {
            self.kept.pop_front();
        }
    }

    /// What the forecaster does not know yet.
    pub fn period(&self) -> Period {
        let new = || self.kept.iter().filter(|entry| entry.second.at >= self.sent_until);
        let Some((first, last)) = new().next().zip(self.kept.back()) else { return Period::default() };
        let (start, end) = (first.second.at, last.second.at);
        let start = start.max((end + 1).saturating_sub(MOST_SECONDS as u64));
        let mut period = Period { start, series: vec![None; (end + 1 - start) as usize], ..Period::default() };
        let (mut known, mut seconds) = (Second::default(), 0_u64);
        for entry in new().filter(|entry| entry.second.at >= start) {
            let index = (entry.second.at - start) as usize;
            period.series[index] = entry.learnable;
            period.sum.add(&entry.second);
            if entry.second.is_whole {
                known.add(&entry.second);
                seconds += 1;
            }
        }
        period.rate = (seconds > 0).then(|| figure(known.offered) / figure(seconds));
        period
    }

    /// The forecaster has responded to a snapshot with a period that ends here.
    pub fn sent(&mut self, period_end: u64) {
        self.sent_until = self.sent_until.max(period_end);
    }
}

impl Period {
    /// The first second after it.
    pub fn end(&self) -> u64 {
        self.start + self.series.len() as u64
    }

    /// Whether the forecaster can be asked with it: one second at least must be known, unless the question is late
    /// already.
    pub fn is_askable(&self, is_late: bool) -> bool {
        self.rate.is_some() || (is_late && !self.series.is_empty())
    }

    /// The share of requests that were rejected.
    pub fn rejected_share(&self) -> f64 {
        match self.sum.offered {
            0 => 0.0,
            offered => figure(self.sum.rejected) / figure(offered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64, offered: u64, is_whole: bool) -> Second {
        Second { at, offered, rejected: offered / 4, is_whole, ..Second::default() }
    }

    #[test]
    fn a_period_is_what_has_not_been_sent_with_its_gaps() {
        let mut recent = RecentSeconds::default();
        assert_eq!(recent.period(), Period::default());
        for (at, offered, is_whole) in [(10, 60, true), (11, 62, true), (12, 99, false), (15, 58, true)] {
            recent.push(second(at, offered, is_whole), None);
        }
        let period = recent.period();
        assert_eq!((period.start, period.end()), (10, 16));
        assert_eq!(period.series, [Some(60), Some(62), None, None, None, Some(58)]);
        assert_eq!((period.rate, period.sum.offered), (Some(60.0), 279));
        recent.sent(period.end());
        assert_eq!(recent.period(), Period::default());
        recent.push(second(15, 7, true), None);
        recent.push(second(16, 8, true), None);
        assert_eq!(recent.period().series, [Some(8)], "a second comes once");
    }

    #[test]
    fn an_attack_is_sent_clipped() {
        let mut recent = RecentSeconds::default();
        recent.push(second(1, 1_000, true), Some(250.4));
        recent.push(second(2, 100, true), Some(250.4));
        let period = recent.period();
        assert_eq!((period.series, period.rate, period.sum.offered), (vec![Some(250), Some(100)], Some(550.0), 1_100));
    }

    /// A forecaster would learn a rate of zero.
    #[test]
    fn nothing_is_asked_while_nothing_is_known() {
        let mut recent = RecentSeconds::default();
        assert_eq!([false, true].map(|is_late| recent.period().is_askable(is_late)), [false, false]);
        recent.push(second(1, 40, false), None);
        assert_eq!(
            [false, true].map(|is_late| recent.period().is_askable(is_late)),
            [false, true],
            "gaps wait, not for ever"
        );
        recent.push(second(2, 40, true), None);
        assert!(recent.period().is_askable(false));
    }

    #[test]
    fn counts_beyond_all_measure_are_added_up() {
        let mut recent = RecentSeconds::default();
        (1..4).for_each(|at| recent.push(second(at, u64::MAX, true), None));
        assert_eq!(recent.period().sum.offered, u64::MAX);
        let full = Second { latency: vec![u64::MAX; 3], ..Second::default() };
        assert_eq!(full.calls(), u64::MAX);
        assert!(full.latency_quantile(0.95, &[0.1, 0.2]).is_some());
    }

    #[test]
    fn it_is_bounded_whatever_comes() {
        let mut recent = RecentSeconds::default();
        (0..2_000).for_each(|at| recent.push(second(at, 1, true), None));
        assert_eq!((recent.period().series.len(), recent.period().start), (MOST_SECONDS, 1_400));
        recent.push(second(1_000_000, 1, true), None);
        assert_eq!((recent.period().series.len(), recent.kept.len()), (MOST_SECONDS, MOST_SECONDS));
    }
}
