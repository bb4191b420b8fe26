//! The Huffman code of HPACK (RFC 7541, appendix B).

/// The length of each byte's code, in bits. Codes grow with their length, and among those of one length with the byte,
/// so that lengths are enough.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26,
];
const LONGEST: usize = 30;

/// The codes by their length.
struct Codes {
    /// Bytes in the order of their codes.
    bytes: [u8; 256],
    /// For each length the first code, and where its byte is in `bytes`.
    first: [(u32, usize); LONGEST + 1],
    /// For each length the code after the last one.
    end: [u32; LONGEST + 1],
}

const CODES: Codes = {
    let mut codes = Codes { bytes: [0; 256], first: [(0, 0); LONGEST + 1], end: [0; LONGEST + 1] };
    let (mut length, mut code, mut count) = (1, 0, 0);
    while length <= LONGEST {
        code <<= 1;
        codes.first[length] = (code, count);
        let mut byte = 0;
        while byte < LENGTHS.len() {
            if LENGTHS[byte] as usize == length {
                codes.bytes[count] = byte as u8;
                (code, count) = (code + 1, count + 1);
            }
            byte += 1;
        }
        codes.end[length] = code;
        length += 1;
    }
    codes
};

/// For each beginning of eight bits: the byte whose code it begins with, and the length of that code. Zero if the code
/// is longer.
static SHORT: [(u8, u8); 256] = {
    let (mut short, mut beginning) = ([(0, 0); 256], 0);
    while beginning < short.len() {
        let mut length = 8;
        while length > 0 {
            let (code, (first, at)) = ((beginning >> (8 - length)) as u32, CODES.first[length]);
            if code >= first && code < CODES.end[length] {
                short[beginning] = (CODES.bytes[at + (code - first) as usize], length as u8);
            }
            length -= 1;
        }
        beginning += 1;
    }
    short
};

/// Decodes a string, byte by byte. `None` if it is not valid; `take` may have been called by then.
pub(super) fn decode(encoded: &[u8], mut take: impl FnMut(u8)) -> Option<()> {
    let (mut window, mut held, mut encoded) = (0_u64, 0_u32, encoded.iter());
    loop {
        while held <= 56 {
            let Some(byte) = encoded.next() else { break };
            window |= u64::from(*byte) << (56 - held);
            held += 8;
        }
        // Fewer than eight ones at the end are padding.
        if held == 0 || held < 8 && window >> (64 - held) == (1 << held) - 1 {
            return Some(());
        }
        let (byte, length) = match SHORT[(window >> 56) as usize] {
            (_, 0) => long(window)?,
            (byte, length) => (byte, u32::from(length)),
        };
        held = held.checked_sub(length)?;
        window <<= length;
        take(byte);
    }
}

/// The byte whose code of more than eight bits `window` begins with, and the length of that code.
fn long(window: u64) -> Option<(u8, u32)> {
    (9..=LONGEST).find_map(|length| {
        let code = u32::try_from(window >> (64 - length)).ok()?;
        let (first, at) = CODES.first[length];
        let is_code = (first..CODES.end[length]).contains(&code);
        is_code.then(|| (CODES.bytes[at + (code - first) as usize], length as u32))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn encode(text: &[u8]) -> Vec<u8> {
        let code = |byte: u8| {
            let length = usize::from(LENGTHS[usize::from(byte)]);
            let before = (0..byte).filter(|other| usize::from(LENGTHS[usize::from(*other)]) == length).count();
            (CODES.first[length].0 + u32::try_from(before).expect("at most 255"), length)
        };
        let bit_of = |(code, length): (u32, usize)| (0..length).rev().map(move |bit| (code >> bit & 1) as u8);
        let mut bits: Vec<u8> = text.iter().flat_map(|byte| bit_of(code(*byte))).collect();
        bits.resize(bits.len().next_multiple_of(8), 1);
        bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit)).collect()
    }

    fn decoded(encoded: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(encoded, |byte| text.push(byte)).map(|()| text)
    }

    #[test]
    fn examples_of_the_rfc() {
        for (encoded, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], &b"www.example.com"[..]),
            (b"\xa8\xeb\x10\x64\x9c\xbf", b"no-cache"),
            (b"\xae\xc3\x77\x1a\x4b", b"private"),
            (b"\xb9\x58\xd3\x3f", b":path"),
            (b"", b""),
        ] {
            assert_eq!(decoded(encoded).as_deref(), Some(text));
            assert_eq!(encode(text), encoded);
        }
    }

    #[test]
    fn decoding_reverses_encoding() {
        for _ in 0..10_000 {
            let text: Vec<u8> = (0..fastrand::usize(..20)).map(|_| fastrand::u8(..)).collect();
            assert_eq!(decoded(&encode(&text)), Some(text));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encode(&all)), Some(all));
    }

    #[test]
    fn an_invalid_string_is_not_decoded() {
        // Eight ones are too many for padding, zeros are not padding, and the code for the end must not be used.
        for encoded in [&b"\xff"[..], b"\x63\xff\xff", b"\x62", b"\xff\xff\xff\xff"] {
            assert_eq!(decoded(encoded), None, "{encoded:x?}");
        }
    }
}
