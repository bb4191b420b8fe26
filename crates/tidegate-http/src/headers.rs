//! The headers of a head that was read, kept as positions in its bytes. A head has few headers, so a scan that compares
//! the lengths of names first costs less than building a map.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

/// The headers of a request or a response, in their order.
pub struct Headers {
    head: Bytes,
    spans: Vec<Span>,
    /// The lengths that names have, a bit each; the last one stands for all that are longer.
    lengths: u64,
}

/// The position of a header in its head.
#[derive(Clone, Copy)]
struct Span {
    name: Part,
    value: Part,
}

#[derive(Clone, Copy)]
struct Part {
    start: u32,
    length: u32,
}

impl Part {
    fn of(part: &[u8], origin: usize) -> Self {
        // A head's length is bounded far below 4 GiB.
        Self { start: (part.as_ptr() as usize - origin) as u32, length: part.len() as u32 }
    }

    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

/// Headers whose head is still being read.
pub(crate) struct HeadersBuilder {
    origin: usize,
    spans: Vec<Span>,
    lengths: u64,
}

impl HeadersBuilder {
    /// For a head that begins where `read` does.
    pub(crate) fn new(read: &[u8], most: usize) -> Self {
        Self { origin: read.as_ptr() as usize, spans: Vec::with_capacity(most), lengths: 0 }
    }

    /// Adds a header. Both parts are parts of the head.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) {
        self.lengths |= length_bit(name.len());
        self.spans.push(Span { name: Part::of(name, self.origin), value: Part::of(value, self.origin) });
    }

    /// The headers, with the head they were found in.
    pub(crate) fn within(self, head: Bytes) -> Headers {
        Headers { head, spans: self.spans, lengths: self.lengths }
    }
}

impl Headers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The first value of a header; `name` is in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// The value of a header that occurs once. None if there are several: it is not known which one counts.
    pub fn only(&self, name: &str) -> Option<&[u8]> {
        let mut values = self.all(name);
        values.next().filter(|_| values.next().is_none())
    }

    /// Whether there is a header of this name; `name` is in lower case.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All values of a header, in their order; `name` is in lower case.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let is_possible = self.lengths & length_bit(name.len()) != 0;
        let spans = if is_possible { &self.spans[..] } else { &[] };
        let is_meant = move |span: &&Span| {
            span.name.length as usize == name.len() && self.name(span).eq_ignore_ascii_case(name.as_bytes())
        };
        spans.iter().filter(is_meant).map(|span| &self.head[span.value.range()])
    }

    fn name(&self, span: &Span) -> &[u8] {
        &self.head[span.name.range()]
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.spans.iter().map(|span| (self.name(span), &self.head[span.value.range()]))
    }

    /// Names and values; the values share the head's memory and outlive the borrow.
    pub fn iter_kept(&self) -> impl Iterator<Item = (&[u8], Bytes)> {
        self.spans.iter().map(|span| (self.name(span), self.head.slice(span.value.range())))
    }

    /// Removes the headers whose name `is_unwanted`.
    pub fn remove(&mut self, is_unwanted: impl Fn(&[u8]) -> bool) {
        self.spans.retain(|span| !is_unwanted(&self.head[span.name.range()]));
    }
}

/// Names without values: values may be secrets.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| String::from_utf8_lossy(name))).finish()
    }
}

/// The headers of an HTTP/2 message.
impl From<&HeaderMap> for Headers {
    fn from(map: &HeaderMap) -> Self {
        let size = map.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        // Nothing moves while it is filled: there is room for all of it.
        let mut head = BytesMut::with_capacity(size);
        for (name, value) in map {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(value.as_bytes());
        }
        let head = head.freeze();
        let mut headers = HeadersBuilder::new(&head, map.len());
        let mut rest = &head[..];
        for (name, value) in map {
            let (name, after) = rest.split_at(name.as_str().len());
            let (value, after) = after.split_at(value.len());
            headers.add(name, value);
            rest = after;
        }
        headers.within(head.clone())
    }
}

/// A header's value as text, if it is nothing but printable ASCII.
pub fn text(value: &[u8]) -> Option<&str> {
    let is_printable = value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    if is_printable { str::from_utf8(value).ok() } else { None }
}

/// Whether a value begins or ends with a space or a tab.
pub fn has_whitespace_around(value: &[u8]) -> bool {
    let is_whitespace = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_whitespace(value.first()) || is_whitespace(value.last())
}

/// The token of an `Authorization` header, if its scheme is `Bearer`, in any case.
pub fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let end = credentials.iter().position(u8::is_ascii_whitespace).unwrap_or(credentials.len());
    let (scheme, token) = credentials.split_at(end);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_found_by_its_name_in_any_case_and_all_its_values_in_order() {
        let head = Bytes::from_static(b"X-One: 1\r\nx-two: 2\r\nX-ONE: 3\r\n");
        let mut headers = HeadersBuilder::new(&head, 3);
        for (name, value) in [(0..5, 7..8), (10..15, 17..18), (20..25, 27..28)] {
            headers.add(&head[name], &head[value]);
        }
        let mut headers = headers.within(head.clone());
        assert_eq!(headers.all("x-one").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!((headers.get("x-two"), headers.get("x-six"), headers.get("x")), (Some(&b"2"[..]), None, None));
        headers.remove(|name| name.eq_ignore_ascii_case(b"x-one"));
        assert_eq!(headers.iter().collect::<Vec<_>>(), [(&b"x-two"[..], &b"2"[..])]);
    }

    #[test]
    fn a_map_has_the_same_headers() {
        let mut map = HeaderMap::new();
        let long = "x".repeat(80);
        for (name, value) in [("a", "1"), ("b", ""), ("a", "2"), (long.as_str(), "3")] {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).expect("a name"), value.parse().expect("a value"));
        }
        let headers = Headers::from(&map);
        assert_eq!(headers.all("a").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!((headers.get("b"), headers.get(&long), headers.len()), (Some(&b""[..]), Some(&b"3"[..]), 4));
    }
}
