//! What can be seen of a run while it goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_serve::{Buckets, Counter, Histogram, HistogramSnapshot};

use crate::record::{Cause, End, Missed};

/// One sender's part of what can be seen. The sender alone writes it; others read it.
#[derive(Debug)]
pub(crate) struct Live {
    /// Requests of the plan.
    planned: Outcomes,
    /// What clients sent again.
    retried: Outcomes,
    too_late: Counter,
    no_room: Counter,
    in_flight: AtomicU64,
    /// From the intended time.
    latency: Histogram,
    /// From sending.
    service: Histogram,
    /// Errors since somebody last took them.
    errors: Mutex<BTreeMap<Trouble, u64>>,
    /// The first reason of each cause, in words.
    reasons: Mutex<BTreeMap<Cause, String>>,
}

#[derive(Debug, Default)]
struct Outcomes {
    sent: Counter,
    success: Counter,
    rate_limited: Counter,
    errors: Counter,
}

/// Why a request counts as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A response with this status.
    Status(u16),
    /// Without a response.
    Failed(Cause),
}

/// What has become of requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sent.
    pub sent: u64,
    /// Responses of 2xx.
    pub success: u64,
    /// Responses of 429.
    pub rate_limited: u64,
    /// Other responses, or none.
    pub errors: u64,
}

/// A run at a moment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Requests of the plan.
    pub planned: Totals,
    /// What clients sent again.
    pub retried: Totals,
    /// Never sent: they would have been too late.
    pub too_late: u64,
    /// Never sent: too many were in flight.
    pub no_room: u64,
    /// Under way.
    pub in_flight: u64,
    /// From the intended time to the end, of all that got a response or timed out.
    pub latency: HistogramSnapshot,
    /// From sending to the end.
    pub service: HistogramSnapshot,
}

impl Totals {
    fn add(&mut self, outcomes: &Outcomes) {
        self.sent += outcomes.sent.get();
        self.success += outcomes.success.get();
        self.rate_limited += outcomes.rate_limited.get();
        self.errors += outcomes.errors.get();
    }
}

/// Characters of a reason.
const LONGEST_REASON: usize = 160;

/// Bounds fine enough for percentiles (steps of a tenth), and those that metrics have among them.
pub(crate) fn buckets() -> Buckets {
    let mut bounds: Vec<Duration> = METRIC_BOUNDS.map(Duration::from_micros).to_vec();
    let mut micros = 20.0_f64;
    while micros < 120e6 {
        bounds.push(Duration::from_micros(micros as u64));
        micros *= 1.1;
    }
    Buckets::new(&bounds)
}

/// The buckets of the metric, in microseconds.
pub(crate) const METRIC_BOUNDS: [u64; 15] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
    10_000_000, 30_000_000,
];

impl Live {
    pub(crate) fn new(buckets: &Buckets) -> Self {
        Self {
            planned: Outcomes::default(),
            retried: Outcomes::default(),
            too_late: Counter::new(),
            no_room: Counter::new(),
            in_flight: AtomicU64::new(0),
            latency: Histogram::new(buckets),
            service: Histogram::new(buckets),
            errors: Mutex::default(),
            reasons: Mutex::default(),
        }
    }

    /// Notes why requests fail, if nobody has before.
    pub(crate) fn explain(&self, cause: Cause, why: &str) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.entry(cause).or_insert_with(|| why.chars().take(LONGEST_REASON).collect());
    }

    fn outcomes(&self, is_retry: bool) -> &Outcomes {
        if is_retry { &self.retried } else { &self.planned }
    }

    pub(crate) fn sent(&self, is_retry: bool, in_flight: usize) {
        self.outcomes(is_retry).sent.inc();
        self.in_flight.store(in_flight as u64, Relaxed);
    }

    pub(crate) fn missed(&self, missed: Missed) {
        match missed {
            Missed::TooLate => self.too_late.inc(),
            Missed::NoRoom => self.no_room.inc(),
        }
    }

    pub(crate) fn ended(&self, is_retry: bool, end: End, latency: Duration, service: Duration, in_flight: usize) {
        self.in_flight.store(in_flight as u64, Relaxed);
        let outcomes = self.outcomes(is_retry);
        let trouble = match end {
            End::Responded(200..300) => {
                outcomes.success.inc();
                None
            }
            End::Responded(429) => {
                outcomes.rate_limited.inc();
                None
            }
            End::Responded(status) => Some(Trouble::Status(status)),
            End::Failed(cause) => Some(Trouble::Failed(cause)),
            End::Unfinished => return,
        };
        if let Some(trouble) = trouble {
            outcomes.errors.inc();
            *self.errors.lock().unwrap_or_else(PoisonError::into_inner).entry(trouble).or_default() += 1;
        }
        if matches!(end, End::Responded(_) | End::Failed(Cause::TimedOut)) {
            self.latency.observe(latency);
            self.service.observe(service);
        }
    }
}

impl Progress {
    /// Of all senders together.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a Live>, buckets: &Buckets) -> Self {
        let (planned, retried) = (Totals::default(), Totals::default());
        let (latency, service) = (HistogramSnapshot::empty(buckets), HistogramSnapshot::empty(buckets));
        let mut all = Self { planned, retried, too_late: 0, no_room: 0, in_flight: 0, latency, service };
        for live in parts {
            all.planned.add(&live.planned);
            all.retried.add(&live.retried);
            all.too_late += live.too_late.get();
            all.no_room += live.no_room.get();
            all.in_flight += live.in_flight.load(Relaxed);
            all.latency.merge(&live.latency);
            all.service.merge(&live.service);
        }
        all
    }

    /// What has become of requests of both runs.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in [(&mut self.planned, &other.planned), (&mut self.retried, &other.retried)] {
            ours.sent += theirs.sent;
            ours.success += theirs.success;
            ours.rate_limited += theirs.rate_limited;
            ours.errors += theirs.errors;
        }
        self.too_late += other.too_late;
        self.no_room += other.no_room;
        self.in_flight += other.in_flight;
        self.latency.add(&other.latency);
        self.service.add(&other.service);
    }

    /// Of nothing.
    pub fn none() -> Self {
        Self::of([], &buckets())
    }
}

/// The first reason of each cause.
pub(crate) fn reasons<'a>(parts: impl IntoIterator<Item = &'a Live>) -> BTreeMap<Cause, String> {
    let mut all = BTreeMap::new();
    for live in parts {
        for (cause, why) in live.reasons.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.entry(*cause).or_insert_with(|| why.clone());
        }
    }
    all
}

/// Takes the errors since the last time.
pub(crate) fn take_errors<'a>(parts: impl IntoIterator<Item = &'a Live>) -> BTreeMap<Trouble, u64> {
    let mut all = BTreeMap::new();
    for live in parts {
        let errors = std::mem::take(&mut *live.errors.lock().unwrap_or_else(PoisonError::into_inner));
        for (trouble, count) in errors {
            *all.entry(trouble).or_default() += count;
        }
    }
    all
}
