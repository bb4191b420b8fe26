//! This gateway as one of the members that share the limit: the leader adapts, the others report and follow.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_adapt::{MergedReports, REPORTED_SECONDS, Second};
use tidegate_policy::Timestamp;
use tidegate_store::Store;
use tidegate_store::election::{Election, ElectionFault, Lifetimes, Overlay, Publication, Standing};
use tokio::task::JoinSet;

use crate::limit::{Counts, Limit};

const NANOS: u64 = 1_000_000_000;

/// After how many seconds in a row without the report of a member that is logged.
pub(crate) const INCOMPLETE_SECONDS: u32 = 30;

/// This gateway's part among the members that share one limit.
pub(crate) struct Membership {
    /// None while a heartbeat is under way.
    election: Option<Election>,
    heartbeats: JoinSet<(Election, Result<Standing, ElectionFault>)>,
    role: Role,
    lease: Duration,
    /// When the last successful heartbeat ended.
    last_heartbeat: Option<Timestamp>,
    merged: MergedReports,
    recent: VecDeque<Second>,
    /// Seconds that nothing has been learnt from yet.
    unlearnt: Vec<Second>,
    /// Whether the last heartbeat found no other member.
    is_alone: bool,
    /// Seconds in a row that lack the report of a member.
    incomplete: u32,
    /// What was last published.
    published: Option<String>,
    /// What all members follow, and when it expires unless something else is published.
    overlay: Option<(Vec<u8>, Timestamp)>,
}

/// The role of this gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Not known yet.
    New,
    Leader {
        term: u64,
    },
    Follower,
}

/// The outcome of a heartbeat.
#[derive(Debug, Default)]
pub(crate) struct HeartbeatOutcome {
    /// For the leader the seconds of all members together; for the others their own, which are a part.
    pub(crate) seconds: Vec<Second>,
    pub(crate) leadership: Leadership,
    /// What is published.
    pub(crate) overlay: Option<Vec<u8>>,
    /// Whether a member's reports have been missing for [`INCOMPLETE_SECONDS`]. True once.
    pub(crate) is_incomplete: bool,
}

/// How a heartbeat changed this gateway's leadership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// As before.
    #[default]
    Unchanged,
    /// It is the leader from now on, and starts with what is published.
    Gained,
    /// It is not the leader any longer.
    Lost,
}

impl Membership {
    /// The membership for this limit, if it is shared.
    pub(crate) fn new(limit: &Limit, store: Option<&Store>) -> Option<Self> {
        let store = store.filter(|_| Self::is_for(limit))?;
        let terms = Lifetimes::default();
        let election = store.election(&limit.settings.name, terms).ok()?;
        Some(Self { election: Some(election), ..Self::empty(terms.lease) })
    }

    fn empty(lease: Duration) -> Self {
        Self {
            election: None,
            heartbeats: JoinSet::new(),
            role: Role::New,
            lease,
            last_heartbeat: None,
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

    /// Whether this gateway is the leader. While Redis is unavailable, the last leader stays.
    pub(crate) fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    /// Adds seconds that this gateway has observed.
    pub(crate) fn observed(&mut self, seconds: Vec<Second>) {
        self.recent.extend(seconds.iter().cloned());
        self.unlearnt.extend(seconds);
        while self.recent.len() > REPORTED_SECONDS {
            self.recent.pop_front();
        }
        let excess = self.unlearnt.len().saturating_sub(2 * REPORTED_SECONDS);
        self.unlearnt.drain(..excess);
    }

    /// Whether this gateway has something to publish that is not published yet.
    pub(crate) fn has_news(&self, publication: Option<&str>) -> bool {
        self.is_leader() && self.election.is_some() && self.published.as_deref() != publication
    }

    /// Sends a heartbeat, unless one is under way. `publication` is what all members must follow, if this gateway is
    /// the leader.
    pub(crate) fn send_heartbeat(&mut self, publication: Option<String>) {
        let Some(mut election) = self.election.take() else { return };
        let recent: Vec<&Second> = self.recent.iter().collect();
        let report = serde_json::to_vec(&recent).unwrap_or_default();
        let role = self.role;
        self.published.clone_from(&publication);
        self.heartbeats.spawn(async move {
            let overlay = publication.as_deref().map(str::as_bytes);
            let publication = match role {
                Role::Leader { term } => Some(Publication { term, overlay }),
                Role::New | Role::Follower => None,
            };
            let standing = election.heartbeat(&report, publication).await;
            (election, standing)
        });
    }

    /// The result of the heartbeat under way; pending without one.
    pub(crate) async fn heartbeat(&mut self) -> Result<Standing, ElectionFault> {
        match self.heartbeats.join_next().await {
            Some(Ok((election, standing))) => {
                self.election = Some(election);
                standing
            }
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// The outcome of a heartbeat that has just ended.
    pub(crate) fn conclude(&mut self, standing: Result<Standing, ElectionFault>, now: Timestamp) -> HeartbeatOutcome {
        let unlearnt = std::mem::take(&mut self.unlearnt);
        let standing = match standing {
            Ok(standing) => standing,
            Err(fault) => return self.without_heartbeat(&fault, unlearnt, now),
        };
        self.last_heartbeat = Some(now);
        let before = self.role;
        self.overlay = standing.overlay.as_ref().map(|overlay| (overlay.bytes.clone(), now + overlay.left));
        let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
        let Some(reports) = &standing.reports else {
            self.role = Role::Follower;
            self.is_alone = false;
            let leadership = if before == Role::Follower { Leadership::Unchanged } else { Leadership::Lost };
            return HeartbeatOutcome { seconds: as_parts(unlearnt), leadership, overlay, is_incomplete: false };
        };
        self.role = Role::Leader { term: standing.term };
        self.is_alone = reports.len() == 1;
        let read: Vec<Vec<Second>> =
            reports.iter().filter_map(|report| serde_json::from_slice(&report.bytes).ok()).collect();
        // A member whose report can't be read may have seen any load: no second is complete without it.
        let unread = reports.len() - read.len();
        let seconds = self.merged.add(&read, unread, now.as_nanos() / NANOS);
        let leadership = if is_leader_still(before, &standing) { Leadership::Unchanged } else { Leadership::Gained };
        let is_incomplete = self.becomes_incomplete(&seconds);
        HeartbeatOutcome { seconds, leadership, overlay, is_incomplete }
    }

    /// Whether a member's seconds have now been missing for [`INCOMPLETE_SECONDS`]. A member that has died is missing
    /// only for a few seconds, which does not matter.
    fn becomes_incomplete(&mut self, seconds: &[Second]) -> bool {
        let mut is_new = false;
        for second in seconds {
            self.incomplete = if second.is_partial { self.incomplete.saturating_add(1) } else { 0 };
            is_new |= self.incomplete == INCOMPLETE_SECONDS;
        }
        is_new
    }

    /// The outcome of a heartbeat that failed. A leader that was alone still is, and what is published stays valid
    /// until it expires. While Redis is unavailable, the leader stays. If Redis rejects the call, another gateway may
    /// become the leader when the lease ends.
    fn without_heartbeat(&mut self, fault: &ElectionFault, unlearnt: Vec<Second>, now: Timestamp) -> HeartbeatOutcome {
        self.overlay.take_if(|(_, until)| *until <= now);
        let is_over = self.last_heartbeat.is_none_or(|at| now >= at + self.lease);
        if self.is_leader() && is_over && *fault != ElectionFault::Away {
            self.role = Role::Follower;
            self.is_alone = false;
            let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
            return HeartbeatOutcome {
                seconds: as_parts(unlearnt),
                leadership: Leadership::Lost,
                overlay,
                is_incomplete: false,
            };
        }
        let seconds = if self.is_leader() && self.is_alone { unlearnt } else { as_parts(unlearnt) };
        let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
        HeartbeatOutcome { seconds, overlay, ..HeartbeatOutcome::default() }
    }

    /// Lets another gateway become the leader at once.
    pub(crate) async fn leave(mut self) {
        if self.election.is_none() {
            let _standing = self.heartbeat().await;
        }
        if let Some(election) = self.election.take() {
            // If Redis is unavailable, the lease ends by itself.
            let _left = election.leave().await;
        }
    }
}

fn as_parts(seconds: Vec<Second>) -> Vec<Second> {
    seconds.into_iter().map(Second::into_part).collect()
}

/// Whether no other gateway has decided anything since this one last held the lease.
fn is_leader_still(before: Role, standing: &Standing) -> bool {
    let Role::Leader { term } = before else { return false };
    let is_by_another = |overlay: &Overlay| overlay.term > term && overlay.term != standing.term;
    !standing.overlay.as_ref().is_some_and(is_by_another)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * NANOS)
    }

    fn standing() -> Standing {
        let overlay = Overlay { term: 7, version: 1, left: Duration::from_secs(15), bytes: b"numbers".to_vec() };
        Standing { term: 7, reports: Some(Vec::new()), overlay: Some(overlay) }
    }

    #[test]
    fn a_leader_without_heartbeats_steps_down_when_the_lease_is_over_unless_redis_is_away() {
        for (fault, steps_down) in [
            (ElectionFault::Rejected("OOM".to_owned()), true),
            (ElectionFault::TooLong, true),
            (ElectionFault::Unknown, true),
            (ElectionFault::Away, false),
        ] {
            let mut member = Membership::empty(Duration::from_secs(5));
            assert_eq!(member.conclude(Err(fault.clone()), at(99)).leadership, Leadership::Unchanged);
            assert_eq!(member.conclude(Ok(standing()), at(100)).leadership, Leadership::Gained);
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
            assert_eq!(member.conclude(Ok(standing()), at(116)).leadership, leadership);
        }
    }

    #[test]
    fn a_follower_learns_from_what_it_sees_itself_which_is_a_part() {
        let mut member = Membership::empty(Duration::from_secs(5));
        let own = |at| vec![Second { at, is_whole: true, offered: 40, ..Second::default() }];
        for result in [Ok(Standing { reports: None, ..standing() }), Err(ElectionFault::Away)] {
            member.observed(own(99));
            let outcome = member.conclude(result, at(100));
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
            let outcome = member.conclude(Ok(Standing { reports, ..standing() }), at(now));
            assert!(outcome.seconds.iter().all(|second| second.is_partial && !second.is_whole && second.offered == 40));
            reported.extend(outcome.is_incomplete.then_some(now));
        }
        assert_eq!(reported, [130], "once");
    }
}
