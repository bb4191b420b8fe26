//! The client's frames before hyper reads them. Header blocks are held back until they are complete, so that each can
//! be inspected and, if it is malformed, be changed before hyper sees any of it.

use super::frames::{CONTINUATION, END_HEADERS, END_STREAM, Frame, HEADER, HEADERS, PUSH_PROMISE};

const PADDED: u8 = 0x8;
const HAS_PRIORITY: u8 = 0x20;
/// `SETTINGS_MAX_FRAME_SIZE`, which is left at its default.
const LARGEST_FRAME: usize = 16_384;
/// A HEADERS frame on no stream. hyper ends the connection with `PROTOCOL_ERROR` for it.
const VIOLATION: [u8; HEADER] = [0, 0, 0, HEADERS, END_HEADERS, 0, 0, 0, 0];
/// A regular header and a pseudo-header behind it, by their numbers in the static table. hyper resets the stream for
/// them, and the dynamic table stays as it is.
const MALFORMED: [u8; 2] = [0x90, 0x88];

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A frame, at its header. Not the HEADERS frames: those are in their block.
    Frame(Frame),
    /// A complete header block, which has not been passed on.
    Block(Block),
    /// A header block that is too long.
    TooLong,
}

/// A header block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    /// RFC 7540 §5.3.1: a stream must not depend on itself.
    pub(super) depends_on_itself: bool,
    /// The HPACK bytes of all its frames.
    pub(super) fragment: Vec<u8>,
}

impl Block {
    /// Removes padding and priority from the payload of a HEADERS frame. `None` if they don't fit.
    fn strip(&mut self, flags: u8) -> Option<()> {
        if flags & (PADDED | HAS_PRIORITY) == 0 {
            return Some(());
        }
        let mut rest = &self.fragment[..];
        let mut padding = 0;
        if flags & PADDED != 0 {
            let (length, behind) = rest.split_first()?;
            (padding, rest) = (usize::from(*length), behind);
        }
        if flags & HAS_PRIORITY != 0 {
            let (priority, behind) = rest.split_first_chunk::<5>()?;
            let parent = u32::from_be_bytes([priority[0] & 0x7f, priority[1], priority[2], priority[3]]);
            self.depends_on_itself = parent == self.stream;
            rest = behind;
        }
        self.fragment = rest[..rest.len().checked_sub(padding)?].to_vec();
        Some(())
    }

    /// Changes it so that hyper resets the stream. `is_first`: whether it opens the stream; otherwise it has trailers.
    pub(super) fn make_invalid(&mut self, is_first: bool) {
        if is_first {
            self.fragment.extend_from_slice(&MALFORMED);
        } else {
            // Trailers that do not end their stream are malformed.
            self.ends_stream = false;
        }
    }

    /// Passes it on, in as few frames as it takes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let (mut rest, mut kind) = (&self.fragment[..], HEADERS);
        loop {
            let (payload, behind) = rest.split_at(rest.len().min(LARGEST_FRAME));
            let [_, a, b, c] = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
            let mut flags = if kind == HEADERS && self.ends_stream { END_STREAM } else { 0 };
            flags |= if behind.is_empty() { END_HEADERS } else { 0 };
            out.extend_from_slice(&[a, b, c, kind, flags]);
            out.extend_from_slice(&self.stream.to_be_bytes());
            out.extend_from_slice(payload);
            if behind.is_empty() {
                return;
            }
            (rest, kind) = (behind, CONTINUATION);
        }
    }
}

/// The client's frames, however their bytes are split.
pub(super) struct Inbound {
    /// The next frame's header, as far as it has come.
    head: [u8; HEADER],
    filled: usize,
    /// How many bytes of a frame's payload are still to come.
    payload: usize,
    /// A header block that has begun.
    block: Option<Block>,
    /// The type and the flags of the block's frame whose payload is coming.
    block_frame: Option<(u8, u8)>,
    longest_block: usize,
    /// The client has violated the protocol: nothing more is passed on.
    is_over: bool,
}

impl Inbound {
    pub(super) fn new(longest_block: usize) -> Self {
        Self { head: [0; HEADER], filled: 0, payload: 0, block: None, block_frame: None, longest_block, is_over: false }
    }

    /// Passes on what hyper may see of `bytes`, up to the next event. `None` when nothing is left of them.
    pub(super) fn next(&mut self, bytes: &mut &[u8], out: &mut Vec<u8>) -> Option<Event> {
        while !self.is_over {
            let (payload, rest) = bytes.split_at(self.payload.min(bytes.len()));
            self.payload -= payload.len();
            *bytes = rest;
            self.block.as_mut().map_or(&mut *out, |block| &mut block.fragment).extend_from_slice(payload);
            if self.payload > 0 {
                return None;
            }
            if let (Some((kind, flags)), Some(block)) = (self.block_frame.take(), &mut self.block) {
                if kind == HEADERS && block.strip(flags).is_none() {
                    self.end(out);
                    continue;
                }
                if flags & END_HEADERS != 0 {
                    return self.block.take().map(Event::Block);
                }
            }
            let (head, rest) = bytes.split_at((HEADER - self.filled).min(bytes.len()));
            self.head[self.filled..self.filled + head.len()].copy_from_slice(head);
            self.filled += head.len();
            *bytes = rest;
            if self.filled < HEADER {
                return None;
            }
            self.filled = 0;
            let event = self.begin(Frame::read(&self.head), out);
            if event.is_some() {
                return event;
            }
        }
        *bytes = &[];
        None
    }

    /// A frame begins.
    fn begin(&mut self, frame: Frame, out: &mut Vec<u8>) -> Option<Event> {
        self.payload = frame.length as usize;
        let is_of_block = matches!(frame.kind, HEADERS | CONTINUATION) && self.payload <= LARGEST_FRAME;
        match &self.block {
            None if frame.kind == HEADERS && is_of_block => {
                let ends_stream = frame.ends_stream();
                let fragment = Vec::with_capacity(self.payload + MALFORMED.len());
                self.block = Some(Block { stream: frame.stream, ends_stream, depends_on_itself: false, fragment });
                self.block_frame = Some((HEADERS, frame.flags));
                None
            }
            Some(block) if frame.kind == CONTINUATION && frame.stream == block.stream && is_of_block => {
                self.block_frame = Some((CONTINUATION, frame.flags));
                let is_too_long = block.fragment.len() + self.payload > self.longest_block;
                Some(if is_too_long { Event::TooLong } else { Event::Frame(frame) })
            }
            None if !matches!(frame.kind, HEADERS | CONTINUATION | PUSH_PROMISE) => {
                out.extend_from_slice(&self.head);
                Some(Event::Frame(frame))
            }
            // Another frame within a block, a CONTINUATION without one, one that is too long, or a push by a client:
            // hyper would read its header block, and might only reset a stream.
            None | Some(_) => {
                self.end(out);
                None
            }
        }
    }

    /// Makes hyper end the connection.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.is_over = true;
        out.extend_from_slice(&VIOLATION);
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{DATA, PING};
    use super::*;

    const LONGEST: usize = 40_000;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let [_, a, b, c] = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
        [&[a, b, c, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// What is passed on of these bytes when they come in pieces of this length, and the events. Blocks are passed on
    /// as they are.
    fn pass(bytes: &[u8], step: usize) -> (Vec<u8>, Vec<Event>) {
        let (mut inbound, mut out, mut events) = (Inbound::new(LONGEST), Vec::new(), Vec::new());
        for mut piece in bytes.chunks(step) {
            while let Some(event) = inbound.next(&mut piece, &mut out) {
                if let Event::Block(block) = &event {
                    block.write(&mut out);
                }
                events.push(event);
            }
            assert!(piece.is_empty());
        }
        (out, events)
    }

    fn block(stream: u32, ends_stream: bool, depends_on_itself: bool, fragment: &[u8]) -> Event {
        Event::Block(Block { stream, ends_stream, depends_on_itself, fragment: fragment.to_vec() })
    }

    #[test]
    fn a_block_is_complete_however_it_is_split() {
        let bytes = [
            frame(PING, 0, 0, &[7; 8]),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, b"one"),
            frame(HEADERS, 0, 3, b""),
            frame(CONTINUATION, 0, 3, b"tw"),
            frame(CONTINUATION, END_HEADERS, 3, b"o"),
            frame(HEADERS, END_HEADERS | PADDED | HAS_PRIORITY, 5, b"\x02\x80\0\0\x05\x10three\0\0"),
            frame(HEADERS, END_HEADERS | PADDED, 7, b"\x00four"),
            frame(HEADERS, END_HEADERS, 9, b""),
            frame(DATA, END_STREAM, 3, b"data"),
        ]
        .concat();
        let expected = [
            frame(PING, 0, 0, &[7; 8]),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, b"one"),
            frame(HEADERS, END_HEADERS, 3, b"two"),
            frame(HEADERS, END_HEADERS, 5, b"three"),
            frame(HEADERS, END_HEADERS, 7, b"four"),
            frame(HEADERS, END_HEADERS, 9, b""),
            frame(DATA, END_STREAM, 3, b"data"),
        ]
        .concat();
        for step in 1..=bytes.len() {
            let (out, events) = pass(&bytes, step);
            assert_eq!(out, expected, "in steps of {step}");
            let blocks: Vec<Event> = events.into_iter().filter(|event| matches!(event, Event::Block(_))).collect();
            assert_eq!(
                blocks,
                [
                    block(1, true, false, b"one"),
                    block(3, false, false, b"two"),
                    block(5, false, true, b"three"),
                    block(7, false, false, b"four"),
                    block(9, false, false, b""),
                ]
            );
        }
    }

    #[test]
    fn nothing_of_a_block_is_passed_on_before_it_is_complete() {
        let bytes = [frame(HEADERS, 0, 1, b"one"), frame(CONTINUATION, END_HEADERS, 1, b"two")].concat();
        for end in 0..bytes.len() {
            assert_eq!(pass(&bytes[..end], bytes.len()).0, b"", "{end}");
        }
    }

    #[test]
    fn a_malformed_block_has_a_pseudo_header_behind_a_regular_one() {
        let written = |fragment: &[u8]| {
            let mut out = Vec::new();
            let fragment = fragment.to_vec();
            let mut block = Block { stream: 1, ends_stream: true, depends_on_itself: false, fragment };
            block.make_invalid(true);
            block.write(&mut out);
            out
        };
        assert_eq!(written(b"abc"), frame(HEADERS, END_HEADERS | END_STREAM, 1, b"abc\x90\x88"));
        // Both don't fit into one frame.
        let long = vec![7; LARGEST_FRAME - 1];
        let expected = [
            frame(HEADERS, END_STREAM, 1, &[&long[..], &[0x90]].concat()),
            frame(CONTINUATION, END_HEADERS, 1, &[0x88]),
        ];
        assert_eq!(written(&long), expected.concat());
    }

    #[test]
    fn a_violation_of_the_protocol_ends_the_connection() {
        let begun = frame(HEADERS, 0, 1, b"one");
        for bytes in [
            [begun.clone(), frame(PING, 0, 0, &[0; 8])].concat(),
            [begun.clone(), begun.clone()].concat(),
            [begun, frame(CONTINUATION, END_HEADERS, 3, b"two")].concat(),
            frame(CONTINUATION, END_HEADERS, 1, b"two"),
            frame(HEADERS, END_HEADERS, 1, &vec![0; LARGEST_FRAME + 1]),
            frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x82"),
            frame(HEADERS, END_HEADERS | PADDED, 1, b""),
            frame(HEADERS, END_HEADERS | PADDED, 1, b"\x04abc"),
            frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"abcd"),
        ] {
            let (out, events) = pass(&[bytes, frame(PING, 0, 0, &[0; 8])].concat(), usize::MAX);
            assert_eq!((out, events), (VIOLATION.to_vec(), vec![]));
        }
    }

    #[test]
    fn a_block_must_not_grow_without_an_end() {
        let piece = frame(CONTINUATION, 0, 1, &[0; 10_000]);
        let (_, events) = pass(&[frame(HEADERS, 0, 1, b"one"), piece.repeat(3)].concat(), 1_000);
        assert!(!events.contains(&Event::TooLong));
        let (out, events) = pass(&[frame(HEADERS, 0, 1, b"one"), piece.repeat(4)].concat(), 1_000);
        assert!(events.contains(&Event::TooLong) && out.is_empty());
    }
}
