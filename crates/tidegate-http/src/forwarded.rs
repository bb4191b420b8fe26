//! The headers by which a proxy reports its clients: `Forwarded` (RFC 7239) and the older `X-Forwarded-*`. Upstreams
//! read one or the other, so both must agree.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::BytesMut;

use crate::headers::{Headers, text};

/// What a trusted peer reported about its clients.
pub struct Forwarded<'a>(Form<'a>);

enum Form<'a> {
    /// In `X-Forwarded-*`, or nothing.
    XForwarded { proto: Option<&'a str>, host: Option<&'a str> },
    /// In `Forwarded` alone. `client` is the index of the element that reports the client.
    Standard { elements: Vec<Element<'a>>, client: usize },
}

/// What one proxy added to `Forwarded`.
#[derive(Default)]
struct Element<'a> {
    node: Option<Cow<'a, str>>,
    proto: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
}

/// The client that a trusted peer reports in `Forwarded`: the last address that is not a trusted proxy. And the index
/// of its element, which the proxy that it connected to has written. Anyone could have written the elements before it.
fn client(is_trusted: impl Fn(IpAddr) -> bool, peer: IpAddr, elements: &[Element<'_>]) -> (IpAddr, usize) {
    let mut client = peer;
    for (index, element) in elements.iter().enumerate().rev() {
        let Some(address) = element.node.as_deref().and_then(parse_address) else { return (client, index) };
        client = address;
        if !is_trusted(client) {
            return (client, index);
        }
    }
    (client, 0)
}

/// The client that a trusted proxy reports: the last address that is not a trusted proxy itself. Anyone could have
/// written the addresses before it.
pub fn client_ip(is_trusted: impl Fn(IpAddr) -> bool, peer: IpAddr, headers: &Headers) -> IpAddr {
    let values: Vec<&[u8]> = headers.all("x-forwarded-for").collect();
    if values.is_empty() {
        return read(headers).map_or(peer, |elements| client(is_trusted, peer, &elements).0);
    }
    let mut client = peer;
    for address in values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b',')) {
        let Some(address) = text(address).and_then(|text| parse_address(text.trim())) else { return client };
        client = address;
        if !is_trusted(client) {
            return client;
        }
    }
    client
}

/// An address as proxies write it: bare, in brackets, with a port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.parse::<IpAddr>();
    let bare = bare.or_else(|_| text.parse::<std::net::SocketAddr>().map(|address| address.ip()));
    let bare = bare.or_else(|_| text.trim_start_matches('[').trim_end_matches(']').parse());
    bare.ok().map(|ip| ip.to_canonical())
}

impl<'a> Forwarded<'a> {
    /// What a trusted peer reported. If both headers are there, `X-Forwarded-For` counts: a proxy that knows only that
    /// one passes on a `Forwarded` that its client made up.
    pub fn read(is_trusted: impl Fn(IpAddr) -> bool, peer: IpAddr, headers: &'a Headers) -> Self {
        if !headers.has("x-forwarded-for")
            && let Some(elements) = read(headers)
        {
            let (_, client) = client(is_trusted, peer, &elements);
            return Self(Form::Standard { elements, client });
        }
        let (proto, host) = (first(headers, "x-forwarded-proto"), first(headers, "x-forwarded-host"));
        Self(Form::XForwarded { proto, host })
    }

    /// The scheme that the client used.
    pub(crate) fn proto(&self) -> Option<&str> {
        match &self.0 {
            Form::XForwarded { proto, .. } => *proto,
            Form::Standard { elements, client } => elements[*client].proto.as_deref(),
        }
        .filter(|proto| is_scheme(proto))
    }

    /// The host that the client requested.
    pub(crate) fn host(&self) -> Option<&str> {
        match &self.0 {
            Form::XForwarded { host, .. } => *host,
            Form::Standard { elements, client } => elements[*client].host.as_deref(),
        }
        .filter(|host| is_host(host))
    }

    /// Writes the part of `X-Forwarded-For` that comes before the peer.
    pub(crate) fn write_x_forwarded_for(&self, headers: &Headers, out: &mut BytesMut) {
        match &self.0 {
            Form::XForwarded { .. } => {
                for before in headers.all("x-forwarded-for") {
                    out.extend_from_slice(before);
                    out.extend_from_slice(b", ");
                }
            }
            Form::Standard { elements, .. } => {
                for element in elements {
                    let node = element.node.as_deref().and_then(parse_address);
                    let node = node.map_or("unknown".into(), |address| address.to_string());
                    out.extend_from_slice(node.as_bytes());
                    out.extend_from_slice(b", ");
                }
            }
        }
    }

    /// Writes the part of `Forwarded` that comes before the peer. Returns whether it wrote anything.
    pub(crate) fn write_forwarded(&self, headers: &Headers, out: &mut BytesMut) -> bool {
        let mut is_first = true;
        match &self.0 {
            Form::Standard { .. } => {
                for before in headers.all("forwarded") {
                    out.extend_from_slice(before);
                    out.extend_from_slice(b", ");
                }
                is_first = false;
            }
            // RFC 7239 §7.4. Scheme and host belong to the first element: they are those that the client used.
            Form::XForwarded { .. } => {
                for node in headers.all("x-forwarded-for").flat_map(|value| value.split(|byte| *byte == b',')) {
                    let address = text(node).and_then(|node| parse_address(node.trim()));
                    out.extend_from_slice(address.map_or("for=unknown".into(), node_of).as_bytes());
                    if std::mem::take(&mut is_first) {
                        if let Some(host) = self.host() {
                            write_host(host.as_bytes(), out);
                        }
                        if let Some(proto) = self.proto() {
                            write_proto(proto, out);
                        }
                    }
                    out.extend_from_slice(b", ");
                }
            }
        }
        !is_first
    }
}

/// An address as `Forwarded` writes it.
pub fn node_of(address: IpAddr) -> String {
    if address.is_ipv4() { format!("for={address}") } else { format!("for=\"[{address}]\"") }
}

pub(crate) fn write_host(host: &[u8], out: &mut BytesMut) {
    out.extend_from_slice(b";host=\"");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\"");
}

pub(crate) fn write_proto(proto: &str, out: &mut BytesMut) {
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(proto.as_bytes());
}

/// The first value of a header that may be a list.
fn first<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    let value = text(headers.get(name)?)?;
    value.split(',').next().map(str::trim).filter(|value| !value.is_empty())
}

fn is_scheme(proto: &str) -> bool {
    !proto.is_empty() && proto.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Whether it can be quoted in a header and is nothing but a host.
fn is_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\,;/@".contains(&byte))
}

/// The elements of all `Forwarded` headers. None if there are none or they are invalid: an unclosed quote would swallow
/// what is added after it.
fn read(headers: &Headers) -> Option<Vec<Element<'_>>> {
    let mut elements = Vec::new();
    for value in headers.all("forwarded") {
        let mut rest = text(value)?;
        loop {
            let (element, after) = read_element(rest)?;
            elements.push(element);
            match after {
                Some(after) => rest = after,
                None => break,
            }
        }
    }
    (!elements.is_empty()).then_some(elements)
}

/// An element, and what follows its comma.
fn read_element(mut rest: &str) -> Option<(Element<'_>, Option<&str>)> {
    let mut element = Element::default();
    loop {
        rest = rest.trim_start();
        if !rest.is_empty() && !rest.starts_with([';', ',']) {
            let (name, value) = rest.split_once('=')?;
            let (value, after) = read_value(value)?;
            rest = after.trim_start();
            let mut unknown = None;
            let part = match name.to_ascii_lowercase().as_str() {
                "for" => &mut element.node,
                "proto" => &mut element.proto,
                "host" => &mut element.host,
                other if other.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) => {
                    &mut unknown
                }
                _ => return None,
            };
            // Each parameter may occur once.
            if part.replace(value).is_some() {
                return None;
            }
        }
        match rest.bytes().next() {
            None => return Some((element, None)),
            Some(b',') => return Some((element, Some(&rest[1..]))),
            Some(b';') => rest = &rest[1..],
            Some(_) => return None,
        }
    }
}

/// A token or a quoted string, and what follows it.
fn read_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',', ' ', '\t']).unwrap_or(text.len());
        let is_token = end > 0 && text[..end].bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        return is_token.then(|| (Cow::Borrowed(&text[..end]), &text[end..]));
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (index, character) in quoted.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some((Cow::Owned(value), &quoted[index + 1..])),
            _ => {
                value.push(character);
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(value: &str) -> Option<Vec<(String, String, String)>> {
        let mut map = http::HeaderMap::new();
        map.insert("forwarded", value.parse().expect("a value"));
        let headers = Headers::from(&map);
        let text = |part: &Option<Cow<'_, str>>| part.as_deref().unwrap_or("-").to_owned();
        let all = |element: &Element<'_>| (text(&element.node), text(&element.proto), text(&element.host));
        read(&headers).map(|elements| elements.iter().map(all).collect())
    }

    fn owned(node: &str, proto: &str, host: &str) -> (String, String, String) {
        (node.to_owned(), proto.to_owned(), host.to_owned())
    }

    #[test]
    fn elements_are_read_as_rfc_7239_writes_them() {
        for (value, expected) in [
            ("for=192.0.2.43", vec![owned("192.0.2.43", "-", "-")]),
            ("For=\"[2001:db8:cafe::17]:4711\"", vec![owned("[2001:db8:cafe::17]:4711", "-", "-")]),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", vec![owned("192.0.2.60", "http", "-")]),
            (
                "for=192.0.2.43, for=198.51.100.17;host=a",
                vec![owned("192.0.2.43", "-", "-"), owned("198.51.100.17", "-", "a")],
            ),
            ("for=\"_a,b;c\" ; host=\"x\\\"y\"", vec![owned("_a,b;c", "-", "x\"y")]),
            ("proto=https;;", vec![owned("-", "https", "-")]),
        ] {
            assert_eq!(elements(value), Some(expected), "{value}");
        }
    }

    #[test]
    fn what_could_swallow_the_next_element_is_not_read_at_all() {
        for value in [
            "for=\"192.0.2.43",
            "for=\"a\\",
            "for=a\"b",
            "for=\"a\"b",
            "for=a;for=b",
            "for",
            "for =a",
            "for=a b",
            "for=, for=b",
        ] {
            assert_eq!(elements(value), None, "{value}");
        }
    }
}
