//! This gateway as a member of those that share the limit: the leader adapts, the others report and follow.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_adapt::{MergedReports, REPORTED_SECONDS, Second};
use tidegate_policy::Timestamp;
use tidegate_store::Store;
use tidegate_store::election::{Election, ElectionFault, Lifetimes, Overlay, Publication, Standing};
use tokio::task::JoinSet;

use crate::limit::{Counts, Limit};

const NANOS: u64 = 1_000_000_000;

/// Seconds that lack a member before it is reported.
pub(crate) const PATIENCE: u32 = 30;

/// This gateway's part among the members that share one limit.
pub(crate) struct Membership {
    /// Away while a meeting takes place.
    election: Option<Election>,
    meetings: JoinSet<(Election, Result<Standing, ElectionFault>)>,
    role: Role,
    lease: Duration,
    /// When the last meeting was over that took place.
    met_at: Option<Timestamp>,
    merged: MergedReports,
    recent: VecDeque<Second>,
    /// Seconds that nothing has been learnt from yet.
    unlearnt: Vec<Second>,
    /// Whether no other member was at the last meeting.
    is_alone: bool,
    /// Seconds in a row of which a member reported nothing.
    incomplete: u32,
    /// What was last published.
    published: Option<String>,
    /// What all follow, and until when it is good if nothing else is published.
    overlay: Option<(Vec<u8>, Timestamp)>,
}

/// What this gateway does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Not known yet.
    New,
    Leader {
        term: u64,
    },
    Follower,
}

/// What a meeting brought.
#[derive(Debug, Default)]
pub(crate) struct MeetingOutcome {
    /// Seconds of all together, for the leader; for the others what they have seen themselves, which is a part.
    pub(crate) seconds: Vec<Second>,
    pub(crate) leadership: Leadership,
    /// What is published.
    pub(crate) overlay: Option<Vec<u8>>,
    /// Whether, for a while by now, a member's seconds are missing: it is reported once.
    pub(crate) is_incomplete: bool,
}

/// What became of this gateway's leadership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// As before.
    #[default]
    Unchanged,
    /// It is the leader from now on, and begins with what is published.
    Gained,
    /// Another gateway is, from now on.
    Lost,
}

impl Membership {
    /// For this limit, if it is shared.
    pub(crate) fn new(limit: &Limit, store: Option<&Store>) -> Option<Self> {
        let store = store.filter(|_| Self::is_for(limit))?;
        let terms = Lifetimes::default();
        let election = store.election(&limit.settings.name, terms).ok()?;
        Some(Self { election: Some(election), ..Self::empty(terms.lease) })
    }

    fn empty(lease: Duration) -> Self {
        Self {
            election: None,
            meetings: JoinSet::new(),
            role: Role::New,
            lease,
            met_at: None,
            merged: MergedReports::default(),
            recent: VecDeque::new(),
            unlearnt: Vec::new(),
            is_alone: false,
            incomplete: 0,
            published: None,
            overlay: None,
        }
    }

    /// Whether a limit is shared.
    pub(crate) fn is_for(limit: &Limit) -> bool {
        matches!(limit.counts, Counts::Shared(_))
    }

    /// Whether this gateway is the leader. While Redis is away the last leader stays.
    pub(crate) fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    /// This gateway has seen these.
    pub(crate) fn saw(&mut self, seconds: Vec<Second>) {
        self.recent.extend(seconds.iter().cloned());
        self.unlearnt.extend(seconds);
        while self.recent.len() > REPORTED_SECONDS {
            self.recent.pop_front();
        }
        let excess = self.unlearnt.len().saturating_sub(2 * REPORTED_SECONDS);
        self.unlearnt.drain(..excess);
    }

    /// Whether there is something to publish that has not been.
    pub(crate) fn has_news(&self, publication: Option<&str>) -> bool {
        self.is_leader() && self.election.is_some() && self.published.as_deref() != publication
    }

    /// Meets the others, unless a meeting takes place already. `publication` is what they shall follow, if this
    /// gateway is the leader.
    pub(crate) fn meet(&mut self, publication: Option<String>) {
        let Some(mut election) = self.election.take() else { return };
        let recent: Vec<&Second> = self.recent.iter().collect();
        let report = serde_json::to_vec(&recent).unwrap_or_default();
        let role = self.role;
        self.published.clone_from(&publication);
        self.meetings.spawn(async move {
            let overlay = publication.as_deref().map(str::as_bytes);
            let decree = match role {
                Role::Leader { term } => Some(Publication { term, overlay }),
                Role::New | Role::Follower => None,
            };
            let met = election.heartbeat(&report, decree).await;
            (election, met)
        });
    }

    /// The end of the meeting that takes place; never without one.
    pub(crate) async fn met(&mut self) -> Result<Standing, ElectionFault> {
        match self.meetings.join_next().await {
            Some(Ok((election, met))) => {
                self.election = Some(election);
                met
            }
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// What the meeting means, at this moment.
    pub(crate) fn conclude(&mut self, met: Result<Standing, ElectionFault>, now: Timestamp) -> MeetingOutcome {
        let unlearnt = std::mem::take(&mut self.unlearnt);
        let meeting = match met {
            Ok(meeting) => meeting,
            Err(fault) => return self.without_meeting(&fault, unlearnt, now),
        };
        self.met_at = Some(now);
        let before = self.role;
        self.overlay = meeting.overlay.as_ref().map(|overlay| (overlay.bytes.clone(), now + overlay.left));
        let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
        let Some(reports) = &meeting.reports else {
            self.role = Role::Follower;
            self.is_alone = false;
            let leadership = if before == Role::Follower { Leadership::Unchanged } else { Leadership::Lost };
            return MeetingOutcome { seconds: as_parts(unlearnt), leadership, overlay, is_incomplete: false };
        };
        self.role = Role::Leader { term: meeting.term };
        self.is_alone = reports.len() == 1;
        let read: Vec<Vec<Second>> =
            reports.iter().filter_map(|report| serde_json::from_slice(&report.bytes).ok()).collect();
        // A member whose report can't be read may have seen anything: with it nothing is whole.
        let unread = reports.len() - read.len();
        let seconds = self.merged.add(&read, unread, now.as_nanos() / NANOS);
        let leadership = if is_leader_still(before, &meeting) { Leadership::Unchanged } else { Leadership::Gained };
        let is_incomplete = self.misses_any(&seconds);
        MeetingOutcome { seconds, leadership, overlay, is_incomplete }
    }

    /// Whether a member's seconds have been missing for so long now. One that has died is missing for a few seconds,
    /// and that does not matter.
    fn misses_any(&mut self, seconds: &[Second]) -> bool {
        let mut is_new = false;
        for second in seconds {
            self.incomplete = if second.is_partial { self.incomplete.saturating_add(1) } else { 0 };
            is_new |= self.incomplete == PATIENCE;
        }
        is_new
    }

    /// There was no meeting: a leader that was alone still is, and what all follow is good for its time. While Redis
    /// is away the leader goes on; where Redis is there and rejects the call, another may have the lease when its
    /// time is over.
    fn without_meeting(&mut self, fault: &ElectionFault, unlearnt: Vec<Second>, now: Timestamp) -> MeetingOutcome {
        self.overlay.take_if(|(_, until)| *until <= now);
        let is_over = self.met_at.is_none_or(|at| now >= at + self.lease);
        if self.is_leader() && is_over && *fault != ElectionFault::Away {
            self.role = Role::Follower;
            self.is_alone = false;
            let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
            return MeetingOutcome {
                seconds: as_parts(unlearnt),
                leadership: Leadership::Lost,
                overlay,
                is_incomplete: false,
            };
        }
        let seconds = if self.is_leader() && self.is_alone { unlearnt } else { as_parts(unlearnt) };
        let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
        MeetingOutcome { seconds, overlay, ..MeetingOutcome::default() }
    }

    /// Lets another gateway become the leader at once.
    pub(crate) async fn leave(mut self) {
        if self.election.is_none() {
            let _met = self.met().await;
        }
        if let Some(election) = self.election.take() {
            // If Redis is away, the lease ends by itself.
            let _left = election.leave().await;
        }
    }
}

fn as_parts(seconds: Vec<Second>) -> Vec<Second> {
    seconds.into_iter().map(Second::into_part).collect()
}

/// Whether no other gateway has decided anything since this one last held the lease.
fn is_leader_still(before: Role, meeting: &Standing) -> bool {
    let Role::Leader { term } = before else { return false };
    let is_by_another = |overlay: &Overlay| overlay.term > term && overlay.term != meeting.term;
    !meeting.overlay.as_ref().is_some_and(is_by_another)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * NANOS)
    }

    fn meeting() -> Standing {
        let overlay = Overlay { term: 7, version: 1, left: Duration::from_secs(15), bytes: b"numbers".to_vec() };
        Standing { term: 7, reports: Some(Vec::new()), overlay: Some(overlay) }
    }

    #[test]
    fn a_leader_that_can_not_meet_steps_down_when_the_lease_is_over_unless_redis_is_away() {
        for (fault, steps_down) in [
            (ElectionFault::Rejected("OOM".to_owned()), true),
            (ElectionFault::TooLong, true),
            (ElectionFault::Unknown, true),
            (ElectionFault::Away, false),
        ] {
            let mut member = Membership::empty(Duration::from_secs(5));
            assert_eq!(member.conclude(Err(fault.clone()), at(99)).leadership, Leadership::Unchanged);
            assert_eq!(member.conclude(Ok(meeting()), at(100)).leadership, Leadership::Gained);
            assert_eq!(
                (member.conclude(Err(fault.clone()), at(104)).leadership, member.is_leader()),
                (Leadership::Unchanged, true)
            );
            let outcome = member.conclude(Err(fault.clone()), at(105));
            assert_eq!(
                (outcome.leadership == Leadership::Lost, !member.is_leader()),
                (steps_down, steps_down),
                "{fault}"
            );
            assert_eq!(outcome.overlay.as_deref(), Some(&b"numbers"[..]), "what all follow is good for its time");
            assert_eq!(member.conclude(Err(fault.clone()), at(106)).leadership, Leadership::Unchanged, "reported once");
            assert_eq!(member.conclude(Err(fault), at(115)).overlay, None);
            let leadership = if steps_down { Leadership::Gained } else { Leadership::Unchanged };
            assert_eq!(member.conclude(Ok(meeting()), at(116)).leadership, leadership);
        }
    }

    #[test]
    fn a_follower_learns_from_what_it_sees_itself_which_is_a_part() {
        let mut member = Membership::empty(Duration::from_secs(5));
        let own = |at| vec![Second { at, is_whole: true, offered: 40, ..Second::default() }];
        for met in [Ok(Standing { reports: None, ..meeting() }), Err(ElectionFault::Away)] {
            member.saw(own(99));
            let outcome = member.conclude(met, at(100));
            let seen: Vec<_> = outcome.seconds.iter().map(|it| (it.offered, it.is_partial, it.is_whole)).collect();
            assert_eq!(seen, [(40, true, false)]);
        }
    }

    #[test]
    fn a_report_that_can_not_be_read_is_reported_and_does_not_blind_the_others() {
        let mut member = Membership::empty(Duration::from_secs(5));
        let report = |bytes: Vec<u8>| tidegate_store::election::Report {
            member: String::new(),
            age: Duration::ZERO,
            number: 1,
            bytes,
        };
        let mut reported = Vec::new();
        for now in 100..200 {
            let good = Second { at: now - 2, is_whole: true, offered: 40, ..Second::default() };
            let good = serde_json::to_vec(&[good]).expect("JSON");
            let reports = Some(vec![report(good), report(b"what?".to_vec())]);
            let outcome = member.conclude(Ok(Standing { reports, ..meeting() }), at(now));
            assert!(outcome.seconds.iter().all(|second| second.is_partial && !second.is_whole && second.offered == 40));
            reported.extend(outcome.is_incomplete.then_some(now));
        }
        assert_eq!(reported, [130], "once");
    }
}
