//! What came in one second: the record that everything here is judged by, and that gateways add up.

use serde::{Deserialize, Serialize};

/// What came in one second, to the adapted limit and to the upstreams behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Second {
    /// Which one, in Unix time.
    pub at: u64,
    /// Whether it was measured from its beginning to its end. Otherwise its counts are of another time too, and show no
    /// rate.
    pub is_whole: bool,
    /// Whether it is the sum of some gateways that have seen it whole, where others have reported nothing of it. It is
    /// not part of a report.
    pub is_partial: bool,
    /// Requests that the limit decided about, admitted or not; while Redis is away those that passed unasked too.
    pub offered: u64,
    /// Requests that the limit rejected.
    pub rejected: u64,
    /// Responses of upstreams with a status of 5xx.
    pub errors: u64,
    /// Requests that upstreams did not respond to, or not wholly.
    pub failed: u64,
    /// Responses of upstreams by how long they took, in the buckets of [`latency_bounds`](crate::latency_bounds).
    pub latency: Vec<u64>,
}

/// No gateway counts more in a second, whatever it reports.
const MOST: u64 = 1_000_000_000;

/// As gateways report it to each other: short, for it travels beside requests' questions to Redis. In this order: which
/// second, whether it is whole, offered, rejected, errors, failed, and of latencies those buckets that are not empty.
#[derive(Serialize, Deserialize)]
struct Wire(u64, bool, u64, u64, u64, u64, Vec<(u8, u64)>);

impl From<Second> for Wire {
    fn from(second: Second) -> Self {
        let Second { at, is_whole, offered, rejected, errors, failed, latency, .. } = second;
        let latency = (0..=u8::MAX).zip(latency).filter(|(_, count)| *count > 0).collect();
        Self(at, is_whole, offered, rejected, errors, failed, latency)
    }
}

impl From<Wire> for Second {
    fn from(Wire(at, is_whole, offered, rejected, errors, failed, buckets): Wire) -> Self {
        let length = buckets.iter().map(|(index, _)| usize::from(*index) + 1).max().unwrap_or(0);
        let mut latency = vec![0_u64; length];
        for (index, count) in buckets {
            latency[usize::from(index)] = count.min(MOST);
        }
        let [offered, rejected, errors, failed] = [offered, rejected, errors, failed].map(|count| count.min(MOST));
        Self { at, is_whole, is_partial: false, offered, rejected, errors, failed, latency }
    }
}

impl Second {
    /// As one gateway's share of what several have seen.
    #[must_use]
    pub fn into_part(self) -> Self {
        Self { is_partial: self.is_whole, is_whole: false, ..self }
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.offered.saturating_sub(self.rejected)
    }

    /// Requests that upstreams have responded to or failed.
    pub(crate) fn calls(&self) -> u64 {
        self.responses().saturating_add(self.failed)
    }

    fn responses(&self) -> u64 {
        self.latency.iter().copied().fold(0, u64::saturating_add)
    }

    /// The share of calls that went wrong.
    pub(crate) fn error_share(&self) -> f64 {
        match self.calls() {
            0 => 0.0,
            calls => (figure(self.errors.saturating_add(self.failed)) / figure(calls)).min(1.0),
        }
    }

    /// Adds what another gateway, or another second, has counted. Only what is whole on both sides stays whole.
    pub(crate) fn add(&mut self, other: &Self) {
        self.is_whole &= other.is_whole;
        self.offered = self.offered.saturating_add(other.offered);
        self.rejected = self.rejected.saturating_add(other.rejected);
        self.errors = self.errors.saturating_add(other.errors);
        self.failed = self.failed.saturating_add(other.failed);
        if self.latency.len() < other.latency.len() {
            self.latency.resize(other.latency.len(), 0);
        }
        for (count, more) in self.latency.iter_mut().zip(&other.latency) {
            *count = count.saturating_add(*more);
        }
    }

    /// The latency that this share of responses did not exceed, in seconds: interpolated within its bucket. None
    /// without responses.
    pub fn latency_quantile(&self, share: f64, bounds: &[f64]) -> Option<f64> {
        let rank = (figure(self.responses()) * share).max(f64::MIN_POSITIVE);
        let mut below = 0.0;
        for (index, in_bucket) in self.latency.iter().enumerate().filter(|(_, count)| **count > 0) {
            let through = below + figure(*in_bucket);
            if through >= rank {
                let lower = index.checked_sub(1).and_then(|index| bounds.get(index)).copied().unwrap_or(0.0);
                // Beyond the last bound nothing is known but that.
                let upper = bounds.get(index).copied().unwrap_or(lower);
                return Some(lower + (upper - lower) * ((rank - below) / figure(*in_bucket)));
            }
            below = through;
        }
        None
    }
}

/// A count as a figure to compute with.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn figure(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 3] = [0.001, 0.002, 0.004];

    fn second(latency: [u64; 4]) -> Second {
        Second { is_whole: true, latency: latency.into(), ..Second::default() }
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        for (latency, share, expected) in [
            ([0, 0, 0, 0], 0.95, None),
            ([0, 100, 0, 0], 0.95, Some(0.001_95)),
            ([0, 100, 0, 0], 0.5, Some(0.001_5)),
            ([90, 0, 10, 0], 0.95, Some(0.003)),
            ([90, 0, 10, 0], 0.9, Some(0.001)),
            ([1, 0, 0, 0], 0.95, Some(0.000_95)),
            ([1, 0, 0, 9], 0.95, Some(0.004)),
        ] {
            let found = second(latency).latency_quantile(share, &BOUNDS);
            let close = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                (found, expected) => found == expected,
            };
            assert!(close, "{latency:?} {share}: {found:?}, not {expected:?}");
        }
    }

    #[test]
    fn a_report_is_short_and_reads_back_the_same() {
        let reported = Second { at: 1_763_344_800, offered: 120, rejected: 20, errors: 3, ..second([0, 7, 0, 2]) };
        let text = serde_json::to_string(&reported).expect("JSON");
        assert_eq!(text, "[1763344800,true,120,20,3,0,[[1,7],[3,2]]]");
        assert_eq!(serde_json::from_str::<Second>(&text).expect("it is read"), reported);
        let most = u64::MAX;
        let liar = format!("[1,true,{most},2,{most},1,[[0,{most}],[1,{most}]]]");
        let liar: Second = serde_json::from_str(&liar).expect("it is read");
        assert_eq!((liar.offered, liar.rejected, liar.errors, liar.calls()), (MOST, 2, MOST, 2 * MOST + 1));
        for garbage in ["[]", "{}", "[1,true,1,1,1,1,[[256,1]]]", "[1,true,-1,1,1,1,[]]", "[1,true,1e99,1,1,1,[]]"] {
            assert!(serde_json::from_str::<Second>(garbage).is_err(), "{garbage}");
        }
    }

    #[test]
    fn gateways_add_up_and_what_one_has_not_seen_whole_nobody_has() {
        let one = Second { at: 7, offered: 10, rejected: 4, errors: 1, failed: 1, ..second([1, 2, 3, 0]) };
        let mut sum = one.clone();
        sum.add(&Second { offered: 5, latency: vec![1], ..second([0; 4]) });
        assert_eq!((sum.at, sum.offered, sum.rejected, sum.calls(), sum.is_whole), (7, 15, 4, 8, true));
        sum.add(&Second { is_whole: false, latency: vec![0, 0, 0, 0, 9], ..one });
        assert_eq!((sum.offered, sum.calls(), sum.is_whole), (25, 18, false));
        assert!((sum.error_share() - 4.0 / 18.0).abs() < 1e-12);
        assert!(Second::default().error_share().abs() < 1e-12);
    }
}
