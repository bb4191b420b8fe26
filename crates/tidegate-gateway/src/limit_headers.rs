//! The headers in which responses report a client's limits: `RateLimit`, `RateLimit-Policy`, `X-RateLimit-*`.

use std::time::Duration;

use tidegate_http::header_lines::HeaderLines;
use tidegate_policy::Algorithm;

use crate::admission::LimitCheck;
use crate::limit::Limit;
use crate::limit_texts::whole_seconds;
use crate::plan::Plan;

/// The `Retry-After` of a limit that counts slots: nobody knows when one becomes free.
pub(crate) const SLOT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Writes the state of a client's limits: those of its route, then those of the upstream. False if there is nothing to
/// report. `rejected`: the index of the check that rejects, and when to come back.
pub(crate) fn write(
    plan: &Plan,
    checks: [&[LimitCheck]; 2],
    rejected: Option<(usize, Option<u64>)>,
    now_unix: Duration,
    lines: &mut HeaderLines,
) -> bool {
    let standing =
        |(index, check): (usize, &LimitCheck)| Standing::of(&plan.limits[check.limit], index, check, rejected);
    let (one, several);
    // Most requests have one limit.
    let standings: &[Standing<'_>] = if let [[only], []] = checks {
        one = standing((0, only));
        one.as_slice()
    } else {
        several = checks.into_iter().flatten().enumerate().filter_map(standing).collect::<Vec<_>>();
        &several
    };
    let rejecting = standings.iter().find(|standing| rejected.is_some_and(|(by, _)| by == standing.index));
    let Some(tightest) = rejecting.or_else(|| standings.iter().min_by_key(|standing| standing.left)) else {
        return false;
    };
    lines.push(&tightest.limit.texts.quota);
    lines.push_number(tightest.left);
    lines.push("\r\nx-ratelimit-reset: ");
    lines.push_number(whole_seconds(now_unix + tightest.reset));
    lines.push("\r\nratelimit: ");
    for (count, standing) in standings.iter().enumerate() {
        lines.push(if count == 0 { "" } else { ", " });
        lines.push(&standing.limit.texts.state);
        lines.push_number(standing.left);
        if let Some(seconds) = standing.next {
            lines.push(";t=");
            lines.push_number(seconds);
        }
    }
    lines.push("\r\nratelimit-policy: ");
    for (count, standing) in standings.iter().enumerate() {
        lines.push(if count == 0 { "" } else { ", " });
        lines.push(&standing.limit.texts.policy);
    }
    lines.push("\r\n");
    true
}

/// The state of one of a client's limits.
struct Standing<'a> {
    limit: &'a Limit,
    /// The index of its check.
    index: usize,
    left: u64,
    reset: Duration,
    /// The `t` of `RateLimit`: seconds until there is more. Nobody knows that of slots.
    next: Option<u64>,
}

impl<'a> Standing<'a> {
    fn of(limit: &'a Limit, index: usize, check: &LimitCheck, rejected: Option<(usize, Option<u64>)>) -> Option<Self> {
        let decision = check.decision.as_ref().filter(|_| !limit.settings.dry_run)?;
        let mut left = limit.left(decision);
        if rejected.is_some() && decision.is_admitted() {
            // Admitted here and rejected by another limit, so not charged.
            left = left.saturating_add(limit.settings.cost.get().into()).min(limit.settings.numbers.quota());
        }
        let counts_slots = limit.settings.numbers.algorithm() == Algorithm::Concurrency;
        // Slots come back when requests end. The longest time that may take would be no help.
        let reset = if counts_slots { SLOT_RETRY_AFTER } else { decision.reset_after() };
        let next = match rejected {
            Some(_) | None if counts_slots => None,
            Some((by, seconds)) if by == index => seconds,
            Some(_) | None => Some(whole_seconds(reset)),
        };
        Some(Self { limit, index, left, reset, next })
    }
}

/// Whether the gateway replaces this header of an upstream's response by its own.
pub(crate) fn is_replaced(name: &[u8]) -> bool {
    let ours: &[&[u8]] = match name.len() {
        9 => &[b"ratelimit"],
        12 => &[b"x-request-id"],
        16 => &[b"ratelimit-policy"],
        17 => &[b"x-ratelimit-limit", b"x-ratelimit-reset"],
        21 => &[b"x-ratelimit-remaining", b"x-tidegate-refused-by"],
        _ => &[],
    };
    ours.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Names the limits on a dry run that would have rejected.
pub(crate) fn write_dry_run<'a>(would_reject: impl Iterator<Item = &'a Limit>, lines: &mut HeaderLines) {
    for limit in would_reject {
        lines.add("x-tidegate-dry-run", limit.name());
    }
}
