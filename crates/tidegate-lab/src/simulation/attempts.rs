//! Requests to several targets: connecting, deadlines, targets that die, checks. With one target
//! the gateway has nothing to choose, and clients give up before it does.

use tidegate_load::{Cause as ClientCause, End};
use tidegate_policy::endpoints::Cause;

use super::events::Occurrence;
use super::pool::Stage;
use super::{Job, Simulation, nanos};
use crate::target::Ticket;

impl Simulation<'_> {
    /// The gateway sends an admitted request on.
    pub(super) fn send(&mut self, now: u64, job: Job) {
        let Some(pool) = &mut self.pool else { return self.reach_target(now, job) };
        let targets = &self.targets;
        let Some(begun) = pool.begin(now, &job, |target| targets[target].is_killed) else {
            return self.settle(now, &job, 502);
        };
        let leaves = job.intended + nanos(self.scenario.plan.request.timeout);
        let deadline = begun.deadline.min(leaves).max(now);
        self.events.push(deadline, Occurrence::Deadline { attempt: begun.number });
        self.reach_target(now, Job { target: begun.target, attempt: begun.number, ..job });
    }

    /// The gateway has waited long enough for a response, or its client has.
    pub(super) fn deadline(&mut self, now: u64, attempt: u64) {
        let Some(job) = self.pool.as_ref().and_then(|pool| pool.job(attempt)) else { return };
        let has_left = job.intended + nanos(self.scenario.plan.request.timeout) <= now;
        self.fail(now, attempt, (!has_left).then_some(Cause::Timeout));
    }

    /// An attempt ends without a response, and without a cause if its client has left. It leaves its target.
    fn fail(&mut self, now: u64, attempt: u64, cause: Option<Cause>) {
        let failed = self.pool.as_mut().and_then(|pool| pool.fail(now, attempt, cause));
        let Some((job, stage)) = failed else { return };
        match cause {
            Some(Cause::Timeout) => self.settle(now, &job, 504),
            Some(Cause::Connect | Cause::Broken | Cause::Status) => self.settle(now, &job, 502),
            None => self.end(now, &job, End::Failed(ClientCause::TimedOut)),
        }
        let target = &mut self.targets[job.target];
        target.stuck.retain(|stuck| stuck.attempt != attempt);
        match stage {
            Stage::Waits(ticket) => drop(target.station.leave(ticket)),
            Stage::Served => self.finish_service(now, job.target),
            Stage::Rejected => {}
        }
    }

    /// A target dies with all that it has, or is started again.
    pub(super) fn kill(&mut self, now: u64, target: usize, begins: bool) {
        self.targets[target].is_killed = begins;
        // From the end of its queue, so that nothing is served any more.
        let attempts = self.pool.as_ref().filter(|_| begins).map(|pool| pool.attempts_on(target));
        for attempt in attempts.unwrap_or_default() {
            self.fail(now, attempt, Some(Cause::Broken));
        }
    }

    /// The gateway checks all targets. A check without a request only connects.
    pub(super) fn begin_checks(&mut self, now: u64) {
        let Some(check) = self.pool.as_ref().and_then(|pool| pool.check.clone()) else { return };
        let mut ends = now;
        for (target, state) in self.targets.iter().enumerate() {
            let took = match (state.is_killed, &check.request) {
                (true, _) => None,
                (false, None) => Some(0),
                (false, Some(_)) => Some(state.check_time().map_or(u64::MAX, nanos)),
            };
            let passed = took.is_some_and(|took| took <= nanos(check.timeout));
            let at = now + took.unwrap_or(0).min(nanos(check.timeout));
            ends = ends.max(at);
            self.events.push(at, Occurrence::Checked { target, passed });
        }
        self.events.push(ends.max(now + nanos(check.interval)), Occurrence::ChecksBegin);
    }

    /// Whether anybody waits for the response.
    pub(super) fn is_awaited(&self, job: &Job) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool.is_awaited(job.attempt))
    }

    /// An attempt's request is in its target's queue.
    pub(super) fn note_waiting(&mut self, attempt: u64, ticket: Ticket) {
        if let Some(pool) = &mut self.pool {
            pool.reached(attempt, Stage::Waits(ticket));
        }
    }

    /// A worker has an attempt's request.
    pub(super) fn note_served(&mut self, attempt: u64) {
        if let Some(pool) = &mut self.pool {
            pool.reached(attempt, Stage::Served);
        }
    }
}
