//! How requests ended.

/// How a request that was sent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this status.
    Responded(u16),
    /// Without a response.
    Failed(Cause),
    /// The run was stopped before the response came.
    Unfinished,
}

/// Why a request had no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The connection was refused, or could not be made.
    NotConnected,
    /// The other side's certificate is not trusted, or the TLS handshake failed.
    Tls,
    /// The connection ended before the response did.
    Closed,
    /// The response was not there in time.
    TimedOut,
    /// What came was no HTTP.
    NotHttp,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::NotConnected, Self::Tls, Self::Closed, Self::TimedOut, Self::NotHttp];

    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
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
    /// Responses by status, in the statuses' order: a run sees a few, and finding one among them is cheap.
    statuses: Vec<(u16, u64)>,
    /// Failures by cause, in the order of `Cause::ALL`.
    failures: [u64; Cause::ALL.len()],
    /// Sent, and without a response when the run was stopped.
    pub unfinished: u64,
    /// Never sent: they would have been too late.
    pub too_late: u64,
    /// Never sent: too many were in flight.
    pub no_room: u64,
    /// Retries that a client owed itself and did not send: it was asked to wait too long, had tried often
    /// enough, or found no free slot.
    pub given_up: u64,
}

impl Counts {
    pub(super) fn note(&mut self, end: End) {
        match end {
            End::Responded(status) => self.add_status(status, 1),
            End::Failed(cause) => self.add_failures(cause, 1),
            End::Unfinished => self.unfinished += 1,
        }
    }

    pub(super) fn miss(&mut self, missed: Missed) {
        match missed {
            Missed::TooLate => self.too_late += 1,
            Missed::NoRoom => self.no_room += 1,
        }
    }

    pub(crate) fn add_status(&mut self, status: u16, count: u64) {
        match self.statuses.binary_search_by_key(&status, |(status, _)| *status) {
            Ok(index) => self.statuses[index].1 += count,
            Err(index) => self.statuses.insert(index, (status, count)),
        }
    }

    pub(crate) fn add_failures(&mut self, cause: Cause, count: u64) {
        self.failures[cause as usize] += count;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            self.add_status(*status, *count);
        }
        for (ours, theirs) in self.failures.iter_mut().zip(other.failures) {
            *ours += theirs;
        }
        self.unfinished += other.unfinished;
        self.too_late += other.too_late;
        self.no_room += other.no_room;
        self.given_up += other.given_up;
    }

    /// Responses by status, in the statuses' order.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.statuses.iter().copied()
    }

    /// Failures by cause; causes that none had are not there.
    pub fn failures(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.into_iter().zip(self.failures).filter(|(_, count)| *count > 0)
    }

    /// Those that had no response in time.
    pub fn timed_out(&self) -> u64 {
        self.failures[Cause::TimedOut as usize]
    }

    /// Those that got a response.
    pub fn responded(&self) -> u64 {
        self.statuses.iter().map(|(_, count)| count).sum()
    }

    /// Responses of 2xx.
    pub fn success(&self) -> u64 {
        self.statuses().filter(|(status, _)| (200..300).contains(status)).map(|(_, count)| count).sum()
    }

    /// Responses of 429.
    pub fn rate_limited(&self) -> u64 {
        self.statuses().find(|(status, _)| *status == 429).map_or(0, |(_, count)| count)
    }

    /// All else that has ended: other responses, and none.
    pub fn errors(&self) -> u64 {
        self.sent() - self.unfinished - self.success() - self.rate_limited()
    }

    /// Requests that were sent.
    pub fn sent(&self) -> u64 {
        self.responded() + self.failures.iter().sum::<u64>() + self.unfinished
    }

    /// Requests that were due and never sent.
    pub fn missed(&self) -> u64 {
        self.too_late + self.no_room
    }

    /// Requests that were due.
    pub fn due(&self) -> u64 {
        self.sent() + self.missed()
    }

    /// Everything that is counted.
    pub(crate) fn total(&self) -> u64 {
        self.due() + self.given_up
    }
}
