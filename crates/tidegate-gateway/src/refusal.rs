//! Refusals as HTTP: the only place that knows their statuses, headers and bodies. RFC 9457 problem details; both families of headers.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tidegate_http::client::Trouble;
use tidegate_http::header_lines::HeaderLines;
use tidegate_policy::Algorithm;

use crate::body::Body;
use crate::limits::{Asked, Limit, whole_seconds};
use crate::plan::Plan;
use crate::reply::Reply;
use crate::told::{PROBLEM_LINE, REDUCED_CAPACITY};

/// How long a client is told to wait for a place in flight: nobody knows when one comes free.
const PLACE_PATIENCE: Duration = Duration::from_secs(1);

/// What an answer says that is no upstream's.
pub(crate) struct Problem<'a> {
    pub(crate) status: StatusCode,
    /// The problem's type, where there is a registered one.
    pub(crate) kind: &'static str,
    /// A word for programs.
    pub(crate) reason: &'a str,
    /// A sentence for people.
    pub(crate) detail: &'a str,
    pub(crate) request_id: &'a str,
}

/// An answer of the gateway's own.
pub(crate) fn problem(problem: &Problem<'_>) -> Reply {
    let mut json = String::with_capacity(256);
    begin(&mut json, problem.kind, problem.status);
    text(&mut json, "detail", problem.detail);
    text(&mut json, "error", problem.reason);
    text(&mut json, "request_id", problem.request_id);
    end(&mut json);
    answer(problem.status, json)
}

/// A request that can't be understood or is not allowed.
pub(crate) fn rejected(status: StatusCode, reason: &str, detail: &str, request_id: &str) -> Reply {
    problem(&Problem { status, kind: "about:blank", reason, detail, request_id })
}

/// A request that may not be sent on any further (RFC 9110 §7.6.2). What it holds is not shown to whoever asked (TRACE): that may be a page
/// which must not know it.
pub(crate) fn end_of_the_way(method: &Method, request_id: &str) -> Reply {
    let mut reply = if *method == Method::OPTIONS {
        Reply::new(StatusCode::OK, Body::empty())
    } else {
        rejected(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "TRACE is not answered here", request_id)
    };
    reply.lines.add("allow", "OPTIONS");
    reply
}

/// An upstream that did not answer as it should.
pub(crate) fn upstream_trouble(trouble: &Trouble, upstream: &str, request_id: &str) -> Reply {
    let status = trouble.status();
    let kind = if status == StatusCode::SERVICE_UNAVAILABLE { REDUCED_CAPACITY } else { "about:blank" };
    let detail = if trouble.is_clients() { trouble.to_string() } else { format!("{trouble} (upstream `{upstream}`)") };
    let mut reply = problem(&Problem { status, kind, reason: trouble.word(), detail: &detail, request_id });
    if trouble.is_ours() {
        reply.lines.add("retry-after", "1");
    }
    reply
}

/// A limit refused.
pub(crate) fn limited(
    plan: &Plan,
    asked: &[Asked],
    by: usize,
    retry_after: Option<Duration>,
    now_unix: Duration,
    request_id: &[u8],
) -> Reply {
    let limit = &plan.limits[asked[by].limit];
    let (told, status) = (&limit.told, limit.settings.status);
    let is_place = limit.settings.numbers.algorithm() == Algorithm::Concurrency;
    let retry_after = if is_place { Some(PLACE_PATIENCE) } else { retry_after };
    let seconds = retry_after.map(|after| whole_seconds(after).max(1));
    let mut digits = itoa::Buffer::new();
    let (sentence, number) = match seconds.map(|seconds| digits.format(seconds)) {
        Some(number) => (["retry in ", number, " s"], number),
        None => (["it costs more than the limit ever holds", "", ""], "null"),
    };
    let [sentence, when, unit] = sentence;
    // Put together at once, in its exact size.
    let json = [&told.body_start, sentence, when, unit, &told.body_middle, number, &told.body_end].map(str::as_bytes);
    let [start, sentence, when, unit, middle, number, end] = json;
    let json = [start, sentence, when, unit, middle, number, end, request_id, b"\"}\n"].concat();
    let mut reply = Reply::new(status, Body::whole(Bytes::from(json)));
    reply.lines.push(&told.refused);
    if let Some(seconds) = seconds {
        reply.lines.add_number("retry-after", seconds);
    }
    tell(plan, asked, Some((by, seconds)), now_unix, &mut reply.lines);
    reply
}

/// A limit whose state can't be asked, and which then refuses.
pub(crate) fn store_away(limit: &Limit, retry_after: Duration, request_id: &str) -> Reply {
    let detail = format!("limit `{}` can't be asked, and requests are refused meanwhile", limit.name());
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let reason = "limiter_unavailable";
    let mut reply = problem(&Problem { status, kind: REDUCED_CAPACITY, reason, detail: &detail, request_id });
    reply.lines.add_number("retry-after", whole_seconds(retry_after).max(1));
    reply
}

/// A request that lacks what a limit's key needs.
pub(crate) fn keyless(limit: &Limit, lacks: &str, request_id: &str) -> Reply {
    let detail = format!("limit `{}` counts by {lacks}, which this request lacks", limit.name());
    rejected(StatusCode::BAD_REQUEST, "key_missing", &detail, request_id)
}

/// Says in an answer's headers how a client stands with its limits, and whether there was anything to say. `refused`: which of them refused,
/// and when to come back.
pub(crate) fn tell(
    plan: &Plan,
    asked: &[Asked],
    refused: Option<(usize, Option<u64>)>,
    now_unix: Duration,
    lines: &mut HeaderLines,
) -> bool {
    let standing = |(place, asked): (usize, &Asked)| Standing::of(&plan.limits[asked.limit], place, asked, refused);
    let (one, several);
    // Most requests have one limit.
    let standings: &[Standing<'_>] = if asked.len() == 1 {
        one = asked.iter().enumerate().find_map(standing);
        one.as_slice()
    } else {
        several = asked.iter().enumerate().filter_map(standing).collect::<Vec<_>>();
        &several
    };
    let refusing = standings.iter().find(|standing| refused.is_some_and(|(by, _)| by == standing.place));
    let Some(tightest) = refusing.or_else(|| standings.iter().min_by_key(|standing| standing.left)) else {
        return false;
    };
    lines.push(&tightest.limit.told.quota);
    lines.push_number(tightest.left);
    lines.push("\r\nx-ratelimit-reset: ");
    lines.push_number(whole_seconds(now_unix + tightest.reset));
    lines.push("\r\nratelimit: ");
    for (count, standing) in standings.iter().enumerate() {
        lines.push(if count == 0 { "" } else { ", " });
        lines.push(&standing.limit.told.state);
        lines.push_number(standing.left);
        if let Some(seconds) = standing.next {
            lines.push(";t=");
            lines.push_number(seconds);
        }
    }
    lines.push("\r\nratelimit-policy: ");
    for (count, standing) in standings.iter().enumerate() {
        lines.push(if count == 0 { "" } else { ", " });
        lines.push(&standing.limit.told.policy);
    }
    lines.push("\r\n");
    true
}

/// How a client stands with one of its limits.
struct Standing<'a> {
    limit: &'a Limit,
    /// Its place among the asked.
    place: usize,
    left: u64,
    reset: Duration,
    /// The `t` of `RateLimit`: seconds until there is more. Nobody knows for places in flight.
    next: Option<u64>,
}

impl<'a> Standing<'a> {
    fn of(limit: &'a Limit, place: usize, asked: &Asked, refused: Option<(usize, Option<u64>)>) -> Option<Self> {
        let decision = asked.decision.as_ref().filter(|_| !limit.settings.dry_run)?;
        let mut left = limit.left(decision);
        if refused.is_some() && decision.is_admitted() {
            // It was admitted here, refused elsewhere, and so not charged.
            left = left.saturating_add(limit.settings.cost.get().into()).min(limit.settings.numbers.quota());
        }
        let is_place = limit.settings.numbers.algorithm() == Algorithm::Concurrency;
        // Places come back when requests end; the longest they may take says nothing.
        let reset = if is_place { PLACE_PATIENCE } else { decision.reset_after() };
        let next = match refused {
            _ if is_place => None,
            Some((by, seconds)) if by == place => seconds,
            _ => Some(whole_seconds(reset)),
        };
        Some(Self { limit, place, left, reset, next })
    }
}

/// Whether a field of an upstream's answer is one that [`tell`] writes: ours counts.
pub(crate) fn is_told(name: &[u8]) -> bool {
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

/// Names the limits that would have refused.
pub(crate) fn tell_dry_run(plan: &Plan, would_refuse: &[usize], lines: &mut HeaderLines) {
    for limit in would_refuse {
        lines.add("x-tidegate-dry-run", plan.limits[*limit].name());
    }
}

fn begin(json: &mut String, kind: &str, status: StatusCode) {
    let title = status.canonical_reason().unwrap_or("Error");
    let _written = write!(json, "{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{}", status.as_u16());
}

fn text(json: &mut String, field: &str, value: &str) {
    let _written = write!(json, ",\"{field}\":{}", serde_json::Value::from(value));
}

fn end(json: &mut String) {
    json.push_str("}\n");
}

fn answer(status: StatusCode, json: String) -> Reply {
    let mut reply = Reply::new(status, Body::whole(Bytes::from(json)));
    reply.lines.push(PROBLEM_LINE);
    reply
}
