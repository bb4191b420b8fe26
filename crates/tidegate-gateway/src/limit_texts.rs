//! The parts of responses about a limit that never change, built once because a rejection must be cheap.

use std::time::Duration;

use http::StatusCode;
use tidegate_policy::Algorithm;

use crate::settings::LimitSettings;

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
    /// The body of a rejection, up to the end of the sentence, which says when to come back.
    pub(crate) body_start: Box<str>,
    /// What goes between that sentence and `retry_after`.
    pub(crate) body_middle: Box<str>,
    /// The rest, up to the request's id.
    pub(crate) body_end: Box<str>,
}

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// The header that names what rejects a request: a limit, `breaker` or `bulkhead`.
pub(crate) const REJECTED_BY: &str = "x-tidegate-refused-by";
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
        let title = status.canonical_reason().unwrap_or("Rejected");
        let code = status.as_u16();
        let window = if counts_slots {
            String::new()
        } else {
            format!(",\"window_seconds\":{}", numbers.quota_span().as_secs_f64())
        };
        Self {
            rejected_by: format!("{PROBLEM_LINE}{REJECTED_BY}: {name}\r\n").into(),
            quota: format!("x-ratelimit-limit: {quota}\r\nx-ratelimit-remaining: ").into(),
            policy: policy.into(),
            state: format!("\"{name}\";r=").into(),
            body_start: format!(
                "{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{code},\
                 \"detail\":\"limit `{name}` ({numbers}) rejects this request; "
            )
            .into(),
            body_middle: format!("\",\"error\":\"{title}\",\"retry_after\":").into(),
            body_end: format!(
                ",\"violated-policies\":[\"{name}\"],\
                 \"limit\":{{\"name\":\"{name}\",\"algorithm\":\"{algorithm}\",\"quota\":{quota}{window}}},\
                 \"request_id\":\""
            )
            .into(),
        }
    }
}

/// Rounded up, so that a client does not come back too early.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}
