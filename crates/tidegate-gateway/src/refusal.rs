//! Refusals as HTTP: the only place that knows their statuses, headers and bodies. RFC 9457 problem details; both families of headers.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tidegate_policy::Algorithm;

use crate::body::Body;
use crate::limits::{Asked, Limit, whole_seconds};
use crate::plan::Plan;
use crate::told::REDUCED_CAPACITY;
use crate::upstream::Trouble;

static LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
static IETF: HeaderName = HeaderName::from_static("ratelimit");
static IETF_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static REFUSED_BY: HeaderName = HeaderName::from_static("x-tidegate-refused-by");
static DRY_RUN: HeaderName = HeaderName::from_static("x-tidegate-dry-run");

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
pub(crate) fn problem(problem: &Problem<'_>) -> Response<Body> {
    let mut json = String::with_capacity(256);
    begin(&mut json, problem.kind, problem.status);
    text(&mut json, "detail", problem.detail);
    text(&mut json, "error", problem.reason);
    text(&mut json, "request_id", problem.request_id);
    end(&mut json);
    answer(problem.status, json)
}

/// A request that can't be understood or is not allowed.
pub(crate) fn rejected(status: StatusCode, reason: &str, detail: &str, request_id: &str) -> Response<Body> {
    problem(&Problem { status, kind: "about:blank", reason, detail, request_id })
}

/// An upstream that did not answer as it should.
pub(crate) fn upstream_trouble(trouble: &Trouble, upstream: &str, request_id: &str) -> Response<Body> {
    let status = trouble.status();
    let kind = if status == StatusCode::SERVICE_UNAVAILABLE { REDUCED_CAPACITY } else { "about:blank" };
    let detail = if trouble.is_clients() { trouble.to_string() } else { format!("{trouble} (upstream `{upstream}`)") };
    let mut response = problem(&Problem { status, kind, reason: trouble.word(), detail: &detail, request_id });
    if matches!(trouble, Trouble::Full) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A limit refused.
pub(crate) fn limited(
    plan: &Plan,
    asked: &[Asked],
    by: usize,
    retry_after: Option<Duration>,
    now_unix: Duration,
    request_id: &str,
) -> Response<Body> {
    let limit = &plan.limits[asked[by].limit];
    let (told, status) = (&limit.told, limit.settings.status);
    let is_place = limit.settings.numbers.algorithm() == Algorithm::Concurrency;
    let retry_after = if is_place { Some(PLACE_PATIENCE) } else { retry_after };
    let seconds = retry_after.map(|after| whole_seconds(after).max(1));
    let (mut digits, mut json) = (itoa::Buffer::new(), String::with_capacity(512));
    json.push_str(&told.body_start);
    if let Some(seconds) = seconds {
        let seconds = digits.format(seconds);
        for piece in ["retry in ", seconds, " s", &told.body_middle, seconds] {
            json.push_str(piece);
        }
    } else {
        for piece in ["it costs more than the limit ever holds", &told.body_middle, "null"] {
            json.push_str(piece);
        }
    }
    json.push_str(&told.body_end);
    json.push_str(request_id);
    json.push_str("\"}\n");
    let mut response = answer(status, json);
    let headers = response.headers_mut();
    if let Some(seconds) = seconds {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    headers.insert(REFUSED_BY.clone(), told.name.clone());
    tell(plan, asked, Some(by), now_unix, headers);
    response
}

/// A limit whose state can't be asked, and which then refuses.
pub(crate) fn store_away(limit: &Limit, retry_after: Duration, request_id: &str) -> Response<Body> {
    let detail = format!("limit `{}` can't be asked, and requests are refused meanwhile", limit.name());
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let reason = "limiter_unavailable";
    let mut response = problem(&Problem { status, kind: REDUCED_CAPACITY, reason, detail: &detail, request_id });
    let seconds = whole_seconds(retry_after).max(1);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// A request that lacks what a limit's key needs.
pub(crate) fn keyless(limit: &Limit, lacks: &str, request_id: &str) -> Response<Body> {
    let detail = format!("limit `{}` counts by {lacks}, which this request lacks", limit.name());
    rejected(StatusCode::BAD_REQUEST, "key_missing", &detail, request_id)
}

/// Says in an answer's headers how a client stands with its limits.
pub(crate) fn tell(
    plan: &Plan,
    asked: &[Asked],
    refused_by: Option<usize>,
    now_unix: Duration,
    headers: &mut HeaderMap,
) {
    let mut ietf = BytesMut::with_capacity(48 * asked.len());
    let mut policies: Option<HeaderValue> = None;
    let mut tightest: Option<(&Limit, u64, Duration)> = None;
    for (place, asked) in asked.iter().enumerate() {
        let (limit, Some(decision)) = (&plan.limits[asked.limit], &asked.decision) else { continue };
        if limit.settings.dry_run {
            continue;
        }
        let (left, reset) = (limit.left(decision), decision.reset_after());
        let mut digits = itoa::Buffer::new();
        if !ietf.is_empty() {
            ietf.extend_from_slice(b", ");
        }
        ietf.extend_from_slice(limit.told.state.as_bytes());
        ietf.extend_from_slice(digits.format(left).as_bytes());
        ietf.extend_from_slice(b";t=");
        ietf.extend_from_slice(digits.format(whole_seconds(reset)).as_bytes());
        policies = Some(match policies {
            None => limit.told.policy.clone(),
            Some(before) => joined(&before, &limit.told.policy),
        });
        let is_tighter = tightest.is_none_or(|(_, least, _)| left < least);
        if refused_by.map_or(is_tighter, |by| by == place) {
            tightest = Some((limit, left, reset));
        }
    }
    if let Some((limit, left, reset)) = tightest {
        headers.insert(LIMIT.clone(), limit.told.quota.clone());
        headers.insert(REMAINING.clone(), HeaderValue::from(left));
        headers.insert(RESET.clone(), HeaderValue::from(whole_seconds(now_unix + reset)));
        if let Ok(ietf) = HeaderValue::from_maybe_shared(ietf.freeze()) {
            headers.insert(IETF.clone(), ietf);
        }
        headers.extend(policies.map(|policies| (IETF_POLICY.clone(), policies)));
    }
}

/// Names the limits that would have refused.
pub(crate) fn tell_dry_run(plan: &Plan, would_refuse: &[usize], headers: &mut HeaderMap) {
    for limit in would_refuse {
        headers.append(DRY_RUN.clone(), plan.limits[*limit].told.name.clone());
    }
}

fn joined(one: &HeaderValue, other: &HeaderValue) -> HeaderValue {
    let bytes = [one.as_bytes(), b", ", other.as_bytes()].concat();
    HeaderValue::from_bytes(&bytes).unwrap_or_else(|_| one.clone())
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

fn answer(status: StatusCode, json: String) -> Response<Body> {
    let mut response = Response::new(Body::whole(Bytes::from(json)));
    // Room for all that a refusal says: growing a map means hashing it all again.
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}
