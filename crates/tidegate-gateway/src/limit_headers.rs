//! The headers in which responses report a client's limits: `RateLimit`, `RateLimit-Policy`, `X-RateLimit-*`.
//!
//! What never changes of a limit is put together once, for a rejected request must stay cheap.

use std::time::Duration;

use http::StatusCode;
use tidegate_http::header_lines::HeaderLines;
use tidegate_policy::Algorithm;

use crate::config::LimitSettings;
use crate::limits::{Asked, Limit, whole_seconds};
use crate::plan::Plan;

/// How long a client is asked to wait for a slot: nobody knows when one becomes free.
pub(crate) const SLOT_PATIENCE: Duration = Duration::from_secs(1);

/// The texts of a limit that are the same in all responses.
pub(crate) struct LimitTexts {
    /// The headers of a rejection by it.
    pub(crate) rejected_by: Box<str>,
    /// `X-RateLimit-Limit`, and the next line up to what is left.
    pub(crate) quota: Box<str>,
    /// Its item in `RateLimit-Policy`: `"default";q=100;w=60`.
    pub(crate) policy: Box<str>,
    /// Its item in `RateLimit`, up to what is left: `"default";r=`.
    pub(crate) state: Box<str>,
    /// The body of a rejection, up to the sentence's end: when to come back.
    pub(crate) body_start: Box<str>,
    /// What goes between that sentence and `retry_after`.
    pub(crate) body_middle: Box<str>,
    /// The rest, up to the request's id.
    pub(crate) body_end: Box<str>,
}

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
pub(crate) const PROBLEM_LINE: &str = "content-type: application/problem+json\r\n";
pub(crate) const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

impl LimitTexts {
    /// Names and numbers are plain (they were checked), so nothing here needs escaping.
    pub(crate) fn new(settings: &LimitSettings) -> Self {
        let (numbers, name, status) = (&settings.numbers, settings.name.as_str(), settings.status);
        let (quota, algorithm) = (numbers.quota(), numbers.algorithm());
        let counts_slots = algorithm == Algorithm::Concurrency;
        let policy = if counts_slots {
            format!("\"{name}\";q={quota};qu=\"concurrent-requests\"")
        } else {
            format!("\"{name}\";q={quota};w={}", whole_seconds(numbers.quota_span()).max(1))
        };
        let kind = if status == StatusCode::SERVICE_UNAVAILABLE { REDUCED_CAPACITY } else { QUOTA_EXCEEDED };
        let title = status.canonical_reason().unwrap_or("Refused");
        let code = status.as_u16();
        let window = if counts_slots {
            String::new()
        } else {
            format!(",\"window_seconds\":{}", numbers.quota_span().as_secs_f64())
        };
        Self {
            rejected_by: format!("{PROBLEM_LINE}x-tidegate-refused-by: {name}\r\n").into(),
            quota: format!("x-ratelimit-limit: {quota}\r\nx-ratelimit-remaining: ").into(),
            policy: policy.into(),
            state: format!("\"{name}\";r=").into(),
            body_start: format!(
                "{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{code},\"detail\":\"limit `{name}` ({numbers}) refuses this request; "
            )
            .into(),
            body_middle: format!("\",\"error\":\"{title}\",\"retry_after\":").into(),
            body_end: format!(
                ",\"violated-policies\":[\"{name}\"],\"limit\":{{\"name\":\"{name}\",\"algorithm\":\"{algorithm}\",\"quota\":{quota}{window}}}\
                 ,\"request_id\":\""
            )
            .into(),
        }
    }
}

/// Writes how a client stands with its limits: those of its route, then those of the upstream. False if there is nothing to
/// report. `rejected`: the index of the limit that rejects, and when to come back.
pub(crate) fn write(
    plan: &Plan,
    asked: [&[Asked]; 2],
    rejected: Option<(usize, Option<u64>)>,
    now_unix: Duration,
    lines: &mut HeaderLines,
) -> bool {
    let standing = |(index, asked): (usize, &Asked)| Standing::of(&plan.limits[asked.limit], index, asked, rejected);
    let (one, several);
    // Most requests have one limit.
    let standings: &[Standing<'_>] = if let [[only], []] = asked {
        one = standing((0, only));
        one.as_slice()
    } else {
        several = asked.into_iter().flatten().enumerate().filter_map(standing).collect::<Vec<_>>();
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

/// How a client stands with one of its limits.
struct Standing<'a> {
    limit: &'a Limit,
    /// Its index among the asked.
    index: usize,
    left: u64,
    reset: Duration,
    /// The `t` of `RateLimit`: seconds until there is more. Nobody knows that of slots.
    next: Option<u64>,
}

impl<'a> Standing<'a> {
    fn of(limit: &'a Limit, index: usize, asked: &Asked, rejected: Option<(usize, Option<u64>)>) -> Option<Self> {
        let decision = asked.decision.as_ref().filter(|_| !limit.settings.dry_run)?;
        let mut left = limit.left(decision);
        if rejected.is_some() && decision.is_admitted() {
            // It was admitted here, rejected by another limit, and so not charged.
            left = left.saturating_add(limit.settings.cost.get().into()).min(limit.settings.numbers.quota());
        }
        let counts_slots = limit.settings.numbers.algorithm() == Algorithm::Concurrency;
        // Slots come back when requests end; the longest that may take says nothing.
        let reset = if counts_slots { SLOT_PATIENCE } else { decision.reset_after() };
        let next = match rejected {
            _ if counts_slots => None,
            Some((by, seconds)) if by == index => seconds,
            _ => Some(whole_seconds(reset)),
        };
        Some(Self { limit, index, left, reset, next })
    }
}

/// Whether a header of an upstream's response is one that [`write`] writes: ours counts.
pub(crate) fn is_ours(name: &[u8]) -> bool {
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
pub(crate) fn write_dry_run<'a>(would_refuse: impl Iterator<Item = &'a Limit>, lines: &mut HeaderLines) {
    for limit in would_refuse {
        lines.add("x-tidegate-dry-run", limit.name());
    }
}
