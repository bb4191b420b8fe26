//! What a head must be before anything else happens, and what it says, whatever it came over.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode, Version};

use crate::config::model::Connections;
use crate::plan::Site;
use crate::request_body::RequestBody;
use crate::upstream::{BodyLength, content_length};

/// Why a head is not accepted.
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) detail: &'static str,
}

fn bad(detail: &'static str) -> Fault {
    Fault { status: StatusCode::BAD_REQUEST, reason: "bad_request", detail }
}

/// Checks a head, and says which host it asks for (lower case, with its port; empty if an HTTP/1.0 client names none).
pub(crate) fn vet<'a>(parts: &'a Parts, connections: &Connections) -> Result<Cow<'a, str>, Fault> {
    let headers = &parts.headers;
    if parts.method == Method::CONNECT {
        let detail = "this is no forward proxy";
        return Err(Fault { status: StatusCode::METHOD_NOT_ALLOWED, reason: "method_not_allowed", detail });
    }
    // RFC 9112 §3.2: an authority alone is for CONNECT, an asterisk for OPTIONS.
    let is_authority = parts.uri.scheme().is_none() && parts.uri.authority().is_some();
    let path = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let is_path = path.starts_with('/') || path == "*" && parts.method == Method::OPTIONS;
    if is_authority || !is_path {
        return Err(bad("the target is none"));
    }
    if headers.len() > connections.max_headers {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Fault { status, reason: "too_many_headers", detail: "the request has too many headers" });
    }
    framing(headers)?;
    let told = headers.get(header::CONTENT_LENGTH).and_then(|value| content_length(value.as_bytes()));
    if told.is_some_and(|length| connections.max_body_bytes.is_some_and(|most| length > most)) {
        let detail = "the request's body is larger than allowed";
        return Err(Fault { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "body_too_large", detail });
    }
    host(parts)
}

/// Framing that HTTP/2 tolerates and HTTP/1 upstreams might read in another way.
fn framing(headers: &HeaderMap) -> Result<(), Fault> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next()
        && (codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        let detail = "of all transfer codings only `chunked` is understood";
        return Err(Fault { status: StatusCode::NOT_IMPLEMENTED, reason: "transfer_coding", detail });
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    if let Some(length) = lengths.next()
        && (lengths.next().is_some() || content_length(length.as_bytes()).is_none())
    {
        return Err(bad("Content-Length must be one number"));
    }
    Ok(())
}

/// The host a request asks for. RFC 9112 §3.2: exactly one `Host` in HTTP/1.1; a target with an authority wins over it.
fn host(parts: &Parts) -> Result<Cow<'_, str>, Fault> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let named = hosts.next();
    if hosts.next().is_some() {
        return Err(bad("there is more than one Host"));
    }
    if named.is_none() && parts.version == Version::HTTP_11 {
        return Err(bad("there is no Host"));
    }
    let named = match named.map(|host| host.to_str()) {
        None => None,
        Some(Ok(host)) => Some(host),
        Some(Err(_)) => return Err(bad("the Host is none")),
    };
    let host = match (parts.uri.authority(), named) {
        (Some(authority), Some(named)) if parts.version == Version::HTTP_2 && authority.as_str() != named => {
            return Err(bad("Host and :authority differ"));
        }
        (Some(authority), _) => authority.as_str(),
        (None, named) => named.unwrap_or_default(),
    };
    if !host.is_empty() && !is_host(host) {
        return Err(bad("the Host is none"));
    }
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Ok(Cow::Owned(host.to_ascii_lowercase()));
    }
    Ok(Cow::Borrowed(host))
}

/// Whether it is a name, an IPv4 address or an IPv6 address in brackets, with or without a port.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
            _ => return false,
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'~' | b'%');
    let is_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    !name.is_empty() && name.bytes().all(is_name) && is_port
}

pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// The client that a trusted proxy speaks for: of the addresses it names, the last that is no trusted proxy itself. What stands before
/// that anyone could have written.
pub(crate) fn client_ip(site: &Site, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let values: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    let mut client = peer;
    for address in values.iter().rev().flat_map(|value| value.rsplit(',')) {
        let Some(address) = parse_address(address.trim()) else { return client };
        client = address;
        if !site.is_trusted(client) {
            return client;
        }
    }
    client
}

/// An address as proxies write it: bare, in brackets, with a port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.parse::<IpAddr>();
    let bare = bare.or_else(|_| text.parse::<std::net::SocketAddr>().map(|address| address.ip()));
    let bare = bare.or_else(|_| text.trim_start_matches('[').trim_end_matches(']').parse());
    bare.ok().map(|ip| ip.to_canonical())
}

pub(crate) fn expects_continue(parts: &Parts) -> bool {
    // RFC 9110 §10.1.1: what an HTTP/1.0 client expects is ignored.
    parts.version != Version::HTTP_10
        && parts.headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// How a request's body is framed towards the upstream, and the body, if there is one.
pub(crate) fn body(parts: &Parts, body: RequestBody) -> (BodyLength, Option<RequestBody>) {
    if body.is_ended() {
        let has_meaning = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH);
        return (if has_meaning { BodyLength::Known(0) } else { BodyLength::None }, None);
    }
    (body.length().map_or(BodyLength::Chunked, BodyLength::Known), Some(body))
}

/// The protocol a request wants to go over to. HTTP/2 in clear text is none: an upstream that went over to it would carry requests that
/// nobody here sees.
pub(crate) fn upgrade<'a>(parts: &'a Parts, body: &RequestBody) -> Option<&'a HeaderValue> {
    let wants = parts.version == Version::HTTP_11 && parts.headers.contains_key(header::UPGRADE) && body.is_ended();
    wants.then(|| upgrade_protocol(&parts.headers)).flatten()
}

fn upgrade_protocol(headers: &HeaderMap) -> Option<&HeaderValue> {
    let words = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = words.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    let protocol = protocols.next()?;
    let text = protocol.to_str().ok()?.to_ascii_lowercase();
    let is_http = ["h2c", "http", "tls"].iter().any(|word| text.contains(word));
    (named && !is_http && protocols.next().is_none()).then_some(protocol)
}
