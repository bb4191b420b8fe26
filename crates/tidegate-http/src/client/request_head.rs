//! Heads of requests, written anew.

use bytes::BytesMut;
use http::{HeaderName, Method, Uri};

use crate::forwarded::{Forwarded, write_host, write_proto};
use crate::framing::{dashed, is_hop_by_hop, is_nomination, is_ours, starts_with, takes_trailers, words};
use crate::headers::Headers;

/// Everything the head of a request to an upstream is written from. Nothing of the client's own head is passed on
/// unread.
pub struct OutgoingHead<'a> {
    /// The client's.
    pub method: &'a Method,
    /// The client's.
    pub uri: &'a Uri,
    /// The client's.
    pub headers: &'a Headers,
    /// What goes before the path.
    pub base: &'a str,
    /// The `Host` to send.
    pub host: &'a [u8],
    /// The `Host` the client asked for.
    pub asked_host: &'a [u8],
    /// The client that connected to us, for `X-Forwarded-For` …
    pub peer: &'a str,
    /// … and for `Forwarded`.
    pub peer_forwarded: &'a str,
    /// What the peer reports of others, if it is trusted.
    pub forwarded: Option<Forwarded<'a>>,
    /// What the client used to come here.
    pub scheme: &'static str,
    /// The version the client speaks, for `Via`.
    pub version: &'static str,
    /// Headers that we add, by names in lower case.
    pub added: &'a [(&'a str, &'a str)],
    /// Headers that only a trusted peer may set.
    pub guarded: &'a [HeaderName],
    /// How long its body is.
    pub body: BodyLength,
    /// The client waits for `100 Continue` before it sends its body.
    pub expects_continue: bool,
    /// How often those after us may send it on, if it says so.
    pub forwards_left: Option<u64>,
    /// The protocol to upgrade to.
    pub upgrade: Option<&'a [u8]>,
}

/// How the length of a request's body stands in its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none.
    None,
    /// So many bytes.
    Known(u64),
    /// Nobody knows: it is sent in chunks.
    Chunked,
}

/// Whether a header is one by which a proxy reports its client, beside those that we write.
fn is_of_proxies(name: &[u8]) -> bool {
    starts_with(name, b"x-forwarded-") || name.eq_ignore_ascii_case(b"x-real-ip")
}

/// The names that `Connection` makes hop-by-hop too.
fn nominated(headers: &Headers) -> impl Iterator<Item = &str> {
    headers.all("connection").flat_map(words).filter(|word| is_nomination(word))
}

/// What an exchange must know of the request whose head it sends.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Traits {
    pub(super) is_head: bool,
    /// It can be sent twice and means the same.
    pub(super) is_idempotent: bool,
    pub(super) is_upgrade: bool,
    pub(super) expects_continue: bool,
    /// Whether its trailers are passed on: not where one could stand for a header that only trusted peers may set.
    pub(super) takes_trailers: bool,
    pub(super) body: BodyLength,
}

impl OutgoingHead<'_> {
    /// What the exchange must know of it.
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

    /// The whole head, as it is sent.
    pub fn head(&self) -> BytesMut {
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
        let nominated: Vec<&str> = nominated(self.headers).collect();
        let mut has_cookies = false;
        for (name, value) in self.headers.iter() {
            let is_nominated = nominated.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
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
        is_hop_by_hop(name) || is_ours(name) || self.forwarded.is_none() && (is_of_proxies(name) || is_guarded(name))
    }

    /// HTTP/2 may cut cookies into crumbs; HTTP/1 has them in one line (RFC 9113 §8.2.3).
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

    /// Who sent it, and through whom. What an untrusted peer reports of others is replaced, not extended.
    fn write_forwarded(&self, out: &mut BytesMut) {
        let forwarded = self.forwarded.as_ref();
        let proto = forwarded.and_then(Forwarded::proto).unwrap_or(self.scheme);
        let host = forwarded.and_then(Forwarded::host).map_or(self.asked_host, str::as_bytes);
        write_header_start(out, b"x-forwarded-for");
        if let Some(forwarded) = forwarded {
            forwarded.write_old(self.headers, out);
        }
        out.extend_from_slice(self.peer.as_bytes());
        out.extend_from_slice(b"\r\n");
        write_header(out, b"x-forwarded-proto", proto.as_bytes());
        if !host.is_empty() {
            write_header(out, b"x-forwarded-host", host);
        }
        write_header_start(out, b"forwarded");
        let is_continued = forwarded.is_some_and(|forwarded| forwarded.write_standard(self.headers, out));
        out.extend_from_slice(self.peer_forwarded.as_bytes());
        // The first element is the one that says what the client used.
        let (host, proto) = if is_continued { (self.asked_host, self.scheme) } else { (host, proto) };
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
            write_header(out, name.as_bytes(), value.as_bytes());
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
