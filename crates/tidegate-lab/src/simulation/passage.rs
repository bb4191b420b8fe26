//! A request on its way to one of several targets.

use std::time::Duration;

use tidegate_gateway::Passing;
use tidegate_gateway::stages::Stages;
use tidegate_policy::breaker::Call;
use tidegate_policy::bulkhead::Ticket;
use tidegate_policy::endpoints::Tried;
use tidegate_policy::journey::Journey;

use super::attempt::Ended;
use super::{Job, nanos};

/// Where the requests of a route go, and the policy around them.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) upstream: usize,
    pub(super) interaction: Option<usize>,
}

/// A request on its way.
pub(super) struct Passage {
    pub(super) job: Job,
    pub(super) way: Way,
    pub(super) passing: Option<Passing>,
    pub(super) stages: Stages,
    /// From the moment at which it is sent on.
    pub(super) journey: Option<Journey>,
    pub(super) call: Option<Call>,
    /// Where it waits for a slot of the bulkhead.
    pub(super) ticket: Option<Ticket>,
    /// Slots of the bulkhead that it has.
    pub(super) slots: u32,
    /// Whether what it took at its client's limits is spent, and what it took at the upstream's.
    pub(super) is_spent: bool,
    pub(super) is_upstream_spent: bool,
    /// Whether it does no harm if a target gets it twice.
    pub(super) is_repeatable: bool,
    pub(super) tried: Tried,
    /// To how many endpoints it went one after the other, because it could not be sent.
    pub(super) attempted: usize,
    /// How often it has waited. The end of a wait that is over already has another number.
    pub(super) waits: u64,
    /// What its last attempt has brought, should there be no other.
    pub(super) last: Option<u16>,
    /// Its attempts that have no response yet.
    pub(super) under_way: [Option<u64>; 2],
    /// How the one of two attempts ended that failed first.
    pub(super) earlier: Option<Ended>,
}

/// What a request does next.
pub(super) enum Next {
    /// Nothing until then, or until it gets a slot.
    Waits { until: u64, wait: u64 },
    /// It is sent to a target, which must have responded within this time.
    Attempt(Option<Duration>),
    /// It ends with this status.
    Ends { status: u16, is_rejected: bool },
}

/// How a wait has ended.
pub(super) enum Woken {
    /// It was over already.
    Stale,
    GoesOn,
    /// No slot became free.
    NoSlot,
}

impl Passage {
    pub(super) fn new(job: Job, way: Way, passing: Option<Passing>) -> Self {
        Self {
            job,
            way,
            passing,
            stages: Stages::new(false),
            journey: None,
            call: None,
            ticket: None,
            slots: 0,
            is_spent: false,
            is_upstream_spent: false,
            is_repeatable: false,
            tried: Tried::new(),
            attempted: 1,
            waits: 0,
            last: None,
            under_way: [None; 2],
            earlier: None,
        }
    }

    /// Until when it waits, unless somebody wakes it before.
    pub(super) fn waits(&self, now: u64, span: Duration) -> Next {
        Next::Waits { until: now.saturating_add(nanos(span)), wait: self.waits }
    }
}
