use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use super::outcome::Outcome;
use super::state::EndpointState;
use crate::Timestamp;

/// One request in flight on an endpoint, from [`Balancer::begin`](super::Balancer::begin) to
/// [`Balancer::end`](super::Balancer::end).
///
/// Dropping it instead is the same as ending it with [`Outcome::Ignored`], so the endpoint's count of requests in
/// flight is right whatever becomes of the request, and whether or not the endpoint still belongs to the pool. If the
/// endpoint has [responded](Self::responded), it is a success. Failures in a row end only with a response that has
/// [ended](Self::ended): a client that leaves shows nothing.
#[derive(Debug)]
#[must_use = "dropping it ends the request"]
pub struct InFlight {
    endpoint: Arc<EndpointState>,
    index: u32,
    generation: u32,
    began: Timestamp,
    progress: AtomicU8,
}

/// How far the endpoint has come: values of [`InFlight::progress`].
const NO_RESPONSE: u8 = 0;
/// Its response is on the way, and has not failed so far.
const RESPONDED: u8 = 1;
/// It has sent its whole response.
const ENDED: u8 = 2;

impl InFlight {
    #[inline]
    pub(super) fn begin(endpoint: &Arc<EndpointState>, index: usize, now: Timestamp) -> Self {
        let generation = endpoint.enter(now);
        Self {
            endpoint: Arc::clone(endpoint),
            index: index as u32,
            generation,
            began: now,
            progress: AtomicU8::new(NO_RESPONSE),
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
    ///
    /// `took` is the endpoint's latency; `None` if that is not known, because the client takes some of the time.
    #[inline]
    pub fn responded(&self, took: Option<Duration>, now: Timestamp) {
        match took {
            Some(took) => self.endpoint.sample(took, now),
            None => self.endpoint.latency().end(self.began),
        }
        self.progress.store(RESPONDED, Relaxed);
    }

    /// Another attempt of the same request, made later, has had its response first: this endpoint would have taken
    /// longer than `took`. That raises the estimate of its latency if it is above it, and says nothing else.
    pub fn overtaken(&self, took: Duration, now: Timestamp) {
        self.endpoint.latency().sample_failure(took, now);
    }

    /// The endpoint has sent the whole response that it began.
    #[inline]
    pub fn ended(&self) {
        if self.progress.load(Relaxed) == RESPONDED {
            self.progress.store(ENDED, Relaxed);
        }
    }

    /// The response has broken off: without a record of how, it counts neither way.
    pub fn broke_off(&self) {
        self.progress.store(NO_RESPONSE, Relaxed);
    }

    /// Records how it ended. Returns how many requests in a row have failed with it.
    #[inline]
    pub(super) fn record(&self, outcome: Outcome, now: Timestamp) -> u32 {
        if matches!(outcome, Outcome::Failure { .. }) {
            self.broke_off();
        }
        self.endpoint.record(outcome, self.generation, now)
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        match *self.progress.get_mut() {
            ENDED => self.endpoint.count_success(self.generation),
            RESPONDED => self.endpoint.count_unfinished(),
            _ => {}
        }
        self.endpoint.leave(self.began);
    }
}
