//! Leader election: how several processes that share limits agree on which of them adapts those.
//!
//! All who share a store and adapt the same thing are members. One of them leads: it has a lease, gets what all of them
//! report, decides, and publishes an overlay that all of them follow.
//!
//! Each member sends a [heartbeat](Election::heartbeat) about once a second, in one call. The first that finds the
//! lease free or run out takes it, by Redis' own clock. Each time it is taken a new *term* begins, and what was decided
//! in an earlier one is not published any more: a leader that was frozen, or cut off, does no harm when it comes back.
//!
//! Without Redis nobody adapts anything; an overlay that was received is good for as long as it [said](Overlay::left).
//!
//! ```no_run
//! use tidegate_store::election::{Lifetimes, Publication};
//! use tidegate_store::{Name, Store};
//!
//! # async fn example(store: &Store, mut rates: impl FnMut() -> Vec<u8>, decide: impl Fn(&[u8]) -> Vec<u8>)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let mut election = store.election(&Name::new("limits")?, Lifetimes::default())?;
//! let mut decided: Option<(u64, Vec<u8>)> = None;
//! loop {
//!     let publication = decided.as_ref().map(|(term, overlay)| Publication { term: *term, overlay: Some(overlay) });
//!     let standing = election.heartbeat(&rates(), publication).await?;
//!     decided = standing.reports.map(|reports| (standing.term, decide(&reports[0].bytes)));
//!     if let Some(overlay) = standing.overlay {
//!         println!("follow {:?} for {:?}", overlay.bytes, overlay.left);
//!     }
//!     // and again in a second
//! #   return Ok(election.leave().await?);
//! }
//! # }
//! ```

mod messages;
pub(crate) mod scripts;

use std::fmt;
use std::sync::Arc;

pub use messages::{Lifetimes, Overlay, Publication, Report, Standing};

use crate::config::InvalidConfig;
use crate::key::Name;
use crate::link::{BACKGROUND_TIMEOUT, CallError, Link};
use scripts::{HEARTBEAT, LEAVE, Member, command};

/// A member's part in an election: see [the module](self).
pub struct Election {
    link: Arc<Link>,
    /// Lease, members, reports and overlay: of one namespace, so of one slot.
    keys: [String; 4],
    lifetimes: Lifetimes,
    member: Member,
}

/// Why a heartbeat failed. Nothing was reported or published, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionFault {
    /// Redis could not be asked.
    Away,
    /// Redis replied with an error; its own words. A key may hold something else, it may be out of memory, we may lack
    /// a permission.
    Rejected(String),
    /// The report or the overlay is longer than [`Election::LONGEST`].
    TooLong,
    /// Redis did not reply: we may have the lease, and what was to be published may be by now, or later, or not at all.
    Unknown,
}

impl fmt::Display for ElectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away => f.write_str("Redis is away"),
            Self::Rejected(error) => write!(f, "Redis rejects: {error}"),
            Self::TooLong => write!(f, "the report or the overlay is longer than {} bytes", Election::LONGEST),
            Self::Unknown => f.write_str("Redis did not confirm the heartbeat; it may still take effect"),
        }
    }
}

impl std::error::Error for ElectionFault {}

impl From<CallError> for ElectionFault {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Rejected(error) => Self::Rejected(error),
            CallError::Away => Self::Away,
            CallError::Late | CallError::Lost => Self::Unknown,
        }
    }
}

impl Election {
    /// The most bytes a report or an overlay may have: they travel on the connection that decides requests. Far fewer
    /// are better, for the leader gets the reports of all with each call.
    pub const LONGEST: usize = 1 << 16;
    /// The most members whose reports are kept. Of more, those who reported last are kept.
    pub const MOST_MEMBERS: usize = messages::MOST_MEMBERS;

    pub(crate) fn new(
        link: Arc<Link>,
        namespace: &Name,
        name: &Name,
        lifetimes: Lifetimes,
    ) -> Result<Self, InvalidConfig> {
        lifetimes.check()?;
        // No limit has an empty name, so none has these keys.
        let prefix = format!("tidegate:{{{}}}::council:{}", namespace.as_str(), name.as_str());
        let keys = ["lease", "members", "reports", "overlay"].map(|key| format!("{prefix}:{key}"));
        Ok(Self { link, keys, lifetimes, member: Member::new() })
    }

    /// The name by which the others know this member: random, another one for each `Election` that is made.
    pub fn member(&self) -> &str {
        &self.member.id
    }

    /// Reports, gets what is in force, and takes or renews the lease if nobody else has it. What is to be published is
    /// published if this member has led since it was decided, without a break.
    ///
    /// It takes a second at most. A late heartbeat does not count against Redis, because no request waits for it. If
    /// the returned future is dropped, the heartbeat may still take place.
    pub async fn heartbeat(
        &mut self,
        report: &[u8],
        publication: Option<Publication<'_>>,
    ) -> Result<Standing, ElectionFault> {
        let overlay = publication.and_then(|publication| publication.overlay).unwrap_or_default();
        if report.len().max(overlay.len()) > Self::LONGEST {
            return Err(ElectionFault::TooLong);
        }
        let args = self.member.heartbeat_args(None, &self.lifetimes, report, publication);
        let reply = self.link.ask(&command(HEARTBEAT, &self.keys, &args), BACKGROUND_TIMEOUT).await?;
        let odd = || ElectionFault::Rejected("what stands under its keys is not ours".to_owned());
        scripts::standing(reply).ok_or_else(odd)
    }

    /// Gives the lease back, if this member leads, so that another can take it at once, and withdraws the report. What
    /// was published stays in force for its time.
    pub async fn leave(self) -> Result<(), ElectionFault> {
        let command = command(LEAVE, &self.keys, &self.member.leave_args());
        self.link.ask(&command, BACKGROUND_TIMEOUT).await?;
        Ok(())
    }
}
