//! Heads of responses, and how their bodies are framed.

use bytes::{BufMut, BytesMut};
use http::{StatusCode, Version};

use crate::header_lines::HeaderLines;
use crate::headers::Headers;

/// How a response's body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// There is no body, or the head has its length.
    Plain,
    /// In chunks.
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// What a response needs to know about its request.
#[derive(Clone, Copy)]
pub struct Requested {
    /// The version of HTTP that the client uses.
    pub version: Version,
    /// The request was HEAD.
    pub is_head: bool,
    /// Whether the connection can carry another request.
    pub keep_alive: bool,
}

/// Everything the head of a response is written from.
pub struct ResponseHead<'a> {
    /// Its status.
    pub status: StatusCode,
    /// The upstream's headers, without those that concern its connection.
    pub headers: Option<&'a Headers>,
    /// Headers that the gateway adds.
    pub lines: &'a HeaderLines,
    /// The value of `Date`, for responses without one.
    pub date: &'a [u8],
    /// The length of the body, where it is known.
    pub length: Option<u64>,
}

/// Writes the head of a response. Returns how its body is framed and whether the connection stays open.
pub fn write_head(out: &mut Vec<u8>, head: &ResponseHead<'_>, requested: Requested) -> (ResponseFraming, bool) {
    let status = head.status;
    out.reserve(1_024);
    out.extend_from_slice(if requested.version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.extend_from_slice(b"\r\n");
    let is_bodiless =
        status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let mut has_date = false;
    let mut upstream_length = None;
    for (name, value) in head.headers.into_iter().flat_map(Headers::iter) {
        if name.eq_ignore_ascii_case(b"content-length") {
            upstream_length = Some(value);
            continue;
        }
        has_date |= name.eq_ignore_ascii_case(b"date");
        write_header(out, name, value);
    }
    out.extend_from_slice(head.lines.as_bytes());
    if !has_date {
        write_header(out, b"date", head.date);
    }
    let framing = match (is_bodiless || requested.is_head, head.length) {
        (true, _) => {
            // The length that the response to a GET would have.
            let length =
                if status.is_informational() || status == StatusCode::NO_CONTENT { None } else { upstream_length };
            if let Some(length) = length {
                write_header(out, b"content-length", length);
            }
            ResponseFraming::Plain
        }
        (false, Some(length)) => {
            write_header(out, b"content-length", itoa::Buffer::new().format(length).as_bytes());
            ResponseFraming::Plain
        }
        (false, None) if requested.version == Version::HTTP_11 => {
            write_header(out, b"transfer-encoding", b"chunked");
            ResponseFraming::Chunked
        }
        (false, None) => ResponseFraming::UntilClose,
    };
    let keep_alive =
        requested.keep_alive && framing != ResponseFraming::UntilClose && status != StatusCode::SWITCHING_PROTOCOLS;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        // Its `Connection` is among `lines`.
    } else if !keep_alive {
        write_header(out, b"connection", b"close");
    } else if requested.version == Version::HTTP_10 {
        write_header(out, b"connection", b"keep-alive");
    }
    out.extend_from_slice(b"\r\n");
    (framing, keep_alive)
}

/// Writes an interim response (1xx) with the upstream's headers, without those that concern its connection.
pub(super) fn write_interim(out: &mut BytesMut, status: StatusCode, headers: &Headers) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_slice(b" ");
    out.put_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.put_slice(b"\r\n");
    for (name, value) in headers.iter() {
        // An interim response has no body (RFC 9110 §8.6).
        if !name.eq_ignore_ascii_case(b"content-length") {
            write_header(out, name, value);
        }
    }
    write_header(out, b"via", b"1.1 tidegate");
    out.put_slice(b"\r\n");
}

fn write_header(out: &mut impl BufMut, name: &[u8], value: &[u8]) {
    out.put_slice(name);
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}
