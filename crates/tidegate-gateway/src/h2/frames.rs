//! Frames by their headers alone (RFC 9113 §4.1): payloads are skipped.

/// The length of a frame's header.
pub(super) const HEADER: usize = 9;
/// How much of a payload is kept for its error code: that of `RST_STREAM`, and that of `GOAWAY` behind its last stream.
const KEPT: usize = 8;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
/// RFC 9218 §7.
pub(super) const PRIORITY_UPDATE: u8 = 0x10;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) const NO_ERROR: u32 = 0;
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const INTERNAL_ERROR: u32 = 2;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    /// The error code of `RST_STREAM` and `GOAWAY`.
    pub(super) code: Option<u32>,
}

impl Frame {
    pub(super) fn ends_stream(self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// Reads a frame's header, and the error code in the payload behind it if it is there.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let number = |start: usize| {
            bytes.get(start..start + 4).map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        };
        let kind = bytes[3];
        let code = match kind {
            RST_STREAM => number(HEADER),
            GOAWAY => number(HEADER + 4),
            _ => None,
        };
        let length = number(0).unwrap_or(0) >> 8;
        Self { length, kind, flags: bytes[4], stream: number(5).unwrap_or(0) & 0x7fff_ffff, code }
    }
}

/// A GOAWAY frame.
pub(super) fn goaway(last_stream: u32, code: u32, why: &str) -> Vec<u8> {
    let length = u32::try_from(8 + why.len()).unwrap_or(u32::MAX).to_be_bytes();
    let header = [length[1], length[2], length[3], GOAWAY, 0, 0, 0, 0, 0];
    [&header, &last_stream.to_be_bytes()[..], &code.to_be_bytes(), why.as_bytes()].concat()
}

/// Finds frames in bytes, however they are split.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEADER + KEPT],
    /// How many bytes of the head have come.
    filled: usize,
    /// How many bytes of the payload are still to come.
    payload: usize,
    /// The next frame must be one of the same header block.
    in_header_block: bool,
}

impl Frames {
    /// Skips `bytes`, from `at` on, up to the payload of the next frame, and returns that frame. `None` when they have
    /// no complete head: then all of them have been skipped.
    pub(super) fn next(&mut self, bytes: &[u8], at: &mut usize) -> Option<Frame> {
        let skipped = self.payload.min(bytes.len() - *at);
        self.payload -= skipped;
        *at += skipped;
        loop {
            let missing = self.missing();
            if missing == 0 {
                break;
            }
            let piece = &bytes[*at..bytes.len().min(*at + missing)];
            if piece.is_empty() {
                return None;
            }
            self.head[self.filled..self.filled + piece.len()].copy_from_slice(piece);
            self.filled += piece.len();
            *at += piece.len();
        }
        let frame = Frame::read(&self.head[..self.filled]);
        self.payload = frame.length as usize - (self.filled - HEADER);
        self.filled = 0;
        if matches!(frame.kind, HEADERS | CONTINUATION) {
            self.in_header_block = frame.flags & END_HEADERS == 0;
        }
        Some(frame)
    }

    /// How many bytes are missing of the head, and of the part of the payload that is kept.
    fn missing(&self) -> usize {
        if self.filled < HEADER {
            return HEADER - self.filled;
        }
        let kept = match self.head[3] {
            RST_STREAM => 4,
            GOAWAY => KEPT,
            _ => 0,
        };
        HEADER + kept.min(Frame::read(&self.head[..HEADER]).length as usize) - self.filled
    }

    /// How many of the next bytes certainly belong to a frame or header block that has begun. Zero between frames,
    /// where another frame may be written.
    pub(super) fn begun(&self) -> usize {
        match (self.payload, self.filled) {
            (0, 0) if !self.in_header_block => 0,
            (0, _) => self.missing(),
            (payload, _) => payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: u32, kind: u8, flags: u8, stream: u32, code: Option<u32>) -> Frame {
        Frame { length, kind, flags, stream, code }
    }

    #[test]
    fn frames_are_the_same_however_they_are_split() {
        let bytes: Vec<u8> = [
            &[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0][..],
            &[0, 0, 3, DATA, END_STREAM, 0x80, 0, 1, 2],
            b"abc",
            &[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 5, 0, 0, 0, 8],
            &[0, 0, 2, RST_STREAM, 0, 0, 0, 0, 5, 0, 0],
            &goaway(7, ENHANCE_YOUR_CALM, "why"),
            &[0, 0, 8, PING, 0, 0, 0, 0, 0],
            &[0; 8],
        ]
        .concat();
        let expected = [
            frame(0, SETTINGS, 1, 0, None),
            frame(3, DATA, END_STREAM, 0x0102, None),
            frame(4, RST_STREAM, 0, 5, Some(8)),
            frame(2, RST_STREAM, 0, 5, None),
            frame(11, GOAWAY, 0, 0, Some(ENHANCE_YOUR_CALM)),
            frame(8, PING, 0, 0, None),
        ];
        for step in 1..bytes.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(step) {
                let mut at = 0;
                while let Some(frame) = frames.next(piece, &mut at) {
                    found.push(frame);
                }
                assert_eq!(at, piece.len());
            }
            assert_eq!(found, expected, "in steps of {step}");
            assert_eq!(frames.begun(), 0, "in steps of {step}");
        }
    }

    #[test]
    fn the_rest_of_a_frame_is_known_byte_by_byte() {
        let begun = |bytes: &[u8]| {
            let (mut frames, mut at) = (Frames::default(), 0);
            while frames.next(bytes, &mut at).is_some() {}
            frames.begun()
        };
        assert_eq!(begun(&[]), 0);
        assert_eq!(begun(&[0, 0, 3]), 6);
        assert_eq!(begun(&[0, 0, 3, DATA, 0, 0, 0, 0, 1]), 3);
        assert_eq!(begun(&[0, 0, 3, DATA, 0, 0, 0, 0, 1, b'a']), 2);
        assert_eq!(begun(&[0, 0, 1, DATA, 0, 0, 0, 0, 1, b'a']), 0);
        assert_eq!(begun(&[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0]), 3);
        // Nothing may come between the frames of a header block.
        assert_eq!(begun(&[0, 0, 1, HEADERS, 0, 0, 0, 0, 1, 0x82]), 9);
        assert_eq!(begun(&[0, 0, 1, HEADERS, END_HEADERS, 0, 0, 0, 1, 0x82]), 0);
        assert_eq!(begun(&[0, 0, 0, HEADERS, 0, 0, 0, 0, 1, 0, 0, 0, CONTINUATION, END_HEADERS, 0, 0, 0, 1]), 0);
    }
}
