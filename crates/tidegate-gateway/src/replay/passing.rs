//! Requests whose driver takes their steps itself: a simulation sends them to targets of its own, and has limits
//! checked when the steps ask for it.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_http::headers::Headers;
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
    /// What decides its endpoint. None: chance does.
    pub endpoint_hash: Option<u64>,
}

/// A request that is not sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSent {
    /// The status of the response.
    pub status: u16,
    /// Whether a limit has rejected it. Otherwise it can't be handled as it is.
    pub is_rejected: bool,
}

impl NotSent {
    const fn invalid(status: u16) -> Self {
        Self { status, is_rejected: false }
    }
}

impl Passing {
    /// Whether there are limits of its upstream.
    pub fn has_upstream_limits(&self) -> bool {
        !self.sides[Side::Upstream as usize].as_ref().is_ok_and(Vec::is_empty)
    }

    /// How many of its upstream's limits hold something of it: one for each time they were checked.
    pub fn held_of_upstream(&self) -> usize {
        self.held[Side::Upstream as usize].len()
    }
}

impl<T> Replayer<T> {
    /// Begins a request whose driver takes its steps itself. Its headers say who the caller is, as those of a trusted
    /// proxy do.
    pub fn begin(&self, request: &PastRequest<'_>) -> Result<Passing, NotSent> {
        let identity = &self.plan.site.identity;
        let (headers, now) = (headers(request.headers), request.at.as_nanos() / 1_000_000_000);
        let headers = headers.as_ref().unwrap_or(&self.no_headers);
        let caller = identity.identify(headers, true, now).map_err(|_| NotSent::invalid(401))?;
        let routed = self.route_of(request, caller, headers).map_err(|verdict| self.not_sent(&verdict))?;
        let Routed { route, client, upstream, endpoint_hash } = routed;
        let sides = [client, upstream].map(|checks| match checks {
            Ok((checks, _)) => Ok(checks.iter().map(|check| (check.limit, check.key)).collect()),
            Err(rejection) => Err(unchecked(&rejection)),
        });
        Ok(Passing { route, sides, held: Default::default(), endpoint_hash })
    }

    /// Checks the limits of one side. Returns how long the request waits for them, or why it is rejected.
    pub fn check_side(&mut self, passing: &mut Passing, side: Side, now: Timestamp) -> Result<Duration, NotSent> {
        let keys = passing.sides[side as usize].as_ref().map_err(|verdict| self.not_sent(verdict))?;
        let checks = keys.iter().map(|(limit, key)| LimitCheck::new(*limit, *key)).collect();
        let held = self.check(Ok((checks, Vec::new())), &mut Vec::new(), now);
        let held = held.map_err(|verdict| self.not_sent(&verdict))?;
        let wait = wait_of(&self.plan, &held);
        passing.held[side as usize].extend(held);
        Ok(wait)
    }

    /// Gives back what a request holds of one side: its slots, and everything if nothing `was_sent`.
    pub fn release(&mut self, passing: &mut Passing, side: Side, was_sent: bool, now: Timestamp) {
        let mut held = std::mem::take(&mut passing.held[side as usize]);
        give_back(&self.plan, &mut held, !was_sent, || now);
    }

    /// Gives everything back that was taken at the upstream's limits after so many: an attempt is not made after all.
    pub fn give_back_upstream(&mut self, passing: &mut Passing, after: usize, now: Timestamp) {
        let held = &mut passing.held[Side::Upstream as usize];
        let mut latest = held.split_off(after.min(held.len()));
        give_back(&self.plan, &mut latest, true, || now);
    }

    fn not_sent(&self, verdict: &Verdict) -> NotSent {
        match verdict {
            Verdict::Rejected { limit, .. } => {
                NotSent { status: self.plan.limits[*limit].settings.status.as_u16(), is_rejected: true }
            }
            Verdict::NoKey { .. } => NotSent::invalid(400),
            Verdict::NoRoute | Verdict::Local | Verdict::Admitted { .. } => NotSent::invalid(404),
        }
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

/// The pairs that are valid as headers.
pub(super) fn headers(pairs: &[(&str, &str)]) -> Option<Headers> {
    if pairs.is_empty() {
        return None;
    }
    let mut map = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(*name), HeaderValue::from_str(value)) {
            map.append(name, value);
        }
    }
    Some(Headers::from(&map))
}
