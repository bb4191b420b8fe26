use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::InvalidConfig;

/// The most members whose reports are kept.
pub(crate) const MOST_MEMBERS: usize = 64;

/// How long things last in an election, each within [`Lifetimes::SPAN`]. All of its members should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// The leader's lease. It should outlast some heartbeats, or one that is late costs the leader its term.
    pub lease: Duration,
    /// A report, unless its member gives another before.
    pub report: Duration,
    /// An overlay, unless the leader publishes it again before.
    pub overlay: Duration,
}

impl Lifetimes {
    /// What each of them may be.
    pub const SPAN: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let fields = [("lease", self.lease), ("report", self.report), ("overlay", self.overlay)];
        match fields.into_iter().find(|(_, span)| !Self::SPAN.contains(span)) {
            Some((field, _)) => Err(InvalidConfig { field, expected: "from 1 ms to 24 h" }),
            None => Ok(()),
        }
    }
}

impl Default for Lifetimes {
    /// For a heartbeat a second: four of them in a row may fail.
    fn default() -> Self {
        Self { lease: Duration::from_secs(5), report: Duration::from_secs(5), overlay: Duration::from_secs(15) }
    }
}

/// What a leader has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication<'a> {
    /// The term it was decided in: that of the [`Standing`] whose reports it rests on. If another has begun since,
    /// nothing is published.
    pub term: u64,
    /// What all shall follow; `None`: nothing any more, at once.
    pub overlay: Option<&'a [u8]>,
}

/// How an election stands, as a member learns by its heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The term of the one that leads now. It grows each time the lease is taken.
    pub term: u64,
    /// To the leader, and to nobody else: the latest report of every member, itself included, in the order of their
    /// numbers.
    pub reports: Option<Vec<Report>>,
    /// What is in force, also if its leader is gone: until its time is over or the next leader decides otherwise.
    pub overlay: Option<Overlay>,
}

impl Standing {
    /// Whether this member leads. A [`Publication`] of the same term was published.
    pub fn is_leader(&self) -> bool {
        self.reports.is_some()
    }
}

/// What a member has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose it is: see [`Election::member`](super::Election::member).
    pub member: String,
    /// How long ago it came.
    pub age: Duration,
    /// Grows with every report of any member: one who remembers the highest it has read reads none twice.
    pub number: u64,
    /// What was reported.
    pub bytes: Vec<u8>,
}

/// What the leader has published, for all to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The term it was last published in.
    pub term: u64,
    /// Grows each time other bytes are published.
    pub version: u64,
    /// For how much longer it is in force, unless it is published again.
    pub left: Duration,
    /// What was published.
    pub bytes: Vec<u8>,
}
