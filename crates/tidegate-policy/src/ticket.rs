use crate::receipt::Receipt;

/// What was taken from a [`Keyed`](crate::Keyed) or [`Direct`](crate::Direct) limit, to give it back: once.
///
/// Dropping it gives nothing back; `tidegate_wait::Permit` does. It is good for the limit and key it was issued for.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is held must be given back"]
pub struct Ticket {
    receipt: Receipt,
    generation: u32,
    is_slot: bool,
}

impl Ticket {
    /// For what was taken under a limiter that has been changed `generation` times.
    pub(crate) const fn new(receipt: Receipt, generation: u32, is_slot: bool) -> Self {
        Self { receipt, generation, is_slot }
    }

    /// What the limiter itself gave for it.
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Whether it is for a slot, which comes back when the request is done. That was decided when it was taken,
    /// whatever the limit has become since.
    pub const fn is_slot(&self) -> bool {
        self.is_slot
    }

    /// Whether it can still be given back: the limit has not been changed since, or that makes no difference.
    pub(crate) const fn is_good(&self, generation: u32, survives_a_change: bool) -> bool {
        self.generation == generation || survives_a_change
    }
}
