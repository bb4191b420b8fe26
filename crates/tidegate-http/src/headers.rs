//! Header fields as they came: where each stands in its head. A head has few of them, so walking along the lengths of their names costs
//! less than making a map.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

/// The header fields of a request or an answer, in their order.
pub(crate) struct Fields {
    head: Bytes,
    places: Vec<Field>,
    /// The lengths that names have, a bit each; the last one stands for all that are longer.
    lengths: u64,
}

/// Where a field stands.
#[derive(Clone, Copy)]
struct Field {
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

/// Fields whose head is still being read.
pub(crate) struct Unfinished {
    origin: usize,
    places: Vec<Field>,
    lengths: u64,
}

impl Unfinished {
    /// For a head that begins where `read` does.
    pub(crate) fn new(read: &[u8], most: usize) -> Self {
        Self { origin: read.as_ptr() as usize, places: Vec::with_capacity(most), lengths: 0 }
    }

    /// Adds a field. Both parts are parts of the head.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) {
        self.lengths |= length_bit(name.len());
        self.places.push(Field { name: Part::of(name, self.origin), value: Part::of(value, self.origin) });
    }

    /// The fields, with the head they were found in.
    pub(crate) fn within(self, head: Bytes) -> Fields {
        Fields { head, places: self.places, lengths: self.lengths }
    }
}

impl Fields {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The first value of a field; `name` is in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// The value of a field that is there once. Which of several is meant nobody can tell.
    pub(crate) fn only(&self, name: &str) -> Option<&[u8]> {
        let mut values = self.all(name);
        values.next().filter(|_| values.next().is_none())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All values of a field, in their order; `name` is in lower case.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let is_possible = self.lengths & length_bit(name.len()) != 0;
        let fields = if is_possible { &self.places[..] } else { &[] };
        let is_meant = move |field: &&Field| {
            field.name.length as usize == name.len() && self.name(field).eq_ignore_ascii_case(name.as_bytes())
        };
        fields.iter().filter(is_meant).map(|field| &self.head[field.value.range()])
    }

    fn name(&self, field: &Field) -> &[u8] {
        &self.head[field.name.range()]
    }

    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|field| (self.name(field), &self.head[field.value.range()]))
    }

    /// The same, with values that can be kept.
    pub(crate) fn iter_kept(&self) -> impl Iterator<Item = (&[u8], Bytes)> {
        self.places.iter().map(|field| (self.name(field), self.head.slice(field.value.range())))
    }

    /// Leaves out those whose name `is_unwanted`.
    pub(crate) fn remove(&mut self, is_unwanted: impl Fn(&[u8]) -> bool) {
        self.places.retain(|field| !is_unwanted(&self.head[field.name.range()]));
    }
}

/// Names without values: those may be secrets.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| String::from_utf8_lossy(name))).finish()
    }
}

/// As HTTP/2 brings them.
impl From<&HeaderMap> for Fields {
    fn from(headers: &HeaderMap) -> Self {
        let size = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        // Nothing moves while it is filled: all of it has its place.
        let mut head = BytesMut::with_capacity(size);
        for (name, value) in headers {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(value.as_bytes());
        }
        let head = head.freeze();
        let mut fields = Unfinished::new(&head, headers.len());
        let mut rest = &head[..];
        for (name, value) in headers {
            let (name, after) = rest.split_at(name.as_str().len());
            let (value, after) = after.split_at(value.len());
            fields.add(name, value);
            rest = after;
        }
        fields.within(head.clone())
    }
}

/// A field's value as text, if it is nothing but printable ASCII.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    let is_printable = value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    if is_printable { str::from_utf8(value).ok() } else { None }
}

/// Whether a value begins or ends with a space or a tab.
pub(crate) fn has_whitespace_around(value: &[u8]) -> bool {
    let is_whitespace = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_whitespace(value.first()) || is_whitespace(value.last())
}

/// The token of an `Authorization` field, if its scheme is `Bearer`, in any case.
pub(crate) fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let end = credentials.iter().position(u8::is_ascii_whitespace).unwrap_or(credentials.len());
    let (scheme, token) = credentials.split_at(end);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_in_any_case_and_all_its_values_in_order() {
        let head = Bytes::from_static(b"X-One: 1\r\nx-two: 2\r\nX-ONE: 3\r\n");
        let mut fields = Unfinished::new(&head, 3);
        for (name, value) in [(0..5, 7..8), (10..15, 17..18), (20..25, 27..28)] {
            fields.add(&head[name], &head[value]);
        }
        let mut fields = fields.within(head.clone());
        assert_eq!(fields.all("x-one").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!((fields.get("x-two"), fields.get("x-six"), fields.get("x")), (Some(&b"2"[..]), None, None));
        fields.remove(|name| name.eq_ignore_ascii_case(b"x-one"));
        assert_eq!(fields.iter().collect::<Vec<_>>(), [(&b"x-two"[..], &b"2"[..])]);
    }

    #[test]
    fn a_map_has_the_same_fields() {
        let mut map = HeaderMap::new();
        let long = "x".repeat(80);
        for (name, value) in [("a", "1"), ("b", ""), ("a", "2"), (long.as_str(), "3")] {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).expect("a name"), value.parse().expect("a value"));
        }
        let fields = Fields::from(&map);
        assert_eq!(fields.all("a").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!((fields.get("b"), fields.get(&long), fields.len()), (Some(&b""[..]), Some(&b"3"[..]), 4));
    }
}
