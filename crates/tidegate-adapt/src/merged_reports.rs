//! The reports of several gateways, merged second by second.

use crate::second::Second;

/// Seconds that a report has: enough for a meeting or two that fail.
pub const REPORTED_SECONDS: usize = 5;
/// A leader that was frozen for longer merges no seconds before that.
const LONGEST_GAP: u64 = 600;

/// Adds up what members report. Their clocks may differ by less than a second, and so may the moments at which they
/// meet, so a second is summed when it has been over for a second; a member that is alone waits for nobody.
#[derive(Default)]
pub struct MergedReports {
    /// The first second that has not been summed.
    next: Option<u64>,
}

impl MergedReports {
    /// The seconds that can be summed, at `now` in Unix seconds, of reports and of so many that can't be read.
    pub fn add(&mut self, reports: &[Vec<Second>], unread: usize, now: u64) -> Vec<Second> {
        let patience = u64::from(reports.len() + unread > 1);
        let end = now.saturating_sub(patience);
        let next = self.next.unwrap_or(end).max(end.saturating_sub(LONGEST_GAP));
        self.next = Some(next.max(end));
        (next..end).map(|at| sum(reports, unread, at)).collect()
    }
}

/// One second of all. A member that has not reported it yet makes it one that nobody knows; what the others have seen
/// is a part of it.
fn sum(reports: &[Vec<Second>], unread: usize, at: u64) -> Second {
    let mut sum = Second { at, is_whole: true, ..Second::default() };
    let (mut reporting, mut missing) = (0, unread);
    for report in reports {
        let first = report.first().map_or(u64::MAX, |second| second.at);
        match report.iter().find(|second| second.at == at) {
            Some(second) => {
                sum.add(second);
                reporting += 1;
            }
            // It was not there yet; unless its report is too short to show that.
            None if at < first && report.len() < REPORTED_SECONDS => {}
            None => missing += 1,
        }
    }
    sum.is_partial = sum.is_whole && reporting > 0 && missing > 0;
    sum.is_whole &= missing == 0;
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds from `first` on, with so many requests each.
    fn report(first: u64, offered: &[u64]) -> Vec<Second> {
        let second = |(at, offered): (u64, &u64)| Second { at, is_whole: true, offered: *offered, ..Second::default() };
        (first..).zip(offered).map(second).collect()
    }

    fn merged_seconds(seconds: &[Second]) -> Vec<(u64, u64, bool)> {
        seconds.iter().map(|second| (second.at, second.offered, second.is_whole)).collect()
    }

    #[test]
    fn each_second_is_summed_once_when_all_can_have_reported_it() {
        let mut merged = MergedReports::default();
        assert_eq!(merged_seconds(&merged.add(&[report(9, &[5]), report(9, &[7])], 0, 10)), []);
        let both = [report(9, &[5, 6]), report(9, &[7])];
        assert_eq!(merged_seconds(&merged.add(&both, 0, 11)), [(9, 12, true)]);
        assert_eq!(merged_seconds(&merged.add(&both, 0, 11)), []);
        let both = [report(9, &[5, 6, 7, 8]), report(9, &[7, 8, 9, 10])];
        assert_eq!(merged_seconds(&merged.add(&both, 0, 13)), [(10, 14, true), (11, 16, true)], "a meeting was missed");
    }

    #[test]
    fn a_member_that_is_alone_waits_for_nobody() {
        let mut merged = MergedReports::default();
        merged.add(&[report(9, &[5])], 0, 10);
        assert_eq!(merged_seconds(&merged.add(&[report(9, &[5, 6])], 0, 11)), [(10, 6, true)]);
    }

    #[test]
    fn what_one_has_not_reported_nobody_knows_and_a_member_that_was_not_there_counts_nothing() {
        let mut merged = MergedReports::default();
        let ann = report(9, &[5, 5, 5, 5]);
        merged.add(&[ann.clone(), ann.clone()], 0, 10);
        // One has died after second 9, one has just come.
        let all = [ann.clone(), report(9, &[7]), report(11, &[3, 3]), Vec::new()];
        assert_eq!(merged_seconds(&merged.add(&all, 0, 13)), [(9, 12, true), (10, 5, false), (11, 8, false)]);
        // One whose report no longer reaches back.
        let mut late = MergedReports::default();
        late.add(&[ann.clone(), ann.clone()], 0, 10);
        let long = report(10, &[1; REPORTED_SECONDS]);
        assert_eq!(merged_seconds(&late.add(&[ann, long], 0, 12)), [(9, 5, false), (10, 6, true)]);
    }

    #[test]
    fn a_leader_that_was_frozen_for_a_day_sums_a_bounded_time() {
        let mut merged = MergedReports::default();
        merged.add(&[report(9, &[5])], 0, 10);
        assert_eq!(merged.add(&[report(9, &[5])], 0, 100_000).len() as u64, LONGEST_GAP);
        assert_eq!(merged.add(&[report(9, &[5])], 0, 50), [], "a clock that goes back brings nothing again");
    }
}
