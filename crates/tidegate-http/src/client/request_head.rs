//! Heads: requests written anew, answers read strictly.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::{HeaderName, Method, StatusCode, Uri};

use crate::fields::{Fields, Unfinished};
use crate::forwarded::{Told, write_host, write_proto};

/// The most words in all `Connection` fields of a head: each is compared with each field.
pub(crate) const MOST_CONNECTION_WORDS: usize = 64;
/// The most headers an answer may have.
const MOST_HEADERS: usize = 128;

/// Everything the head of a request to an upstream is written from. Nothing of the client's own head is passed on unread.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) fields: &'a Fields,
    /// What goes before the path.
    pub(crate) base: &'a str,
    /// The `Host` to send.
    pub(crate) host: &'a [u8],
    /// The `Host` the client asked for.
    pub(crate) asked_host: &'a [u8],
    /// Whoever connected to us, for `X-Forwarded-For` and for `Forwarded`.
    pub(crate) peer: &'a str,
    pub(crate) peer_forwarded: &'a str,
    /// What the peer says of others, if that is believed.
    pub(crate) told: Option<Told<'a>>,
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
    /// How often those after us may send it on, if it says so.
    pub(crate) forwards_left: Option<u64>,
    /// The protocol to upgrade to.
    pub(crate) upgrade: Option<&'a [u8]>,
}

/// How the length of a request's body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// There is none.
    None,
    Known(u64),
    Chunked,
}

/// Whether a field concerns one connection only (RFC 9110 §7.6.1).
pub(super) fn is_hop_by_hop(name: &[u8]) -> bool {
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

/// Whether a field is written by us alone: who asked, for what, through whom. Or by nobody: CGI and its kin make `HTTP_PROXY` of `Proxy`,
/// and would send their own requests to wherever a client says (CVE-2016-5385).
pub(super) fn is_ours(name: &[u8]) -> bool {
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

/// Whether a field is one that a proxy tells of its client, beside those that we write.
fn is_of_proxies(name: &[u8]) -> bool {
    starts_with(name, b"x-forwarded-") || name.eq_ignore_ascii_case(b"x-real-ip")
}

pub(super) fn starts_with(name: &[u8], start: &[u8]) -> bool {
    name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// What a name with underscores means to CGI and its kin: to them `x_forwarded_for` is the same as `x-forwarded-for`.
pub(super) fn dashed(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'_') {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).collect())
}

/// The names that `Connection` makes hop-by-hop too.
fn nominated(fields: &Fields) -> impl Iterator<Item = &str> {
    fields.all("connection").flat_map(words).filter(|word| is_nomination(word))
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
    /// Whether its trailers are passed on: not where one could stand for a header that only trusted peers may set.
    pub(super) takes_trailers: bool,
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
            takes_trailers: self.guarded.is_empty(),
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
        let nominated: Vec<&str> = nominated(self.fields).collect();
        let mut has_cookies = false;
        for (name, value) in self.fields.iter() {
            let is_nominated = nominated.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
            if is_nominated || self.is_dropped(&dashed(name)) {
                continue;
            }
            if name.eq_ignore_ascii_case(b"cookie") {
                has_cookies = true;
            } else if name.eq_ignore_ascii_case(b"max-forwards")
                && let Some(left) = self.forwards_left
            {
                write_field(out, name, itoa::Buffer::new().format(left).as_bytes());
            } else {
                write_field(out, name, value);
            }
        }
        if has_cookies {
            self.write_cookies(out);
        }
        self.write_framing(out);
        self.write_forwarded(out);
        out.extend_from_slice(b"\r\n");
    }

    /// Whether a field is not passed on.
    fn is_dropped(&self, name: &[u8]) -> bool {
        let is_guarded = |name: &[u8]| {
            self.guarded.iter().any(|other| name.eq_ignore_ascii_case(&dashed(other.as_str().as_bytes())))
        };
        is_hop_by_hop(name) || is_ours(name) || self.told.is_none() && (is_of_proxies(name) || is_guarded(name))
    }

    /// HTTP/2 may cut cookies into crumbs; HTTP/1 has them in one line (RFC 9113 §8.2.3).
    fn write_cookies(&self, out: &mut BytesMut) {
        write_field_start(out, b"cookie");
        for (place, crumb) in self.fields.all("cookie").enumerate() {
            out.extend_from_slice(if place == 0 { b"" } else { b"; " });
            out.extend_from_slice(crumb);
        }
        out.extend_from_slice(b"\r\n");
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
            write_field(out, b"upgrade", protocol);
        } else if self.fields.all("te").flat_map(words).any(takes_trailers) {
            write_field(out, b"connection", b"te");
            write_field(out, b"te", b"trailers");
        }
    }

    /// Who asked, and through whom. What an untrusted peer said of others is replaced, not extended.
    fn write_forwarded(&self, out: &mut BytesMut) {
        let told = self.told.as_ref();
        let proto = told.and_then(Told::proto).unwrap_or(self.scheme);
        let host = told.and_then(Told::host).map_or(self.asked_host, str::as_bytes);
        write_field_start(out, b"x-forwarded-for");
        if let Some(told) = told {
            told.write_old(self.fields, out);
        }
        out.extend_from_slice(self.peer.as_bytes());
        out.extend_from_slice(b"\r\n");
        write_field(out, b"x-forwarded-proto", proto.as_bytes());
        if !host.is_empty() {
            write_field(out, b"x-forwarded-host", host);
        }
        write_field_start(out, b"forwarded");
        let is_continued = told.is_some_and(|told| told.write_standard(self.fields, out));
        out.extend_from_slice(self.peer_forwarded.as_bytes());
        // The first element is the one that says what the client used.
        let (host, proto) = if is_continued { (self.asked_host, self.scheme) } else { (host, proto) };
        if !host.is_empty() {
            write_host(host, out);
        }
        write_proto(proto, out);
        out.extend_from_slice(b"\r\n");
        write_field_start(out, b"via");
        for before in self.fields.all("via") {
            out.extend_from_slice(before);
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(self.version.as_bytes());
        out.extend_from_slice(b" tidegate\r\n");
        write_field(out, b"x-request-id", self.request_id.as_bytes());
        if let Some(limit) = self.degraded {
            write_field(out, b"x-tidegate-degraded", limit.as_bytes());
        }
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
    pub(super) fields: Fields,
    pub(super) framing: Framing,
    /// Whether it speaks HTTP/1.0.
    pub(super) is_old: bool,
    /// Whether the connection can carry another request.
    pub(super) keep_alive: bool,
    /// The protocol it upgrades to.
    pub(super) upgrade: Option<Bytes>,
}

/// Takes a head out of `read`, if it is there as a whole. `bodiless`: the request was HEAD.
pub(super) fn take_answer(
    read: &mut BytesMut,
    longest: usize,
    bodiless: bool,
) -> Result<Option<AnswerHead>, &'static str> {
    // Not set to anything before it is read: that would cost more than reading it.
    let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let length = match parser.parse_response_with_uninit_headers(&mut answer, read, &mut fields) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if read.len() < longest => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err("its head is too large"),
        Err(_) => return Err("its head is not HTTP/1"),
    };
    if length > longest {
        return Err("its head is too large");
    }
    let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("its status is none")?;
    let facts = Facts::read(answer.headers, answer.version == Some(0))?;
    let mut fields = Unfinished::new(read, answer.headers.len());
    for field in answer.headers.iter() {
        if !facts.concerns_connection(field.name, answer.headers) {
            fields.add(field.name.as_bytes(), field.value);
        }
    }
    let upgrade = facts.upgrade.map(Bytes::copy_from_slice);
    let is_empty = bodiless || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let framing = match (is_empty, facts.is_chunked, facts.length) {
        (_, true, Some(_)) => return Err("it has both Content-Length and Transfer-Encoding"),
        (true, ..) => Framing::Length(0),
        (false, true, None) => Framing::Chunked,
        (false, false, Some(length)) => Framing::Length(length),
        (false, false, None) => Framing::UntilClose,
    };
    // What follows an answer that can't have a body would be taken for the next one (RFC 9112 §6.3).
    let is_followed =
        status == StatusCode::NO_CONTENT && (facts.is_chunked || facts.length.is_some_and(|length| length > 0));
    let keep_alive = framing != Framing::UntilClose && !is_followed && !facts.close && (!facts.is_old || facts.keep);
    let is_old = facts.is_old;
    let fields = fields.within(read.split_to(length).freeze());
    Ok(Some(AnswerHead { status, fields, framing, is_old, keep_alive, upgrade }))
}

/// What the fields of an answer say of its body and its connection.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Facts<'a> {
    is_old: bool,
    length: Option<u64>,
    is_chunked: bool,
    close: bool,
    keep: bool,
    /// Whether `Connection` names fields.
    nominates: bool,
    upgrade: Option<&'a [u8]>,
}

impl<'a> Facts<'a> {
    fn read(fields: &[httparse::Header<'a>], is_old: bool) -> Result<Self, &'static str> {
        let (length, upgrade, mut count) = (None, None, 0);
        let mut facts =
            Self { is_old, length, is_chunked: false, close: false, keep: false, nominates: false, upgrade };
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                // No field that concerns the connection has a name of another length.
                14 if is("content-length") => {
                    let told = content_length(field.value).ok_or("its Content-Length is no number")?;
                    if facts.length.replace(told).is_some() {
                        return Err("it has two Content-Lengths");
                    }
                }
                17 if is("transfer-encoding") => {
                    if facts.is_chunked || is_old || !field.value.eq_ignore_ascii_case(b"chunked") {
                        return Err("its Transfer-Encoding is not understood");
                    }
                    facts.is_chunked = true;
                }
                10 if is("connection") => {
                    for word in words(field.value) {
                        count += 1;
                        facts.close |= word.eq_ignore_ascii_case("close");
                        facts.keep |= word.eq_ignore_ascii_case("keep-alive");
                        facts.nominates |= is_nomination(word);
                    }
                    if count > MOST_CONNECTION_WORDS {
                        return Err("its Connection has too many words");
                    }
                }
                7 if is("upgrade") => facts.upgrade = Some(field.value),
                _ => {}
            }
        }
        Ok(facts)
    }

    /// Whether a field stays on its connection.
    fn concerns_connection(&self, name: &str, fields: &[httparse::Header<'_>]) -> bool {
        if is_hop_by_hop(name.as_bytes()) {
            return true;
        }
        if !self.nominates || name.eq_ignore_ascii_case("content-length") {
            // What frames the body is not up to the connection.
            return false;
        }
        let connections = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
        connections.flat_map(|field| words(field.value)).any(|word| name.eq_ignore_ascii_case(word))
    }
}

/// The words of a list, as `Connection` has them; what is no text is none.
pub(crate) fn words(value: &[u8]) -> impl Iterator<Item = &str> {
    value.split(|byte| *byte == b',').map(|word| str::from_utf8(word.trim_ascii()).unwrap_or_default())
}

/// Whether a word of `TE` says that trailers are understood.
pub(crate) fn takes_trailers(word: &str) -> bool {
    word.split(';').next().is_some_and(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// Whether a word of `Connection` names a field.
fn is_nomination(word: &str) -> bool {
    let usual = ["keep-alive", "close", "upgrade", "te"];
    !word.is_empty() && !usual.iter().any(|usual| word.eq_ignore_ascii_case(usual))
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
        let fields = head.expect("readable").expect("whole").fields;
        let names: Vec<&[u8]> = fields.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"Content-Length"[..], b"X-Kept"]);
    }
}
