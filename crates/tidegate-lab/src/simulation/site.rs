//! The gateway before several targets, in simulated time: its routes and limits, its policies, its pools, and every
//! request on its way through them.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use http::HeaderName;
use tidegate_gateway::config;
use tidegate_gateway::settings::Settings;
use tidegate_gateway::stages::Side;
use tidegate_gateway::{NotSent, PastRequest, Replayer};
use tidegate_policy::Timestamp;
use tidegate_policy::breaker::{Call, Verdict as CallVerdict};
use tidegate_policy::endpoints::{Cause, MOST_ATTEMPTED, Outcome, Weight};
use tidegate_policy::journey::FailedAttempt;

use super::attempt::{Attempt, Attempted, Ended, EndedAttempt, Role, TargetStage};
use super::interaction::{Interaction, Transitions};
use super::passage::{Passage, Way};
use super::pool::Pool;
use super::{Job, at, nanos};
use crate::gateway_config::{config_text, nowhere};
use crate::pool_record::{PoolRecord, Seen};
use crate::run::PolicyRecord;
use crate::scenario::{Scenario, Variant};

/// Why the gateway's configuration is valid here.
const CHECKED: &str = "it was checked when the scenario was read";

pub(super) struct Site {
    /// Routes and limits, where the scenario has the gateway's own configuration. Otherwise there is one way, and the
    /// limit has been passed.
    pub(super) gateway: Option<Replayer<()>>,
    /// By route.
    ways: Vec<Way>,
    pub(super) pools: Vec<Pool>,
    pub(super) interactions: Vec<Interaction>,
    /// Whether the method of all requests is idempotent.
    is_idempotent: bool,
    pub(super) passages: BTreeMap<u64, Passage>,
    pub(super) attempts: BTreeMap<u64, Attempt>,
    passages_begun: u64,
    pub(super) attempts_begun: u64,
    /// Decides which of two endpoints an attempt goes to.
    pub(super) random: Rng,
    /// Spreads pauses.
    jitter: Rng,
    /// Waiters that have a slot now, with the numbers of their waits.
    pub(super) woken: Vec<(u64, u64)>,
    pub(super) transitions: Transitions,
    pub(super) policies: PolicyRecord,
    /// Requests that targets got.
    pub(super) sent: u64,
    record: PoolRecord,
}

impl Site {
    /// None where there is nothing but one target.
    pub(super) fn new(scenario: &Scenario, variant: Variant) -> Option<Self> {
        let is_own = scenario.gateway.is_some();
        if !is_own && scenario.upstream(variant).is_none() {
            return None;
        }
        let text = config_text(scenario, variant, &nowhere(scenario)).expect(CHECKED);
        let settings = Settings::check(&config::parse(&text).expect(CHECKED)).expect(CHECKED);
        let pools: Vec<Pool> = settings.upstreams.iter().map(|upstream| Pool::new(scenario, upstream)).collect();
        let (mut interactions, transitions) = (Vec::<Interaction>::new(), Transitions::default());
        let mut ways = Vec::new();
        for route in &settings.routes {
            let of = route.policy.map(|policy| (policy, route.upstream));
            let known = of.and_then(|of| interactions.iter().position(|it| it.of == of));
            let interaction = match (known, of) {
                (Some(known), _) => Some(known),
                (None, None) => None,
                (None, Some(of)) => {
                    let (policy, upstream) = (&settings.policies[of.0], &settings.upstreams[of.1].name);
                    interactions.push(Interaction::new(of, policy, upstream, &transitions).expect(CHECKED));
                    Some(interactions.len() - 1)
                }
            };
            ways.push(Way { upstream: route.upstream, interaction });
        }
        let is_idempotent = scenario.plan.request.method.is_idempotent();
        let count = scenario.targets.len();
        let (mut upstreams, mut weights) = (vec![usize::MAX; count], vec![Weight::ONE; count]);
        for (upstream, pool) in pools.iter().enumerate() {
            for (target, (_, weight)) in pool.targets.iter().zip(settings.upstreams[upstream].ports()) {
                (upstreams[*target], weights[*target]) = (upstream, weight);
            }
        }
        let gateway = is_own.then(|| Replayer::new(settings, &BTreeMap::new()).expect(CHECKED));
        Some(Self {
            gateway,
            ways,
            pools,
            interactions,
            is_idempotent,
            passages: BTreeMap::new(),
            attempts: BTreeMap::new(),
            passages_begun: 0,
            attempts_begun: 0,
            random: Rng::with_seed(scenario.seed ^ 0x0000_9001),
            jitter: Rng::with_seed(scenario.seed ^ 0x0000_9002),
            woken: Vec::new(),
            transitions,
            policies: PolicyRecord::default(),
            sent: 0,
            record: PoolRecord::of(scenario, upstreams, weights),
        })
    }

    /// A request comes, or one that has passed its client's limit. Returns its number, or the status that it gets at
    /// once.
    pub(super) fn begin(&mut self, job: Job, request: &PastRequest<'_>) -> Result<u64, NotSent> {
        let passing = self.gateway.as_ref().map(|gateway| gateway.begin(request)).transpose()?;
        let way = self.ways[passing.as_ref().map_or(0, |passing| passing.route)];
        let number = self.passages_begun;
        self.passages_begun += 1;
        let mut passage = Passage::new(job, way, passing);
        let key = way.interaction.and_then(|it| self.interactions[it].retry.as_ref()?.idempotency_key.as_ref());
        let has_key = |key: &HeaderName| request.headers.iter().any(|(name, value)| key == name && !value.is_empty());
        passage.is_repeatable = self.is_idempotent || key.is_some_and(has_key);
        self.passages.insert(number, passage);
        Ok(number)
    }

    /// The request of a passage.
    pub(super) fn job(&self, number: u64) -> Option<Job> {
        self.passages.get(&number).map(|passage| passage.job)
    }

    /// Sends a request to a target that does not refuse it.
    pub(super) fn attempt(
        &mut self,
        number: u64,
        within: Option<Duration>,
        now: u64,
        is_refused: impl Fn(usize) -> bool,
    ) -> Attempted {
        let hedge_at = self.hedge_at(number, now);
        let Some(passage) = self.passages.get_mut(&number) else { return Attempted::Refused };
        let (pool, interaction) = (&self.pools[passage.way.upstream], passage.way.interaction);
        let is_first = passage.journey.as_ref().is_some_and(|journey| journey.attempts() == 1);
        if let Some(budget) = interaction.filter(|_| is_first).and_then(|it| self.interactions[it].budget.as_ref()) {
            budget.call_began(at(now));
        }
        let (random, key) = (self.random.u64(..), hash(passage));
        // One that could not be reached is not tried again at once.
        let chosen = if passage.attempted > 1 {
            pool.choose(at(now), random, key, &passage.tried).filter(|it| !passage.tried.contains(*it))
        } else if passage.tried.is_empty() {
            pool.choose(at(now), random, key, &passage.tried)
        } else {
            pool.choose_available(at(now), random, key, &passage.tried)
        };
        let Some((endpoint, in_flight)) = chosen.and_then(|it| Some((it, pool.begin(it, at(now))?))) else {
            return Attempted::Refused;
        };
        passage.tried.insert(endpoint);
        (passage.is_spent, passage.is_upstream_spent) = (true, true);
        let target = pool.targets[endpoint];
        if is_refused(target) {
            pool.end(in_flight, Outcome::Failure { cause: Cause::Connect, took: None }, at(now));
            return Attempted::Refused;
        }
        let longest = within.map_or(pool.response_timeout, |within| nanos(within).min(pool.response_timeout));
        let job = Job { target, attempt: self.attempts_begun, ..passage.job };
        self.attempts_begun += 1;
        self.sent += 1;
        passage.under_way = [Some(job.attempt), None];
        let (stage, role) = (TargetStage::Rejected, if is_first { Role::First } else { Role::Another });
        let is_short = within.is_some_and(|within| passage.journey.is_some_and(|journey| journey.is_short(within)));
        let cut_at = within.filter(|_| is_short).map(|within| now + nanos(within));
        let attempt = Attempt { passage: number, in_flight, started: now, job, stage, role, cut_at };
        self.attempts.insert(job.attempt, attempt);
        Attempted::Sent { job, deadline: now + longest, hedge_at }
    }

    /// The gateway waits no longer for an attempt, which says this about its endpoint. Returns its request, where that
    /// is in its target, and how long it took.
    pub(super) fn end_attempt(
        &mut self,
        attempt: u64,
        now: u64,
        outcome: impl FnOnce(&Pool, Duration) -> Outcome,
    ) -> Option<EndedAttempt> {
        let Attempt { passage, in_flight, started, job, stage, role, .. } = self.attempts.remove(&attempt)?;
        let pool = &self.pools[self.passages.get(&passage)?.way.upstream];
        let took = Duration::from_nanos(now - started);
        let outcome = outcome(pool, took);
        pool.end(in_flight, outcome, at(now));
        Some(EndedAttempt { passage, job, stage, took, role })
    }

    /// What follows an attempt. None: the request goes on. Otherwise the status that its client gets.
    pub(super) fn after_attempt(&mut self, number: u64, ended: Ended, took: Duration, now: u64) -> Option<u16> {
        let passage = self.passages.get_mut(&number)?;
        let interaction = passage.way.interaction.map(|index| &self.interactions[index]);
        let call = passage.call.take();
        if let Some((interaction, call)) = interaction.zip(call) {
            record(interaction, call, ended, took, at(now));
        }
        let key = hash(passage);
        let Some(journey) = &mut passage.journey else { return Some(ended.status) };
        let pool = &self.pools[passage.way.upstream];
        let is_refused = ended.cause == Some(Cause::Connect) && !ended.was_sent;
        let has_other = || {
            let other = pool.choose(at(now), 0, key, &passage.tried);
            other.is_some_and(|endpoint| !passage.tried.contains(endpoint))
        };
        if is_refused && passage.attempted < MOST_ATTEMPTED && has_other() {
            journey.elsewhere();
            (passage.last, passage.attempted) = (Some(ended.status), passage.attempted + 1);
            return None;
        }
        let Some((interaction, retry)) = interaction.and_then(|it| Some((it, it.retry.as_ref()?))) else {
            return Some(ended.status);
        };
        let is_retryable = ended.cause.map_or(retry.on.has_status(ended.status), |cause| retry.on.has(cause));
        let is_repeatable = !ended.was_sent || passage.is_repeatable;
        let is_barred = is_retryable && interaction.breaker.as_ref().is_some_and(|breaker| breaker.rejects(at(now)));
        let failed = FailedAttempt { is_retryable, is_repeatable, retry_after: None };
        let take_budget = || interaction.budget.as_ref().is_none_or(|budget| budget.take(at(now)));
        if is_barred || journey.failed(failed, at(now), self.jitter.u64(..), take_budget).is_err() {
            return Some(ended.status);
        }
        (passage.last, passage.attempted) = (Some(ended.status), 1);
        self.release_upstream(number, now);
        None
    }

    /// Gives back what a request holds of its upstream. The next that waits for its slot has it now.
    fn release_upstream(&mut self, number: u64, now: u64) {
        let Some(passage) = self.passages.get_mut(&number) else { return };
        let bulkhead = passage.way.interaction.and_then(|index| self.interactions[index].bulkhead.as_ref());
        let slots = std::mem::take(&mut passage.slots);
        let is_spent = std::mem::take(&mut passage.is_upstream_spent);
        if let (Some(gateway), Some(passing)) = (&mut self.gateway, &mut passage.passing) {
            gateway.release(passing, Side::Upstream, is_spent, at(now));
        }
        for _ in 0..slots {
            let next = bulkhead.and_then(tidegate_policy::bulkhead::Bulkhead::leave);
            if let Some((waiter, passage)) = next.and_then(|waiter| Some((waiter, self.passages.get_mut(&waiter)?))) {
                passage.ticket = None;
                passage.slots += 1;
                passage.waits += 1;
                if let Some(journey) = &mut passage.journey {
                    journey.waited();
                }
                self.woken.push((waiter, passage.waits));
            }
        }
    }

    /// A request has ended: what it holds is given back.
    pub(super) fn end(&mut self, number: u64, now: u64) -> Option<Job> {
        let passage = self.passages.get_mut(&number)?;
        // A breaker that has no result learns nothing.
        passage.call = None;
        let bulkhead = passage.way.interaction.and_then(|index| self.interactions[index].bulkhead.as_ref());
        if let Some((bulkhead, ticket)) = bulkhead.zip(passage.ticket.take()) {
            let _was_waiting = bulkhead.cancel(ticket);
        }
        self.release_upstream(number, now);
        let mut passage = self.passages.remove(&number)?;
        if let (Some(gateway), Some(passing)) = (&mut self.gateway, &mut passage.passing) {
            gateway.release(passing, Side::Client, passage.is_spent, at(now));
        }
        Some(passage.job)
    }

    /// What the last attempt of a request has brought.
    pub(super) fn last(&self, number: u64) -> Option<u16> {
        self.passages.get(&number).and_then(|passage| passage.last)
    }

    /// Whether the policy has ended an attempt so soon that this says nothing about its target.
    pub(super) fn is_cut(&self, attempt: u64, now: u64) -> bool {
        let cut_at = self.attempts.get(&attempt).and_then(|attempt| attempt.cut_at);
        cut_at.is_some_and(|at| now >= at)
    }

    /// Whether the gateway still waits for an attempt.
    pub(super) fn is_awaited(&self, attempt: u64) -> bool {
        self.attempts.contains_key(&attempt)
    }

    /// The request of an attempt under way.
    pub(super) fn attempted(&self, attempt: u64) -> Option<Job> {
        self.attempts.get(&attempt).map(|attempt| attempt.job)
    }

    /// An attempt's request gets on in its target.
    pub(super) fn reached(&mut self, attempt: u64, stage: TargetStage) {
        if let Some(attempt) = self.attempts.get_mut(&attempt) {
            attempt.stage = stage;
        }
    }

    /// The attempts on a target, the latest first.
    pub(super) fn attempts_on(&self, target: usize) -> Vec<u64> {
        let on_it = self.attempts.iter().rev().filter(|(_, attempt)| attempt.job.target == target);
        on_it.map(|(number, _)| *number).collect()
    }

    /// A second is over: what has changed in it, for people.
    pub(super) fn second(&mut self, now: u64) -> Vec<String> {
        let unused = Seen::unused();
        let mut seen = vec![unused; self.record.len()];
        for (target, state) in self.pools.iter().flat_map(|pool| pool.second(at(now))) {
            seen[target] = state;
        }
        self.record.seen(seen)
    }

    /// What was seen of targets, and of policies where the scenario has some.
    pub(super) fn into_records(self) -> (PoolRecord, Option<PolicyRecord>) {
        (self.record, self.gateway.map(|_| PolicyRecord { sent: Some(self.sent), ..self.policies }))
    }
}

/// Reports to the breaker how a call has ended. A way to fail that does not count says nothing.
pub(super) fn record(interaction: &Interaction, call: Call, ended: Ended, took: Duration, now: Timestamp) {
    let Some(breaker) = &interaction.breaker else { return };
    let verdict = match ended.cause {
        Some(_) if ended.is_cut => return,
        Some(cause) if !interaction.failures.has(cause) => return,
        Some(_) => CallVerdict::Failure,
        None if interaction.failures.has_status(ended.status) => CallVerdict::Failure,
        None => CallVerdict::Success,
    };
    breaker.record(call, verdict, took, now);
}

/// What decides the endpoint where requests are spread by a key: that of the configuration, or their client.
pub(super) fn hash(passage: &Passage) -> u64 {
    let job = &passage.job;
    let of_client = || Rng::with_seed((job.group as u64) << 40 | job.client).u64(..);
    passage.passing.as_ref().and_then(|passing| passing.endpoint_hash).unwrap_or_else(of_client)
}
