//! The steps of a request before several targets, up to each attempt. Their order is that of the gateway's own
//! [`Stages`](stages::Stages) and [`Journey`].

use std::time::Duration;

use tidegate_gateway::stages::{self, Side};
use tidegate_gateway::{NotSent, Passing, Replayer};
use tidegate_policy::Timestamp;
use tidegate_policy::bulkhead::Entry;
use tidegate_policy::journey::{Journey, Step, Terms};

use super::at;
use super::passage::{Next, Passage, Woken};
use super::site::Site;

impl Site {
    /// Takes the steps of a request until it waits, is sent or ends.
    pub(super) fn step(&mut self, number: u64, now: u64) -> Next {
        let (own, now_at) = (|status| Next::Ends { status, is_rejected: true }, at(now));
        let Some(passage) = self.passages.get_mut(&number) else { return own(500) };
        let interaction = passage.way.interaction.map(|index| &self.interactions[index]);
        loop {
            let Some(journey) = &mut passage.journey else {
                let terms = interaction.map_or_else(Terms::default, |interaction| interaction.terms);
                match stage(&mut self.gateway, passage, terms, now) {
                    Some(next) => return next,
                    None => continue,
                }
            };
            let barred = |last: Option<u16>, status| match last {
                Some(last) => Next::Ends { status: last, is_rejected: false },
                None => own(status),
            };
            match journey.next(now_at) {
                Step::Ask => {
                    match interaction.and_then(|it| it.breaker.as_ref()).map(|it| it.ask(now_at)).transpose() {
                        Ok(call) => passage.call = call,
                        Err(_) => return barred(passage.last, 503),
                    }
                }
                Step::AskAgain => {
                    let Some(breaker) = interaction.and_then(|it| it.breaker.as_ref()) else { continue };
                    let call = passage.call.take().filter(|call| breaker.still_permits(call));
                    match call.map_or_else(|| breaker.ask(now_at), Ok) {
                        Ok(call) => passage.call = Some(call),
                        Err(_) => return barred(passage.last, 503),
                    }
                }
                Step::Check => match check(&mut self.gateway, &mut passage.passing, Side::Upstream, now_at) {
                    Ok(wait) => journey.admitted(wait),
                    Err(not_sent) => {
                        return passage.last.map_or_else(|| ends(not_sent), |last| barred(Some(last), 503));
                    }
                },
                Step::Enter(wait) => {
                    let Some(bulkhead) = interaction.and_then(|it| it.bulkhead.as_ref()) else { continue };
                    match bulkhead.enter(!wait.is_zero(), || number) {
                        Entry::Entered => passage.slots += 1,
                        Entry::Full => return barred(passage.last, 503),
                        Entry::Queued(ticket) => {
                            passage.ticket = Some(ticket);
                            return passage.waits(now, wait);
                        }
                    }
                }
                Step::Delay(span) | Step::Pause(span) => return passage.waits(now, span),
                Step::Attempt { within } => return Next::Attempt(within),
                Step::TimedOut => return barred(passage.last, 504),
            }
        }
    }

    /// A wait of this number is over.
    pub(super) fn wake(&mut self, number: u64, wait: u64) -> Woken {
        let Some(passage) = self.passages.get_mut(&number).filter(|it| it.waits == wait) else { return Woken::Stale };
        passage.waits += 1;
        let Some(ticket) = passage.ticket.take() else { return Woken::GoesOn };
        let bulkhead = passage.way.interaction.and_then(|index| self.interactions[index].bulkhead.as_ref());
        if bulkhead.is_some_and(|bulkhead| bulkhead.cancel(ticket)) { Woken::NoSlot } else { Woken::GoesOn }
    }
}

/// Takes a step before the request is sent on.
fn stage(gateway: &mut Option<Replayer<()>>, passage: &mut Passage, terms: Terms, now: u64) -> Option<Next> {
    match passage.stages.next_step() {
        stages::Step::Check => match check(gateway, &mut passage.passing, Side::Client, at(now)) {
            Ok(wait) => passage.stages.admitted(wait),
            Err(not_sent) => return Some(ends(not_sent)),
        },
        stages::Step::Wait(wait) => return Some(passage.waits(now, wait)),
        stages::Step::Collect => {}
        stages::Step::SendOn => {
            let has_limits = passage.passing.as_ref().is_some_and(Passing::has_upstream_limits);
            passage.journey = Some(Journey::new(Terms { has_limits, ..terms }, at(now)));
        }
    }
    None
}

/// The end of a request that is not sent on.
const fn ends(not_sent: NotSent) -> Next {
    Next::Ends { status: not_sent.status, is_rejected: not_sent.is_rejected }
}

/// Checks the limits of one side, if there are any.
pub(super) fn check(
    gateway: &mut Option<Replayer<()>>,
    passing: &mut Option<Passing>,
    side: Side,
    now: Timestamp,
) -> Result<Duration, NotSent> {
    let Some((gateway, passing)) = gateway.as_mut().zip(passing.as_mut()) else { return Ok(Duration::ZERO) };
    gateway.check_side(passing, side, now)
}
