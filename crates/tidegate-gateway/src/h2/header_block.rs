//! Reads header blocks (RFC 7541) to find malformed requests that hyper would accept: it cuts off a fragment in
//! `:path`, ignores pseudo-headers in trailers, and forgets `:scheme` where there is no `:authority`.
//!
//! The dynamic table is kept as hyper keeps it, with only what matters of each entry.

use std::collections::VecDeque;

use super::huffman;

/// `SETTINGS_HEADER_TABLE_SIZE`, which is left at its default.
const LARGEST_TABLE: usize = 4_096;
/// What an entry counts besides its name and its value.
const ENTRY_OVERHEAD: usize = 32;
/// The lengths of the names in the static table (RFC 7541, appendix A).
const STATIC: [usize; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12, 6, 4,
    4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
];

/// What a block is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `may_be_https`: whether requests for https resources are served on this connection.
    Request {
        may_be_https: bool,
    },
    Trailers,
}

/// What was found in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Findings {
    /// Malformed in a way that hyper would not notice.
    pub(super) is_malformed: bool,
    /// The size of the header list (RFC 9113 §6.5.2).
    pub(super) size: usize,
}

/// A header's name, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Authority,
    Path,
    Scheme,
    OtherPseudo,
    Regular,
}

/// A header's value, as far as it matters; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Any,
    /// The scheme `https`.
    Https,
    /// A path with a fragment, or a scheme that is neither `http` nor `https`.
    Invalid,
}

/// A header.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Name,
    name_length: usize,
    value: Value,
    size: usize,
}

impl Entry {
    fn new(name: Name, name_length: usize, value: &Text) -> Self {
        let value_is = match name {
            Name::Path if value.has_hash => Value::Invalid,
            Name::Scheme if value.is(b"http") => Value::Any,
            Name::Scheme if value.is(b"https") => Value::Https,
            Name::Scheme => Value::Invalid,
            Name::Path | Name::Authority | Name::OtherPseudo | Name::Regular => Value::Any,
        };
        Self { name, name_length, value: value_is, size: name_length + value.length + ENTRY_OVERHEAD }
    }

    /// The entry with this number in the static table.
    fn in_static_table(number: usize) -> Option<Self> {
        let name_length = *STATIC.get(number.checked_sub(1)?)?;
        let value_length = match number {
            2 | 8..=14 => 3,
            3 | 6 => 4,
            4 => 1,
            5 => 11,
            7 => 5,
            16 => 13,
            _ => 0,
        };
        let name = match number {
            1 => Name::Authority,
            4 | 5 => Name::Path,
            6 | 7 => Name::Scheme,
            2..=14 => Name::OtherPseudo,
            _ => Name::Regular,
        };
        let value = if number == 7 { Value::Https } else { Value::Any };
        Some(Self { name, name_length, value, size: name_length + value_length + ENTRY_OVERHEAD })
    }
}

/// How often a header block may set the size of the table (RFC 7541 §4.2): each time is work, and costs the client one
/// byte.
const MOST_RESIZES: u32 = 2;

/// What is kept of a string.
struct Text {
    length: usize,
    /// Its beginning, as long as the longest text that it is compared with.
    start: [u8; b":authority".len()],
    has_hash: bool,
}

impl Text {
    fn plain(bytes: &[u8]) -> Self {
        let mut text =
            Self { length: bytes.len(), start: Default::default(), has_hash: memchr::memchr(b'#', bytes).is_some() };
        let known = bytes.len().min(text.start.len());
        text.start[..known].copy_from_slice(&bytes[..known]);
        text
    }

    fn encoded(bytes: &[u8]) -> Option<Self> {
        let mut text = Self { length: 0, start: Default::default(), has_hash: false };
        huffman::decode(bytes, |byte| {
            if let Some(slot) = text.start.get_mut(text.length) {
                *slot = byte;
            }
            text.has_hash |= byte == b'#';
            text.length += 1;
        })?;
        Some(text)
    }

    /// Whether it is this text, in lower or upper case.
    fn is(&self, other: &[u8]) -> bool {
        self.length == other.len() && self.start[..other.len()].eq_ignore_ascii_case(other)
    }

    /// The name that this is. `None` if it is empty.
    fn as_name(&self) -> Option<Name> {
        match self.start[0] {
            _ if self.length == 0 => None,
            b':' if self.is(b":authority") => Some(Name::Authority),
            b':' if self.is(b":path") => Some(Name::Path),
            b':' if self.is(b":scheme") => Some(Name::Scheme),
            b':' => Some(Name::OtherPseudo),
            _ => Some(Name::Regular),
        }
    }
}

/// The dynamic table of a connection.
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max_size: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, max_size: LARGEST_TABLE }
    }
}

impl Table {
    /// Reads the next header block of the connection. `None` if it is not valid: then the connection must end.
    pub(super) fn inspect(&mut self, block: &[u8], kind: Kind) -> Option<Findings> {
        let mut reader = Reader(block);
        let (mut size, mut has_authority, mut has_pseudo, mut has_fragment) = (0, false, false, false);
        let (mut scheme, mut resizes) = (Value::Any, 0);
        while let Some(first) = reader.peek() {
            let entry = match first {
                0x80.. => self.get(reader.integer(7)?)?,
                0x40..0x80 => {
                    let entry = self.literal(&mut reader, 6)?;
                    self.insert(entry);
                    entry
                }
                0x20..0x40 => {
                    resizes += 1;
                    if resizes > MOST_RESIZES {
                        return None;
                    }
                    self.resize(reader.integer(5)?)?;
                    continue;
                }
                0..0x20 => self.literal(&mut reader, 4)?,
            };
            size += entry.size;
            has_pseudo |= entry.name != Name::Regular;
            match entry.name {
                Name::Authority => has_authority = true,
                Name::Path => has_fragment |= entry.value == Value::Invalid,
                Name::Scheme => scheme = scheme.max(entry.value),
                Name::OtherPseudo | Name::Regular => {}
            }
        }
        let is_malformed = match kind {
            Kind::Trailers => has_pseudo,
            // With an authority the scheme is checked later, and rejected with a response.
            Kind::Request { may_be_https } => {
                let is_served = scheme == Value::Any || scheme == Value::Https && may_be_https;
                has_fragment || !has_authority && !is_served
            }
        };
        Some(Findings { is_malformed, size })
    }

    fn literal(&self, reader: &mut Reader<'_>, bits: u32) -> Option<Entry> {
        let (name, name_length) = match reader.integer(bits)? {
            0 => {
                let name = reader.string()?;
                (name.as_name()?, name.length)
            }
            index => self.get(index).map(|entry| (entry.name, entry.name_length))?,
        };
        Some(Entry::new(name, name_length, &reader.string()?))
    }

    fn get(&self, index: usize) -> Option<Entry> {
        match index.checked_sub(STATIC.len() + 1) {
            Some(index) => self.entries.get(index).copied(),
            None => Entry::in_static_table(index),
        }
    }

    /// RFC 7541 §4.4: an entry larger than the table empties it.
    fn insert(&mut self, entry: Entry) {
        self.shrink_to(self.max_size.saturating_sub(entry.size));
        if entry.size <= self.max_size {
            self.size += entry.size;
            self.entries.push_front(entry);
        }
    }

    fn resize(&mut self, max_size: usize) -> Option<()> {
        (max_size <= LARGEST_TABLE).then(|| {
            self.max_size = max_size;
            self.shrink_to(max_size);
        })
    }

    fn shrink_to(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size;
        }
    }
}

/// What is left of a block.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn take(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// RFC 7541 §5.1: an integer with a prefix of so many bits. Its length is bounded as in hyper.
    fn integer(&mut self, bits: u32) -> Option<usize> {
        let most = (1 << bits) - 1;
        let mut number = usize::from(self.take()?) & most;
        if number < most {
            return Some(number);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.take()?;
            number += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// RFC 7541 §5.2.
    fn string(&mut self) -> Option<Text> {
        let is_encoded = self.peek()? & 0x80 != 0;
        let length = self.integer(7)?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        if is_encoded { Text::encoded(text) } else { Some(Text::plain(text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::huffman::tests::encode;
    use super::*;

    const CLEAR: Kind = Kind::Request { may_be_https: false };
    const SECURED: Kind = Kind::Request { may_be_https: true };

    fn is_malformed(table: &mut Table, block: &[u8], kind: Kind) -> Option<bool> {
        table.inspect(block, kind).map(|findings| findings.is_malformed)
    }

    /// Inspects these blocks, one after the other.
    fn all(blocks: &[&[u8]], kind: Kind) -> Vec<Option<bool>> {
        let mut table = Table::default();
        blocks.iter().map(|block| is_malformed(&mut table, block, kind)).collect()
    }

    #[test]
    fn a_block_may_set_the_size_of_the_table_twice_and_not_more() {
        for (block, expected) in [(&b"\x20\x3f\xe1\x1f\x82"[..], Some(false)), (b"\x20\x20\x3f\xe1\x1f\x82", None)] {
            assert_eq!(is_malformed(&mut Table::default(), block, SECURED), expected);
        }
    }

    #[test]
    fn a_fragment_in_a_path_is_malformed_however_it_is_written() {
        let huffman = encode(b"/a#b");
        let encoded = [&[0x04, 0x80 | u8::try_from(huffman.len()).expect("short")], &huffman[..]].concat();
        for block in [
            &b"\x04\x04/a#b"[..],
            b"\x05\x04/a#b",
            b"\x44\x04/a#b",
            b"\x14\x04/a#b",
            b"\x82\x86\x41\x01a\x04\x04/a#b\x82",
            b"\x20\x3f\xe1\x1f\x82\x04\x04/a#b",
            b"\x40\x05:path\x04/a#b",
            b"\x00\x84\xb9\x58\xd3\x3f\x04/a#b",
            &encoded,
        ] {
            assert_eq!(all(&[block], CLEAR), [Some(true)], "{block:x?}");
        }
        for block in [
            &b"\x82\x86\x04\x04/a?b"[..],
            b"\x82\x86\x84\x00\x01x\x01#",
            b"\x82\x0f\x2b\x01#",
            b"\x04\x82\x63\x7f",
            b"",
        ] {
            assert_eq!(all(&[block], CLEAR), [Some(false)], "{block:x?}");
        }
    }

    /// hyper reads lengths of up to four more bytes, even if fewer would do.
    #[test]
    fn lengths_may_be_as_long_as_hyper_takes_them() {
        let value = [&b"/#"[..], &[b'a'; 125]].concat();
        let block = [b"\x04\x7f\x80\x80\x80\x00", &value[..]].concat();
        assert_eq!(all(&[&block], CLEAR), [Some(true)]);
        assert_eq!(all(&[b"\x04\x7f\x80\x80\x80\x80\x00/#"], CLEAR), [None]);
    }

    #[test]
    fn pseudo_headers_in_trailers_are_malformed() {
        for block in [
            &b"\x82"[..],
            b"\x3f\x00\x84",
            b"\x04\x02/a",
            b"\x41\x01a",
            b"\x00\x05:path\x02/a",
            b"\x40\x02:x\x00",
            b"\x00\x01x\x01y\x84",
        ] {
            assert_eq!(all(&[block], Kind::Trailers), [Some(true)], "{block:x?}");
        }
        for block in [&b"\x00\x01x\x01y"[..], b"\x0f\x2e\x01y", b"\x7d\x01y", b"\x00\x82\x94\xe7\x01y", b""] {
            assert_eq!(all(&[block], Kind::Trailers), [Some(false)], "{block:x?}");
        }
    }

    /// hyper forgets the scheme of a request without an authority, so that it could not be rejected later.
    #[test]
    fn a_scheme_without_an_authority_must_be_one_that_is_served() {
        let literal = |scheme: &str| [&[0x06, u8::try_from(scheme.len()).expect("short")], scheme.as_bytes()].concat();
        for (block, in_clear, secured) in [
            (b"\x86".to_vec(), false, false),
            (b"\x87".to_vec(), true, false),
            (literal("http"), false, false),
            (literal("HTTPS"), true, false),
            (literal("ftp"), true, true),
            (literal(""), true, true),
            (literal("httpss"), true, true),
            ([&literal("ftp")[..], b"\x41\x01a"].concat(), false, false),
        ] {
            assert_eq!(all(&[&block], CLEAR), [Some(in_clear)], "{block:x?}");
            assert_eq!(all(&[&block], SECURED), [Some(secured)], "{block:x?}");
        }
    }

    #[test]
    fn entries_of_the_dynamic_table_are_used() {
        // The path is entered, then used; by its name, too.
        assert_eq!(
            all(&[b"\x44\x02/#", b"\xbe", b"\x7e\x02/a", b"\xbf", b"\x0f\x2f\x02/#", b"\xbe"], CLEAR),
            [Some(true), Some(true), Some(false), Some(true), Some(true), Some(false)]
        );
        let mut table = Table::default();
        assert_eq!(is_malformed(&mut table, b"\x40\x05:path\x02/a\x40\x01x\x01y", CLEAR), Some(false));
        assert_eq!(is_malformed(&mut table, b"\xbe", Kind::Trailers), Some(false));
        assert_eq!(is_malformed(&mut table, b"\xbf", Kind::Trailers), Some(true));
        assert_eq!(is_malformed(&mut table, b"\xc0", Kind::Trailers), None, "there is no such entry");
    }

    #[test]
    fn the_dynamic_table_drops_what_does_not_fit() {
        let mut table = Table::default();
        assert_eq!(is_malformed(&mut table, b"\x44\x02/#", CLEAR), Some(true));
        // 39 + 103 * 39 = 4,056 of 4,096 bytes; one more, and the first goes.
        for count in 1..=103 {
            assert_eq!(is_malformed(&mut table, b"\x40\x03abc\x04wxyz", CLEAR), Some(false));
            let index = 62 + count;
            let index = if index < 127 { vec![0x80 | index] } else { vec![0xff, index - 127] };
            assert_eq!(is_malformed(&mut table, &index, CLEAR), Some(true), "{count}");
        }
        assert_eq!(table.entries.len(), 104);
        assert_eq!(table.size, 4_056);
        assert_eq!(is_malformed(&mut table, b"\x40\x03abc\x06uvwxyz", CLEAR), Some(false));
        assert_eq!((table.entries.len(), table.size), (104, 4_058));
        assert!(table.entries.iter().all(|entry| entry.name == Name::Regular));
        // Smaller, then larger than it may be.
        assert_eq!(is_malformed(&mut table, b"\x3f\x09", CLEAR), Some(false));
        assert_eq!((table.entries.len(), table.size), (0, 0));
        assert_eq!(is_malformed(&mut table, b"\x40\x03abc\x05vwxyz", CLEAR), Some(false));
        assert_eq!(table.entries.len(), 1);
        assert_eq!(is_malformed(&mut table, b"\x40\x03abc\x06uvwxyz", CLEAR), Some(false));
        assert_eq!(table.entries.len(), 0, "an entry larger than the table empties it");
        assert_eq!(is_malformed(&mut table, b"\x3f\xe1\x1f", CLEAR), Some(false));
        assert_eq!(is_malformed(&mut table, b"\x3f\xe2\x1f", CLEAR), None);
    }

    #[test]
    fn a_header_list_counts_as_it_does_for_hyper() {
        let size = |block: &[u8]| Table::default().inspect(block, CLEAR).map(|findings| findings.size);
        assert_eq!(size(b"\x82"), Some(42));
        assert_eq!(size(b"\x90"), Some(60));
        assert_eq!(size(b"\x00\x01x\x02yz\x7d\x00"), Some(35 + 48));
        assert_eq!(size(b"\x40\x01x\x02yz\xbe\xbe"), Some(3 * 35));
    }

    #[test]
    fn an_invalid_block_is_not_inspected() {
        for block in [
            &b"\x80"[..],
            b"\xbe",
            b"\x04\x05/#",
            b"\x04",
            b"\x7f\xff\xff\xff\xff\xff\xff",
            b"\x04\x81\xff",
            b"\x00\x00\x01a",
        ] {
            assert_eq!(all(&[block], CLEAR), [None], "{block:x?}");
        }
    }

    #[test]
    fn any_block_can_be_inspected() {
        let mut table = Table::default();
        for _ in 0..200_000 {
            let block: Vec<u8> = (0..fastrand::usize(..40)).map(|_| fastrand::u8(..)).collect();
            let _findings = table.inspect(&block, CLEAR);
            assert!(table.size <= table.max_size && table.max_size <= LARGEST_TABLE);
            assert_eq!(table.entries.iter().map(|entry| entry.size).sum::<usize>(), table.size);
        }
    }
}
