//! Rejections as HTTP responses: their statuses and bodies, which are RFC 9457 problem details.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tidegate_http::client::Trouble;
use tidegate_policy::Algorithm;

use crate::admission::{Asked, Denied};
use crate::body::Body;
use crate::limit::Limit;
use crate::limit_headers::{self, SLOT_PATIENCE};
use crate::limit_texts::{PROBLEM_LINE, REDUCED_CAPACITY, whole_seconds};
use crate::plan::Plan;
use crate::request_id::RequestId;
use crate::response::Reply;

/// What a response of the gateway's own says.
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

/// A response of the gateway's own.
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

/// A request that may not be sent on any further (RFC 9110 §7.6.2). TRACE does not get its own content back: a page that
/// must not know it may have sent it.
pub(crate) fn no_forwards_left(method: &Method, request_id: &str) -> Reply {
    let mut reply = if *method == Method::OPTIONS {
        Reply::new(StatusCode::OK, Body::empty())
    } else {
        rejected(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "TRACE is not answered here", request_id)
    };
    reply.lines.add("allow", "OPTIONS");
    reply
}

/// An upstream that did not respond as it should.
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

/// A request that its limits do not admit.
pub(crate) fn denied(plan: &Plan, denied: &Denied, now_unix: Duration, id: &RequestId) -> Reply {
    match denied {
        Denied::TooMany => {
            let detail = "this path can be read in several ways, with more limits than can be asked together";
            rejected(StatusCode::BAD_REQUEST, "ambiguous_path", detail, id.as_str())
        }
        Denied::Limit { asked, by, retry_after } => limited(plan, asked, *by, *retry_after, now_unix, id.as_bytes()),
        Denied::NoKey { limit, lacks } => keyless(&plan.limits[*limit], lacks, id.as_str()),
        Denied::StoreAway { asked, by, retry_after } => {
            store_away(&plan.limits[asked[*by].limit], *retry_after, id.as_str())
        }
    }
}

/// A limit rejects the request.
fn limited(
    plan: &Plan,
    asked: &[Asked],
    by: usize,
    retry_after: Option<Duration>,
    now_unix: Duration,
    request_id: &[u8],
) -> Reply {
    let limit = &plan.limits[asked[by].limit];
    let (texts, status) = (&limit.texts, limit.settings.status);
    let counts_slots = limit.settings.numbers.algorithm() == Algorithm::Concurrency;
    let retry_after = if counts_slots { Some(SLOT_PATIENCE) } else { retry_after };
    let seconds = retry_after.map(|after| whole_seconds(after).max(1));
    let mut digits = itoa::Buffer::new();
    let (sentence, number) = match seconds.map(|seconds| digits.format(seconds)) {
        Some(number) => (["retry in ", number, " s"], number),
        None => (["it costs more than the limit ever holds", "", ""], "null"),
    };
    let [sentence, when, unit] = sentence;
    // Put together at once, in its exact size.
    let json =
        [&texts.body_start, sentence, when, unit, &texts.body_middle, number, &texts.body_end].map(str::as_bytes);
    let [start, sentence, when, unit, middle, number, end] = json;
    let json = [start, sentence, when, unit, middle, number, end, request_id, b"\"}\n"].concat();
    let mut reply = Reply::new(status, Body::whole(Bytes::from(json)));
    reply.lines.push(&texts.rejected_by);
    if let Some(seconds) = seconds {
        reply.lines.add_number("retry-after", seconds);
    }
    limit_headers::write(plan, [asked, &[]], Some((by, seconds)), now_unix, &mut reply.lines);
    reply
}

/// A limit whose store is away, and whose mode is to reject then.
fn store_away(limit: &Limit, retry_after: Duration, request_id: &str) -> Reply {
    let detail = format!("limit `{}`: limit store unavailable; rejecting requests until it recovers", limit.name());
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let reason = "limiter_unavailable";
    let mut reply = problem(&Problem { status, kind: REDUCED_CAPACITY, reason, detail: &detail, request_id });
    reply.lines.add_number("retry-after", whole_seconds(retry_after).max(1));
    reply
}

/// A request that lacks what a limit's key needs.
fn keyless(limit: &Limit, lacks: &str, request_id: &str) -> Reply {
    let detail = format!("limit `{}` counts by {lacks}, which this request lacks", limit.name());
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

fn answer(status: StatusCode, json: String) -> Reply {
    let mut reply = Reply::new(status, Body::whole(Bytes::from(json)));
    reply.lines.push(PROBLEM_LINE);
    reply
}
