//! Heads of requests, read strictly (RFC 9112): what could be understood in two ways is refused.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, StatusCode, Uri, Version};

use super::io::Rest;
use crate::upstream::{Chunked, content_length, ends_in_crlf};

/// The most headers that can be configured.
pub(crate) const MOST_HEADERS: usize = 256;

/// A request's head.
pub(super) struct Head {
    pub(super) parts: Parts,
    pub(super) rest: Rest,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
    /// The client understands trailers.
    pub(super) takes_trailers: bool,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadHead {
    pub(super) status: StatusCode,
    pub(super) detail: &'static str,
}

const fn bad(detail: &'static str) -> BadHead {
    BadHead { status: StatusCode::BAD_REQUEST, detail }
}

const TOO_LARGE: BadHead =
    BadHead { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail: "the request's head is too large" };

/// Takes a head out of `read`, if it is there as a whole.
pub(super) fn take_head(read: &mut BytesMut, longest: usize, most_headers: usize) -> Result<Option<Head>, BadHead> {
    // RFC 9112 §2.2: an empty line before a request is passed over.
    while read.starts_with(b"\r\n") {
        drop(read.split_to(2));
    }
    // Not set to anything before it is read: that would cost more than reading it.
    let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(read, &mut fields) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => {
            check_lines(read)?;
            return if read.len() < longest { Ok(None) } else { Err(TOO_LARGE) };
        }
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_LARGE),
        Err(httparse::Error::Version) if names_a_version(read) => {
            let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
            return Err(BadHead { status, detail: "only HTTP/1.0 and HTTP/1.1 are spoken here" });
        }
        Err(_) => return Err(bad("the request's head is not HTTP/1")),
    };
    let count = request.headers.len();
    if length > longest || count > most_headers.min(MOST_HEADERS) {
        return Err(TOO_LARGE);
    }
    check_lines(&read[..length])?;
    let version = if request.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let origin = read.as_ptr() as usize;
    let place = |bytes: &[u8]| (bytes.as_ptr() as usize - origin, bytes.len());
    if request.path.is_some_and(|target| target.contains('#')) {
        return Err(bad("a fragment is none of a server's business"));
    }
    let target = place(request.path.unwrap_or_default().as_bytes());
    let method = Method::from_bytes(request.method.unwrap_or_default().as_bytes());
    let method = method.map_err(|_| bad("the method is none"))?;
    let places: Vec<(Place, Place)> =
        request.headers.iter().map(|field| (place(field.name.as_bytes()), place(field.value))).collect();
    let head = read.split_to(length).freeze();
    let uri = Uri::from_maybe_shared(slice(&head, target)).map_err(|_| bad("the target is none"))?;
    build(&head, &places, method, uri, version).map(Some)
}

/// Where something stands: its start and its length.
type Place = (usize, usize);

fn slice(head: &Bytes, (start, length): Place) -> Bytes {
    head.slice(start..start + length)
}

/// Whether a request line has three words, the last of which is a version of HTTP.
fn names_a_version(read: &[u8]) -> bool {
    let line = read.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    matches!(words[..], [_, _, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

fn check_lines(head: &[u8]) -> Result<(), BadHead> {
    if ends_in_crlf(head) { Ok(()) } else { Err(bad("a line does not end in CR LF")) }
}

fn build(head: &Bytes, places: &[(Place, Place)], method: Method, uri: Uri, version: Version) -> Result<Head, BadHead> {
    let mut headers = HeaderMap::with_capacity(places.len());
    let (mut length, mut chunked, mut close, mut keep, mut expects, mut trailers) =
        (None, false, false, false, false, false);
    for &(name, value) in places {
        let name =
            HeaderName::from_bytes(&head[name.0..name.0 + name.1]).map_err(|_| bad("a header's name is none"))?;
        let value = HeaderValue::from_maybe_shared(slice(head, value)).map_err(|_| bad("a header's value is none"))?;
        match name {
            header::CONTENT_LENGTH => {
                if length.is_some() {
                    return Err(bad("there is more than one Content-Length"));
                }
                length = Some(content_length(value.as_bytes()).ok_or(bad("the Content-Length is no number"))?);
            }
            header::TRANSFER_ENCODING => {
                if version == Version::HTTP_10 {
                    return Err(bad("HTTP/1.0 has no Transfer-Encoding"));
                }
                if chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                    let detail = "of all transfer codings only `chunked` is understood, once";
                    return Err(BadHead { status: StatusCode::NOT_IMPLEMENTED, detail });
                }
                chunked = true;
            }
            header::CONNECTION => {
                for word in value.to_str().unwrap_or_default().split(',').map(str::trim) {
                    close |= word.eq_ignore_ascii_case("close");
                    keep |= word.eq_ignore_ascii_case("keep-alive");
                }
            }
            header::EXPECT => {
                if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
                    return Err(BadHead {
                        status: StatusCode::EXPECTATION_FAILED,
                        detail: "only 100-continue can be expected",
                    });
                }
                expects = version == Version::HTTP_11;
            }
            header::TE => trailers |= value.as_bytes().to_ascii_lowercase().windows(8).any(|word| word == b"trailers"),
            _ => {}
        }
        headers.append(name, value);
    }
    if chunked && length.is_some() {
        return Err(bad("there are both Content-Length and Transfer-Encoding"));
    }
    let rest = match (chunked, length) {
        (true, _) => Rest::Chunked(Chunked::default()),
        (false, None | Some(0)) => Rest::Ended,
        (false, Some(length)) => Rest::Length(length),
    };
    let mut request = Request::new(());
    (*request.method_mut(), *request.uri_mut(), *request.version_mut()) = (method, uri, version);
    *request.headers_mut() = headers;
    Ok(Head {
        parts: request.into_parts().0,
        expects_continue: expects && !matches!(rest, Rest::Ended),
        rest,
        keep_alive: !close && (version == Version::HTTP_11 || keep),
        takes_trailers: trailers,
    })
}
