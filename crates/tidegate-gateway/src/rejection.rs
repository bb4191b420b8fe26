//! Rejections as HTTP responses: their statuses and bodies, which are RFC 9457 problem details.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tidegate_http::client::Trouble;
use tidegate_policy::Algorithm;
use tidegate_wait::NotEntered;

use crate::admission::{LimitCheck, Rejection};
use crate::barred::Barred;
use crate::body::Body;
use crate::limit::Limit;
use crate::limit_headers::{self, SLOT_RETRY_AFTER};
use crate::limit_texts::{PROBLEM_LINE, REDUCED_CAPACITY, REJECTED_BY, whole_seconds};
use crate::plan::Plan;
use crate::request_id::RequestId;
use crate::response::Response;
use crate::source::Source;

/// The content of a response that the gateway itself makes.
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

/// A response that the gateway itself makes.
pub(crate) fn problem(problem: &Problem<'_>) -> Response {
    let mut json = String::with_capacity(256);
    begin(&mut json, problem.kind, problem.status);
    text(&mut json, "detail", problem.detail);
    text(&mut json, "error", problem.reason);
    text(&mut json, "request_id", problem.request_id);
    end(&mut json);
    problem_response(problem.status, json)
}

/// Rejects a request that is not valid or not permitted.
pub(crate) fn rejected(status: StatusCode, reason: &str, detail: &str, request_id: &str) -> Response {
    problem(&Problem { status, kind: "about:blank", reason, detail, request_id })
}

/// Responds to a request that must not be sent on any further (RFC 9110 §7.6.2). The response to TRACE does not repeat
/// the request: a page that must not see its headers may have sent it.
pub(crate) fn no_forwards_left(method: &Method, request_id: &str) -> Response {
    let mut response = if *method == Method::OPTIONS {
        Response::new(StatusCode::OK, Body::empty())
    } else {
        rejected(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "TRACE is not supported", request_id)
    };
    response.lines.add("allow", "OPTIONS");
    response
}

/// Reports that the upstream has not responded as it should.
pub(crate) fn upstream_trouble(trouble: &Trouble, upstream: &str, request_id: &str) -> Response {
    let status = trouble.status();
    let kind = if status == StatusCode::SERVICE_UNAVAILABLE { REDUCED_CAPACITY } else { "about:blank" };
    let detail = if trouble.is_clients() { trouble.to_string() } else { format!("{trouble} (upstream `{upstream}`)") };
    let mut response = problem(&Problem { status, kind, reason: trouble.word(), detail: &detail, request_id });
    if trouble.is_rejection() {
        response.lines.add(REJECTED_BY, Source::Gateway.word());
        response.lines.add("retry-after", "1");
    }
    response
}

/// Rejects a request that its limits do not admit.
pub(crate) fn by_limits(plan: &Plan, rejection: &Rejection, now_unix: Duration, id: &RequestId) -> Response {
    match rejection {
        Rejection::TooMany => {
            let detail = "ambiguous path: the routes of its readings have more limits than can be checked together";
            rejected(StatusCode::BAD_REQUEST, "ambiguous_path", detail, id.as_str())
        }
        Rejection::Limit { checks, by, retry_after } => {
            by_limit(plan, checks, *by, *retry_after, now_unix, id.as_bytes())
        }
        Rejection::NoKey { limit, missing } => no_key(&plan.limits[*limit], missing, id.as_str()),
        Rejection::StoreAway { checks, by, retry_after } => {
            store_away(&plan.limits[checks[*by].limit], *retry_after, id.as_str())
        }
    }
}

/// Responds to a request that its policies do not let through to the upstream.
pub(crate) fn barred(plan: &Plan, barred: &Barred, upstream: &str, now_unix: Duration, id: &RequestId) -> Response {
    let (reason, detail, after) = match barred {
        Barred::Limits(rejection) => return by_limits(plan, rejection, now_unix, id),
        Barred::TimedOut => {
            let detail =
                format!("the policy's `timeout` leaves no time to send the request on (upstream `{upstream}`)");
            let mut response = rejected(StatusCode::GATEWAY_TIMEOUT, "timeout", &detail, id.as_str());
            response.lines.add(REJECTED_BY, barred.source().word());
            return response;
        }
        Barred::Breaker(rejected) => ("breaker_open", rejected.to_string(), rejected.retry_after),
        Barred::Bulkhead(NotEntered::Full) => ("bulkhead_full", NotEntered::Full.to_string(), None),
        Barred::Bulkhead(NotEntered::Timeout) => ("bulkhead_timeout", NotEntered::Timeout.to_string(), None),
    };
    let (status, detail) = (StatusCode::SERVICE_UNAVAILABLE, format!("{detail} (upstream `{upstream}`)"));
    let (request_id, by) = (id.as_str(), barred.source().word());
    let mut response = problem(&Problem { status, kind: REDUCED_CAPACITY, reason, detail: &detail, request_id });
    response.lines.add(REJECTED_BY, by);
    // Nobody knows when a slot becomes free, or when probes end.
    response.lines.add_number("retry-after", after.map_or(1, |after| whole_seconds(after).max(1)));
    response
}

/// Rejects a request by a limit.
fn by_limit(
    plan: &Plan,
    checks: &[LimitCheck],
    by: usize,
    retry_after: Option<Duration>,
    now_unix: Duration,
    request_id: &[u8],
) -> Response {
    let limit = &plan.limits[checks[by].limit];
    let (texts, status) = (&limit.texts, limit.settings.status);
    let counts_slots = limit.settings.numbers.algorithm() == Algorithm::Concurrency;
    let retry_after = if counts_slots { Some(SLOT_RETRY_AFTER) } else { retry_after };
    let seconds = retry_after.map(|after| whole_seconds(after).max(1));
    let mut digits = itoa::Buffer::new();
    let (sentence, number) = match seconds.map(|seconds| digits.format(seconds)) {
        Some(number) => (["retry in ", number, " s"], number),
        None => (["it costs more than the limit can ever admit", "", ""], "null"),
    };
    let [sentence, when, unit] = sentence;
    // Built in one allocation of the exact size.
    let json =
        [&texts.body_start, sentence, when, unit, &texts.body_middle, number, &texts.body_end].map(str::as_bytes);
    let [start, sentence, when, unit, middle, number, end] = json;
    let json = [start, sentence, when, unit, middle, number, end, request_id, b"\"}\n"].concat();
    let mut response = Response::new(status, Body::whole(Bytes::from(json)));
    response.lines.push(&texts.rejected_by);
    if let Some(seconds) = seconds {
        response.lines.add_number("retry-after", seconds);
    }
    limit_headers::write(plan, [checks, &[]], Some((by, seconds)), now_unix, &mut response.lines);
    response
}

/// Rejects a request because Redis is away and the failure mode is `closed`.
fn store_away(limit: &Limit, retry_after: Duration, request_id: &str) -> Response {
    let detail = format!("limit `{}`: limit store unavailable; rejecting requests until it recovers", limit.name());
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let reason = "limiter_unavailable";
    let mut response = problem(&Problem { status, kind: REDUCED_CAPACITY, reason, detail: &detail, request_id });
    response.lines.add(REJECTED_BY, limit.name());
    response.lines.add_number("retry-after", whole_seconds(retry_after).max(1));
    response
}

/// Rejects a request that lacks what a limit's key needs.
fn no_key(limit: &Limit, missing: &str, request_id: &str) -> Response {
    let detail = format!("limit `{}` needs {missing}, which this request lacks", limit.name());
    rejected(StatusCode::BAD_REQUEST, "key_missing", &detail, request_id)
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

fn problem_response(status: StatusCode, json: String) -> Response {
    let mut response = Response::new(status, Body::whole(Bytes::from(json)));
    response.lines.push(PROBLEM_LINE);
    response
}
