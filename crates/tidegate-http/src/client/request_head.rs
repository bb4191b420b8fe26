//! Heads of requests to upstreams, written anew.

use bytes::BytesMut;
use http::{HeaderName, Method, Uri};

use crate::forwarded::{Forwarded, write_host, write_proto};
use crate::framing::{dashed, is_hop_by_hop, is_nomination, is_written_anew, starts_with, takes_trailers, words};
use crate::headers::Headers;

/// Everything that the head of a request to an upstream is written from. Nothing of the client's own head is passed on
/// unread.
pub struct OutgoingHead<'a> {
    /// The client's method.
    pub method: &'a Method,
    /// The client's target.
    pub uri: &'a Uri,
    /// The client's headers.
    pub headers: &'a Headers,
    /// The path that every path to this upstream starts with.
    pub base: &'a str,
    /// The `Host` to send.
    pub host: &'a [u8],
    /// The host that the client requested.
    pub requested_host: &'a [u8],
    /// The peer's address for `X-Forwarded-For`.
    pub peer: &'a str,
    /// The peer's address for `Forwarded`.
    pub peer_forwarded: &'a str,
    /// What the peer reports about its clients, if it is trusted.
    pub forwarded: Option<Forwarded<'a>>,
    /// The scheme that the client used.
    pub scheme: &'static str,
    /// The version of HTTP that the client used, for `Via`.
    pub version: &'static str,
    /// Headers that the gateway adds, by names in lower case.
    pub added: &'a [(&'a str, &'a [u8])],
    /// Headers that only a trusted peer may set.
    pub guarded: &'a [HeaderName],
    /// The length of its body.
    pub body: BodyLength,
    /// The client waits for `100 Continue` before it sends its body.
    pub expects_continue: bool,
    /// The value of `Max-Forwards` to send, if the client sent one.
    pub forwards_left: Option<u64>,
    /// The protocol to upgrade to.
    pub upgrade: Option<&'a [u8]>,
}

/// The length of a request's body, as its head announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body.
    None,
    /// This many bytes.
    Known(u64),
    /// Unknown: the body is sent in chunks.
    Chunked,
}

/// Whether a proxy reports its client by this header, besides those that the gateway writes.
fn is_of_proxies(name: &[u8]) -> bool {
    starts_with(name, b"x-forwarded-") || name.eq_ignore_ascii_case(b"x-real-ip")
}

/// The names of the headers that `Connection` makes hop-by-hop.
fn nominated(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    // Most clients send just this, and it is seen at a glance.
    let values = headers.all("connection").filter(|value| !value.eq_ignore_ascii_case(b"keep-alive"));
    values.flat_map(words).filter(|word| is_nomination(word))
}

/// What an exchange needs to know about the request whose head it sends.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Traits {
    pub(super) is_head: bool,
    /// Sending it twice has the same effect as sending it once.
    pub(super) is_idempotent: bool,
    pub(super) is_upgrade: bool,
    pub(super) expects_continue: bool,
    /// Whether its trailers are passed on. They are not where a trailer could replace a header that only trusted peers
    /// may set.
    pub(super) takes_trailers: bool,
    pub(super) body: BodyLength,
}

impl OutgoingHead<'_> {
    /// What the exchange needs to know about it.
    pub fn traits(&self) -> Traits {
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

    /// The encoded head.
    pub fn head(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(1_024);
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.extend_from_slice(b" ");
        let path = self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        // `OPTIONS *` is for the server itself: a base path has no meaning there.
        if path != "*" {
            out.extend_from_slice(self.base.as_bytes());
        }
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(self.host);
        out.extend_from_slice(b"\r\n");
        let nominated: Vec<&[u8]> = nominated(self.headers).collect();
        let mut has_cookies = false;
        for (name, value) in self.headers.iter() {
            let is_nominated = nominated.iter().any(|other| name.eq_ignore_ascii_case(other));
            if is_nominated || self.is_dropped(&dashed(name)) {
                continue;
            }
            if name.eq_ignore_ascii_case(b"cookie") {
                has_cookies = true;
            } else if name.eq_ignore_ascii_case(b"max-forwards")
                && let Some(left) = self.forwards_left
            {
                write_header(out, name, itoa::Buffer::new().format(left).as_bytes());
            } else {
                write_header(out, name, value);
            }
        }
        if has_cookies {
            self.write_cookies(out);
        }
        self.write_framing(out);
        self.write_forwarded(out);
        out.extend_from_slice(b"\r\n");
    }

    /// Whether a header is not passed on.
    fn is_dropped(&self, name: &[u8]) -> bool {
        let is_guarded = |name: &[u8]| {
            self.guarded.iter().any(|other| name.eq_ignore_ascii_case(&dashed(other.as_str().as_bytes())))
        };
        is_hop_by_hop(name)
            || is_written_anew(name)
            || self.forwarded.is_none() && (is_of_proxies(name) || is_guarded(name))
    }

    /// HTTP/2 may split cookies into several headers; HTTP/1 has one (RFC 9113 §8.2.3).
    fn write_cookies(&self, out: &mut BytesMut) {
        write_header_start(out, b"cookie");
        for (index, crumb) in self.headers.all("cookie").enumerate() {
            out.extend_from_slice(if index == 0 { b"" } else { b"; " });
            out.extend_from_slice(crumb);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_framing(&self, out: &mut BytesMut) {
        match self.body {
            BodyLength::None => {}
            BodyLength::Known(length) => {
                write_header(out, b"content-length", itoa::Buffer::new().format(length).as_bytes());
            }
            BodyLength::Chunked => write_header(out, b"transfer-encoding", b"chunked"),
        }
        if self.expects_continue {
            write_header(out, b"expect", b"100-continue");
        }
        if let Some(protocol) = self.upgrade {
            write_header(out, b"connection", b"upgrade");
            write_header(out, b"upgrade", protocol);
        } else if self.headers.all("te").flat_map(words).any(takes_trailers) {
            write_header(out, b"connection", b"te");
            write_header(out, b"te", b"trailers");
        }
    }

    /// The headers that report the client and the proxies. What an untrusted peer reports is replaced, not extended.
    fn write_forwarded(&self, out: &mut BytesMut) {
        let forwarded = self.forwarded.as_ref();
        let proto = forwarded.and_then(Forwarded::proto).unwrap_or(self.scheme);
        let host = forwarded.and_then(Forwarded::host).map_or(self.requested_host, str::as_bytes);
        write_header_start(out, b"x-forwarded-for");
        if let Some(forwarded) = forwarded {
            forwarded.write_x_forwarded_for(self.headers, out);
        }
        out.extend_from_slice(self.peer.as_bytes());
        out.extend_from_slice(b"\r\n");
        write_header(out, b"x-forwarded-proto", proto.as_bytes());
        if !host.is_empty() {
            write_header(out, b"x-forwarded-host", host);
        }
        write_header_start(out, b"forwarded");
        let is_continued = forwarded.is_some_and(|forwarded| forwarded.write_forwarded(self.headers, out));
        out.extend_from_slice(self.peer_forwarded.as_bytes());
        // The first element reports the host and the scheme that the client used.
        let (host, proto) = if is_continued { (self.requested_host, self.scheme) } else { (host, proto) };
        if !host.is_empty() {
            write_host(host, out);
        }
        write_proto(proto, out);
        out.extend_from_slice(b"\r\n");
        write_header_start(out, b"via");
        for before in self.headers.all("via") {
            out.extend_from_slice(before);
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(self.version.as_bytes());
        out.extend_from_slice(b" tidegate\r\n");
        for (name, value) in self.added {
            write_header(out, name.as_bytes(), value);
        }
    }
}

fn write_header_start(out: &mut BytesMut, name: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
}

fn write_header(out: &mut BytesMut, name: &[u8], value: &[u8]) {
    write_header_start(out, name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
