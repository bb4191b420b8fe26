//! Bounds what a client may send that costs work and serves no request: frames without a request or a body, requests
//! that it cancels, requests that have to be reset. A state machine that is handed the bytes of both sides and the
//! time.
//!
//! The bounds are far above what honest clients do. Those ping a few times a second, or once for each DATA frame they
//! get (to measure the connection). They open windows once or twice for each DATA frame. Browsers send priorities with
//! their first requests. So there is an allowance for each second, and more for each request and each DATA frame that
//! was sent to the client.

use std::collections::BTreeSet;

use super::allowance::{Allowance, Bound};
use super::flood::{Fault, Flood};
use super::frames::{
    CONTINUATION, DATA, ENHANCE_YOUR_CALM, Frame, Frames, GOAWAY, INTERNAL_ERROR, NO_ERROR, PING, PRIORITY,
    PRIORITY_UPDATE, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use super::header_block::{Kind, Table};
use super::inbound::{Block, Event, Inbound};

/// The client's connection preface.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frames that serve no request: at once, and a second.
const CHEAP: Bound = Bound { at_once: 2_000, per_second: 1_000 };
/// What each request adds to that.
const EARNED_BY_REQUEST_MILLI: u64 = 10_000;
/// What each DATA frame sent to the client adds: a part for itself, another for each byte, and no more than a request.
/// It pays for what a client sends because of it. A client that requests a byte at a time gains nothing.
const EARNED_BY_FRAME_MILLI: u64 = 1_000;
const EARNED_BY_BYTE_MILLI: u64 = 20;
/// The most that can be saved up.
const MOST_EARNED: u64 = 50_000;
/// Each of these changes all streams, and no client needs many.
const SETTINGS_FRAMES: Bound = Bound { at_once: 200, per_second: 100 };
/// Requests that the client cancels. Each request earns half of another.
const RESETS: Bound = Bound { at_once: 2_000, per_second: 1_000 };
const EARNED_RESETS_MILLI: u64 = 500;
/// Header blocks that hyper rejects by itself or ignores: malformed requests, lists larger than `max_head_bytes`,
/// blocks on streams that have ended. Each may have been decoded into four times `max_head_bytes`.
const MALFORMED: Bound = Bound { at_once: 50, per_second: 10 };
/// Requests that were rejected because of their head, with a response.
const REJECTED: Bound = Bound { at_once: 100, per_second: 20 };

/// The longest header block in terms of `max_head_bytes`. hyper, too, ends a connection over a list that is larger.
const LONGEST_BLOCK: usize = 4;

/// The bounds of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) max_head_bytes: usize,
    pub(crate) max_streams: u32,
    /// Whether requests for https resources are served.
    pub(crate) may_be_https: bool,
}

/// Whether a GOAWAY with this code says that the client has broken the rules. Floods are counted by themselves.
fn is_clients_error(code: u32) -> bool {
    !matches!(code, NO_ERROR | INTERNAL_ERROR | ENHANCE_YOUR_CALM)
}

/// What is known of a connection's frames.
pub(super) struct Watch {
    terms: Terms,
    /// How much of the preface has come.
    preface: usize,
    received: Inbound,
    headers: Table,
    sent: Frames,
    /// The highest stream that the client has opened, and how many it has opened with a header list that is not too
    /// large.
    last_stream: u32,
    opened: u64,
    /// Streams that the client may still send data on. When it is full, hyper refuses others.
    open: BTreeSet<u32>,
    /// Header blocks that may still come as trailers, one for each stream that was opened with a body.
    trailers: u64,
    /// Streams that were refused (`REFUSED_STREAM`) because there were too many at once: the client could not know.
    refused: u64,
    /// Streams that hyper has not handed over.
    unserved: u64,
    /// Requests that were rejected with a response.
    rejected: u64,
    /// A GOAWAY has been sent: more streams may come, and are ignored.
    is_leaving: bool,
    /// That GOAWAY says that the client has broken the rules of HTTP/2.
    is_invalid: bool,
    now_millis: u64,
    cheap: Allowance,
    settings_frames: Allowance,
    resets: Allowance,
    malformed: Allowance,
    rejections: Allowance,
}

impl Watch {
    pub(super) fn new(terms: Terms, now_millis: u64) -> Self {
        Self {
            terms,
            preface: 0,
            received: Inbound::new(terms.max_head_bytes.saturating_mul(LONGEST_BLOCK)),
            headers: Table::default(),
            sent: Frames::default(),
            last_stream: 0,
            opened: 0,
            open: BTreeSet::new(),
            trailers: 0,
            refused: 0,
            unserved: 0,
            rejected: 0,
            is_leaving: false,
            is_invalid: false,
            now_millis,
            cheap: Allowance::full(&CHEAP),
            settings_frames: Allowance::full(&SETTINGS_FRAMES),
            resets: Allowance::full(&RESETS),
            malformed: Allowance::full(&MALFORMED),
            rejections: Allowance::full(&REJECTED),
        }
    }

    /// Inspects bytes from the client before hyper reads them. What may be passed on is added to `out`: header blocks
    /// only when they are complete, and changed so that hyper rejects them if they are malformed. Returns whether it
    /// has header blocks. After a fault nothing may be passed on.
    pub(super) fn received(&mut self, bytes: &[u8], now_millis: u64, out: &mut Vec<u8>) -> Result<bool, Fault> {
        self.advance(now_millis);
        let expected = &PREFACE[self.preface..];
        let (preface, mut rest) = bytes.split_at(expected.len().min(bytes.len()));
        if !expected.starts_with(preface) {
            return Err(Fault::Preface);
        }
        self.preface += preface.len();
        out.extend_from_slice(preface);
        let (before, mut has_blocks, mut flood) = (self.last_stream, false, None);
        while let Some(event) = self.received.next(&mut rest, out) {
            let more = match event {
                Event::Frame(frame) => self.count(frame),
                Event::Block(block) => {
                    has_blocks = true;
                    self.pass(block, out)
                }
                Event::TooLong => Some(Flood::Malformed),
            };
            flood = flood.or(more);
        }
        if let Some(flood) = flood {
            // hyper has not seen what this read brought.
            self.last_stream = before;
            return Err(Fault::Flood(flood));
        }
        Ok(has_blocks)
    }

    /// Inspects bytes that have been written to the client.
    pub(super) fn sent(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let (mut fault, mut at) = (None, 0);
        while let Some(frame) = self.sent.next(bytes, &mut at) {
            match frame.kind {
                DATA => {
                    let earned = EARNED_BY_FRAME_MILLI + EARNED_BY_BYTE_MILLI * u64::from(frame.length);
                    self.cheap.earn(earned.min(EARNED_BY_REQUEST_MILLI), MOST_EARNED);
                }
                RST_STREAM => {
                    self.open.remove(&frame.stream);
                    self.refused += u64::from(frame.code == Some(REFUSED_STREAM));
                }
                GOAWAY => {
                    self.is_leaving = true;
                    self.is_invalid |= frame.code.is_some_and(is_clients_error);
                    let is_flood = frame.code == Some(ENHANCE_YOUR_CALM);
                    fault = fault.or(is_flood.then_some(Fault::Flood(Flood::Other)));
                }
                _ => {}
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Whether hyper has ended the connection because the client has broken the rules of HTTP/2.
    pub(super) fn is_invalid(&self) -> bool {
        self.is_invalid
    }

    /// Counts the requests that hyper has rejected by itself, when it has read all that was received: all but `served`.
    pub(super) fn settle(&mut self, served: u64) -> Result<(), Fault> {
        let unserved = self.opened.saturating_sub(served + self.refused);
        let more = unserved.saturating_sub(self.unserved);
        self.unserved = self.unserved.max(unserved);
        let is_too_much = more > 0 && !self.is_leaving && !self.malformed.spend(more);
        if is_too_much { Err(Fault::Flood(Flood::Malformed)) } else { Ok(()) }
    }

    /// Counts the requests that were rejected with a response. `rejected` is how many there were so far.
    pub(super) fn rejected(&mut self, rejected: u64) -> Result<(), Fault> {
        let more = rejected.saturating_sub(std::mem::replace(&mut self.rejected, rejected));
        if self.rejections.spend(more) { Ok(()) } else { Err(Fault::Flood(Flood::Malformed)) }
    }

    /// How many of the next bytes to the client certainly belong to a frame or header block that has begun. Zero where
    /// a frame of our own may be written.
    pub(super) fn begun(&self) -> usize {
        self.sent.begun()
    }

    /// The highest stream that may have been served.
    pub(super) fn last_stream(&self) -> u32 {
        self.last_stream
    }

    fn advance(&mut self, now_millis: u64) {
        let millis = now_millis.saturating_sub(self.now_millis);
        if millis > 0 {
            self.now_millis = now_millis;
            self.cheap.refill(&CHEAP, millis);
            self.settings_frames.refill(&SETTINGS_FRAMES, millis);
            self.resets.refill(&RESETS, millis);
            self.malformed.refill(&MALFORMED, millis);
            self.rejections.refill(&REJECTED, millis);
        }
    }

    /// Inspects a header block, and passes it on. Returns the flood that it is part of.
    fn pass(&mut self, mut block: Block, out: &mut Vec<u8>) -> Option<Flood> {
        let (stream, ends_stream) = (block.stream, block.ends_stream);
        let opens_stream = stream > self.last_stream;
        let kind = if opens_stream { Kind::Request { may_be_https: self.terms.may_be_https } } else { Kind::Trailers };
        let Some(findings) = self.headers.inspect(&block.fragment, kind) else {
            self.received.end(out);
            return None;
        };
        if findings.is_malformed || block.depends_on_itself {
            block.make_invalid(opens_stream);
        }
        block.write(out);
        let mut is_counted = findings.size >= self.terms.max_head_bytes;
        if opens_stream {
            self.last_stream = stream;
            self.opened += u64::from(!is_counted);
            self.cheap.earn(EARNED_BY_REQUEST_MILLI, MOST_EARNED);
            self.resets.earn(EARNED_RESETS_MILLI, RESETS.at_once);
            if !ends_stream {
                self.trailers += 1;
                // Twice as many: hyper may have ended some before the client can see it.
                if self.open.len() < 2 * self.terms.max_streams as usize {
                    self.open.insert(stream);
                }
            }
        } else {
            is_counted |= self.trailers == 0;
            self.trailers = self.trailers.saturating_sub(1);
            self.open.remove(&stream);
        }
        (is_counted && !self.malformed.spend(1)).then_some(Flood::Malformed)
    }

    /// Counts a frame of the client. Returns the flood that it is part of.
    fn count(&mut self, frame: Frame) -> Option<Flood> {
        let flood = match frame.kind {
            DATA => {
                let has_ended = frame.ends_stream();
                let was_open =
                    if has_ended { self.open.remove(&frame.stream) } else { self.open.contains(&frame.stream) };
                if was_open && !has_ended && frame.length > 0 {
                    return None;
                }
                Flood::EmptyData
            }
            RST_STREAM => {
                self.open.remove(&frame.stream);
                return (!self.resets.spend(1)).then_some(Flood::Resets);
            }
            SETTINGS => return (!self.settings_frames.spend(1)).then_some(Flood::Settings),
            CONTINUATION => Flood::HeaderFrames,
            PRIORITY | PRIORITY_UPDATE => Flood::Priority,
            PING => Flood::Ping,
            WINDOW_UPDATE => Flood::WindowUpdate,
            _ => Flood::Unknown,
        };
        (!self.cheap.spend(1)).then_some(flood)
    }
}

#[cfg(test)]
mod tests;
