//! What is sent, and where to.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;
use tidegate_input::HttpUrl;

use tidegate_input::object::{Allowed, Object, shown};

/// What is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, unless the plan says otherwise.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Besides those of the client.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Nothing for most.
    pub body: Vec<u8>,
    /// From sending to the response's last byte.
    pub timeout: Duration,
    /// Over HTTP/2, many on one connection.
    pub is_http2: bool,
    /// Whatever certificate the other side shows.
    pub is_insecure: bool,
}

impl Request {
    /// With the path and query of the target before its own query.
    pub(super) fn to(mut self, path: &str) -> Self {
        let joint = if self.path.is_empty() {
            ""
        } else if path.contains('?') {
            "&"
        } else {
            "?"
        };
        self.path = format!("{path}{joint}{}", self.path);
        self
    }
}

/// The target.
pub(super) fn target(plan: &mut Object<'_>) -> Option<HttpUrl> {
    if !plan.has("limiterUrl") {
        plan.wrong("limiterUrl", "is missing; must be http://host:port/path or https://…");
    }
    let url = plan.text("limiterUrl")?;
    if url.len() > LONGEST_URL {
        plan.wrong("limiterUrl", format!("must be at most {LONGEST_URL} characters long, got {}", url.len()));
        return None;
    }
    match HttpUrl::read(&url) {
        Ok(target) => Some(target),
        Err(reason) => {
            // A user comes with a password.
            let (url, hint) = if url.contains('@') {
                (String::new(), "; `requestOptions.auth` is for that")
            } else {
                (format!("{url:?} "), "")
            };
            plan.wrong("limiterUrl", format!("{url}{reason}{hint}; must be http://host:port/path or https://…"));
            None
        }
    }
}

/// A request line that servers could read; and twice that is what a URI may be.
const LONGEST_QUERY: usize = 30_000;
/// The same for the URL of the target.
const LONGEST_URL: usize = 30_000;

const TIMEOUT: Allowed = Allowed::new(0.001..=3_600.0, "seconds");

/// What is sent; its path is only the query that goes behind the target's.
pub(super) fn read(plan: &mut Object<'_>) -> Option<Request> {
    let usual = Request {
        method: Method::GET,
        path: String::new(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: Duration::from_secs(10),
        is_http2: false,
        is_insecure: false,
    };
    let Some(mut options) = plan.object("requestOptions") else { return Some(usual) };
    let method = match options.text("method").map(|method| Method::from_bytes(method.to_ascii_uppercase().as_bytes())) {
        None => Some(Method::GET),
        Some(Ok(method)) if method != Method::CONNECT => Some(method),
        Some(_) => {
            options.wrong("method", "must be an HTTP method other than CONNECT");
            None
        }
    };
    let mut headers = Vec::new();
    for (name, value) in options.texts("headers") {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            (Ok(name), _) if is_ours(&name) => {
                options.wrong("headers", format!("must not have {name:?}: it is set automatically"));
            }
            (Ok(name), Ok(value)) => headers.push((name, value)),
            _ => {
                options.wrong("headers", format!("{name:?} must be a valid header name with a valid value"));
            }
        }
    }
    let body = match options.take("body") {
        None => Vec::new(),
        Some(Value::String(text)) => text.into_bytes(),
        Some(json) => {
            if !headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
                headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
            }
            json.to_string().into_bytes()
        }
    };
    let query: Vec<String> =
        options.texts("query").iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let query = query.join("&");
    if query.len() > LONGEST_QUERY {
        options.wrong(
            "query",
            format!("must be at most {LONGEST_QUERY} characters long when encoded, got {}", query.len()),
        );
    }
    if options.has("auth") && headers.iter().any(|(name, _)| *name == AUTHORIZATION) {
        options.wrong("auth", "must not be set beside `authorization` in `headers`");
    }
    if let Some(value) = options.object("auth").and_then(authorization) {
        headers.push((AUTHORIZATION, value));
    }
    let timeout = options.number_or("timeout", &TIMEOUT, usual.timeout.as_secs_f64());
    let is_http2 = is_http2(&mut options);
    let is_insecure = options.flag("insecure");
    options.end();
    let timeout = Duration::from_secs_f64(timeout?);
    let (is_http2, is_insecure) = (is_http2?, is_insecure?);
    Some(Request { method: method?, path: query, headers, body, timeout, is_http2, is_insecure })
}

/// None is a problem that has been reported.
fn is_http2(options: &mut Object<'_>) -> Option<bool> {
    let Some(value) = options.take("protocol") else { return Some(false) };
    // Also as a number, which is how one would write it.
    match value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str() {
        "1.1" => Some(false),
        "2" | "2.0" => Some(true),
        _ => {
            options.wrong("protocol", format!("must be \"1.1\" or \"2\", got {}", shown(&value)));
            None
        }
    }
}

/// What frames a request and steers its connection: it is set by us alone, lest a request could be read in two ways.
pub(super) fn is_ours(name: &HeaderName) -> bool {
    let ours = [
        "content-length",
        "transfer-encoding",
        "connection",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "upgrade",
    ];
    ours.contains(&name.as_str())
}

fn authorization(mut auth: Object<'_>) -> Option<HeaderValue> {
    match [auth.has("token"), auth.has("user"), auth.has("password")] {
        [true, false, false] | [false, true, true] => {}
        [true, _, _] => auth.wrong("token", "must not be set beside `user` or `password`"),
        [false, true, false] => auth.wrong("password", "is missing; must be text, may be \"\""),
        [false, false, true] => auth.wrong("user", "is missing; must be text"),
        [false, false, false] => auth.wrong("token", "is missing; must be set, or else `user` and `password`"),
    }
    let (token, user, password) = (auth.text("token"), auth.text("user"), auth.text("password"));
    let value = match (token, user, password) {
        (Some(token), _, _) => Some(format!("Bearer {token}")),
        (None, Some(user), Some(password)) => Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))),
        _ => None,
    };
    let value = value.and_then(|value| {
        let reported = |_| auth.wrong("token", "has a character that no header can have");
        HeaderValue::from_str(&value).map_err(reported).ok()
    });
    auth.end();
    let mut value = value?;
    value.set_sensitive(true);
    Some(value)
}

/// A word of a query, percent-encoded.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
