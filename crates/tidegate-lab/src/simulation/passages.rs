//! Requests on their way to several targets: steps, deadlines, targets that die, checks. With one target and no
//! configuration of its own the gateway has nothing to choose, and clients give up before it does.

use std::net::Ipv4Addr;
use std::time::Duration;

use tidegate_gateway::PastRequest;
use tidegate_load::{Cause as ClientCause, End, comes_back};
use tidegate_policy::endpoints::{Cause, Outcome};

use super::attempt::{Attempted, Ended, EndedAttempt, TargetStage};
use super::events::Occurrence;
use super::limit::path_only;
use super::passage::{Next, Woken};
use super::{Job, Simulation, at, nanos};
use crate::run::EventKind;
use crate::target::Ticket;

impl Simulation<'_> {
    /// The gateway sends an admitted request on, or takes one to which its own configuration applies.
    pub(super) fn send(&mut self, now: u64, job: Job) {
        let plan = &self.scenario.plan;
        let Some(site) = &mut self.site else { return self.reach_target(now, job) };
        let group = &plan.clients[job.group];
        let texts = plan.request.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let own: Vec<(&str, String)> = group.headers_of(job.client).collect();
        let headers: Vec<_> = texts.chain(own.iter().map(|(name, value)| (*name, value.as_str()))).collect();
        let host = headers.iter().find(|(name, _)| *name == "host").map_or("127.0.0.1", |(_, value)| *value);
        let request = PastRequest {
            at: at(now),
            ip: group.address(job.client).unwrap_or(Ipv4Addr::LOCALHOST.into()),
            method: plan.request.method.as_str(),
            host,
            path: path_only(group.path.as_deref().unwrap_or(&plan.request.path)),
            user: None,
            tier: None,
            headers: &headers,
            took: None,
        };
        match site.begin(job, &request) {
            Ok(passage) => self.go_on(now, passage),
            Err(not_sent) => self.end(now, &job, End::Responded(not_sent.status), not_sent.is_rejected),
        }
    }

    /// Takes the steps of a request until it waits, is at a target or ends.
    pub(super) fn go_on(&mut self, now: u64, passage: u64) {
        while let Some(site) = &mut self.site {
            match site.step(passage, now) {
                Next::Waits { until, wait } => {
                    let leaves = site.job(passage).map_or(until, |job| self.leaves_at(&job));
                    return self.events.push(until.min(leaves).max(now), Occurrence::GoesOn { passage, wait });
                }
                Next::Ends { status, is_rejected } => return self.end_passage(now, passage, status, is_rejected),
                Next::Attempt(within) => {
                    let targets = &self.targets;
                    match site.attempt(passage, within, now, |target| targets[target].is_killed) {
                        Attempted::Sent { job, deadline, hedge_at } => {
                            if let Some(at) = hedge_at {
                                self.events.push(at, Occurrence::Hedge { attempt: job.attempt });
                            }
                            let deadline = deadline.min(self.leaves_at(&job)).max(now);
                            self.events.push(deadline, Occurrence::Deadline { attempt: job.attempt });
                            return self.reach_target(now, job);
                        }
                        Attempted::Refused => {
                            if let Some(status) = site.after_attempt(passage, Ended::refused(), Duration::ZERO, now) {
                                return self.end_passage(now, passage, status, false);
                            }
                        }
                    }
                }
            }
        }
    }

    /// When the client of a request has waited for too long.
    pub(super) fn leaves_at(&self, job: &Job) -> u64 {
        job.intended + nanos(self.scenario.plan.request.timeout)
    }

    /// A wait is over: a pause, that of a shaper, or that for a slot.
    pub(super) fn wake(&mut self, now: u64, passage: u64, wait: u64) {
        let Some(site) = &mut self.site else { return };
        let woken = site.wake(passage, wait);
        let (last, Some(job)) = (site.last(passage), site.job(passage)) else { return };
        match woken {
            Woken::Stale => {}
            Woken::GoesOn | Woken::NoSlot if self.leaves_at(&job) <= now => self.leave(now, passage),
            Woken::GoesOn => self.go_on(now, passage),
            // What the last attempt has brought is better than a rejection.
            Woken::NoSlot => match last {
                Some(last) => self.end_passage(now, passage, last, false),
                None => self.end_passage(now, passage, 503, true),
            },
        }
    }

    /// The client has left.
    fn leave(&mut self, now: u64, passage: u64) {
        if let Some(job) = self.site.as_mut().and_then(|site| site.end(passage, now)) {
            self.end(now, &job, End::Failed(ClientCause::TimedOut), false);
        }
    }

    fn end_passage(&mut self, now: u64, passage: u64, status: u16, is_rejected: bool) {
        let Some(job) = self.site.as_mut().and_then(|site| site.end(passage, now)) else { return };
        if is_rejected {
            self.end(now, &job, End::Responded(status), true);
        } else {
            self.settle(now, &job, status);
        }
    }

    /// The gateway has waited long enough for a response, or its client has.
    pub(super) fn deadline(&mut self, now: u64, attempt: u64) {
        let Some(job) = self.site.as_ref().and_then(|site| site.attempted(attempt)) else { return };
        let has_left = self.leaves_at(&job) <= now;
        self.fail(now, attempt, (!has_left).then_some(Cause::Timeout));
    }

    /// An attempt ends without a response, and without a cause if its client has left. It leaves its target.
    fn fail(&mut self, now: u64, attempt: u64, cause: Option<Cause>) {
        let Some(site) = &mut self.site else { return };
        let is_cut = cause == Some(Cause::Timeout) && site.is_cut(attempt, now);
        let ended = site.end_attempt(attempt, now, |_, took| match cause {
            Some(cause) if !is_cut => Outcome::Failure { cause, took: (cause == Cause::Timeout).then_some(took) },
            Some(_) | None => Outcome::Ignored,
        });
        let Some(attempt) = ended else { return };
        self.leave_target(now, &attempt);
        match cause {
            None => {
                self.cancel_others(now, attempt.passage);
                self.leave(now, attempt.passage);
            }
            Some(cause) => {
                let status = if cause == Cause::Timeout { 504 } else { 502 };
                self.after_attempt(now, attempt, Ended { status, cause: Some(cause), was_sent: true, is_cut });
            }
        }
    }

    /// An attempt without a response leaves its target.
    pub(super) fn leave_target(&mut self, now: u64, ended: &EndedAttempt) {
        let job = ended.job;
        let target = &mut self.targets[job.target];
        target.stuck.retain(|stuck| stuck.attempt != job.attempt);
        match ended.stage {
            TargetStage::Waits(ticket) => drop(target.station.leave(ticket)),
            TargetStage::Served => self.finish_service(now, job.target),
            TargetStage::Rejected => {}
        }
    }

    /// A target has responded to an attempt.
    pub(super) fn responded(&mut self, now: u64, attempt: u64, status: u16) {
        let Some(site) = &mut self.site else { return };
        let ended = site.end_attempt(attempt, now, |pool, took| pool.outcome(status, took));
        if let Some(attempt) = ended {
            self.after_attempt(now, attempt, Ended::responded(status));
        }
    }

    fn after_attempt(&mut self, now: u64, attempt: EndedAttempt, ended: Ended) {
        let (passage, took) = (attempt.passage, attempt.took);
        let Some(site) = &mut self.site else { return };
        let Some(ended) = site.settle_hedge(attempt, ended, now) else { return };
        self.cancel_others(now, passage);
        let Some(site) = &mut self.site else { return };
        match site.after_attempt(passage, ended, took, now) {
            Some(status) => self.end_passage(now, passage, status, false),
            None => self.go_on(now, passage),
        }
    }

    /// What the last step has caused elsewhere: requests that have a slot now, breakers that have changed.
    pub(super) fn settle_site(&mut self, now: u64) {
        let Some(site) = &mut self.site else { return };
        for (passage, wait) in site.woken.drain(..) {
            self.events.push(now, Occurrence::GoesOn { passage, wait });
        }
        let transitions = site.transitions.take();
        if transitions.iter().any(|(opened, _)| *opened) {
            site.policies.opened_at.push(Duration::from_nanos(now).as_secs_f64());
        }
        for (_, text) in transitions {
            self.record(now, EventKind::Breaker, text);
        }
    }

    /// A request has ended in a way after which its client may send it again.
    pub(super) fn come_back(&mut self, job: &Job, end: End, finished: u64) {
        let plan = &self.scenario.plan;
        let comeback = plan.clients[job.group].comeback.as_ref();
        let Some(comeback) = comeback.filter(|it| comes_back(&it.after, end) && job.retries < it.retries) else {
            return;
        };
        let pause = comeback.pause(plan.seed, job.number, job.retries);
        let due = finished + nanos(pause);
        if pause.as_secs_f64() <= comeback.longest && due < nanos(self.scenario.duration()) {
            self.events.push(due, Occurrence::Again(Job { intended: due, retries: job.retries + 1, ..*job }));
        }
    }

    /// A target dies with all that it has, or is started again.
    pub(super) fn kill(&mut self, now: u64, target: usize, begins: bool) {
        self.targets[target].is_killed = begins;
        // From the end of its queue, so that nothing is served any more.
        let attempts = self.site.as_ref().filter(|_| begins).map(|site| site.attempts_on(target));
        for attempt in attempts.unwrap_or_default() {
            self.fail(now, attempt, Some(Cause::Broken));
        }
    }

    /// The gateway checks all targets of an upstream. A check without a request only connects.
    pub(super) fn begin_checks(&mut self, now: u64, upstream: usize) {
        let Some(pool) = self.site.as_ref().map(|site| &site.pools[upstream]) else { return };
        let Some(check) = &pool.check else { return };
        let mut ends = now;
        for (endpoint, target) in pool.targets.iter().enumerate() {
            let state = &self.targets[*target];
            let took = match (state.is_killed, &check.request) {
                (true, _) => None,
                (false, None) => Some(0),
                (false, Some(_)) => Some(state.check_time().map_or(u64::MAX, nanos)),
            };
            let passed = took.is_some_and(|took| took <= nanos(check.timeout));
            let at = now + took.unwrap_or(0).min(nanos(check.timeout));
            ends = ends.max(at);
            self.events.push(at, Occurrence::Checked { upstream, endpoint, passed });
        }
        self.events.push(ends.max(now + nanos(check.interval)), Occurrence::ChecksBegin { upstream });
    }

    /// Whether anybody waits for the response.
    pub(super) fn is_awaited(&self, job: &Job) -> bool {
        self.site.as_ref().is_none_or(|site| site.is_awaited(job.attempt))
    }

    /// An attempt's request is in its target's queue.
    pub(super) fn note_waiting(&mut self, attempt: u64, ticket: Ticket) {
        if let Some(site) = &mut self.site {
            site.reached(attempt, TargetStage::Waits(ticket));
        }
    }

    /// A worker has an attempt's request.
    pub(super) fn note_served(&mut self, attempt: u64) {
        if let Some(site) = &mut self.site {
            site.reached(attempt, TargetStage::Served);
        }
    }
}
