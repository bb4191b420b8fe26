//! How several processes that share limits agree on which of them adapts those.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, Value};

use crate::link::NoAnswer;
use crate::{Document, InvalidConfig, Name, Store};

/// All who share a store and adapt the same thing. One of them holds a lease: it hears what all of them report, decides, and publishes an
/// overlay that all of them follow.
///
/// Each member [meets](Self::meet) the others about once a second, in one call. Whoever finds the lease free or run out takes it, by Redis'
/// own clock. Each time it is taken a new *term* begins, and what was decided in an earlier one is not published any more: a holder
/// that was frozen, or cut off, does no harm when it comes back.
///
/// Without Redis nobody adapts anything; an overlay that was heard of is good for as long as it [said](Overlay::left).
///
/// ```no_run
/// use tidegate_store::{Council, CouncilTerms, Decree, Name, Store};
///
/// # async fn example(store: &Store, mut rates: impl FnMut() -> Vec<u8>, decide: impl Fn(&[u8]) -> Vec<u8>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let mut council = store.council(&Name::new("limits")?, CouncilTerms::default())?;
/// let mut decided: Option<(u64, Vec<u8>)> = None;
/// loop {
///     let decree = decided.as_ref().map(|(term, overlay)| Decree { term: *term, overlay: Some(overlay) });
///     let meeting = council.meet(&rates(), decree).await?;
///     decided = meeting.reports.map(|reports| (meeting.term, decide(&reports[0].bytes)));
///     if let Some(overlay) = meeting.overlay {
///         println!("follow {:?} for {:?}", overlay.bytes, overlay.left);
///     }
///     // and again in a second
/// #   return Ok(council.leave().await?);
/// }
/// # }
/// ```
pub struct Council {
    store: Store,
    /// Lease, members, reports and overlay: of one namespace, so of one slot.
    keys: [String; 4],
    terms: CouncilTerms,
    member: Member,
}

/// How long things last in a [`Council`], each within [`CouncilTerms::SPAN`]. All of its members should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CouncilTerms {
    /// The holder's lease. It should outlast some meetings, or one that is late costs the holder its term.
    pub lease: Duration,
    /// A report, unless its member gives another before.
    pub report: Duration,
    /// An overlay, unless the holder publishes it again before.
    pub overlay: Duration,
}

impl CouncilTerms {
    /// What each of them may be.
    pub const SPAN: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

    fn check(&self) -> Result<(), InvalidConfig> {
        let fields = [("lease", self.lease), ("report", self.report), ("overlay", self.overlay)];
        match fields.into_iter().find(|(_, span)| !Self::SPAN.contains(span)) {
            Some((field, _)) => Err(InvalidConfig { field, allowed: "from 1 ms to 24 h" }),
            None => Ok(()),
        }
    }
}

impl Default for CouncilTerms {
    /// For a meeting a second: four of them in a row may fail.
    fn default() -> Self {
        Self { lease: Duration::from_secs(5), report: Duration::from_secs(5), overlay: Duration::from_secs(15) }
    }
}

/// What a holder has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decree<'a> {
    /// The term it was decided in: that of the meeting whose reports it rests on. If another has begun since, nothing is published.
    pub term: u64,
    /// What all shall follow; `None`: nothing any more, at once.
    pub overlay: Option<&'a [u8]>,
}

/// What a member is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The term of whoever holds the lease now. It grows each time the lease is taken.
    pub term: u64,
    /// To the holder, and to nobody else: the latest report of every member, itself included, in the order of their numbers.
    pub reports: Option<Vec<Report>>,
    /// What is in force, also if its holder is gone: until its time is over or the next holder decides otherwise.
    pub overlay: Option<Overlay>,
}

impl Meeting {
    /// Whether this member holds the lease. A [`Decree`] of the same term was published.
    pub fn is_holder(&self) -> bool {
        self.reports.is_some()
    }
}

/// What a member has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose it is: see [`Council::member`].
    pub member: String,
    /// How long ago it came.
    pub age: Duration,
    /// Grows with every report of any member: whoever remembers the highest it has read reads none twice.
    pub number: u64,
    /// What was reported.
    pub bytes: Vec<u8>,
}

/// What the holder has published, for all to follow.
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

/// Why there was no meeting. Nothing was reported or published, but where it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CouncilFault {
    /// Redis could not be asked.
    Away,
    /// Redis refuses; its own words. A key may hold something else, it may be out of memory, we may lack a permission.
    Refused(String),
    /// The report or the overlay is longer than [`Council::LONGEST`].
    TooLong,
    /// Redis did not answer: we may have the lease, and what was to be published may be by now, or later, or not at all.
    Unknown,
}

impl fmt::Display for CouncilFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away => f.write_str("Redis is away"),
            Self::Refused(error) => write!(f, "Redis refuses: {error}"),
            Self::TooLong => write!(f, "the report or the overlay is longer than {} bytes", Council::LONGEST),
            Self::Unknown => f.write_str("Redis did not say whether the meeting has taken place"),
        }
    }
}

impl std::error::Error for CouncilFault {}

impl From<NoAnswer> for CouncilFault {
    fn from(no_answer: NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Refused(error) => Self::Refused(error),
            NoAnswer::Away => Self::Away,
            NoAnswer::Late | NoAnswer::Lost => Self::Unknown,
        }
    }
}

impl Council {
    /// The most bytes a report or an overlay may have: they travel on the connection that decides requests. Far fewer are better, for the
    /// holder gets the reports of all with each call.
    pub const LONGEST: usize = 1 << 16;
    /// The most members whose reports are kept. Of more, those who reported last are heard.
    pub const MOST_MEMBERS: usize = 64;

    pub(crate) fn new(store: Store, name: &Name, terms: CouncilTerms) -> Result<Self, InvalidConfig> {
        terms.check()?;
        // No limit has an empty name, so none has these keys.
        let prefix = format!("tidegate:{{{}}}::council:{}", store.0.namespace.as_str(), name.as_str());
        let keys = ["lease", "members", "reports", "overlay"].map(|key| format!("{prefix}:{key}"));
        Ok(Self { store, keys, terms, member: Member::new() })
    }

    /// The name by which the others know this member: random, another one for each `Council` that is made.
    pub fn member(&self) -> &str {
        &self.member.id
    }

    /// Reports, hears what is in force, and takes or renews the lease if nobody else has it. A decree is published if this member has
    /// held the lease since then without a break.
    ///
    /// It takes a second at most. That it was late says nothing about requests' calls, none of which wait for it. If the returned
    /// future is dropped, the meeting may take place all the same.
    pub async fn meet(&mut self, report: &[u8], decree: Option<Decree<'_>>) -> Result<Meeting, CouncilFault> {
        let overlay = decree.and_then(|decree| decree.overlay).unwrap_or_default();
        if report.len().max(overlay.len()) > Self::LONGEST {
            return Err(CouncilFault::TooLong);
        }
        let args = self.member.question(None, &self.terms, report, decree);
        let reply = self.store.0.link.ask(&command(MEET, &self.keys, &args), Document::PATIENCE).await?;
        Meeting::read(reply).ok_or_else(|| CouncilFault::Refused("what stands under its keys is not ours".to_owned()))
    }

    /// Gives the lease back, if this member has it, so that another can take it at once, and withdraws the report. What was published
    /// stays in force for its time.
    pub async fn leave(self) -> Result<(), CouncilFault> {
        let command = command(LEAVE, &self.keys, &self.member.farewell());
        self.store.0.link.ask(&command, Document::PATIENCE).await?;
        Ok(())
    }
}

/// The script of a meeting.
pub const MEET: &str = concat!(include_str!("../lua/clock.lua"), include_str!("../lua/council.lua"));
/// The script of a member that leaves.
pub const LEAVE: &str = include_str!("../lua/leave.lua");

/// The call of a script. Once a second it can carry its text.
pub fn command(script: &str, keys: &[String], args: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

/// A member's side of the scripts.
pub struct Member {
    /// 16 random bytes in hex.
    pub id: String,
    /// Counts its questions: one that was delayed on an old connection is not carried out after a later one.
    turn: u64,
}

impl Member {
    /// One that nobody knows yet.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let random = |half: u8| RandomState::new().hash_one((std::process::id(), half));
        Self { id: format!("{:016x}{:016x}", random(0), random(1)), turn: 0 }
    }

    /// The arguments of `council.lua`; `now` in microseconds, if it is not to be Redis' own clock.
    pub fn question(
        &mut self,
        now: Option<u64>,
        terms: &CouncilTerms,
        report: &[u8],
        decree: Option<Decree<'_>>,
    ) -> Vec<Vec<u8>> {
        self.turn += 1;
        let micros = |span: Duration| number(span.as_micros() as u64); // at most a day
        let mut args = vec![
            now.map(number).unwrap_or_default(),
            self.id.clone().into_bytes(),
            number(self.turn),
            report.to_vec(),
            micros(terms.lease),
            micros(terms.report),
            number(Council::MOST_MEMBERS as u64),
            number(decree.map_or(0, |decree| decree.term)),
            micros(terms.overlay),
        ];
        args.extend(decree.and_then(|decree| decree.overlay).map(<[u8]>::to_vec));
        args
    }

    /// The arguments of `leave.lua`.
    pub fn farewell(&self) -> Vec<Vec<u8>> {
        vec![self.id.clone().into_bytes()]
    }
}

fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

impl Meeting {
    /// The reply of `council.lua`; `None` if it can't be one.
    #[doc(hidden)]
    pub fn read(reply: Value) -> Option<Self> {
        type Told = (u64, Option<(u64, u64, u64, Vec<u8>)>, Option<Vec<(String, u64, u64, Vec<u8>)>>);
        let (term, overlay, reports) = Told::from_redis_value(reply).ok()?;
        let overlay = overlay.map(|(term, version, left, bytes)| Overlay {
            term,
            version,
            left: Duration::from_micros(left),
            bytes,
        });
        let report = |(member, age, number, bytes)| Report { member, age: Duration::from_micros(age), number, bytes };
        let reports = reports.map(|reports| reports.into_iter().map(report).collect());
        Some(Self { term, reports, overlay })
    }
}
