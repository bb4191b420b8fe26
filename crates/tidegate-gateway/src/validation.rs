//! Validates a request's head, and reads from it what HTTP/1 and HTTP/2 have in common.

use std::borrow::Cow;

use http::{Method, StatusCode, Version};
use tidegate_http::client::BodyLength;
use tidegate_http::framing::{content_length, words};
use tidegate_http::headers::{Headers, has_whitespace_around, text};
use tidegate_http::request::RequestHead;

use crate::config::model::Connections;
use crate::request_body::RequestBody;

/// Why a head is rejected.
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) detail: &'static str,
}

fn bad(detail: &'static str) -> Fault {
    Fault { status: StatusCode::BAD_REQUEST, reason: "bad_request", detail }
}

/// Checks a head, and returns the host that it is for. `may_be_https`: whether the connection may carry requests for
/// https resources.
pub(crate) fn validate<'a>(
    request: &'a RequestHead,
    connections: &Connections,
    may_be_https: impl FnOnce() -> bool,
) -> Result<Host<'a>, Fault> {
    if request.method == Method::CONNECT {
        let detail = "CONNECT is not supported";
        return Err(Fault { status: StatusCode::NOT_IMPLEMENTED, reason: "method_not_implemented", detail });
    }
    if request.method.as_str().bytes().any(|byte| byte.is_ascii_lowercase()) {
        // Some upstreams take `get` for GET: it must not evade the limits of GET.
        return Err(bad("the method must be in capitals"));
    }
    let expects_else = |value: &[u8]| !value.eq_ignore_ascii_case(b"100-continue");
    // RFC 9110 §10.1.1: what an HTTP/1.0 client expects is ignored.
    if request.version != Version::HTTP_10 && request.headers.all("expect").any(expects_else) {
        let (status, detail) = (StatusCode::EXPECTATION_FAILED, "Expect must be 100-continue");
        return Err(Fault { status, reason: "bad_request", detail });
    }
    // RFC 9112 §3.2: an authority alone is for CONNECT, an asterisk for OPTIONS.
    let is_authority = request.uri.scheme().is_none() && request.uri.authority().is_some();
    let path = request.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let is_path = path.starts_with('/') || path == "*" && request.method == Method::OPTIONS;
    if is_authority || !is_path {
        return Err(bad("invalid request target"));
    }
    if !path.is_ascii() {
        // Targets of HTTP/2 are not checked before.
        return Err(bad("the request target must be ASCII: other bytes must be percent-encoded"));
    }
    if let Some(scheme) = request.uri.scheme_str() {
        validate_scheme(scheme, may_be_https)?;
    }
    // RFC 9113 §8.2.1. HTTP/1 can't have them, and an upstream might take them for part of the value.
    if request.version == Version::HTTP_2 && request.headers.iter().any(|(_, value)| has_whitespace_around(value)) {
        return Err(bad("header values must not begin or end with whitespace"));
    }
    // RFC 9113 §8.2.3: HTTP/2 may cut cookies into crumbs.
    let crumbs = if request.version == Version::HTTP_2 { request.headers.all("cookie").skip(1).count() } else { 0 };
    if request.headers.len() - crumbs > connections.max_headers {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Fault { status, reason: "too_many_headers", detail: "the request has too many headers" });
    }
    let length = framing(&request.headers)?;
    if length.is_some_and(|length| connections.max_body_bytes.is_some_and(|most| length > most)) {
        let detail = "the request's body is too large";
        return Err(Fault { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "body_too_large", detail });
    }
    host(request)
}

/// RFC 9110 §7.4: a request for an https resource that comes without TLS is misdirected, unless a trusted proxy has
/// ended the TLS. (Not the other way round: a client may send a request for an http resource over TLS.) No other scheme
/// is served.
fn validate_scheme(scheme: &str, may_be_https: impl FnOnce() -> bool) -> Result<(), Fault> {
    if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") && may_be_https() {
        return Ok(());
    }
    if scheme.eq_ignore_ascii_case("https") {
        let detail = "a request for an https URL must come over TLS or from a trusted proxy";
        return Err(Fault { status: StatusCode::MISDIRECTED_REQUEST, reason: "misdirected_request", detail });
    }
    Err(bad("the scheme of the request target must be http or https"))
}

/// The length that a request declares. An HTTP/2 request may declare several lengths, and an HTTP/1 upstream would read
/// only one of them.
fn framing(headers: &Headers) -> Result<Option<u64>, Fault> {
    let mut lengths = headers.all("content-length");
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(length), None) => content_length(length).map(Some).ok_or(bad("Content-Length must be one number")),
        (Some(_), Some(_)) => Err(bad("Content-Length must be one number")),
    }
}

/// The host of a request, in lower case. Empty if an HTTP/1.0 client sends none.
pub(crate) struct Host<'a> {
    text: Cow<'a, [u8]>,
    /// Its length without its port.
    name: usize,
}

impl<'a> Host<'a> {
    /// Reads a host. `None` if it is not valid; an empty text is an empty host.
    pub(crate) fn read(host: &'a [u8]) -> Option<Self> {
        let name = if host.is_empty() { 0 } else { name_length(host)? };
        let has_capitals = host.iter().any(u8::is_ascii_uppercase);
        let text = if has_capitals { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) };
        Some(Self { text, name })
    }
}

impl Host<'_> {
    /// With its port, if there is one.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.text
    }

    /// Without its port, and without a dot at its end.
    pub(crate) fn name(&self) -> &[u8] {
        let name = &self.text[..self.name];
        name.strip_suffix(b".").unwrap_or(name)
    }
}

/// The host of a request. RFC 9112 §3.2: exactly one `Host` in HTTP/1.1; the authority of a target wins over it. RFC
/// 9113 §8.3.1: one of the two in HTTP/2.
fn host(request: &RequestHead) -> Result<Host<'_>, Fault> {
    let mut hosts = request.headers.all("host");
    let named = hosts.next();
    if hosts.next().is_some() {
        return Err(bad("the request must have one Host, got several"));
    }
    let lacks_host = match request.version {
        Version::HTTP_11 => named.is_none(),
        // An empty `Host` does not count.
        Version::HTTP_2 => request.uri.authority().is_none() && named.unwrap_or_default().is_empty(),
        _ => false,
    };
    if lacks_host {
        return Err(bad("the request must have a Host"));
    }
    let host = match (request.uri.authority(), named) {
        (Some(authority), Some(named))
            if request.version == Version::HTTP_2 && authority.as_str().as_bytes() != named =>
        {
            return Err(bad("Host and :authority differ"));
        }
        (Some(authority), _) => authority.as_str().as_bytes(),
        (None, named) => named.unwrap_or_default(),
    };
    Host::read(host).ok_or(bad("invalid Host"))
}

/// The bytes that names and IPv4 addresses are made of.
const IS_IN_NAMES: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 128 {
        let character = byte as u8;
        table[byte] = character.is_ascii_alphanumeric() || matches!(character, b'.' | b'-' | b'_' | b'~' | b'%');
        byte += 1;
    }
    table
};

/// The length of a host without its port. `None` if it is not a name, an IPv4 address or an IPv6 address in brackets.
fn name_length(host: &[u8]) -> Option<usize> {
    let name = if let Some(rest) = host.strip_prefix(b"[") {
        let end = rest.iter().position(|byte| *byte == b']')?;
        str::from_utf8(&rest[..end]).ok()?.parse::<std::net::Ipv6Addr>().ok()?;
        end + 2
    } else {
        host.iter().position(|byte| !IS_IN_NAMES[usize::from(*byte)]).unwrap_or(host.len())
    };
    let is_port = |port: &[u8]| port.iter().all(u8::is_ascii_digit);
    let has_port = host[name..].split_first().is_none_or(|(colon, port)| *colon == b':' && is_port(port));
    (name > 0 && has_port).then_some(name)
}

pub(crate) fn expects_continue(request: &RequestHead) -> bool {
    request.version != Version::HTTP_10 && request.headers.has("expect")
}

/// How often a request may still be sent on, if `Max-Forwards` bounds it (RFC 9110 §7.6.2: only of OPTIONS and TRACE).
#[inline]
pub(crate) fn forwards_left(method: &Method, headers: &Headers) -> Option<u64> {
    let is_bounded = matches!(*method, Method::OPTIONS | Method::TRACE);
    if is_bounded { max_forwards(headers) } else { None }
}

#[cold]
fn max_forwards(headers: &Headers) -> Option<u64> {
    headers.only("max-forwards").and_then(content_length)
}

/// How a request's body is framed towards the upstream, and the body, if there is one.
pub(crate) fn body(request: &RequestHead, body: RequestBody) -> (BodyLength, Option<RequestBody>) {
    if body.is_ended() {
        let has_meaning = matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
        return (if has_meaning { BodyLength::Known(0) } else { BodyLength::None }, None);
    }
    (body.length().map_or(BodyLength::Chunked, BodyLength::Known), Some(body))
}

/// The protocol that a request wants to switch to. HTTP/2 in clear text is excluded: after a switch to it the
/// connection would carry requests that the gateway does not see.
pub(crate) fn upgrade<'a>(request: &'a RequestHead, body: &RequestBody) -> Option<&'a [u8]> {
    let wants = request.version == Version::HTTP_11 && request.headers.has("upgrade") && body.is_ended();
    wants.then(|| upgrade_protocol(&request.headers)).flatten()
}

/// Whether `Connection` names this header, so that it is for the gateway alone.
pub(crate) fn is_nominated(headers: &Headers, name: &str) -> bool {
    headers.all("connection").flat_map(words).any(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}

fn upgrade_protocol(headers: &Headers) -> Option<&[u8]> {
    let named = is_nominated(headers, "upgrade");
    let mut protocols = headers.all("upgrade");
    let protocol = protocols.next()?;
    let name = text(protocol)?.to_ascii_lowercase();
    let is_http = ["h2c", "http", "tls"].iter().any(|word| name.contains(word));
    (named && !is_http && protocols.next().is_none()).then_some(protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(version: Version, uri: &str, headers: &[(&'static str, &str)], may_be_https: bool) -> u16 {
        let mut map = http::HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let (method, uri) = (Method::GET, uri.parse().expect("a target"));
        let request = RequestHead { method, uri, version, headers: Headers::from(&map) };
        validate(&request, &Connections::default(), || may_be_https).map_or_else(|fault| fault.status.as_u16(), |_| 200)
    }

    /// A URL with any scheme was sent on as if it were `http`.
    #[test]
    fn a_scheme_must_be_one_that_the_connection_may_carry() {
        for (uri, in_clear, secured) in [
            ("/a", 200, 200),
            ("http://a.example/", 200, 200),
            ("HTTP://a.example/", 200, 200),
            ("https://a.example/", 421, 200),
            ("HTTPS://a.example/", 421, 200),
            ("ftp://a.example/", 400, 400),
            ("ws://a.example/", 400, 400),
            ("wss://a.example/", 400, 400),
        ] {
            for version in [Version::HTTP_11, Version::HTTP_2] {
                let headers: &[_] =
                    if version == Version::HTTP_11 || uri == "/a" { &[("host", "a.example")] } else { &[] };
                assert_eq!(status_of(version, uri, headers, false), in_clear, "{version:?} {uri}");
                assert_eq!(status_of(version, uri, headers, true), secured, "{version:?} {uri}");
            }
        }
    }

    #[test]
    fn a_request_over_http_2_needs_a_host_and_values_without_whitespace_around() {
        let http_2 = |uri, headers: &[(&'static str, &str)]| status_of(Version::HTTP_2, uri, headers, false);
        assert_eq!(http_2("http://a.example/", &[]), 200);
        assert_eq!(http_2("/", &[("host", "a.example")]), 200);
        assert_eq!(http_2("/", &[]), 400);
        assert_eq!(http_2("/", &[("host", "")]), 400);
        assert_eq!(status_of(Version::HTTP_11, "/", &[("host", "")], false), 200, "RFC 9112 §3.2 permits it");
        assert_eq!(status_of(Version::HTTP_10, "/", &[], false), 200, "HTTP/1.0 had no Host");
        for (value, status) in
            [("", 200), ("a b", 200), ("a\tb", 200), (" a", 400), ("a ", 400), ("\ta", 400), (" ", 400)]
        {
            assert_eq!(http_2("http://a.example/", &[("x-value", value)]), status, "{value:?}");
        }
    }
}
