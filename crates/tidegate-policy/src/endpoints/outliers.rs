use super::ejection::{Reason, SuccessRateSettings};
use crate::numbers::figure;

/// The requests of one endpoint in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) index: usize,
    pub(super) successes: u64,
    pub(super) failures: u64,
}

impl Counts {
    fn requests(&self) -> u64 {
        self.successes.saturating_add(self.failures)
    }

    fn rate(&self) -> f64 {
        figure(self.successes) / figure(self.requests()).max(1.0)
    }
}

/// The endpoints whose success rate is too far below the others', the worst first: if not all may be ejected, it is
/// those who matter.
pub(super) fn outliers(counts: &[Counts], settings: &SuccessRateSettings) -> Vec<(usize, Reason)> {
    let compared = || counts.iter().filter(|endpoint| endpoint.requests() >= settings.min_requests.max(1));
    let count = compared().count();
    if count < settings.min_endpoints.max(2) {
        return Vec::new();
    }
    let sum: f64 = compared().map(Counts::rate).sum();
    let squares: f64 = compared().map(|endpoint| endpoint.rate() * endpoint.rate()).sum();
    let others = figure(count as u64 - 1);
    let outlier = |endpoint: &Counts| {
        let rate = endpoint.rate();
        let mean = (sum - rate) / others;
        let variance = (squares - rate * rate) / others - mean * mean;
        let lowest = mean - settings.deviations * variance.max(0.0).sqrt();
        let is_outlier = rate < lowest && rate < settings.tolerated_share * mean;
        is_outlier.then_some((endpoint.index, rate, mean))
    };
    let mut found: Vec<(usize, f64, f64)> = compared().filter_map(outlier).collect();
    found.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
    found.into_iter().map(|(index, rate, others)| (index, Reason::SuccessRate { rate, others })).collect()
}
