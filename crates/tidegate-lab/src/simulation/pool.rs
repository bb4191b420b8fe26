//! The gateway's view of an upstream's targets: its own balancer, and checks of health.

use std::sync::Arc;
use std::time::Duration;

use tidegate_gateway::settings::{HealthCheckSettings, UpstreamSettings};
use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balancer, EndpointState, InFlight, Outcome, Standing, Tried};

use super::nanos;
use crate::pool_record::Seen;
use crate::scenario::Scenario;

pub(super) struct Pool {
    balancer: Balancer,
    states: Vec<Arc<EndpointState>>,
    /// The indices of its targets in the scenario.
    pub(super) targets: Vec<usize>,
    failure_statuses: Vec<u16>,
    /// How long the gateway waits for a response.
    pub(super) response_timeout: u64,
    pub(super) check: Option<Arc<HealthCheckSettings>>,
}

impl Pool {
    /// Of an upstream whose configuration is only read: the ports of its endpoints are the numbers of targets.
    pub(super) fn new(scenario: &Scenario, upstream: &UpstreamSettings) -> Self {
        let targets: Vec<usize> = upstream.ports().map(|(port, _)| usize::from(port).saturating_sub(1)).collect();
        let name = |index: &usize| scenario.target_name(*index).replace(' ', "-");
        let states: Vec<_> = targets.iter().map(|index| Arc::new(EndpointState::new(&name(index)))).collect();
        let endpoints = states.iter().cloned().zip(upstream.ports().map(|(_, weight)| weight));
        Self {
            balancer: Balancer::new(endpoints, upstream.balancing),
            states,
            targets,
            failure_statuses: upstream.failure_statuses.clone(),
            response_timeout: nanos(upstream.bounds.response_timeout),
            check: upstream.health_check.clone(),
        }
    }

    /// The endpoint that an attempt goes to: one not tried yet, if there is one.
    pub(super) fn choose(&self, now: Timestamp, random: u64, key: u64, tried: &Tried) -> Option<usize> {
        self.balancer.choose(now, random, key, tried)
    }

    /// The same for a retry: one that was tried is better than one that is out.
    pub(super) fn choose_available(&self, now: Timestamp, random: u64, key: u64, tried: &Tried) -> Option<usize> {
        let untried = self.choose(now, random, key, tried);
        let is_up = |index: &usize| self.states[*index].standing(now) == Standing::Up;
        untried.filter(is_up).or_else(|| self.choose(now, random, key, &Tried::new()))
    }

    pub(super) fn begin(&self, endpoint: usize, now: Timestamp) -> Option<InFlight> {
        self.balancer.begin(endpoint, now)
    }

    pub(super) fn end(&self, in_flight: InFlight, outcome: Outcome, now: Timestamp) {
        self.balancer.end(in_flight, outcome, now);
    }

    /// What a response says about its endpoint.
    pub(super) fn outcome(&self, status: u16, took: Duration) -> Outcome {
        if self.failure_statuses.contains(&status) {
            let cause = tidegate_policy::endpoints::Cause::Status;
            Outcome::Failure { cause, took: Some(took) }
        } else {
            Outcome::Success { took }
        }
    }

    /// The result of a check.
    pub(super) fn checked(&self, endpoint: usize, passed: bool, now: Timestamp) {
        self.balancer.checked(endpoint, passed, now);
    }

    /// A second is over: its targets as the gateway sees them, by their indices.
    pub(super) fn second(&self, now: Timestamp) -> impl Iterator<Item = (usize, Seen)> {
        self.balancer.step(now);
        let seen = self.balancer.snapshot(now).into_iter().map(|endpoint| Seen {
            state: endpoint.standing.name().to_owned(),
            successes: endpoint.successes,
            failures: endpoint.failures,
        });
        self.targets.iter().copied().zip(seen)
    }
}
