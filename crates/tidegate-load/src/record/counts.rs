//! How requests ended.

use std::collections::BTreeMap;

/// How a request that was sent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this status.
    Answered(u16),
    /// Without an answer.
    Failed(Cause),
}

/// Why a request had no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The host's name leads nowhere.
    NoSuchHost,
    /// The connection was refused, or could not be made.
    NotConnected,
    /// The other side's certificate, or its TLS, is no good.
    Tls,
    /// The connection ended before the answer did.
    Closed,
    /// The answer was not there in time.
    TimedOut,
    /// What came was no HTTP.
    NotHttp,
}

impl Cause {
    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSuchHost => "no_such_host",
            Self::NotConnected => "not_connected",
            Self::Tls => "tls",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
            Self::NotHttp => "not_http",
        }
    }
}

/// Why a request was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// It would have been later than `maxLag`.
    TooLate,
    /// As many as `concurrency` allows were in flight.
    NoRoom,
}

/// How requests ended, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Failures by cause.
    pub failures: BTreeMap<Cause, u64>,
    /// Never sent: they would have been too late.
    pub too_late: u64,
    /// Never sent: too many were in flight.
    pub no_room: u64,
}

impl Counts {
    pub(super) fn note(&mut self, end: End) {
        match end {
            End::Answered(status) => *self.statuses.entry(status).or_default() += 1,
            End::Failed(cause) => *self.failures.entry(cause).or_default() += 1,
        }
    }

    pub(super) fn miss(&mut self, missed: Missed) {
        match missed {
            Missed::TooLate => self.too_late += 1,
            Missed::NoRoom => self.no_room += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (cause, count) in &other.failures {
            *self.failures.entry(*cause).or_default() += count;
        }
        self.too_late += other.too_late;
        self.no_room += other.no_room;
    }

    /// Answers of 2xx.
    pub fn success(&self) -> u64 {
        self.statuses.range(200..300).map(|(_, count)| count).sum()
    }

    /// Answers of 429.
    pub fn rate_limited(&self) -> u64 {
        self.statuses.get(&429).copied().unwrap_or_default()
    }

    /// All else that was sent: other answers, and none.
    pub fn errors(&self) -> u64 {
        self.sent() - self.success() - self.rate_limited()
    }

    /// Requests that were sent.
    pub fn sent(&self) -> u64 {
        self.statuses.values().sum::<u64>() + self.failures.values().sum::<u64>()
    }

    /// Requests that were due and never sent.
    pub fn missed(&self) -> u64 {
        self.too_late + self.no_room
    }
}
