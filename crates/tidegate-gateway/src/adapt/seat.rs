//! This gateway's seat among those that share the limit: one of them adapts, the others report and follow.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_store::Store;
use tidegate_store::election::{Election, ElectionFault, Lifetimes, Overlay, Publication, Standing};
use tokio::task::JoinSet;

use super::assembly::{Assembly, REPORTED};
use super::second::Second;
use crate::limits::Limit;

const NANOS: u64 = 1_000_000_000;

/// Seconds that lack somebody before it is said.
pub(crate) const PATIENCE: u32 = 30;

/// A seat in the council of one limit.
pub(crate) struct Seat {
    /// Away while a meeting takes place.
    council: Option<Election>,
    meetings: JoinSet<(Election, Result<Standing, ElectionFault>)>,
    role: Role,
    lease: Duration,
    /// When the last meeting was over that took place.
    met_at: Option<Timestamp>,
    assembly: Assembly,
    recent: VecDeque<Second>,
    /// Seconds that nobody has learnt from.
    untold: Vec<Second>,
    /// Whether nobody else was at the last meeting.
    is_alone: bool,
    /// Seconds in a row of which somebody told nothing.
    incomplete: u32,
    /// What was last handed in.
    published: Option<String>,
    /// What all follow, and until when it is good if nobody says more.
    overlay: Option<(Vec<u8>, Timestamp)>,
}

/// What this gateway does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Nobody knows yet.
    New,
    Holder {
        term: u64,
    },
    Follower,
}

/// What a meeting brought.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Seconds of all together, for the one that adapts; for the others what they have seen themselves, which is a part.
    pub(crate) seconds: Vec<Second>,
    pub(crate) turn: Turn,
    /// What is published.
    pub(crate) overlay: Option<Vec<u8>>,
    /// Whether, for a while by now, somebody's seconds are missing: it is said once.
    pub(crate) is_incomplete: bool,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    /// As before.
    #[default]
    Same,
    /// This gateway's, from now on: it begins with what is published.
    Mine,
    /// Another's, from now on.
    Others,
}

impl Seat {
    /// A seat for this limit, if it is shared.
    pub(crate) fn take(limit: &Limit, store: Option<&Store>) -> Option<Self> {
        let store = store.filter(|_| Self::is_for(limit))?;
        let terms = Lifetimes::default();
        let council = store.election(&limit.settings.name, terms).ok()?;
        Some(Self { council: Some(council), ..Self::empty(terms.lease) })
    }

    fn empty(lease: Duration) -> Self {
        Self {
            council: None,
            meetings: JoinSet::new(),
            role: Role::New,
            lease,
            met_at: None,
            assembly: Assembly::default(),
            recent: VecDeque::new(),
            untold: Vec::new(),
            is_alone: false,
            incomplete: 0,
            published: None,
            overlay: None,
        }
    }

    /// Whether a limit is shared.
    pub(crate) fn is_for(limit: &Limit) -> bool {
        matches!(limit.counts, crate::limits::Counts::Shared(_))
    }

    /// Whether this gateway is the one that adapts. While Redis is away that is who was it last.
    pub(crate) fn is_holder(&self) -> bool {
        matches!(self.role, Role::Holder { .. })
    }

    /// This gateway has seen these.
    pub(crate) fn saw(&mut self, seconds: Vec<Second>) {
        self.recent.extend(seconds.iter().cloned());
        self.untold.extend(seconds);
        while self.recent.len() > REPORTED {
            self.recent.pop_front();
        }
        let excess = self.untold.len().saturating_sub(2 * REPORTED);
        self.untold.drain(..excess);
    }

    /// Whether there is something to publish that has not been.
    pub(crate) fn has_news(&self, decree: Option<&str>) -> bool {
        self.is_holder() && self.council.is_some() && self.published.as_deref() != decree
    }

    /// Meets the others, unless a meeting takes place already. `decree` is what they shall follow, if it is this gateway's to say.
    pub(crate) fn meet(&mut self, decree: Option<String>) {
        let Some(mut council) = self.council.take() else { return };
        let recent: Vec<&Second> = self.recent.iter().collect();
        let report = serde_json::to_vec(&recent).unwrap_or_default();
        let role = self.role;
        self.published.clone_from(&decree);
        self.meetings.spawn(async move {
            let overlay = decree.as_deref().map(str::as_bytes);
            let decree = match role {
                Role::Holder { term } => Some(Publication { term, overlay }),
                Role::New | Role::Follower => None,
            };
            let met = council.heartbeat(&report, decree).await;
            (council, met)
        });
    }

    /// The end of the meeting that takes place; never without one.
    pub(crate) async fn met(&mut self) -> Result<Standing, ElectionFault> {
        match self.meetings.join_next().await {
            Some(Ok((council, met))) => {
                self.council = Some(council);
                met
            }
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// What the meeting means, at this moment.
    pub(crate) fn hear(&mut self, met: Result<Standing, ElectionFault>, now: Timestamp) -> Heard {
        let untold = std::mem::take(&mut self.untold);
        let meeting = match met {
            Ok(meeting) => meeting,
            Err(fault) => return self.hear_nobody(&fault, untold, now),
        };
        self.met_at = Some(now);
        let before = self.role;
        self.overlay = meeting.overlay.as_ref().map(|overlay| (overlay.bytes.clone(), now + overlay.left));
        let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
        let Some(reports) = &meeting.reports else {
            self.role = Role::Follower;
            self.is_alone = false;
            let turn = if before == Role::Follower { Turn::Same } else { Turn::Others };
            return Heard { seconds: as_parts(untold), turn, overlay, is_incomplete: false };
        };
        self.role = Role::Holder { term: meeting.term };
        self.is_alone = reports.len() == 1;
        let read: Vec<Vec<Second>> =
            reports.iter().filter_map(|report| serde_json::from_slice(&report.bytes).ok()).collect();
        // Whose report can't be read may have seen anything: with such a member nothing is whole.
        let unread = reports.len() - read.len();
        let seconds = self.assembly.hear(&read, unread, now.as_nanos() / NANOS);
        let turn = if is_mine_still(before, &meeting) { Turn::Same } else { Turn::Mine };
        let is_incomplete = self.misses_any(&seconds);
        Heard { seconds, turn, overlay, is_incomplete }
    }

    /// Whether it has been so long now that what all see lacks somebody. Who has died is missed for a few seconds, and that is no matter.
    fn misses_any(&mut self, seconds: &[Second]) -> bool {
        let mut is_new = false;
        for second in seconds {
            self.incomplete = if second.is_partial { self.incomplete.saturating_add(1) } else { 0 };
            is_new |= self.incomplete == PATIENCE;
        }
        is_new
    }

    /// There was no meeting: who was alone still is, to others nobody listens, and what all follow is good for its time. While Redis is away who
    /// adapted goes on; where it is there and refuses, another may have the lease when its time is over.
    fn hear_nobody(&mut self, fault: &ElectionFault, untold: Vec<Second>, now: Timestamp) -> Heard {
        self.overlay.take_if(|(_, until)| *until <= now);
        let is_over = self.met_at.is_none_or(|at| now >= at + self.lease);
        if self.is_holder() && is_over && *fault != ElectionFault::Away {
            self.role = Role::Follower;
            self.is_alone = false;
            let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
            return Heard { seconds: as_parts(untold), turn: Turn::Others, overlay, is_incomplete: false };
        }
        let seconds = if self.is_holder() && self.is_alone { untold } else { as_parts(untold) };
        let overlay = self.overlay.as_ref().map(|(text, _)| text.clone());
        Heard { seconds, overlay, ..Heard::default() }
    }

    /// Lets another adapt at once.
    pub(crate) async fn leave(mut self) {
        if self.council.is_none() {
            let _met = self.met().await;
        }
        if let Some(council) = self.council.take() {
            // If Redis is away, the lease ends by itself.
            let _left = council.leave().await;
        }
    }
}

fn as_parts(seconds: Vec<Second>) -> Vec<Second> {
    seconds.into_iter().map(Second::into_part).collect()
}

/// Whether nobody else has decided anything since this gateway last held the lease.
fn is_mine_still(before: Role, meeting: &Standing) -> bool {
    let Role::Holder { term } = before else { return false };
    let is_others = |overlay: &Overlay| overlay.term > term && overlay.term != meeting.term;
    !meeting.overlay.as_ref().is_some_and(is_others)
}

#[cfg(test)]
mod tests {
    use tidegate_store::election::Report;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * NANOS)
    }

    fn meeting() -> Standing {
        let overlay = Overlay { term: 7, version: 1, left: Duration::from_secs(15), bytes: b"numbers".to_vec() };
        Standing { term: 7, reports: Some(Vec::new()), overlay: Some(overlay) }
    }

    #[test]
    fn who_can_not_meet_steps_down_when_the_lease_is_over_unless_redis_is_away() {
        for (fault, steps_down) in [
            (ElectionFault::Rejected("OOM".to_owned()), true),
            (ElectionFault::TooLong, true),
            (ElectionFault::Unknown, true),
            (ElectionFault::Away, false),
        ] {
            let mut seat = Seat::empty(Duration::from_secs(5));
            assert_eq!(seat.hear(Err(fault.clone()), at(99)).turn, Turn::Same);
            assert_eq!(seat.hear(Ok(meeting()), at(100)).turn, Turn::Mine);
            assert_eq!((seat.hear(Err(fault.clone()), at(104)).turn, seat.is_holder()), (Turn::Same, true));
            let heard = seat.hear(Err(fault.clone()), at(105));
            assert_eq!((heard.turn == Turn::Others, !seat.is_holder()), (steps_down, steps_down), "{fault}");
            assert_eq!(heard.overlay.as_deref(), Some(&b"numbers"[..]), "what all follow is good for its time");
            assert_eq!(seat.hear(Err(fault.clone()), at(106)).turn, Turn::Same, "told once");
            assert_eq!(seat.hear(Err(fault), at(115)).overlay, None);
            let turn = if steps_down { Turn::Mine } else { Turn::Same };
            assert_eq!(seat.hear(Ok(meeting()), at(116)).turn, turn);
        }
    }

    #[test]
    fn who_follows_learns_from_what_it_sees_itself_which_is_a_part() {
        let mut seat = Seat::empty(Duration::from_secs(5));
        let own = |at| vec![Second { at, is_whole: true, offered: 40, ..Second::default() }];
        for met in [Ok(Standing { reports: None, ..meeting() }), Err(ElectionFault::Away)] {
            seat.saw(own(99));
            let heard = seat.hear(met, at(100));
            let told: Vec<_> = heard.seconds.iter().map(|it| (it.offered, it.is_partial, it.is_whole)).collect();
            assert_eq!(told, [(40, true, false)]);
        }
    }

    #[test]
    fn one_that_can_not_be_understood_is_told_of_and_does_not_blind_the_others() {
        let mut seat = Seat::empty(Duration::from_secs(5));
        let report = |bytes: Vec<u8>| Report { member: String::new(), age: Duration::ZERO, number: 1, bytes };
        let mut told = Vec::new();
        for now in 100..200 {
            let good = Second { at: now - 2, is_whole: true, offered: 40, ..Second::default() };
            let good = serde_json::to_vec(&[good]).expect("JSON");
            let reports = Some(vec![report(good), report(b"what?".to_vec())]);
            let heard = seat.hear(Ok(Standing { reports, ..meeting() }), at(now));
            assert!(heard.seconds.iter().all(|second| second.is_partial && !second.is_whole && second.offered == 40));
            told.extend(heard.is_incomplete.then_some(now));
        }
        assert_eq!(told, [130], "once");
    }
}
