//! What a request holds while an endpoint works on it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_http::deadlines::Owner;
use tidegate_http::share::AddressShare;
use tidegate_policy::breaker::{Breaker, Generation};
use tidegate_policy::endpoints::{Cause, InFlight};
use tidegate_policy::{FailureSet, Timestamp};
use tidegate_wait::Slot;

/// What a request holds while an endpoint works on it. Dropping it gives it back.
pub(crate) struct AttemptHold {
    pub(crate) in_flight: InFlight,
    /// Held for its `Drop`.
    _share: Option<HeldShare>,
    /// Of a bulkhead.
    pub(crate) slot: Option<Slot>,
    /// Once the head of the response was recorded at a breaker.
    pub(crate) recorded: Option<RecordedCall>,
}

impl AttemptHold {
    pub(crate) fn new(in_flight: InFlight, share: Option<HeldShare>, slot: Option<Slot>) -> Self {
        Self { in_flight, _share: share, slot, recorded: None }
    }
}

/// A call whose head came in time. Its body may still fail.
pub(crate) struct RecordedCall {
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) generation: Generation,
    /// What counts as a failure.
    pub(crate) failures: FailureSet,
}

impl RecordedCall {
    /// The body of the response broke off.
    pub(crate) fn broke_off(&self, cause: Cause, now: Timestamp) {
        if self.failures.has(cause) {
            self.breaker.broke_off(self.generation, now);
        }
    }
}

/// A connection to an endpoint, counted for its client's address.
pub(crate) struct HeldShare {
    address: Arc<AddressShare>,
    endpoint: Owner,
}

impl HeldShare {
    /// Counts one more. The second value is how many the address held before.
    pub(crate) fn new(address: &Arc<AddressShare>, endpoint: Owner) -> (Self, usize) {
        let before = address.of_upstream(endpoint).fetch_add(1, Ordering::Relaxed) as usize;
        (Self { address: Arc::clone(address), endpoint }, before)
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        self.address.of_upstream(self.endpoint).fetch_sub(1, Ordering::Relaxed);
    }
}
