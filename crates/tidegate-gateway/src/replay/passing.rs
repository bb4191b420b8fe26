//! Requests whose driver takes their steps itself: a simulation sends them to targets of its own, and has limits
//! checked when the steps ask for it.

use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_store::Key;

use super::{PastRequest, Replayer, Routed, Verdict};
use crate::admission::{LimitCheck, Rejection, give_back, wait_of};
use crate::stages::Side;

/// A request whose driver takes its steps itself, and checks limits when they ask for it. What it holds has to be given
/// back with [`Replayer::release`].
pub struct Passing {
    /// The index of its route.
    pub route: usize,
    /// What it is counted by: limits and its keys for them, of the client and of the upstream.
    sides: [Result<Vec<(usize, Key)>, Verdict>; 2],
    held: [Vec<LimitCheck>; 2],
}

impl Passing {
    /// Whether there are limits of its upstream.
    pub fn has_upstream_limits(&self) -> bool {
        !self.sides[Side::Upstream as usize].as_ref().is_ok_and(Vec::is_empty)
    }
}

impl<T> Replayer<T> {
    /// Begins a request whose driver takes its steps itself. An error is why it is not sent on.
    pub fn begin(&self, request: &PastRequest<'_>) -> Result<Passing, Verdict> {
        let Routed { route, client, upstream } = self.route(request)?;
        let sides = [client, upstream].map(|checks| match checks {
            Ok((checks, _)) => Ok(checks.iter().map(|check| (check.limit, check.key)).collect()),
            Err(rejection) => Err(unchecked(&rejection)),
        });
        Ok(Passing { route, sides, held: Default::default() })
    }

    /// Checks the limits of one side. Returns how long the request waits for them, or why it is rejected.
    pub fn check_side(&mut self, passing: &mut Passing, side: Side, now: Timestamp) -> Result<Duration, Verdict> {
        let keys = passing.sides[side as usize].as_ref().map_err(|verdict| *verdict)?;
        let checks = keys.iter().map(|(limit, key)| LimitCheck::new(*limit, *key)).collect();
        let held = self.check(Ok((checks, Vec::new())), &mut Vec::new(), now)?;
        let wait = wait_of(&self.plan, &held);
        passing.held[side as usize].extend(held);
        Ok(wait)
    }

    /// Gives back what a request holds of one side: its slots, and everything if nothing `was_sent`.
    pub fn release(&mut self, passing: &mut Passing, side: Side, was_sent: bool, now: Timestamp) {
        let mut held = std::mem::take(&mut passing.held[side as usize]);
        give_back(&self.plan, &mut held, !was_sent, || now);
    }
}

/// Why a request is rejected whose limits can't even be checked.
pub(super) fn unchecked(rejection: &Rejection) -> Verdict {
    match rejection {
        Rejection::NoKey { limit, .. } => Verdict::NoKey { limit: *limit },
        // `TooMany`: its path can be read in too many ways. The others come from checks.
        Rejection::TooMany | Rejection::Limit { .. } | Rejection::StoreAway { .. } => Verdict::NoRoute,
    }
}
