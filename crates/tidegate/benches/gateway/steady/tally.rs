//! What was sent, and what came of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Latencies are kept in tenths of a millisecond, up to two seconds.
const TENTHS: usize = 20_000;
/// Errors that are reported in words; all are counted.
const TOLD: usize = 20;

/// Counts of all clients.
pub(crate) struct Tally(Mutex<Counts>);

pub(crate) struct Counts {
    pub(crate) rows: BTreeMap<&'static str, Row>,
    /// Connections that clients opened.
    pub(crate) connections: u64,
    pub(crate) errors: u64,
    pub(crate) reported: Vec<String>,
    /// From when a request was due to the end of its response.
    latencies: Vec<u64>,
    /// The longest of them since somebody last looked.
    slowest: Duration,
    /// The furthest that a request was behind its time …
    pub(crate) latest: Duration,
    /// … and when the last one was sent.
    pub(crate) last_sent: Instant,
}

/// What came of one kind of request.
#[derive(Default)]
pub(crate) struct Row {
    /// Requests whose head was sent as a whole.
    pub(crate) sent: u64,
    /// Clients that left before the end.
    pub(crate) left: u64,
    pub(crate) responses: BTreeMap<u16, u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Counts {
            rows: BTreeMap::new(),
            connections: 0,
            errors: 0,
            reported: Vec::new(),
            latencies: vec![0; TENTHS + 1],
            slowest: Duration::ZERO,
            latest: Duration::ZERO,
            last_sent: Instant::now(),
        }))
    }

    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn opened(&self) {
        self.counts().connections += 1;
    }

    /// A request was sent that was due then.
    pub(crate) fn sent(&self, kind: &'static str, due: Instant) {
        let (mut counts, now) = (self.counts(), Instant::now());
        counts.rows.entry(kind).or_default().sent += 1;
        counts.latest = counts.latest.max(now - due);
        counts.last_sent = now;
    }

    pub(crate) fn left(&self, kind: &'static str) {
        self.counts().rows.entry(kind).or_default().left += 1;
    }

    /// A whole response came to a request that was due then.
    pub(crate) fn responded(&self, kind: &'static str, status: u16, due: Instant) {
        let took = due.elapsed();
        let tenths = (took.as_micros() / 100) as usize;
        let mut counts = self.counts();
        counts.slowest = counts.slowest.max(took);
        *counts.rows.entry(kind).or_default().responses.entry(status).or_default() += 1;
        counts.latencies[tenths.min(TENTHS)] += 1;
    }

    /// The longest that a response has taken since this was last asked.
    pub(crate) fn take_slowest(&self) -> Duration {
        std::mem::take(&mut self.counts().slowest)
    }

    pub(crate) fn error(&self, kind: &str, what: &str) {
        let mut counts = self.counts();
        counts.errors += 1;
        if counts.reported.len() < TOLD {
            counts.reported.push(format!("{kind}: {what}"));
        }
    }
}

impl Counts {
    pub(crate) fn sent(&self) -> u64 {
        self.rows.values().map(|row| row.sent).sum()
    }

    /// Responses with a status, in hundreds: 5 is all that begin with it.
    pub(crate) fn responded(&self, hundreds: u16) -> u64 {
        let responses = self.rows.values().flat_map(|row| &row.responses);
        responses.filter(|(status, _)| **status / 100 == hundreds).map(|(_, count)| count).sum()
    }

    /// The latency that this share of the responses kept to, in milliseconds.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let all: u64 = self.latencies.iter().sum();
        let mut rest = (all as f64 * share) as u64;
        let tenths = self.latencies.iter().position(|count| {
            let is_it = rest <= *count;
            rest = rest.saturating_sub(*count);
            is_it
        });
        (tenths.unwrap_or(TENTHS) + 1) as f64 / 10.0
    }
}
