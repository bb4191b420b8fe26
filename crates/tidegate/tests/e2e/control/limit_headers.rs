//! The headers of a response that are about limits, in both families.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::control::structured_fields::{Item, list};
use tidegate_testkit::Response;

/// What the headers of a response say about limits.
pub(crate) struct LimitHeaders {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// Seconds from now.
    pub(crate) reset_in: u64,
    /// `RateLimit`.
    pub(crate) states: Vec<Item>,
    /// `RateLimit-Policy`.
    pub(crate) policies: Vec<Item>,
}

pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}

/// A header that is there once.
fn only<'a>(response: &'a Response, name: &str) -> &'a str {
    let values: Vec<&str> =
        response.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect();
    assert_eq!(values.len(), 1, "{name} in {:?}", response.headers);
    values[0]
}

/// A header with a whole number, without a sign.
pub(crate) fn number(response: &Response, name: &str) -> u64 {
    let text = only(response, name);
    assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "{name}: {text}");
    text.parse().expect("a number")
}

/// Reads all of them, and checks what is true of every response (draft-ietf-httpapi-ratelimit-headers).
pub(crate) fn limit_headers(response: &Response) -> LimitHeaders {
    let read = |name: &str| list(only(response, name)).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    let (states, policies) = (read("ratelimit"), read("ratelimit-policy"));
    let names = |items: &[Item]| items.iter().map(|item| item.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&states), names(&policies), "both name the same limits");
    for (state, policy) in states.iter().zip(&policies) {
        let (quota, left) = (policy.integer("q").expect("q is required"), state.integer("r").expect("r is required"));
        assert!(0 <= left && left <= quota, "{left} of {quota} are left");
        assert!(policy.integer("w").is_none_or(|window| window > 0), "w is positive");
        assert!(state.integer("t").is_none_or(|seconds| seconds >= 0), "t is not negative");
        assert!(
            ["requests", "content-bytes", "concurrent-requests"].contains(&policy.text("qu").unwrap_or("requests")),
            "qu has one of its words"
        );
    }
    let reset = number(response, "x-ratelimit-reset");
    let now = unix_now();
    // It is rounded up, and a little time has passed since.
    assert!(reset + 5 >= now, "X-RateLimit-Reset is a time that has passed: {reset}, now {now}");
    LimitHeaders {
        limit: number(response, "x-ratelimit-limit"),
        remaining: number(response, "x-ratelimit-remaining"),
        reset_in: reset.saturating_sub(now),
        states,
        policies,
    }
}

/// What is left of a limit by `RateLimit`.
pub(crate) fn left(response: &Response, limit: &str) -> i64 {
    let headers = limit_headers(response);
    let state = headers.states.iter().find(|state| state.name == limit);
    state.and_then(|state| state.integer("r")).unwrap_or_else(|| panic!("nothing of {limit} in {:?}", response.headers))
}
