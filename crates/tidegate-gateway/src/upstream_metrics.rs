//! Metrics of an upstream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidegate_adapt::SHOWN_MICROS as LATENCY_MICROS;
use tidegate_http::client::Trouble;
use tidegate_serve::{Buckets, Counter, Histogram, HistogramSnapshot};

/// The words for the attempts after the first.
const LATER_ATTEMPTS: [&str; 4] = ["2", "3", "4", "5+"];

/// Slower responses are counted separately.
const LONG_RESPONSE: Duration = Duration::from_secs(5);

/// Metrics of an upstream. All workers share them: the cost of that is small beside the request itself.
pub(crate) struct UpstreamMetrics {
    /// Of first attempts.
    pub(crate) latency: Histogram,
    /// Of the attempts after the first, in the order of [`LATER_ATTEMPTS`]. Made when there is one.
    later: [OnceLock<Histogram>; LATER_ATTEMPTS.len()],
    /// How many of `errors` came to attempts after the first.
    later_errors: Counter,
    pub(crate) longest_nanos: AtomicU64,
    pub(crate) long: Counter,
    /// Statuses from 500 to 599.
    errors: Box<[Counter; 100]>,
    troubles: Mutex<BTreeMap<&'static str, u64>>,
    /// Of attempts that were repeated.
    repeated: Mutex<BTreeMap<&'static str, u64>>,
    /// How many of these were first attempts.
    repeated_first: Counter,
}

impl UpstreamMetrics {
    pub(crate) fn new() -> Self {
        Self {
            latency: Histogram::new(&fine_buckets()),
            later: [const { OnceLock::new() }; LATER_ATTEMPTS.len()],
            later_errors: Counter::new(),
            longest_nanos: AtomicU64::new(0),
            long: Counter::new(),
            errors: Box::new([const { Counter::new() }; 100]),
            troubles: Default::default(),
            repeated: Default::default(),
            repeated_first: Counter::new(),
        }
    }

    /// Records a response to an attempt, counted from 1: how long it took, if that is known, and its status.
    #[inline]
    pub(crate) fn responded(&self, attempt: u32, took: Option<Duration>, status: http::StatusCode) {
        if let Some(took) = took {
            self.took(attempt, took);
        }
        if let Some(counter) = status.as_u16().checked_sub(500).and_then(|index| self.errors.get(usize::from(index))) {
            counter.inc();
            if attempt > 1 {
                self.later_errors.inc();
            }
        }
    }

    #[inline]
    fn took(&self, attempt: u32, took: Duration) {
        if attempt <= 1 {
            self.latency.observe(took);
        } else {
            let index = (attempt as usize - 2).min(LATER_ATTEMPTS.len() - 1);
            self.later[index].get_or_init(|| Histogram::new(&buckets(&LATENCY_MICROS))).observe(took);
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if nanos > self.longest_nanos.load(Ordering::Relaxed) {
            self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
        if took > LONG_RESPONSE {
            self.long.inc();
        }
    }

    /// Records a first attempt that another one has overtaken after this time: its response would have taken longer.
    pub(crate) fn overtaken(&self, took: Duration) {
        self.latency.observe(took);
    }

    /// First attempts whose response has a status of 5xx. Retries are left out: they show the same trouble again.
    pub(crate) fn first_errors(&self) -> u64 {
        let all: u64 = self.errors.iter().map(Counter::get).sum();
        all.saturating_sub(self.later_errors.get())
    }

    /// Responses by status, from 500 on.
    pub(crate) fn errors_by_status(&self) -> &[Counter] {
        self.errors.as_slice()
    }

    /// Failures by reason.
    pub(crate) fn troubles(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attempts that were repeated, by the reason of their failure.
    pub(crate) fn repeated_troubles(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.repeated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// First attempts that the upstream has left without a complete response, repeated or not. What the gateway itself
    /// rejects and what clients cause is left out.
    pub(crate) fn first_failures(&self) -> u64 {
        let is_its = |word: &&&'static str| Trouble::OF_ENDPOINTS.contains(*word);
        let troubles = self.troubles();
        let failures: u64 = troubles.iter().filter(|(word, _)| is_its(word)).map(|(_, count)| count).sum();
        failures + self.repeated_first.get()
    }

    /// Records an attempt without a response, counted from 1, that is repeated.
    pub(crate) fn repeated(&self, word: &'static str, attempt: u32) {
        *self.repeated_troubles().entry(word).or_default() += 1;
        if attempt <= 1 && Trouble::OF_ENDPOINTS.contains(&word) {
            self.repeated_first.inc();
        }
    }

    /// Records an attempt that went to another endpoint at once. That has cost the client hardly any time, and an
    /// endpoint that is away is ejected soon: it is no sign of an overload.
    pub(crate) fn went_elsewhere(&self, word: &'static str) {
        *self.repeated_troubles().entry(word).or_default() += 1;
    }

    /// Latencies by attempt, in the buckets of the metrics page, which are fewer than those of first attempts.
    pub(crate) fn shown_latencies(&self) -> impl Iterator<Item = (&'static str, HistogramSnapshot)> {
        let later = LATER_ATTEMPTS.iter().zip(&self.later).filter_map(|(word, latency)| Some((*word, latency.get()?)));
        [("1", &self.latency)].into_iter().chain(later).map(|(word, latency)| {
            let mut shown = HistogramSnapshot::empty(&buckets(&LATENCY_MICROS));
            shown.merge(latency);
            (word, shown)
        })
    }

    /// Records a request without a response, or with an incomplete one.
    pub(crate) fn failed(&self, word: &'static str) {
        *self.troubles().entry(word).or_default() += 1;
    }
}

pub(crate) fn buckets(micros: &[u64]) -> Buckets {
    let bounds: Vec<Duration> = micros.iter().copied().map(Duration::from_micros).collect();
    Buckets::new(&bounds)
}

/// The buckets that latencies of upstreams are counted in. Each bound of [`LATENCY_MICROS`] is one of their bounds.
fn fine_buckets() -> Buckets {
    Buckets::new(&tidegate_adapt::latency_bounds())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bound of the coarse buckets is a bound of the fine ones, so merging moves no count to another bucket.
    #[test]
    fn latencies_are_shown_where_they_would_have_been_counted() {
        let (fine, coarse) = (Histogram::new(&fine_buckets()), Histogram::new(&buckets(&LATENCY_MICROS)));
        for micros in (0..2_000).chain((2_000..12_000_000).step_by(997)) {
            fine.observe(Duration::from_micros(micros));
            coarse.observe(Duration::from_micros(micros));
        }
        let mut shown = HistogramSnapshot::empty(&buckets(&LATENCY_MICROS));
        shown.merge(&fine);
        assert_eq!(shown, coarse.snapshot());
        let bounds: Vec<f64> = fine_buckets().bounds_seconds().collect();
        assert_eq!(bounds, tidegate_adapt::latency_bounds_seconds(), "adaptation reads them by these bounds");
    }
}
