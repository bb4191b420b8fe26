//! What a proxy says of those it speaks for: `Forwarded` (RFC 7239), or the older `X-Forwarded-*`. Upstreams read the one or the other, so
//! both must tell them the same.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::BytesMut;

use crate::fields::{Fields, text};
use crate::plan::Site;
use crate::validation::parse_address;

/// What a trusted peer said of those before it.
pub(crate) enum Told<'a> {
    /// In `X-Forwarded-*`, or nothing.
    Old { proto: Option<&'a str>, host: Option<&'a str> },
    /// In `Forwarded` alone.
    Standard { elements: Vec<Element<'a>>, client: usize },
}

/// What one proxy added to `Forwarded`.
#[derive(Default)]
pub(crate) struct Element<'a> {
    node: Option<Cow<'a, str>>,
    proto: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
}

/// The client that a trusted peer speaks for in `Forwarded`: of the addresses there, the last that is no trusted proxy itself. And the
/// element of whoever that client connected to: what stands before it anyone could have written.
fn client(site: &Site, peer: IpAddr, elements: &[Element<'_>]) -> (IpAddr, usize) {
    let mut client = peer;
    for (place, element) in elements.iter().enumerate().rev() {
        let Some(address) = element.node.as_deref().and_then(parse_address) else { return (client, place) };
        client = address;
        if !site.is_trusted(client) {
            return (client, place);
        }
    }
    (client, 0)
}

/// The address of the client that a trusted peer speaks for in `Forwarded`.
pub(crate) fn client_ip(site: &Site, peer: IpAddr, fields: &Fields) -> IpAddr {
    read(fields).map_or(peer, |elements| client(site, peer, &elements).0)
}

impl<'a> Told<'a> {
    /// What a trusted peer said. Where it said both, `X-Forwarded-For` counts: a proxy that knows only that one passes on whatever its
    /// client put into the other.
    pub(crate) fn read(site: &Site, peer: IpAddr, fields: &'a Fields) -> Self {
        if !fields.has("x-forwarded-for")
            && let Some(elements) = read(fields)
        {
            let (_, client) = client(site, peer, &elements);
            return Self::Standard { elements, client };
        }
        Self::Old { proto: first(fields, "x-forwarded-proto"), host: first(fields, "x-forwarded-host") }
    }

    /// The scheme that the client used.
    pub(crate) fn proto(&self) -> Option<&str> {
        match self {
            Self::Old { proto, .. } => *proto,
            Self::Standard { elements, client } => elements[*client].proto.as_deref(),
        }
        .filter(|proto| is_scheme(proto))
    }

    /// The host that the client asked for.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Self::Old { host, .. } => *host,
            Self::Standard { elements, client } => elements[*client].host.as_deref(),
        }
        .filter(|host| is_host(host))
    }

    /// The part of `X-Forwarded-For` that comes before the peer.
    pub(crate) fn write_old(&self, fields: &Fields, out: &mut BytesMut) {
        match self {
            Self::Old { .. } => {
                for before in fields.all("x-forwarded-for") {
                    out.extend_from_slice(before);
                    out.extend_from_slice(b", ");
                }
            }
            Self::Standard { elements, .. } => {
                for element in elements {
                    let node = element.node.as_deref().and_then(parse_address);
                    let node = node.map_or("unknown".into(), |address| address.to_string());
                    out.extend_from_slice(node.as_bytes());
                    out.extend_from_slice(b", ");
                }
            }
        }
    }

    /// The part of `Forwarded` that comes before the peer. Says whether there is one.
    pub(crate) fn write_standard(&self, fields: &Fields, out: &mut BytesMut) -> bool {
        let mut is_first = true;
        match self {
            Self::Standard { .. } => {
                for before in fields.all("forwarded") {
                    out.extend_from_slice(before);
                    out.extend_from_slice(b", ");
                }
                is_first = false;
            }
            // RFC 7239 §7.4. Which scheme and host it was only the client's side of the chain can mean.
            Self::Old { .. } => {
                for node in fields.all("x-forwarded-for").flat_map(|value| value.split(|byte| *byte == b',')) {
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

/// An address as `Forwarded` has it.
pub(crate) fn node_of(address: IpAddr) -> String {
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

/// The first of what is said in a field, which may be a list.
fn first<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let value = text(fields.get(name)?)?;
    value.split(',').next().map(str::trim).filter(|value| !value.is_empty())
}

fn is_scheme(proto: &str) -> bool {
    !proto.is_empty() && proto.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Whether it can stand within quotes, and be nothing but a host there.
fn is_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\,;/@".contains(&byte))
}

/// The elements of all `Forwarded` fields. None if there are none, or if they can't be read: a quote that never ends would swallow what is
/// added behind it.
fn read(fields: &Fields) -> Option<Vec<Element<'_>>> {
    let mut elements = Vec::new();
    for value in fields.all("forwarded") {
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
            let place = match name.to_ascii_lowercase().as_str() {
                "for" => &mut element.node,
                "proto" => &mut element.proto,
                "host" => &mut element.host,
                other if other.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) => {
                    &mut unknown
                }
                _ => return None,
            };
            // Each may be said once.
            if place.replace(value).is_some() {
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
    for (place, character) in quoted.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some((Cow::Owned(value), &quoted[place + 1..])),
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
        let mut fields = http::HeaderMap::new();
        fields.insert("forwarded", value.parse().expect("a value"));
        let fields = Fields::from(&fields);
        let text = |part: &Option<Cow<'_, str>>| part.as_deref().unwrap_or("-").to_owned();
        let all = |element: &Element<'_>| (text(&element.node), text(&element.proto), text(&element.host));
        read(&fields).map(|elements| elements.iter().map(all).collect())
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
