//! Heads of responses, read strictly: one that two parsers could understand in two ways is rejected.

use std::mem::MaybeUninit;

use http::StatusCode;

use super::header_names::is_hop_by_hop;
use super::header_values::{MOST_CONNECTION_WORDS, content_length, is_nomination, words};

/// The most headers a response may have.
const MOST_HEADERS: usize = 128;

/// Where a response's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// After this many bytes.
    Length(u64),
    /// After its last chunk.
    Chunked,
    /// With the connection.
    Close,
}

/// The head of a response, borrowed from the bytes that were read.
pub struct ParsedResponse<'a> {
    /// The length of the head in bytes.
    pub length: usize,
    /// Its status.
    pub status: StatusCode,
    /// Where its body ends.
    pub body_end: BodyEnd,
    /// Whether its version is HTTP/1.0.
    pub is_http10: bool,
    /// Whether the connection can carry another request.
    pub keep_alive: bool,
    /// The protocol it upgrades to.
    pub upgrade: Option<&'a [u8]>,
    headers: &'a [httparse::Header<'a>],
    /// Whether `Connection` names headers.
    nominates: bool,
}

impl ParsedResponse<'_> {
    /// How many headers it has.
    pub fn count(&self) -> usize {
        self.headers.len()
    }

    /// The last value of a header; `name` is in lower case.
    pub fn last(&self, name: &str) -> Option<&[u8]> {
        let is_meant = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        self.headers.iter().rev().find(is_meant).map(|header| header.value)
    }

    /// Names and values, without those that concern the connection.
    pub fn passed_on(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let is_passed_on = move |header: &&httparse::Header<'_>| !self.concerns_connection(header.name);
        self.headers.iter().filter(is_passed_on).map(|header| (header.name.as_bytes(), header.value))
    }

    /// Whether a header stays on its connection.
    fn concerns_connection(&self, name: &str) -> bool {
        if is_hop_by_hop(name.as_bytes()) {
            return true;
        }
        if !self.nominates || name.eq_ignore_ascii_case("content-length") {
            // `Connection` must not remove what frames the body.
            return false;
        }
        let connections = self.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection"));
        connections.flat_map(|header| words(header.value)).any(|word| name.as_bytes().eq_ignore_ascii_case(word))
    }
}

/// Reads the head at the start of `read` and passes it to `take`. None if the head is incomplete. `is_to_head`: the
/// request was HEAD.
pub fn read_response<T>(
    read: &[u8],
    longest: usize,
    is_to_head: bool,
    take: impl FnOnce(&ParsedResponse<'_>) -> T,
) -> Result<Option<T>, &'static str> {
    // Not initialized: that would cost more than parsing.
    let mut parsed = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let length = match parser.parse_response_with_uninit_headers(&mut response, read, &mut parsed) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if read.len() < longest => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err("its head is too large"),
        Err(_) => return Err("its head is not HTTP/1"),
    };
    if length > longest {
        return Err("its head is too large");
    }
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("invalid status")?;
    let facts = Facts::read(response.headers, response.version == Some(0))?;
    let is_empty = is_to_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let body_end = match (is_empty, facts.is_chunked, facts.length) {
        (_, true, Some(_)) => return Err("it has both Content-Length and Transfer-Encoding"),
        (true, ..) => BodyEnd::Length(0),
        (false, true, None) => BodyEnd::Chunked,
        (false, false, Some(length)) => BodyEnd::Length(length),
        (false, false, None) => BodyEnd::Close,
    };
    // Bytes after a response that can't have a body would be taken for the next response (RFC 9112 §6.3).
    let is_followed =
        status == StatusCode::NO_CONTENT && (facts.is_chunked || facts.length.is_some_and(|length| length > 0));
    let Facts { is_http10, nominates, upgrade, .. } = facts;
    let keep_alive = body_end != BodyEnd::Close && !is_followed && !facts.close && (!is_http10 || facts.keep);
    let headers = &*response.headers;
    Ok(Some(take(&ParsedResponse { length, status, body_end, is_http10, keep_alive, upgrade, headers, nominates })))
}

/// What the headers of a response say about its body and its connection.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Facts<'a> {
    is_http10: bool,
    length: Option<u64>,
    is_chunked: bool,
    close: bool,
    keep: bool,
    /// Whether `Connection` names headers.
    nominates: bool,
    upgrade: Option<&'a [u8]>,
}

impl<'a> Facts<'a> {
    fn read(headers: &[httparse::Header<'a>], is_http10: bool) -> Result<Self, &'static str> {
        let (length, upgrade, mut count) = (None, None, 0);
        let mut facts =
            Self { is_http10, length, is_chunked: false, close: false, keep: false, nominates: false, upgrade };
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                // No header that concerns the connection has a name of another length.
                14 if is("content-length") => {
                    let length = content_length(header.value).ok_or("its Content-Length is not a number")?;
                    if facts.length.replace(length).is_some() {
                        return Err("it has more than one Content-Length");
                    }
                }
                17 if is("transfer-encoding") => {
                    if facts.is_chunked || is_http10 || !header.value.eq_ignore_ascii_case(b"chunked") {
                        return Err("its Transfer-Encoding is not supported");
                    }
                    facts.is_chunked = true;
                }
                10 if is("connection") => {
                    for word in words(header.value) {
                        count += 1;
                        facts.close |= word.eq_ignore_ascii_case(b"close");
                        facts.keep |= word.eq_ignore_ascii_case(b"keep-alive");
                        facts.nominates |= is_nomination(word);
                    }
                    if count > MOST_CONNECTION_WORDS {
                        return Err("its Connection has too many entries");
                    }
                }
                7 if is("upgrade") => facts.upgrade = Some(header.value),
                _ => {}
            }
        }
        Ok(facts)
    }
}
