//! A second attempt beside a first one that has had no response for long, in simulated time. The client gets what
//! comes first.

use std::time::Duration;

use tidegate_gateway::stages::Side;
use tidegate_gateway::{Passing, Replayer};
use tidegate_policy::Timestamp;
use tidegate_policy::breaker::Call;
use tidegate_policy::endpoints::{Cause, Outcome};
use tidegate_policy::journey::{Journey, Step};

use super::attempt::{Attempt, Ended, EndedAttempt, Role, TargetStage};
use super::events::Occurrence;
use super::interaction::Interaction;
use super::passage::Passage;
use super::site::{Site, hash, record};
use super::steps::check;
use super::{Job, Simulation, at, nanos};

/// What a second attempt may do.
struct Passed {
    call: Option<Call>,
    within: Option<Duration>,
}

impl Site {
    /// When a request whose first attempt begins gets a second one.
    pub(super) fn hedge_at(&self, number: u64, now: u64) -> Option<u64> {
        let passage = self.passages.get(&number)?;
        let is_first = passage.journey.as_ref().is_some_and(|journey| journey.attempts() == 1);
        let hedge = self.interactions[passage.way.interaction?].hedge.as_ref()?;
        (is_first && passage.is_repeatable).then(|| hedge.delay(at(now))).flatten().map(|delay| now + nanos(delay))
    }

    /// A first attempt has had no response for long. Returns the request of the second one, and its deadline.
    fn hedge(&mut self, attempt: u64, now: u64, is_refused: impl Fn(usize) -> bool) -> Option<(Job, u64)> {
        let (number, first) = self.attempts.get(&attempt).map(|attempt| (attempt.passage, attempt.job))?;
        let (random, now_at) = (self.random.u64(..), at(now));
        let passage = self.passages.get_mut(&number)?;
        let interaction = &self.interactions[passage.way.interaction?];
        let budget = interaction.budget.as_ref();
        if interaction.breaker.as_ref().is_some_and(|breaker| breaker.rejects(now_at))
            || budget.is_some_and(|budget| !budget.has_left(now_at))
        {
            return None;
        }
        let pool = &self.pools[passage.way.upstream];
        let endpoint = pool.choose_available(now_at, random, hash(passage), &passage.tried)?;
        passage.journey.as_mut()?.hedge(now_at).ok()?;
        let Some(Passed { call, within }) = pass_without_waiting(&mut self.gateway, passage, interaction, now_at)
        else {
            passage.journey.as_mut().map(Journey::go_without_hedge)?;
            return None;
        };
        budget.map(|budget| budget.take(now_at));
        let in_flight = pool.begin(endpoint, now_at)?;
        passage.tried.insert(endpoint);
        let target = pool.targets[endpoint];
        if is_refused(target) {
            pool.end(in_flight, Outcome::Failure { cause: Cause::Connect, took: None }, now_at);
            if let Some(call) = call {
                record(interaction, call, Ended::refused(), Duration::ZERO, now_at);
            }
            return None;
        }
        let longest = within.map_or(pool.response_timeout, |within| nanos(within).min(pool.response_timeout));
        let job = Job { target, attempt: self.attempts_begun, ..first };
        (self.attempts_begun, self.sent) = (self.attempts_begun + 1, self.sent + 1);
        passage.under_way[1] = Some(job.attempt);
        let is_short = within.is_some_and(|within| passage.journey.is_some_and(|journey| journey.is_short(within)));
        let cut_at = within.filter(|_| is_short).map(|within| now + nanos(within));
        let (stage, role) = (TargetStage::Rejected, Role::Hedge(call));
        let attempt = Attempt { passage: number, in_flight, started: now, job, stage, role, cut_at };
        self.attempts.insert(job.attempt, attempt);
        Some((job, now + longest))
    }

    /// An attempt has ended, perhaps with another beside it. Returns how the request's attempts have ended. None: the
    /// other one decides.
    pub(super) fn settle_hedge(&mut self, attempt: EndedAttempt, ended: Ended, now: u64) -> Option<Ended> {
        let EndedAttempt { passage, job, took, role, .. } = attempt;
        let passage = self.passages.get_mut(&passage)?;
        let under_way = &mut passage.under_way;
        under_way.iter_mut().filter(|it| **it == Some(job.attempt)).for_each(|it| *it = None);
        let other = under_way.iter().flatten().next().and_then(|other| self.attempts.get(other));
        let interaction = passage.way.interaction.map(|index| &self.interactions[index]);
        let retry = interaction.and_then(|interaction| interaction.retry.as_ref());
        let is_good = ended.cause.is_none() && !retry.is_some_and(|retry| retry.on.has_status(ended.status));
        if let Some(hedge) = interaction.and_then(|interaction| interaction.hedge.as_ref()) {
            match (&role, other) {
                (Role::First, _) if is_good || ended.cause == Some(Cause::Timeout) && !ended.is_cut => {
                    hedge.note(took, at(now));
                }
                // The first would have taken longer.
                (Role::Hedge(_), Some(first)) if is_good => {
                    let took = Duration::from_nanos(now - first.started);
                    hedge.note(took, at(now));
                    first.in_flight.overtaken(took, at(now));
                }
                (Role::First | Role::Hedge(_) | Role::Another, _) => {}
            }
        }
        let is_alone = other.is_none() && passage.earlier.is_none() && !matches!(role, Role::Hedge(_));
        if is_alone {
            return Some(ended);
        }
        let call = if let Role::Hedge(call) = role { call } else { passage.call.take() };
        if let Some((interaction, call)) = interaction.zip(call) {
            record(interaction, call, ended, took, at(now));
        }
        let earlier = passage.earlier.take();
        if !is_good && other.is_some() {
            passage.earlier = Some(ended);
            return None;
        }
        // The other one says nothing. If both have failed, a response is better than none.
        passage.call = None;
        Some(earlier.filter(|earlier| earlier.cause.is_none() && ended.cause.is_some()).unwrap_or(ended))
    }
}

impl Simulation<'_> {
    /// A first attempt has had no response for long.
    pub(super) fn hedge(&mut self, now: u64, attempt: u64) {
        let targets = &self.targets;
        let hedged = self.site.as_mut().and_then(|site| site.hedge(attempt, now, |target| targets[target].is_killed));
        if let Some((job, deadline)) = hedged {
            let deadline = deadline.min(self.leaves_at(&job)).max(now);
            self.events.push(deadline, Occurrence::Deadline { attempt: job.attempt });
            self.reach_target(now, job);
        }
    }

    /// The attempts of a request that are still under way are given up: another has decided, or its client has left.
    pub(super) fn cancel_others(&mut self, now: u64, passage: u64) {
        let Some(site) = &mut self.site else { return };
        let under_way = site.passages.get_mut(&passage).map(|passage| std::mem::take(&mut passage.under_way));
        for attempt in under_way.into_iter().flatten().flatten() {
            let cancelled = self.site.as_mut().and_then(|site| site.end_attempt(attempt, now, |_, _| Outcome::Ignored));
            if let Some(cancelled) = cancelled {
                self.leave_target(now, &cancelled);
            }
        }
    }
}

/// Passes the policies for a second attempt. None: something rejects it, or would have to be waited for.
fn pass_without_waiting(
    gateway: &mut Option<Replayer<()>>,
    passage: &mut Passage,
    interaction: &Interaction,
    now: Timestamp,
) -> Option<Passed> {
    let mut call = None;
    let held = passage.passing.as_ref().map_or(0, Passing::held_of_upstream);
    loop {
        match passage.journey.as_mut()?.next(now) {
            Step::Ask | Step::AskAgain => {
                call = interaction.breaker.as_ref().map(|breaker| breaker.ask(now)).transpose().ok()?;
                if call.as_ref().is_some_and(Call::is_probe) {
                    return None;
                }
            }
            Step::Check => {
                let wait = check(gateway, &mut passage.passing, Side::Upstream, now).ok()?;
                passage.journey.as_mut()?.admitted(wait);
            }
            Step::Enter(_) if interaction.bulkhead.as_ref()?.enter_if_free() => passage.slots += 1,
            Step::Attempt { within } => return Some(Passed { call, within }),
            Step::Enter(_) | Step::Delay(_) | Step::Pause(_) | Step::TimedOut => {
                if let (Some(gateway), Some(passing)) = (gateway, &mut passage.passing) {
                    gateway.give_back_upstream(passing, held, now);
                }
                return None;
            }
        }
    }
}
