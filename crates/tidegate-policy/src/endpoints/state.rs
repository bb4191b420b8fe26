use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::ejection::Ejections;
use super::health::{Checks, Health};
use super::latency::Latency;
use super::outcome::Outcome;
use super::standing::{Forced, Standing};
use crate::Timestamp;
use crate::lock::lock;
use crate::numbers::figure;

/// Values of `out_until` beyond any moment: out until something happens.
const UNHEALTHY: u64 = u64::MAX - 2;
const DRAIN: u64 = u64::MAX - 1;
const DOWN: u64 = u64::MAX;

/// Failures that are so many nanoseconds apart are not in a row.
const LONGEST_GAP: u64 = 300_000_000_000;

/// The share that an endpoint begins with in its slow start.
const FIRST_SHARE: f64 = 0.1;

/// What is known of one endpoint: requests in flight, latency, health, ejections, what an operator wants.
///
/// It is kept for as long as the endpoint exists, while the [`Balancer`](super::Balancer)s around it come and go with
/// reloads and name lookups.
#[repr(C, align(128))] // What every request touches stands first, on one cache line.
pub struct EndpointState {
    /// Until when it is out; also why, if that is open-ended. Derived from the record whenever that changes, so that a
    /// choice needs one word.
    out_until: AtomicU64,
    /// When it last became available, which is when its slow start begins; 0 if it needs none.
    available_from: AtomicU64,
    latency: Latency,
    successes: AtomicU64,
    in_flight: AtomicU32,
    /// Failures in a row.
    streak: AtomicU32,
    /// When the last of them came.
    failed_at: AtomicU64,
    /// How often it was ejected. Requests that began before an ejection say nothing about the time after it.
    generation: AtomicU32,
    failures: AtomicU64,
    record: Mutex<Record>,
    name: Box<str>,
}

/// What changes rarely, under a lock.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) forced: Forced,
    pub(super) checks: Checks,
    pub(super) ejections: Ejections,
    pub(super) interval: Option<Interval>,
}

/// The interval of success rates that lasts: its number, and the totals when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) number: u64,
    pub(super) successes: u64,
    pub(super) failures: u64,
}

impl Record {
    /// Whether an operator leaves it in service.
    pub(super) fn is_in_service(&self) -> bool {
        match self.forced {
            Forced::Auto | Forced::Up => true,
            Forced::Down | Forced::Drain => false,
        }
    }

    /// Whether requests that fail may eject it: it is neither out already, nor forced to be up.
    pub(super) fn may_be_ejected(&self, now: Timestamp) -> bool {
        let is_auto = self.forced == Forced::Auto;
        is_auto && self.checks.health() != Health::Unhealthy && !self.ejections.is_ejected(now)
    }

    fn out_until(&self) -> u64 {
        match (self.forced, self.checks.health()) {
            (Forced::Down, _) => DOWN,
            (Forced::Drain, _) => DRAIN,
            (Forced::Up, _) => 0,
            (Forced::Auto, Health::Unhealthy) => UNHEALTHY,
            (Forced::Auto, Health::Unknown | Health::Healthy) => {
                self.ejections.current().map_or(0, |(until, _)| until.as_nanos().min(UNHEALTHY - 1))
            }
        }
    }
}

impl EndpointState {
    /// An endpoint that is there from the start: it needs no slow start. `name` is its address. Gateways that use the
    /// same names send the same keys to the same endpoints.
    pub fn new(name: &str) -> Self {
        Self {
            out_until: AtomicU64::new(0),
            available_from: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            streak: AtomicU32::new(0),
            failed_at: AtomicU64::new(0),
            latency: Latency::default(),
            generation: AtomicU32::new(0),
            successes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            record: Mutex::default(),
            name: name.into(),
        }
    }

    /// An endpoint that joins a pool at work: its slow start begins now.
    pub fn joining(name: &str, now: Timestamp) -> Self {
        let joining = Self::new(name);
        joining.available_from.store(now.as_nanos().max(1), Relaxed);
        joining
    }

    /// Its address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests in flight.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// How many requests succeeded and how many failed, in all.
    pub fn totals(&self) -> (u64, u64) {
        (self.successes.load(Relaxed), self.failures.load(Relaxed))
    }

    /// Whether it gets requests at `now`, and if not, why.
    #[inline]
    pub fn standing(&self, now: Timestamp) -> Standing {
        match self.out_until.load(Relaxed) {
            out_until if out_until <= now.as_nanos() => Standing::Up,
            DOWN => Standing::Down,
            DRAIN => Standing::Drain,
            UNHEALTHY => Standing::Unhealthy,
            _ => Standing::Ejected,
        }
    }

    #[inline]
    pub(super) fn is_up(&self, now: Timestamp) -> bool {
        self.out_until.load(Relaxed) <= now.as_nanos()
    }

    /// The share of its weight that it gets in a slow start of `length` nanoseconds; `None` once that is over.
    #[inline]
    pub(super) fn slow_start_share(&self, length: u64, now: Timestamp) -> Option<f64> {
        let from = self.available_from.load(Relaxed);
        let elapsed = now.as_nanos().saturating_sub(from);
        if from == 0 || elapsed >= length {
            return None;
        }
        Some(FIRST_SHARE + (1.0 - FIRST_SHARE) * figure(elapsed) / figure(length))
    }

    /// When a slow start of `length` nanoseconds ends.
    pub(super) fn slow_start_end(&self, length: u64) -> u64 {
        self.available_from.load(Relaxed).saturating_add(length)
    }

    #[inline]
    pub(super) const fn latency(&self) -> &Latency {
        &self.latency
    }

    /// One more in flight. Returns the generation of requests it belongs to.
    #[inline]
    pub(super) fn enter(&self, now: Timestamp) -> u32 {
        self.in_flight.fetch_add(1, Relaxed);
        self.latency.begin(now);
        self.generation.load(Relaxed)
    }

    /// One less in flight: the one that began at `began`.
    #[inline]
    pub(super) fn leave(&self, began: Timestamp) {
        self.latency.end(began);
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// Records how a request of `generation` ended. Returns how many in a row have failed with it.
    #[inline]
    pub(super) fn record(&self, outcome: Outcome, generation: u32, now: Timestamp) -> u32 {
        match outcome {
            Outcome::Success { took } => {
                self.sample(took, now);
                self.count_success(generation);
                0
            }
            Outcome::Failure { took, .. } => self.record_failure(took, generation, now),
            Outcome::Ignored => 0,
        }
    }

    /// It has responded after so long.
    #[inline]
    pub(super) fn sample(&self, took: Duration, now: Timestamp) {
        self.latency.sample(took, now);
    }

    /// A request of `generation` succeeded.
    #[inline]
    pub(super) fn count_success(&self, generation: u32) {
        self.successes.fetch_add(1, Relaxed);
        if self.streak.load(Relaxed) != 0 && generation == self.generation.load(Relaxed) {
            self.streak.store(0, Relaxed);
        }
    }

    /// A response was on its way when its client left. That is no failure, but it does not end failures in a row.
    #[inline]
    pub(super) fn count_unfinished(&self) {
        self.successes.fetch_add(1, Relaxed);
    }

    #[cold]
    fn record_failure(&self, took: Option<Duration>, generation: u32, now: Timestamp) -> u32 {
        if let Some(took) = took {
            self.latency.sample_failure(took, now);
        }
        self.failures.fetch_add(1, Relaxed);
        let counts = generation == self.generation.load(Relaxed) && self.standing(now) != Standing::Ejected;
        if !counts {
            return 0;
        }
        let failed_before = self.failed_at.swap(now.as_nanos(), Relaxed);
        if now.as_nanos().saturating_sub(failed_before) > LONGEST_GAP {
            self.clear_streak();
        }
        self.streak.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// Counts failures in a row from zero again: those so far have been judged.
    pub(super) fn clear_streak(&self) {
        self.streak.store(0, Relaxed);
    }

    /// From now on requests in flight belong to an earlier generation.
    pub(super) fn begin_generation(&self) {
        self.generation.fetch_add(1, Relaxed);
    }

    /// How often it was ejected, in all.
    pub fn ejections(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    pub(super) fn read(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    /// Changes the record, and with it what choices read.
    pub(super) fn change<T>(&self, now: Timestamp, change: impl FnOnce(&mut Record) -> T) -> T {
        let mut record = lock(&self.record);
        let result = change(&mut record);
        let was_up = self.is_up(now);
        let out_until = record.out_until();
        if out_until < UNHEALTHY && out_until > now.as_nanos() {
            self.available_from.store(out_until, Relaxed);
        } else if out_until < UNHEALTHY && !was_up {
            self.available_from.store(now.as_nanos().max(1), Relaxed);
        }
        self.out_until.store(out_until, Relaxed);
        result
    }
}

impl fmt::Debug for EndpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointState")
            .field("name", &self.name)
            .field("in_flight", &self.in_flight())
            .field("totals", &self.totals())
            .field("record", &*self.read())
            .finish_non_exhaustive()
    }
}
