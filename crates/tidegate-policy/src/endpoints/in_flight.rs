use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::outcome::Outcome;
use super::state::EndpointState;
use crate::Timestamp;

/// One request in flight on an endpoint, from [`Balancer::begin`](super::Balancer::begin) to
/// [`Balancer::end`](super::Balancer::end).
///
/// Dropping it instead is the same as ending it with [`Outcome::Ignored`], so the endpoint's count of requests in
/// flight is right whatever becomes of the request, and whether or not the endpoint still belongs to the pool. If the
/// endpoint has [responded](Self::responded), it is a success.
#[derive(Debug)]
#[must_use = "dropping it ends the request"]
pub struct InFlight {
    endpoint: Arc<EndpointState>,
    index: u32,
    generation: u32,
    began: Timestamp,
    /// The endpoint has responded, and its response has not failed so far.
    has_responded: AtomicBool,
}

impl InFlight {
    #[inline]
    pub(super) fn begin(endpoint: &Arc<EndpointState>, index: usize, now: Timestamp) -> Self {
        let generation = endpoint.enter(now);
        Self {
            endpoint: Arc::clone(endpoint),
            index: index as u32,
            generation,
            began: now,
            has_responded: AtomicBool::new(false),
        }
    }

    /// The endpoint's index in the balancer that began it.
    pub const fn index(&self) -> usize {
        self.index as usize
    }

    /// The endpoint.
    pub const fn endpoint(&self) -> &Arc<EndpointState> {
        &self.endpoint
    }

    /// The endpoint has responded, and the response is on its way: the request is still in flight. It is a success
    /// when this is dropped, unless it is recorded as a failure until then: responses that break off must not look as
    /// if every other request succeeded. No balancer is needed for that, because a success ejects nothing.
    #[inline]
    pub fn responded(&self, took: Duration, now: Timestamp) {
        self.endpoint.sample(took, now);
        self.has_responded.store(true, Relaxed);
    }

    /// Records how it ended. Returns how many requests in a row have failed with it.
    #[inline]
    pub(super) fn record(&self, outcome: Outcome, now: Timestamp) -> u32 {
        if matches!(outcome, Outcome::Failure { .. }) {
            self.has_responded.store(false, Relaxed);
        }
        self.endpoint.record(outcome, self.generation, now)
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        if *self.has_responded.get_mut() {
            self.endpoint.count_success(self.generation);
        }
        self.endpoint.leave(self.began);
    }
}
