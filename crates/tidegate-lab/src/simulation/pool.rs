//! The gateway's view of several targets: its own balancer, the attempts under way, and checks of health.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tidegate_gateway::config;
use tidegate_gateway::settings::{HealthCheckSettings, Settings, UpstreamSettings};
use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balancer, Cause, EndpointState, InFlight, MOST_ATTEMPTED, Outcome, Tried};

use super::{Job, START, nanos};
use crate::gateway_config::{config_text, nowhere};
use crate::pool_record::{PoolRecord, Seen};
use crate::scenario::{Scenario, Variant};
use crate::target::Ticket;

pub(super) struct Pool {
    balancer: Balancer,
    random: Rng,
    failure_statuses: Vec<u16>,
    response_timeout: u64,
    pub(super) check: Option<Arc<HealthCheckSettings>>,
    /// By their numbers, so in the order in which they began.
    attempts: BTreeMap<u64, Attempt>,
    begun: u64,
    record: PoolRecord,
}

/// A request that waits for a target's response.
pub(super) struct Attempt {
    in_flight: InFlight,
    started: u64,
    pub(super) job: Job,
    pub(super) stage: Stage,
}

/// Where an attempt's request is in its target.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    /// In the queue.
    Waits(Ticket),
    /// A worker has it.
    Served,
    /// The target has no room for it.
    Rejected,
}

/// An attempt that has begun.
pub(super) struct Begun {
    pub(super) number: u64,
    pub(super) target: usize,
    /// When the gateway no longer waits for a response.
    pub(super) deadline: u64,
}

impl Pool {
    /// None without several targets.
    pub(super) fn new(scenario: &Scenario, variant: Variant) -> Option<Self> {
        scenario.upstream(variant)?;
        let UpstreamSettings { balancing, failure_statuses, health_check, bounds, .. } = settings(scenario, variant)?;
        let weights: Vec<_> = scenario.targets.iter().map(|target| target.weight).collect();
        let endpoints = weights.iter().enumerate();
        let endpoints = endpoints.map(|(index, weight)| (Arc::new(EndpointState::new(&name(index))), *weight));
        Some(Self {
            balancer: Balancer::new(endpoints, balancing),
            random: Rng::with_seed(scenario.seed ^ 0x0000_9001),
            failure_statuses,
            response_timeout: nanos(bounds.response_timeout),
            check: health_check,
            attempts: BTreeMap::new(),
            begun: 0,
            record: PoolRecord::new(weights),
        })
    }

    pub(super) fn has_checks(&self) -> bool {
        self.check.is_some()
    }

    /// Chooses a target and connects to it; if it refuses, to another, as the gateway does: to [`MOST_ATTEMPTED`] at
    /// the most, and to none twice. None if none of them can be connected to.
    pub(super) fn begin(&mut self, now: u64, job: &Job, is_refused: impl Fn(usize) -> bool) -> Option<Begun> {
        let key = hash(job);
        let mut tried = Tried::new();
        for _ in 0..MOST_ATTEMPTED {
            let chosen = self.balancer.choose(at(now), self.random.u64(..), key, &tried);
            let target = chosen.filter(|target| !tried.contains(*target))?;
            let in_flight = self.balancer.begin(target, at(now))?;
            if is_refused(target) {
                let refused = Outcome::Failure { cause: Cause::Connect, took: None };
                self.balancer.end(in_flight, refused, at(now));
                tried.insert(target);
                continue;
            }
            let number = self.begun;
            self.begun += 1;
            let job = Job { target, attempt: number, ..*job };
            self.attempts.insert(number, Attempt { in_flight, started: now, job, stage: Stage::Rejected });
            return Some(Begun { number, target, deadline: now + self.response_timeout });
        }
        None
    }

    /// Whether the gateway still waits for the response.
    pub(super) fn is_awaited(&self, attempt: u64) -> bool {
        self.attempts.contains_key(&attempt)
    }

    /// An attempt's request gets on in its target.
    pub(super) fn reached(&mut self, attempt: u64, stage: Stage) {
        if let Some(attempt) = self.attempts.get_mut(&attempt) {
            attempt.stage = stage;
        }
    }

    /// The target has responded.
    pub(super) fn responded(&mut self, now: u64, attempt: u64, status: u16) {
        let Some(attempt) = self.attempts.remove(&attempt) else { return };
        let took = Duration::from_nanos(now - attempt.started);
        let outcome = if self.failure_statuses.contains(&status) {
            Outcome::Failure { cause: Cause::Status, took: Some(took) }
        } else {
            Outcome::Success { took }
        };
        self.balancer.end(attempt.in_flight, outcome, at(now));
    }

    /// An attempt ends without a response, and without a cause if its client has left.
    pub(super) fn fail(&mut self, now: u64, number: u64, cause: Option<Cause>) -> Option<(Job, Stage)> {
        let Attempt { in_flight, started, job, stage } = self.attempts.remove(&number)?;
        let took = Duration::from_nanos(now - started);
        let outcome = cause.map_or(Outcome::Ignored, |cause| Outcome::Failure {
            cause,
            took: (cause == Cause::Timeout).then_some(took),
        });
        self.balancer.end(in_flight, outcome, at(now));
        Some((job, stage))
    }

    /// The job of an attempt under way.
    pub(super) fn job(&self, number: u64) -> Option<Job> {
        self.attempts.get(&number).map(|attempt| attempt.job)
    }

    /// The attempts on a target, the latest first.
    pub(super) fn attempts_on(&self, target: usize) -> Vec<u64> {
        let on_it = self.attempts.iter().rev().filter(|(_, attempt)| attempt.job.target == target);
        on_it.map(|(number, _)| *number).collect()
    }

    /// The result of a check.
    pub(super) fn checked(&self, now: u64, target: usize, passed: bool) {
        self.balancer.checked(target, passed, at(now));
    }

    /// A second is over: what has changed in it, for people.
    pub(super) fn second(&mut self, now: u64) -> Vec<String> {
        self.balancer.step(at(now));
        let seen = self.balancer.snapshot(at(now)).into_iter().map(|endpoint| Seen {
            state: endpoint.standing.name().to_owned(),
            successes: endpoint.successes,
            failures: endpoint.failures,
        });
        self.record.seen(seen.collect())
    }

    pub(super) fn into_record(self) -> PoolRecord {
        self.record
    }
}

/// What the gateway makes of the settings. They were checked when the scenario was read.
fn settings(scenario: &Scenario, variant: Variant) -> Option<UpstreamSettings> {
    let config = config::parse(&config_text(scenario, variant, &nowhere(scenario)).ok()?).ok()?;
    Settings::check(&config).ok()?.upstreams.pop()
}

fn name(index: usize) -> String {
    format!("target-{}", index + 1)
}

/// The same for all requests of a client.
fn hash(job: &Job) -> u64 {
    fastrand::Rng::with_seed((job.group as u64) << 40 | job.client).u64(..)
}

fn at(now: u64) -> Timestamp {
    Timestamp::from_nanos(START + now)
}
