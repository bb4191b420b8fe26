//! Heads: requests written anew, answers read strictly.

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};

/// The most headers an answer may have.
const MOST_HEADERS: usize = 128;

/// Everything the head of a request to an upstream is written from. Nothing of the client's own head is passed on unread.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    /// What goes before the path.
    pub(crate) base: &'a str,
    /// The `Host` to send.
    pub(crate) host: &'a [u8],
    /// The `Host` the client asked for.
    pub(crate) asked_host: &'a str,
    /// Whoever connected to us, for `X-Forwarded-For` and for `Forwarded`.
    pub(crate) peer: &'a str,
    pub(crate) peer_forwarded: &'a str,
    /// Whether what the peer says of others is believed.
    pub(crate) trusted: bool,
    pub(crate) scheme: &'static str,
    /// The version the client speaks, for `Via`.
    pub(crate) version: &'static str,
    pub(crate) request_id: &'a str,
    /// The limit that is a little exceeded.
    pub(crate) degraded: Option<&'a str>,
    /// Headers that only a trusted peer may set.
    pub(crate) guarded: &'a [HeaderName],
    pub(crate) body: BodyLength,
    pub(crate) expects_continue: bool,
    /// The protocol to upgrade to.
    pub(crate) upgrade: Option<&'a HeaderValue>,
}

/// How the length of a request's body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// There is none.
    None,
    Known(u64),
    Chunked,
}

/// Headers that concern one connection only (RFC 9110 §7.6.1).
pub(crate) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONNECTION
            | header::TE
            | header::TRANSFER_ENCODING
            | header::UPGRADE
            | header::PROXY_AUTHORIZATION
            | header::PROXY_AUTHENTICATE
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// The names that `Connection` makes hop-by-hop too.
fn nominated(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',').map(str::trim)).filter(|name| {
        !name.is_empty()
            && !["keep-alive", "close", "upgrade", "te"].iter().any(|usual| name.eq_ignore_ascii_case(usual))
    })
}

/// What an exchange must know of the request whose head it sends.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Traits {
    pub(super) is_head: bool,
    /// It can be sent twice and means the same.
    pub(super) is_idempotent: bool,
    pub(super) is_upgrade: bool,
    pub(super) expects_continue: bool,
    pub(super) body: BodyLength,
}

impl Outgoing<'_> {
    pub(crate) fn traits(&self) -> Traits {
        let methods = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::TRACE];
        Traits {
            is_head: *self.method == Method::HEAD,
            is_idempotent: methods.contains(self.method),
            is_upgrade: self.upgrade.is_some(),
            expects_continue: self.expects_continue,
            body: self.body,
        }
    }

    /// The whole head, as it is sent.
    pub(crate) fn head(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(1_024);
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.extend_from_slice(b" ");
        let path = self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        // `OPTIONS *` asks the server itself: a base path has no meaning there.
        if path != "*" {
            out.extend_from_slice(self.base.as_bytes());
        }
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(self.host);
        out.extend_from_slice(b"\r\n");
        let none_nominated = nominated(self.headers).next().is_none();
        for (name, value) in self.headers {
            let dropped = is_hop_by_hop(name) || self.is_ours(name);
            let dropped = dropped
                || !none_nominated && nominated(self.headers).any(|other| name.as_str().eq_ignore_ascii_case(other));
            if !dropped {
                write_field(out, name.as_str().as_bytes(), value.as_bytes());
            }
        }
        self.write_framing(out);
        self.write_forwarded(out);
        out.extend_from_slice(b"\r\n");
    }

    /// Whether a header is written by us, whatever the client sent.
    fn is_ours(&self, name: &HeaderName) -> bool {
        let text = name.as_str();
        matches!(*name, header::HOST | header::CONTENT_LENGTH | header::EXPECT | header::VIA | header::FORWARDED)
            || text.starts_with("x-")
                && (matches!(
                    text,
                    "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" | "x-request-id" | "x-real-ip"
                ) || text.starts_with("x-tidegate-"))
            || !self.trusted && (text.starts_with("x-forwarded-") || self.guarded.contains(name))
    }

    fn write_framing(&self, out: &mut BytesMut) {
        match self.body {
            BodyLength::None => {}
            BodyLength::Known(length) => {
                write_field(out, b"content-length", itoa::Buffer::new().format(length).as_bytes());
            }
            BodyLength::Chunked => write_field(out, b"transfer-encoding", b"chunked"),
        }
        if self.expects_continue {
            write_field(out, b"expect", b"100-continue");
        }
        if let Some(protocol) = self.upgrade {
            write_field(out, b"connection", b"upgrade");
            write_field(out, b"upgrade", protocol.as_bytes());
        } else if self.headers.get_all(header::TE).iter().any(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers")) {
            write_field(out, b"connection", b"te");
            write_field(out, b"te", b"trailers");
        }
    }

    /// Who asked, and through whom. What an untrusted peer said of others is replaced, not extended.
    fn write_forwarded(&self, out: &mut BytesMut) {
        write_field_start(out, b"x-forwarded-for");
        for before in self.before("x-forwarded-for") {
            out.extend_from_slice(before);
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(self.peer.as_bytes());
        out.extend_from_slice(b"\r\n");
        let first = |name: &str| self.before(name).next().filter(|value| !value.is_empty());
        write_field(out, b"x-forwarded-proto", first("x-forwarded-proto").unwrap_or(self.scheme.as_bytes()));
        if let Some(host) =
            first("x-forwarded-host").or(Some(self.asked_host.as_bytes()).filter(|host| !host.is_empty()))
        {
            write_field(out, b"x-forwarded-host", host);
        }
        write_field_start(out, b"forwarded");
        for before in self.before("forwarded") {
            out.extend_from_slice(before);
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(self.peer_forwarded.as_bytes());
        if !self.asked_host.is_empty() {
            out.extend_from_slice(b";host=\"");
            out.extend_from_slice(self.asked_host.as_bytes());
            out.extend_from_slice(b"\"");
        }
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(self.scheme.as_bytes());
        out.extend_from_slice(b"\r\n");
        write_field_start(out, b"via");
        for before in self.headers.get_all(header::VIA) {
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(self.version.as_bytes());
        out.extend_from_slice(b" tidegate\r\n");
        write_field(out, b"x-request-id", self.request_id.as_bytes());
        if let Some(limit) = self.degraded {
            write_field(out, b"x-tidegate-degraded", limit.as_bytes());
        }
    }

    /// What a trusted peer said in this header.
    fn before(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let values = self.trusted.then(|| self.headers.get_all(name).iter());
        values.into_iter().flatten().map(HeaderValue::as_bytes)
    }
}

fn write_field_start(out: &mut BytesMut, name: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
}

fn write_field(out: &mut BytesMut, name: &[u8], value: &[u8]) {
    write_field_start(out, name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// How an answer's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// The head of an answer.
pub(super) struct AnswerHead {
    pub(super) status: StatusCode,
    /// Without those that concern the connection.
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether the connection can carry another request.
    pub(super) keep_alive: bool,
    /// The protocol it upgrades to.
    pub(super) upgrade: Option<HeaderValue>,
}

/// Takes a head out of `read`, if it is there as a whole. `bodiless`: the request was HEAD.
pub(super) fn take_answer(
    read: &mut BytesMut,
    longest: usize,
    bodiless: bool,
) -> Result<Option<AnswerHead>, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut fields);
    let length = match answer.parse(read) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if read.len() < longest => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err("its head is too large"),
        Err(_) => return Err("its head is not HTTP/1"),
    };
    if length > longest {
        return Err("its head is too large");
    }
    let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("its status is none")?;
    let is_old = answer.version == Some(0);
    let origin = read.as_ptr() as usize;
    let place = |bytes: &[u8]| (bytes.as_ptr() as usize - origin, bytes.len());
    let mut places = [((0, 0), (0, 0)); MOST_HEADERS];
    let count = answer.headers.len();
    for (place_of, field) in places.iter_mut().zip(answer.headers.iter()) {
        *place_of = (place(field.name.as_bytes()), place(field.value));
    }
    let head = read.split_to(length).freeze();
    read_fields(&head, &places[..count], status, is_old, bodiless).map(Some)
}

/// Where something stands: its start and its length.
type Place = (usize, usize);

fn read_fields(
    head: &Bytes,
    places: &[(Place, Place)],
    status: StatusCode,
    is_old: bool,
    bodiless: bool,
) -> Result<AnswerHead, &'static str> {
    let mut headers = HeaderMap::with_capacity(places.len() + 8);
    let (mut length, mut chunked, mut close, mut keep, mut upgrade) = (None, false, false, false, None);
    for &((name, name_length), (value, value_length)) in places {
        let name = HeaderName::from_bytes(&head[name..name + name_length]).map_err(|_| "a header's name is none")?;
        let value = HeaderValue::from_maybe_shared(head.slice(value..value + value_length));
        let value = value.map_err(|_| "a header's value is none")?;
        match name {
            header::CONTENT_LENGTH => {
                let told = content_length(value.as_bytes()).ok_or("its Content-Length is no number")?;
                if length.is_some() {
                    return Err("it has two Content-Lengths");
                }
                length = Some(told);
                headers.insert(name, value);
            }
            header::TRANSFER_ENCODING => {
                if chunked || is_old || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                    return Err("its Transfer-Encoding is not understood");
                }
                chunked = true;
            }
            header::CONNECTION => {
                for word in value.to_str().unwrap_or_default().split(',').map(str::trim) {
                    close |= word.eq_ignore_ascii_case("close");
                    keep |= word.eq_ignore_ascii_case("keep-alive");
                }
                // Kept until all fields are read: it may name others.
                headers.append(name, value);
            }
            header::UPGRADE => upgrade = Some(value),
            _ if is_hop_by_hop(&name) => {}
            _ => {
                headers.append(name, value);
            }
        }
    }
    remove_nominated(&mut headers);
    let is_empty = bodiless || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let framing = match (is_empty, chunked, length) {
        (_, true, Some(_)) => return Err("it has both Content-Length and Transfer-Encoding"),
        (true, ..) => Framing::Length(0),
        (false, true, None) => Framing::Chunked,
        (false, false, Some(length)) => Framing::Length(length),
        (false, false, None) => Framing::UntilClose,
    };
    if status == StatusCode::NO_CONTENT || status.is_informational() {
        headers.remove(header::CONTENT_LENGTH);
    }
    let keep_alive = framing != Framing::UntilClose && !close && (!is_old || keep);
    Ok(AnswerHead { status, headers, framing, keep_alive, upgrade })
}

fn remove_nominated(headers: &mut HeaderMap) {
    if !headers.contains_key(header::CONNECTION) {
        return;
    }
    let names: Vec<String> = nominated(headers).map(str::to_ascii_lowercase).collect();
    headers.remove(header::CONNECTION);
    for name in names {
        // What frames the body is not up to the connection.
        if name != "content-length" {
            headers.remove(name.as_str());
        }
    }
}

/// Digits and nothing else.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.len() <= 19 && value.iter().all(u8::is_ascii_digit);
    digits.then(|| value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Result<Option<AnswerHead>, &'static str> {
        take_answer(&mut BytesMut::from(text), 4_096, false)
    }

    fn framing(text: &str) -> (Framing, bool) {
        let head = answer(text).expect("readable").expect("whole");
        (head.framing, head.keep_alive)
    }

    #[test]
    fn the_end_of_an_answer_is_told_by_its_head() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", (Framing::Length(5), true)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", (Framing::Chunked, true)),
            ("HTTP/1.1 200 OK\r\n\r\n", (Framing::UntilClose, false)),
            ("HTTP/1.1 204 No Content\r\n\r\n", (Framing::Length(0), true)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", (Framing::Length(0), true)),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", (Framing::Length(5), false)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", (Framing::Length(5), false)),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", (Framing::Length(5), true)),
        ] {
            assert_eq!(framing(text), expected, "{text}");
        }
        assert!(answer("HTTP/1.1 200 OK\r\nContent-Le").expect("readable").is_none());
    }

    #[test]
    fn an_ambiguous_answer_is_refused() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
            "HTTP/1.1 999999 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "SSH-2.0-x\r\n\r\n",
        ] {
            assert!(answer(text).is_err(), "{text}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(5_000));
        assert!(answer(&long).is_err());
        assert!(answer(&long[..4_500]).is_err());
    }

    #[test]
    fn what_concerns_the_connection_stays_on_it() {
        let head = answer(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-Hop, Content-Length\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: 2\r\n\r\n",
        );
        let headers = head.expect("readable").expect("whole").headers;
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-length", "x-kept"]);
    }
}
