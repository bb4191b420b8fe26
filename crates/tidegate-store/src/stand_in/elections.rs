//! Elections as `heartbeat.lua` and `leave.lua` keep them.

use super::resp::{Reply, number};

/// An election: which member leads, what each has reported, what is in force. Times are microseconds.
#[derive(Default)]
pub(super) struct Election {
    leader: Vec<u8>,
    /// When the lease ends, and how long it was given for.
    ends: u64,
    span: u64,
    /// These grow, also over what was forgotten.
    term: u64,
    number: u64,
    version: u64,
    members: Vec<Member>,
    overlay: Option<Overlay>,
}

/// A member, and what it has reported last.
struct Member {
    id: Vec<u8>,
    at: u64,
    number: u64,
    turn: u64,
    report: Vec<u8>,
}

struct Overlay {
    ends: u64,
    span: u64,
    term: u64,
    version: u64,
    text: Vec<u8>,
}

/// What a member sends.
pub(super) struct Heartbeat<'a> {
    member: &'a [u8],
    turn: u64,
    report: &'a [u8],
    lease_span: u64,
    report_span: u64,
    /// How many members there may be.
    room: usize,
    /// The term in which it decides; 0 if it does not.
    decided_in: u64,
    overlay_span: u64,
    /// `None`: nothing shall be in force.
    decided: Option<&'a [u8]>,
}

impl<'a> Heartbeat<'a> {
    /// The arguments of `heartbeat.lua` after the time.
    pub(super) fn read(args: &[&'a [u8]]) -> Option<Self> {
        let [member, turn, report, lease_span, report_span, room, decided_in, overlay_span, decided @ ..] = args else {
            return None;
        };
        Some(Self {
            member,
            turn: number(turn)?,
            report,
            lease_span: number(lease_span)?,
            report_span: number(report_span)?,
            room: number(room).and_then(|room| usize::try_from(room).ok())?,
            decided_in: number(decided_in)?,
            overlay_span: number(overlay_span)?,
            decided: decided.first().copied(),
        })
    }
}

impl Election {
    /// A member reports, takes or renews the lease if nobody else has it, and gets what is in force.
    pub(super) fn heartbeat(&mut self, sent: &Heartbeat<'_>, now: u64) -> Result<Reply, &'static str> {
        if self.members.iter().any(|member| member.id == sent.member && member.turn >= sent.turn) {
            return Err("OUTDATED a later call of this member was carried out before");
        }
        self.end_what_has_ended(now, sent.report_span);
        if now >= self.ends {
            // Also if it was this one's: what it decided before the lease ran out is old.
            (self.leader, self.term) = (sent.member.to_vec(), after(self.term, now));
        }
        let is_leader = self.leader == sent.member;
        if is_leader {
            (self.ends, self.span) = (now.saturating_add(sent.lease_span), sent.lease_span);
        }
        if is_leader && sent.decided_in == self.term {
            self.publish(sent, now);
        }
        self.report(sent, now);
        let overlay = self.overlay.as_ref().map_or(Reply::Nothing, |overlay| {
            let numbers = [overlay.term, overlay.version, overlay.ends - now].map(Reply::number);
            Reply::List(numbers.into_iter().chain([Reply::Bytes(overlay.text.clone())]).collect())
        });
        let reports = self.members.iter().map(|member| {
            let (id, report) = (Reply::Bytes(member.id.clone()), Reply::Bytes(member.report.clone()));
            Reply::List(vec![id, Reply::number(now - member.at), Reply::number(member.number), report])
        });
        let reports = if is_leader { Reply::List(reports.collect()) } else { Reply::Nothing };
        Ok(Reply::List(vec![Reply::number(self.term), overlay, reports]))
    }

    /// Its lease is free at once; what it has published stays.
    pub(super) fn leave(&mut self, id: &[u8]) {
        if self.leader == id {
            self.leader.clear();
            (self.ends, self.span) = (0, 0);
        }
        self.members.retain(|member| member.id != id);
    }

    /// A clock that was set back makes nothing last longer: an end is never further away than it was when it was set.
    fn end_what_has_ended(&mut self, now: u64, report_span: u64) {
        self.ends = self.ends.min(now.saturating_add(self.span));
        if let Some(overlay) = &mut self.overlay {
            overlay.ends = overlay.ends.min(now.saturating_add(overlay.span));
        }
        self.overlay.take_if(|overlay| overlay.ends <= now);
        for member in &mut self.members {
            member.at = member.at.min(now);
        }
        self.members.retain(|member| now - member.at < report_span);
    }

    fn publish(&mut self, sent: &Heartbeat<'_>, now: u64) {
        let before = self.overlay.take();
        self.overlay = sent.decided.map(|text| {
            let is_same = before.is_some_and(|before| before.text == text);
            self.version = if is_same { self.version } else { after(self.version, now) };
            let (span, term, version) = (sent.overlay_span, self.term, self.version);
            Overlay { ends: now.saturating_add(span), span, term, version, text: text.to_vec() }
        });
    }

    /// Of too many members the latest are kept. They stand in the order of their numbers.
    fn report(&mut self, sent: &Heartbeat<'_>, now: u64) {
        self.members.retain(|member| member.id != sent.member);
        let too_many = (self.members.len() + 1).saturating_sub(sent.room);
        self.members.drain(..too_many.min(self.members.len()));
        self.number = after(self.number, now);
        self.members.push(Member {
            id: sent.member.to_vec(),
            at: now,
            number: self.number,
            turn: sent.turn,
            report: sent.report.to_vec(),
        });
    }
}

/// Greater than the last, and at least the time.
fn after(last: u64, now: u64) -> u64 {
    last.saturating_add(1).max(now)
}
