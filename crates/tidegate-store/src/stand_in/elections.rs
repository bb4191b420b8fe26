//! Councils as `council.lua` and `leave.lua` hold them.

use super::calls::number;
use super::resp::Reply;

/// A council: who has the lease, what each has reported, what is in force. Times are microseconds.
#[derive(Default)]
pub(super) struct Session {
    holder: Vec<u8>,
    /// When the lease ends, and how long it was given for.
    ends: u64,
    span: u64,
    /// These grow, also over what was forgotten.
    term: u64,
    number: u64,
    version: u64,
    members: Vec<Seat>,
    overlay: Option<Overlay>,
}

/// A member, and what it has reported last.
struct Seat {
    member: Vec<u8>,
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

/// What a member asks.
pub(super) struct Question<'a> {
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
    /// None: there shall be none.
    decided: Option<&'a [u8]>,
}

impl<'a> Question<'a> {
    /// The arguments of `council.lua` after the time.
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

impl Session {
    /// A member reports, takes or renews the lease if nobody else has it, and hears what is in force.
    pub(super) fn meet(&mut self, asked: &Question<'_>, now: u64) -> Result<Reply, &'static str> {
        if self.members.iter().any(|seat| seat.member == asked.member && seat.turn >= asked.turn) {
            return Err("OUTDATED a later call of this member was carried out before");
        }
        self.end_what_has_ended(now, asked.report_span);
        if now >= self.ends {
            // Also if it was this one's: what it decided before the lease ran out is old.
            (self.holder, self.term) = (asked.member.to_vec(), after(self.term, now));
        }
        let is_holder = self.holder == asked.member;
        if is_holder {
            (self.ends, self.span) = (now.saturating_add(asked.lease_span), asked.lease_span);
        }
        if is_holder && asked.decided_in == self.term {
            self.publish(asked, now);
        }
        self.report(asked, now);
        let overlay = self.overlay.as_ref().map_or(Reply::Nothing, |overlay| {
            let numbers = [overlay.term, overlay.version, overlay.ends - now].map(Reply::number);
            Reply::List(numbers.into_iter().chain([Reply::Bytes(overlay.text.clone())]).collect())
        });
        let reports = self.members.iter().map(|seat| {
            let (member, report) = (Reply::Bytes(seat.member.clone()), Reply::Bytes(seat.report.clone()));
            Reply::List(vec![member, Reply::number(now - seat.at), Reply::number(seat.number), report])
        });
        let reports = if is_holder { Reply::List(reports.collect()) } else { Reply::Nothing };
        Ok(Reply::List(vec![Reply::number(self.term), overlay, reports]))
    }

    /// Its lease is free at once; what it has published stays.
    pub(super) fn leave(&mut self, member: &[u8]) {
        if self.holder == member {
            self.holder.clear();
            (self.ends, self.span) = (0, 0);
        }
        self.members.retain(|seat| seat.member != member);
    }

    /// A clock that was set back makes nothing last longer: an end is never further away than it was when it was set.
    fn end_what_has_ended(&mut self, now: u64, report_span: u64) {
        self.ends = self.ends.min(now.saturating_add(self.span));
        if let Some(overlay) = &mut self.overlay {
            overlay.ends = overlay.ends.min(now.saturating_add(overlay.span));
        }
        self.overlay.take_if(|overlay| overlay.ends <= now);
        for seat in &mut self.members {
            seat.at = seat.at.min(now);
        }
        self.members.retain(|seat| now - seat.at < report_span);
    }

    fn publish(&mut self, asked: &Question<'_>, now: u64) {
        let before = self.overlay.take();
        self.overlay = asked.decided.map(|text| {
            let is_same = before.is_some_and(|before| before.text == text);
            self.version = if is_same { self.version } else { after(self.version, now) };
            let (span, term, version) = (asked.overlay_span, self.term, self.version);
            Overlay { ends: now.saturating_add(span), span, term, version, text: text.to_vec() }
        });
    }

    /// Of too many members the latest are heard. They stand in the order of their numbers.
    fn report(&mut self, asked: &Question<'_>, now: u64) {
        self.members.retain(|seat| seat.member != asked.member);
        let too_many = (self.members.len() + 1).saturating_sub(asked.room);
        self.members.drain(..too_many.min(self.members.len()));
        self.number = after(self.number, now);
        self.members.push(Seat {
            member: asked.member.to_vec(),
            at: now,
            number: self.number,
            turn: asked.turn,
            report: asked.report.to_vec(),
        });
    }
}

/// Greater than the last, and at least the time.
fn after(last: u64, now: u64) -> u64 {
    last.saturating_add(1).max(now)
}
