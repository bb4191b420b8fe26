//! What is sent, and where to.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Uri};
use serde_json::Value;

use super::object::{Allowed, Object};

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Over TLS.
    pub is_tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port as `Host` has them.
    pub authority: String,
}

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
    /// From sending to the answer's last byte.
    pub timeout: Duration,
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

/// The target, and the path and query to ask for there.
pub(super) fn target(plan: &mut Object<'_>) -> Option<(Target, String)> {
    let Some(url) = plan.text("limiterUrl") else {
        plan.wrong("limiterUrl", "is missing; http://host:port/path or https://… is allowed");
        return None;
    };
    match read_url(&url) {
        Ok(target) => Some(target),
        Err(reason) => {
            // A user comes with a password.
            let url = if url.contains('@') { String::new() } else { format!("{url:?} ") };
            plan.wrong("limiterUrl", format!("{url}{reason}; http://host:port/path or https://… is allowed"));
            None
        }
    }
}

fn read_url(url: &str) -> Result<(Target, String), &'static str> {
    let uri: Uri = url.parse().map_err(|_| "is no URL")?;
    let is_tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        Some(_) => return Err("has another scheme"),
        None => return Err("has no scheme"),
    };
    let authority = uri.authority().ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("carries a user; `requestOptions.auth` is for that");
    }
    let after_host = authority.as_str().rsplit_once(authority.host()).map_or("", |(_, after)| after);
    let has_bad_port = !after_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0);
    if authority.host().is_empty() || has_bad_port {
        return Err("has no usable host or port");
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    Ok((Target { is_tls, host, port, authority: authority.as_str().to_owned() }, path))
}

const TIMEOUT: Allowed = Allowed::new(0.001..=3_600.0, "seconds from 0.001 to 3600 are allowed");

/// What is sent; its path is only the query that goes behind the target's.
pub(super) fn read(plan: &mut Object<'_>) -> Option<Request> {
    let usual = Request {
        method: Method::GET,
        path: String::new(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: Duration::from_secs(10),
    };
    let Some(mut options) = plan.object("requestOptions") else { return Some(usual) };
    let method = match options.text("method").map(|method| Method::from_bytes(method.to_ascii_uppercase().as_bytes())) {
        None => Some(Method::GET),
        Some(Ok(method)) if method != Method::CONNECT => Some(method),
        Some(_) => {
            options.wrong("method", "is none that can be sent");
            None
        }
    };
    let mut headers = Vec::new();
    for (name, value) in options.texts("headers") {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            (Ok(name), _) if is_ours(&name) => {
                options.wrong("headers", format!("has {name:?}, which is set by itself"));
            }
            (Ok(name), Ok(value)) => headers.push((name, value)),
            _ => {
                options
                    .wrong("headers", format!("has {name:?}, which is no header, or has a value that none can have"));
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
    if let Some(value) = options.object("auth").and_then(authorization) {
        headers.push((AUTHORIZATION, value));
    }
    let timeout = options.number_or("timeout", &TIMEOUT, usual.timeout.as_secs_f64());
    options.end();
    let timeout = Duration::from_secs_f64(timeout?);
    Some(Request { method: method?, path: query.join("&"), headers, body, timeout })
}

fn is_ours(name: &HeaderName) -> bool {
    ["content-length", "transfer-encoding", "connection", "host"].contains(&name.as_str())
}

fn authorization(mut auth: Object<'_>) -> Option<HeaderValue> {
    let (user, password, token) = (auth.text("user"), auth.text("password"), auth.text("token"));
    let value = match (user, token) {
        (Some(user), None) => format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.unwrap_or_default()))),
        (None, Some(token)) => format!("Bearer {token}"),
        _ => {
            auth.wrong("token", "is needed, or else `user` and `password`");
            return None;
        }
    };
    auth.end();
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A word of a query, percent-encoded.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
