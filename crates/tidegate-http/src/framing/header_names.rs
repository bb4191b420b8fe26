//! Names of headers that decide how a message is passed on.

use std::borrow::Cow;

use http::HeaderName;

/// Whether a header concerns one connection only (RFC 9110 §7.6.1).
pub(crate) fn is_hop_by_hop(name: &[u8]) -> bool {
    let names: &[&[u8]] = match name.len() {
        2 => &[b"te"],
        7 => &[b"upgrade"],
        10 => &[b"connection", b"keep-alive"],
        16 => &[b"proxy-connection"],
        17 => &[b"transfer-encoding"],
        18 => &[b"proxy-authenticate"],
        19 => &[b"proxy-authorization"],
        _ => &[],
    };
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Whether only the gateway may write a header, because upstreams rely on it: the client, the host, the proxies.
/// `Proxy` is never written: CGI makes `HTTP_PROXY` of it, and programs would send their own requests where a client
/// says (CVE-2016-5385).
pub(crate) fn is_written_anew(name: &[u8]) -> bool {
    let names: &[&[u8]] = match name.len() {
        3 => &[b"via"],
        4 => &[b"host"],
        5 => &[b"proxy"],
        6 => &[b"expect"],
        9 => &[b"forwarded"],
        12 => &[b"x-request-id"],
        14 => &[b"content-length"],
        15 => &[b"x-forwarded-for"],
        16 => &[b"x-forwarded-host"],
        17 => &[b"x-forwarded-proto"],
        _ => &[],
    };
    names.iter().any(|other| name.eq_ignore_ascii_case(other)) || starts_with(name, b"x-tidegate-")
}

/// Whether a name starts with `start`, in any case.
pub(crate) fn starts_with(name: &[u8], start: &[u8]) -> bool {
    name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// A name with dashes for underscores: to CGI and similar interfaces `x_forwarded_for` is the same as
/// `x-forwarded-for`.
pub(crate) fn dashed(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'_') {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).collect())
}

/// Whether a header may be a trailer. RFC 9110 §6.5.1: one that concerns framing, routing, authentication or the
/// content itself may not.
pub fn is_fit_for_trailers(name: &HeaderName) -> bool {
    use http::header;
    let meant = dashed(name.as_str().as_bytes());
    let Ok(meant_name) = HeaderName::from_bytes(&meant) else { return false };
    !is_hop_by_hop(&meant)
        && !is_written_anew(&meant)
        && !starts_with(&meant, b"x-forwarded-")
        && !matches!(
            meant_name,
            header::AUTHORIZATION
                | header::CONTENT_ENCODING
                | header::CONTENT_TYPE
                | header::CONTENT_RANGE
                | header::SET_COOKIE
                | header::COOKIE
                | header::CACHE_CONTROL
                | header::RANGE
                | header::WWW_AUTHENTICATE
                | header::TRAILER
        )
}
