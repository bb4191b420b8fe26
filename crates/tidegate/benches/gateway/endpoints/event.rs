//! What happens to an endpoint, and the requests that fail because of it.

use std::time::{Duration, Instant};

use crate::open_loop::Sent;

/// A request that fails was due at most this long before the event.
const LEAD: Duration = Duration::from_millis(200);
/// A request that takes longer than this is served late: a response takes some 5 ms.
const LATE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Killed,
    Frozen,
    Restarted,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Killed, Self::Frozen, Self::Restarted];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
            Self::Restarted => "restarted",
        }
    }
}

pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// Which endpoint, counted from 0.
    pub(crate) victim: usize,
    pub(crate) at: Instant,
    /// Requests in flight on the victim just before.
    pub(crate) in_flight: u64,
    /// From the victim's return to its first request; none if it got no more.
    pub(crate) loaded: Option<Duration>,
    /// How requests ended that were not served, from this event to the next.
    pub(crate) failures: Vec<String>,
    /// Requests in that time that were served late, and how long the slowest took.
    pub(crate) late: usize,
    pub(crate) slowest: Duration,
}

/// Adds each request that failed or was served late to the last event before it. Those before the first belong to none.
pub(crate) fn attribute(events: &mut [Event], sent: &[Sent]) {
    for one in sent.iter().filter(|one| !one.is_served() || one.latency > LATE) {
        let due = one.due + LEAD;
        let Some(event) = events.iter_mut().rev().find(|event| event.at <= due) else { continue };
        if one.is_served() {
            event.late += 1;
            event.slowest = event.slowest.max(one.latency);
        } else {
            event.failures.push(one.outcome_name());
        }
    }
}
