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
    /// Boxed, for most requests have no policy.
    of_policy: Option<Box<HeldOfPolicy>>,
}

/// What a request holds of its policy.
#[derive(Default)]
struct HeldOfPolicy {
    /// Of a bulkhead.
    slot: Option<Slot>,
    /// Once the head of the response was recorded at a breaker.
    recorded: Option<RecordedCall>,
}

impl AttemptHold {
    /// `slot` is that of a bulkhead.
    #[inline]
    pub(crate) fn new(in_flight: InFlight, share: Option<HeldShare>, slot: Option<Slot>) -> Self {
        let of_policy = slot.map(|slot| Box::new(HeldOfPolicy { slot: Some(slot), recorded: None }));
        Self { in_flight, _share: share, of_policy }
    }

    /// Holds a slot of the bulkhead from now on.
    pub(crate) fn enter(&mut self, slot: Slot) {
        self.of_policy.get_or_insert_default().slot = Some(slot);
    }

    /// Its slot of the bulkhead, for another attempt. Everything else is given back.
    pub(crate) fn into_slot(mut self) -> Option<Slot> {
        self.of_policy.as_mut()?.slot.take()
    }

    /// The endpoint works on the request no more.
    pub(crate) fn give_back_slot(&mut self) {
        if let Some(of_policy) = &mut self.of_policy {
            of_policy.slot = None;
        }
    }

    /// The head of the response was recorded at a breaker.
    #[inline]
    pub(crate) fn recorded(&mut self, call: RecordedCall) {
        self.of_policy.get_or_insert_default().recorded = Some(call);
    }

    /// The call, if it was.
    pub(crate) fn recorded_call(&self) -> Option<&RecordedCall> {
        self.of_policy.as_ref()?.recorded.as_ref()
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
