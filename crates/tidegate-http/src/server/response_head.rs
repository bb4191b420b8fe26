//! Heads of answers, and how their bodies are framed.

use bytes::{BufMut, BytesMut};
use http::{StatusCode, Version};
use http_body::Body as _;

use crate::fields::Fields;
use crate::reply::Reply;

/// How an answer's body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none, or its length was told.
    Plain,
    Chunked,
    /// It ends with the connection.
    UntilClose,
}

/// What an answer answers.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) version: Version,
    pub(super) is_head: bool,
    /// Whether the connection can carry another request.
    pub(super) keep_alive: bool,
}

/// Writes the head of an answer, and says how its body is framed and whether the connection goes on.
pub(super) fn write_head(out: &mut Vec<u8>, reply: &Reply, asked: Asked, date: &[u8]) -> (Framing, bool) {
    let status = reply.status;
    out.reserve(1_024);
    out.extend_from_slice(if asked.version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.extend_from_slice(b"\r\n");
    let is_bodiless =
        status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let mut has_date = false;
    let mut told_length = None;
    for (name, value) in reply.fields.iter().flat_map(Fields::iter) {
        if name.eq_ignore_ascii_case(b"content-length") {
            told_length = Some(value);
            continue;
        }
        has_date |= name.eq_ignore_ascii_case(b"date");
        field(out, name, value);
    }
    out.extend_from_slice(reply.lines.as_bytes());
    if !has_date {
        field(out, b"date", date);
    }
    let length = reply.body.size_hint().exact();
    let framing = match (is_bodiless || asked.is_head, length) {
        (true, _) => {
            // What a GET would have got.
            let length = if status.is_informational() || status == StatusCode::NO_CONTENT { None } else { told_length };
            if let Some(length) = length {
                field(out, b"content-length", length);
            }
            Framing::Plain
        }
        (false, Some(length)) => {
            field(out, b"content-length", itoa::Buffer::new().format(length).as_bytes());
            Framing::Plain
        }
        (false, None) if asked.version == Version::HTTP_11 => {
            field(out, b"transfer-encoding", b"chunked");
            Framing::Chunked
        }
        (false, None) => Framing::UntilClose,
    };
    let keep_alive = asked.keep_alive && framing != Framing::UntilClose && status != StatusCode::SWITCHING_PROTOCOLS;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        // Its `Connection` is among our lines.
    } else if !keep_alive {
        field(out, b"connection", b"close");
    } else if asked.version == Version::HTTP_10 {
        field(out, b"connection", b"keep-alive");
    }
    out.extend_from_slice(b"\r\n");
    (framing, keep_alive)
}

/// Writes an interim answer: its fields are the upstream's, without those that concern its connection.
pub(super) fn write_interim(out: &mut BytesMut, status: StatusCode, fields: &Fields) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_slice(b" ");
    out.put_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.put_slice(b"\r\n");
    for (name, value) in fields.iter() {
        // It has no body (RFC 9110 §8.6).
        if !name.eq_ignore_ascii_case(b"content-length") {
            field(out, name, value);
        }
    }
    field(out, b"via", b"1.1 tidegate");
    out.put_slice(b"\r\n");
}

fn field(out: &mut impl BufMut, name: &[u8], value: &[u8]) {
    out.put_slice(name);
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}
