//! Heads of requests, read strictly (RFC 9112): one that two parsers could understand in two ways is rejected.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::{Method, StatusCode, Uri, Version};

use super::io::BodyRest;
use crate::framing::{Chunked, MOST_CONNECTION_WORDS, content_length, ends_in_crlf, takes_trailers, words};
use crate::headers::HeadersBuilder;
use crate::request::RequestHead;

/// The most headers that can be configured.
pub const MOST_HEADERS: usize = 256;

/// A request's head, and what it says about its connection.
pub struct Head {
    /// The head.
    pub request: RequestHead,
    /// The body that follows.
    pub rest: BodyRest,
    /// Whether another request may follow on the connection.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// The client accepts trailers.
    pub takes_trailers: bool,
}

/// Why a head is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHead {
    /// The status of the response.
    pub status: StatusCode,
    /// What is wrong.
    pub detail: &'static str,
}

const fn bad(detail: &'static str) -> BadHead {
    BadHead { status: StatusCode::BAD_REQUEST, detail }
}

const TOO_LARGE: BadHead =
    BadHead { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail: "the request's head is too large" };

/// Takes a head out of `read`. None if the head is incomplete.
pub fn take_head(read: &mut BytesMut, longest: usize, most_headers: usize) -> Result<Option<Head>, BadHead> {
    match parse_head(read, longest, most_headers) {
        // RFC 9110 §2.5: a later 1.x is treated as 1.1.
        Err(BadHead { status: StatusCode::HTTP_VERSION_NOT_SUPPORTED, .. }) if lower_to_known_version(read) => {
            parse_head(read, longest, most_headers)
        }
        parsed => parsed,
    }
}

fn parse_head(read: &mut BytesMut, longest: usize, most_headers: usize) -> Result<Option<Head>, BadHead> {
    // RFC 9112 §2.2: empty lines before a request are skipped.
    while read.starts_with(b"\r\n") {
        drop(read.split_to(2));
    }
    // Not initialized: that would cost more than parsing.
    let mut parsed = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(read, &mut parsed) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => {
            check_lines(read)?;
            return if read.len() < longest { Ok(None) } else { Err(TOO_LARGE) };
        }
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_LARGE),
        Err(httparse::Error::Version) if version_at(read).is_some() => {
            let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
            return Err(BadHead { status, detail: "unsupported HTTP version; expected HTTP/1.1 or HTTP/1.0" });
        }
        Err(_) => return Err(bad("the request's head is not HTTP/1")),
    };
    let count = request.headers.len();
    if length > longest || count > most_headers.min(MOST_HEADERS) {
        return Err(TOO_LARGE);
    }
    check_lines(&read[..length])?;
    let version = if request.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let target = request.path.unwrap_or_default();
    if target.contains('#') {
        return Err(bad("the request target must not contain a fragment"));
    }
    let target = {
        let start = target.as_ptr() as usize - read.as_ptr() as usize;
        start..start + target.len()
    };
    let method = Method::from_bytes(request.method.unwrap_or_default().as_bytes());
    let method = method.map_err(|_| bad("invalid method"))?;
    let facts = Facts::read(request.headers, version)?;
    let mut headers = HeadersBuilder::new(read, count);
    request.headers.iter().for_each(|header| headers.add(header.name.as_bytes(), header.value));
    let head = if length == read.len() { std::mem::take(read) } else { read.split_to(length) }.freeze();
    let uri = Uri::from_maybe_shared(head.slice(target.clone())).map_err(|_| bad("invalid request target"))?;
    let uri = if uri.scheme().is_some() { with_path(uri, &head[target], &method)? } else { uri };
    let rest = facts.rest();
    // RFC 9110 §9.3.6: bytes after a CONNECT may be meant for a tunnel, and must not be read as a request.
    let is_followed_by_requests = method != Method::CONNECT;
    Ok(Some(Head {
        expects_continue: facts.expects_continue && !matches!(rest, BodyRest::Ended),
        rest,
        keep_alive: is_followed_by_requests && !facts.close && (version == Version::HTTP_11 || facts.keep),
        takes_trailers: facts.takes_trailers,
        request: RequestHead { method, uri, version, headers: headers.within(head) },
    }))
}

/// A target in absolute form. If it has no path, it gets the one of RFC 9112 §3.2: `/`, or `*` for a request to the
/// server itself.
fn with_path(uri: Uri, target: &[u8], method: &Method) -> Result<Uri, BadHead> {
    let authority_at = memchr::memmem::find(target, b"://").map_or(0, |scheme| scheme + 3);
    let rest = target[authority_at..].iter().position(|byte| matches!(byte, b'/' | b'?')).map(|end| authority_at + end);
    let path = match rest.map(|rest| &target[rest..]) {
        None if *method == Method::OPTIONS => b"*".to_vec(),
        Some(query @ [b'?', ..]) => [b"/", query].concat(),
        None | Some(_) => return Ok(uri),
    };
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(path.try_into().map_err(|_| bad("invalid request target"))?);
    Uri::from_parts(parts).map_err(|_| bad("invalid request target"))
}

/// The positions of the version's digits, major and minor, if the request line has three words and the last is a
/// version of HTTP.
fn version_at(read: &[u8]) -> Option<(usize, usize)> {
    let line = read.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let is_version = matches!(words[..], [_, _, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]]
        if major.is_ascii_digit() && minor.is_ascii_digit());
    is_version.then(|| (line.len() - 3, line.len() - 1))
}

/// Replaces a later 1.x by 1.1. False if the version is another one.
fn lower_to_known_version(read: &mut [u8]) -> bool {
    match version_at(read) {
        Some((major, minor)) if read[major] == b'1' && read[minor] > b'1' => {
            read[minor] = b'1';
            true
        }
        _ => false,
    }
}

fn check_lines(head: &[u8]) -> Result<(), BadHead> {
    if ends_in_crlf(head) { Ok(()) } else { Err(bad("a line does not end in CR LF")) }
}

/// What the headers of a request say about its body and its connection.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Facts {
    length: Option<u64>,
    is_chunked: bool,
    close: bool,
    keep: bool,
    expects_continue: bool,
    takes_trailers: bool,
}

impl Facts {
    fn read(headers: &[httparse::Header<'_>], version: Version) -> Result<Self, BadHead> {
        let (mut facts, mut connection_words) = (Self::default(), 0);
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                // No header that matters here has a name of another length.
                14 if is("content-length") => {
                    let length = content_length(header.value).ok_or(bad("invalid Content-Length"))?;
                    if facts.length.replace(length).is_some() {
                        return Err(bad("the request has more than one Content-Length"));
                    }
                }
                17 if is("transfer-encoding") => {
                    if version == Version::HTTP_10 {
                        return Err(bad("HTTP/1.0 has no Transfer-Encoding"));
                    }
                    if facts.is_chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                        let detail = "unsupported Transfer-Encoding; expected `chunked`, once";
                        return Err(BadHead { status: StatusCode::NOT_IMPLEMENTED, detail });
                    }
                    facts.is_chunked = true;
                }
                10 if is("connection") => {
                    for word in words(header.value) {
                        connection_words += 1;
                        facts.close |= word.eq_ignore_ascii_case(b"close");
                        facts.keep |= word.eq_ignore_ascii_case(b"keep-alive");
                    }
                    if connection_words > MOST_CONNECTION_WORDS {
                        return Err(bad("the Connection header has too many entries"));
                    }
                }
                // Other expectations are checked later; an HTTP/1.0 client can't expect anything.
                6 if is("expect") => facts.expects_continue = version == Version::HTTP_11,
                2 if is("te") => facts.takes_trailers |= words(header.value).any(takes_trailers),
                _ => {}
            }
        }
        if facts.is_chunked && facts.length.is_some() {
            return Err(bad("the request has both Content-Length and Transfer-Encoding"));
        }
        Ok(facts)
    }

    fn rest(&self) -> BodyRest {
        match (self.is_chunked, self.length) {
            (true, _) => BodyRest::Chunked(Chunked::default()),
            (false, None | Some(0)) => BodyRest::Ended,
            (false, Some(length)) => BodyRest::Length(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(line: &str) -> Option<Head> {
        let mut read = BytesMut::from(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_str());
        take_head(&mut read, 4_096, 16).ok().map(|head| head.expect("it is whole"))
    }

    /// RFC 9112 §3.2.2, §3.2.4. `http://host?q` was rejected, because its path does not begin with a slash.
    #[test]
    fn a_url_without_a_path_has_one() {
        for (line, expected) in [
            ("GET http://other.example/a?b", "/a?b"),
            ("GET http://other.example/", "/"),
            ("GET http://other.example", "/"),
            ("GET http://other.example?q=1", "/?q=1"),
            ("GET http://other.example:81?q=/a?b", "/?q=/a?b"),
            ("GET http://[::1]?", "/?"),
            ("GET HTTP://other.example?q", "/?q"),
            ("OPTIONS http://other.example:81", "*"),
            ("OPTIONS http://other.example/", "/"),
            ("OPTIONS http://other.example?q", "/?q"),
            ("GET /a?b=http://c?d", "/a?b=http://c?d"),
        ] {
            let head = head(line).expect(line);
            let path = head.request.uri.path_and_query().map(http::uri::PathAndQuery::as_str);
            assert_eq!(path, Some(expected), "{line}");
        }
        assert!(head("GET http://?q").is_none());
        assert!(head("GET http://other.example#f").is_none());
    }

    /// CONNECT was rejected and the connection kept: what was meant for the tunnel was read as requests.
    #[test]
    fn nothing_is_read_after_connect() {
        assert!(head("GET /").expect("a head").keep_alive);
        assert!(!head("CONNECT other.example:443").expect("a head").keep_alive);
    }
}
