use std::time::Duration;

use super::balancer::{Balancer, Member};
use super::ejection::Reason;
use super::health::Health;
use super::standing::{Forced, Standing};
use super::weight::Weight;
use crate::Timestamp;

/// What is known of an endpoint at one moment, for the admin API and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSnapshot {
    /// Its address.
    pub name: String,
    /// Its weight in this pool.
    pub weight: Weight,
    /// Whether it gets requests, and if not, why.
    pub standing: Standing,
    /// What an operator wants it to be.
    pub forced: Forced,
    /// What its active checks say.
    pub health: Health,
    /// The share of its weight that it gets: below 1 in its slow start.
    pub share: f64,
    /// Requests in flight.
    pub in_flight: u32,
    /// The estimated latency; `None` before the first response.
    pub latency: Option<Duration>,
    /// Why it is ejected and for how much longer, if it is.
    pub ejected: Option<(Reason, Duration)>,
    /// How many ejections in a row count for the length of the next.
    pub ejections_in_a_row: u32,
    /// How often it was ejected, in all.
    pub ejections: u32,
    /// How many requests succeeded, in all.
    pub successes: u64,
    /// How many requests failed, in all.
    pub failures: u64,
}

impl Balancer {
    /// What is known of each endpoint, in the order of their indexes.
    pub fn snapshot(&self, now: Timestamp) -> Vec<EndpointSnapshot> {
        let shown = |member: &Member| {
            let state = &member.state;
            let record = state.read();
            let latency = state.latency().expected(state.latency().measured(), now);
            let (successes, failures) = state.totals();
            let ejected = record.ejections.current().filter(|(until, _)| now < *until);
            EndpointSnapshot {
                name: state.name().to_owned(),
                weight: member.weight,
                standing: state.standing(now),
                forced: record.forced,
                health: record.checks.health(),
                share: self.slow_start_share(member, now),
                in_flight: state.in_flight(),
                latency: (latency > 0.0).then(|| Duration::from_nanos(latency as u64)),
                ejected: ejected.map(|(until, reason)| (reason, until.since(now))),
                ejections_in_a_row: self.ejection().map_or(0, |settings| record.ejections.in_a_row(settings, now)),
                ejections: state.ejections(),
                successes,
                failures,
            }
        };
        self.members.iter().map(shown).collect()
    }
}
