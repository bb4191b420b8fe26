use std::sync::Arc;
use std::time::Duration;

use super::outcome::Outcome;
use super::state::EndpointState;
use crate::Timestamp;

/// One request in flight on an endpoint, from [`Balancer::begin`](super::Balancer::begin) to
/// [`Balancer::end`](super::Balancer::end).
///
/// Dropping it instead is the same as ending it with [`Outcome::Ignored`], so the endpoint's count of requests in
/// flight is right whatever becomes of the request, and whether or not the endpoint still belongs to the pool.
#[derive(Debug)]
#[must_use = "dropping it ends the request"]
pub struct InFlight {
    endpoint: Arc<EndpointState>,
    index: u32,
    generation: u32,
}

impl InFlight {
    #[inline]
    pub(super) fn begin(endpoint: &Arc<EndpointState>, index: usize, now: Timestamp) -> Self {
        let generation = endpoint.enter(now);
        Self { endpoint: Arc::clone(endpoint), index: index as u32, generation }
    }

    /// The endpoint's index in the balancer that began it.
    pub const fn index(&self) -> usize {
        self.index as usize
    }

    /// The endpoint.
    pub const fn endpoint(&self) -> &Arc<EndpointState> {
        &self.endpoint
    }

    /// The endpoint has responded, and the response is on its way: the request is still in flight. No balancer is
    /// needed for that, because a success ejects nothing.
    #[inline]
    pub fn succeeded(&self, took: Duration, now: Timestamp) {
        self.endpoint.record(Outcome::Success { took }, self.generation, now);
    }

    /// Records how it ended. Returns how many requests in a row have failed with it.
    #[inline]
    pub(super) fn record(&self, outcome: Outcome, now: Timestamp) -> u32 {
        self.endpoint.record(outcome, self.generation, now)
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        self.endpoint.leave();
    }
}
