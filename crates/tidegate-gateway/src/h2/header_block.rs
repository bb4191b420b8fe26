//! What is malformed in a header block and would pass: a fragment in `:path` (hyper cuts it off), a pseudo-header in trailers (hyper drops
//! it). Neither reaches anyone further on, but the request is malformed (RFC 9113 §8.1, §8.3.1) and must fail. What the block says can't be
//! answered here; so it is changed into something that hyper resets the stream for, and only that stream.
//!
//! Blocks are read without the table of earlier ones: pseudo-headers stand first, and whoever hides their names in that table gains nothing.

use super::frames::{END_STREAM, HEADER};

const PADDED: u8 = 0x8;
const HAS_PRIORITY: u8 = 0x20;

/// The first and the last index of pseudo-headers in the static table (RFC 7541, appendix A), and those of `:path`.
const PSEUDO: std::ops::RangeInclusive<usize> = 1..=14;
const PATH: std::ops::RangeInclusive<usize> = 4..=5;
/// The last index of the static table.
const LAST_STATIC: usize = 61;

/// Spoils a HEADERS frame that is malformed. `is_first`: whether it opens its stream; otherwise it has trailers.
pub(super) fn spoil_if_malformed(frame: &mut [u8], is_first: bool) {
    let Some(block) = Block::of(frame) else { return };
    if is_first {
        if let Some(fragment) = block.fragment() {
            fragment.spoil(frame);
        }
    } else if block.begins_with_pseudo_header() {
        // Trailers that do not end their stream are malformed.
        frame[4] &= !END_STREAM;
    }
}

/// Where a `#` stands, which becomes a `>`: no path may have that, and its code is the next.
enum Fragment {
    Byte(usize),
    /// The last bit of its code.
    Bit(usize),
}

impl Fragment {
    fn spoil(self, frame: &mut [u8]) {
        match self {
            Self::Byte(place) => frame[place] = b'>',
            Self::Bit(place) => frame[place / 8] |= 0x80 >> (place % 8),
        }
    }
}

/// A header block as it is read, from its frame.
struct Block<'a> {
    frame: &'a [u8],
    at: usize,
    end: usize,
}

/// A header's name.
enum Name<'a> {
    Indexed(usize),
    Literal(&'a [u8], Coding),
}

/// How a string is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Plain,
    Huffman,
}

/// Where a string stands in its frame.
struct Text {
    start: usize,
    end: usize,
    coding: Coding,
}

impl Name<'_> {
    /// Whether it is that of a pseudo-header; none if only the table could tell.
    fn is_pseudo(&self) -> Option<bool> {
        match self {
            Self::Indexed(index) if *index > LAST_STATIC => None,
            Self::Indexed(index) => Some(PSEUDO.contains(index)),
            Self::Literal(name, Coding::Plain) => Some(name.starts_with(b":")),
            // The code of `:` is 1011100.
            Self::Literal(name, Coding::Huffman) => Some(name.first().is_some_and(|byte| byte >> 1 == 0b101_1100)),
        }
    }

    fn is_path(&self) -> bool {
        match self {
            Self::Indexed(index) => PATH.contains(index),
            Self::Literal(name, Coding::Plain) => *name == b":path",
            // `:path` in its code.
            Self::Literal(name, Coding::Huffman) => *name == [0xb9, 0x58, 0xd3, 0x3f],
        }
    }
}

impl<'a> Block<'a> {
    /// The part of a HEADERS frame that is the block; none if there is none.
    fn of(frame: &'a [u8]) -> Option<Self> {
        let flags = *frame.get(4)?;
        let (mut at, mut end) = (HEADER, frame.len());
        if flags & PADDED != 0 {
            end = end.checked_sub(usize::from(*frame.get(at)?))?;
            at += 1;
        }
        if flags & HAS_PRIORITY != 0 {
            at += 5;
        }
        (at <= end).then_some(Self { frame, at, end })
    }

    fn begins_with_pseudo_header(mut self) -> bool {
        self.next().is_some_and(|(name, _)| name.is_pseudo() == Some(true))
    }

    /// The first fragment in a `:path`. Behind a header that is none, hyper takes no pseudo-header any more.
    fn fragment(mut self) -> Option<Fragment> {
        loop {
            let (name, value) = self.next()?;
            match value {
                Some(value) if name.is_path() => return self.fragment_within(&value),
                _ if name.is_pseudo() == Some(false) => return None,
                _ => {}
            }
        }
    }

    fn fragment_within(&self, Text { start, end, coding }: &Text) -> Option<Fragment> {
        let value = &self.frame[*start..*end];
        match coding {
            Coding::Plain => memchr::memchr(b'#', value).map(|place| Fragment::Byte(start + place)),
            Coding::Huffman => last_bit_of_hash(value).map(|place| Fragment::Bit(start * 8 + place)),
        }
    }

    /// The next header: its name, and where its value stands if that is not in a table. None at the end, or where it can't be read.
    fn next(&mut self) -> Option<(Name<'a>, Option<Text>)> {
        loop {
            let first = self.peek()?;
            let bits = match first {
                0x80.. => return Some((Name::Indexed(self.integer(7)?), None)),
                0x40..0x80 => 6,
                0x20..0x40 => {
                    // Another size of the table.
                    self.integer(5)?;
                    continue;
                }
                0..0x20 => 4,
            };
            let name = match self.integer(bits)? {
                0 => {
                    let Text { start, end, coding } = self.string()?;
                    Name::Literal(&self.frame[start..end], coding)
                }
                index => Name::Indexed(index),
            };
            return Some((name, Some(self.string()?)));
        }
    }

    fn peek(&self) -> Option<u8> {
        self.frame[..self.end].get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// RFC 7541 §5.1: an integer with a prefix of so many bits.
    fn integer(&mut self, bits: u32) -> Option<usize> {
        let most = (1 << bits) - 1;
        let mut number = usize::from(self.take()?) & most;
        if number == most {
            // No number that makes sense is longer.
            for shift in [0, 7, 14] {
                let byte = self.take()?;
                number += usize::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    return Some(number);
                }
            }
            return None;
        }
        Some(number)
    }

    /// RFC 7541 §5.2: where a string stands.
    fn string(&mut self) -> Option<Text> {
        let coding = if self.peek()? & 0x80 == 0 { Coding::Plain } else { Coding::Huffman };
        let length = self.integer(7)?;
        let start = self.at;
        self.at = start.checked_add(length).filter(|end| *end <= self.end)?;
        Some(Text { start, end: self.at, coding })
    }
}

/// For each length of codes (RFC 7541, appendix B) the one behind the last. Codes grow with their length, so that is enough to tell where each
/// ends. Longer ones are no characters of a path.
const CODES: [(u32, u32); 11] = [
    (5, 0x0a),
    (6, 0x2e),
    (7, 0x7c),
    (8, 0xfe),
    (10, 0x3fd),
    (11, 0x7fd),
    (12, 0xffc),
    (13, 0x1ffe),
    (14, 0x3ffe),
    (15, 0x7fff),
    (19, 0x7_fff3),
];
const HASH: (u32, u32) = (12, 0xffa);

/// The place of the last bit of the first `#` in a string in Huffman's code, if there is one.
fn last_bit_of_hash(value: &[u8]) -> Option<usize> {
    let (mut window, mut held, mut bytes, mut place) = (0_u64, 0, value.iter(), 0);
    loop {
        while held <= 32 {
            // Behind the end there are ones, as in the padding.
            window = window << 8 | bytes.next().map_or(0xff, |byte| u64::from(*byte));
            held += 8;
        }
        let code_of = |length: u32| u32::try_from(window >> (held - length) & ((1 << length) - 1)).unwrap_or(u32::MAX);
        let length = CODES.iter().find(|(length, behind)| code_of(*length) < *behind)?.0;
        place += length as usize;
        if place > value.len() * 8 {
            return None;
        }
        if (length, code_of(length)) == HASH {
            return Some(place - 1);
        }
        held -= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_HEADERS: u8 = 4;
    const FLAGS: u8 = END_HEADERS | END_STREAM;

    /// A HEADERS frame with this payload.
    fn frame(flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("a short block");
        [&[0, 0, length, 1, flags, 0, 0, 0, 1], payload].concat()
    }

    fn spoilt(flags: u8, payload: &[&[u8]], is_first: bool) -> Vec<u8> {
        let mut frame = frame(flags, &payload.concat());
        spoil_if_malformed(&mut frame, is_first);
        frame
    }

    #[test]
    fn a_fragment_in_a_path_becomes_what_no_path_has() {
        for begin in [
            &b"\x04\x04"[..],
            b"\x05\x04",
            b"\x44\x04",
            b"\x14\x04",
            b"\x82\x86\x04\x04",
            b"\x82\x86\x41\x01a\x04\x04",
            b"\x20\x3f\xe1\x1f\x82\x04\x04",
            // An authority from the table of earlier blocks.
            b"\x82\xbe\x86\x04\x04",
            b"\x40\x05:path\x04",
            b"\x00\x84\xb9\x58\xd3\x3f\x04",
        ] {
            let spoilt = spoilt(FLAGS, &[begin, b"/a#b", b"\x82"], true);
            assert_eq!(spoilt, frame(FLAGS, &[begin, b"/a>b", b"\x82"].concat()), "{begin:x?}");
        }
        // `/#`, and the same with `>`.
        let spoilt_code = spoilt(FLAGS, &[b"\x82\x04\x83\x63\xfe\xbf"], true);
        assert_eq!(spoilt_code, frame(FLAGS, b"\x82\x04\x83\x63\xfe\xff"));
        // Behind priorities and before padding.
        let payload: [&[u8]; 3] = [b"\x03\0\0\0\0\x10", b"\x04\x02/#", b"\0\0\0"];
        let padded = spoilt(FLAGS | PADDED | HAS_PRIORITY, &payload, true);
        assert_eq!(&padded[HEADER + 8..HEADER + 10], b"/>");
    }

    #[test]
    fn what_is_no_fragment_stays_as_it_is() {
        for payload in [
            &b"\x82\x86\x04\x04/a?b"[..],
            // In another header, and behind one.
            b"\x82\x86\x84\x00\x01x\x01#",
            b"\x82\x0f\x2b\x01#",
            b"\x82\x00\x01x\x01y\x04\x02/#",
            // `www.example.com` and `/sample/path` in Huffman's code.
            b"\x04\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
            b"\x04\x89\x61\x03\xa6\xba\x0a\xc5\x63\x4c\xff",
            // `#` would begin in the padding.
            b"\x04\x82\x63\xff",
            // Strings that do not end.
            b"\x04\x05/#",
            b"\x04",
            b"\x7f\xff\xff\xff\xff\xff\xff",
            b"",
        ] {
            assert_eq!(spoilt(FLAGS, &[payload], true), frame(FLAGS, payload), "{payload:x?}");
        }
        // More padding than there is payload.
        assert_eq!(spoilt(FLAGS | PADDED, &[b"\x09\x04\x02/#"], true), frame(FLAGS | PADDED, b"\x09\x04\x02/#"));
    }

    #[test]
    fn trailers_with_a_pseudo_header_do_not_end_their_stream() {
        for payload in [
            &b"\x82"[..],
            b"\x3f\x00\x84",
            b"\x04\x02/a",
            b"\x41\x01a",
            b"\x00\x05:path\x02/a",
            b"\x40\x02:x\x00",
            b"\x00\x84\xb9\x58\xd3\x3f\x02/a",
        ] {
            assert_eq!(spoilt(FLAGS, &[payload], false), frame(END_HEADERS, payload), "{payload:x?}");
        }
        for payload in [&b"\x00\x01x\x01y"[..], b"\xbe", b"\x0f\x2f\x01y", b"\x7e\x01y", b"\x00\x82\x94\xe7\x01y", b""]
        {
            assert_eq!(spoilt(FLAGS, &[payload], false), frame(FLAGS, payload), "{payload:x?}");
        }
    }

    #[test]
    fn no_block_is_too_odd_to_look_at() {
        let mut seed = 1_u64;
        for _ in 0..200_000 {
            let mut byte = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 56) as u8
            };
            let (flags, length) = (byte(), byte() % 40);
            let payload: Vec<u8> = (0..length).map(|_| byte()).collect();
            spoilt(flags, &[&payload], length % 2 == 0);
        }
    }
}
