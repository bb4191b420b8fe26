//! How much a client may send that costs the gateway work and brings no request forward: frames without a request or a body, requests it
//! takes back, requests that have to be reset. A machine that is handed the bytes of both sides and the time.
//!
//! The bounds are far above what honest clients do. Those ping a few times a second, or once for each DATA frame they get (to measure the
//! line); they open windows once or twice for each DATA frame; browsers send priorities with their first requests. So there is an allowance
//! for each second, and more for each request and each DATA frame that was sent to the client.

use super::block::spoil_if_malformed;
use super::frames::{
    CONTINUATION, DATA, ENHANCE_YOUR_CALM, Frame, Frames, GOAWAY, HEADER, HEADERS, PING, PRIORITY, PRIORITY_UPDATE,
    PROTOCOL_ERROR, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};

/// The client's connection preface.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frames that bring no request forward: at once, and a second.
const CHEAP: Bound = Bound { at_once: 2_000, per_second: 1_000 };
/// What each request and each DATA frame sent to the client adds to that, up to …
const EARNED: u64 = 10;
/// … so many.
const MOST_EARNED: u64 = 1_000_000;
/// SETTINGS cost more than others: each goes through all streams.
const SETTINGS_COST: u64 = 10;
/// Requests that the client takes back. Each request makes room for half of another.
const RESETS: Bound = Bound { at_once: 2_000, per_second: 1_000 };
const EARNED_RESETS_MILLI: u64 = 500;
/// Requests that hyper rejects by itself, because they are malformed or too large. Each may have been decoded into four times
/// `max_head_bytes`.
const MALFORMED: Bound = Bound { at_once: 50, per_second: 10 };

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not begin as HTTP/2 does.
    Preface,
    Flood(Flood),
}

impl Fault {
    /// The error code of the GOAWAY.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Preface => PROTOCOL_ERROR,
            Self::Flood(_) => ENHANCE_YOUR_CALM,
        }
    }

    /// What the GOAWAY says to people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Preface => "invalid connection preface",
            Self::Flood(flood) => flood.text(),
        }
    }
}

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flood {
    Ping,
    Settings,
    WindowUpdate,
    Priority,
    EmptyData,
    HeaderFrames,
    Unknown,
    Resets,
    Malformed,
    /// What hyper bounds itself, with a GOAWAY of its own.
    Other,
}

impl Flood {
    pub(crate) const ALL: [Self; 10] = [
        Self::Ping,
        Self::Settings,
        Self::WindowUpdate,
        Self::Priority,
        Self::EmptyData,
        Self::HeaderFrames,
        Self::Unknown,
        Self::Resets,
        Self::Malformed,
        Self::Other,
    ];

    /// A word for metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Settings => "settings",
            Self::WindowUpdate => "window_update",
            Self::Priority => "priority",
            Self::EmptyData => "empty_data",
            Self::HeaderFrames => "header_frames",
            Self::Unknown => "unknown_frames",
            Self::Resets => "resets",
            Self::Malformed => "malformed_requests",
            Self::Other => "other",
        }
    }

    /// A sentence for people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Ping => "too many PING frames",
            Self::Settings => "too many SETTINGS frames",
            Self::WindowUpdate => "too many WINDOW_UPDATE frames",
            Self::Priority => "too many PRIORITY frames",
            Self::EmptyData => "too many DATA frames without data",
            Self::HeaderFrames => "too many HEADERS and CONTINUATION frames without a request",
            Self::Unknown => "too many frames of unknown types",
            Self::Resets => "too many requests reset by the client",
            Self::Malformed => "too many malformed or too large requests",
            Self::Other => {
                "too many resets before a request began, CONTINUATION frames, small DATA frames, or too large a header list"
            }
        }
    }
}

/// How often something may happen.
struct Bound {
    at_once: u64,
    per_second: u64,
}

/// What is left of a bound, in thousandths.
struct Allowance(u64);

impl Allowance {
    fn full(bound: &Bound) -> Self {
        Self(bound.at_once * 1_000)
    }

    fn refill(&mut self, bound: &Bound, millis: u64) {
        // What was earned on top of it stays.
        if self.0 < bound.at_once * 1_000 {
            self.0 = (self.0 + millis.saturating_mul(bound.per_second)).min(bound.at_once * 1_000);
        }
    }

    fn earn(&mut self, thousandths: u64, most: u64) {
        self.0 = (self.0 + thousandths).min(most * 1_000);
    }

    /// False if there is not enough left.
    fn spend(&mut self, count: u64) -> bool {
        let left = self.0.checked_sub(count * 1_000);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// What is known of a connection's frames.
pub(super) struct Watch {
    /// How much of the preface has come.
    preface: usize,
    received: Frames,
    sent: Frames,
    /// The highest stream that the client has opened, and how many it has.
    last_stream: u32,
    opened: u64,
    /// Streams that were refused because there were too many at once: the client could not know.
    refused: u64,
    /// Streams that nobody was asked to serve.
    rejected: u64,
    /// A GOAWAY has been sent: more streams may come, and are ignored.
    is_leaving: bool,
    now_millis: u64,
    cheap: Allowance,
    resets: Allowance,
    malformed: Allowance,
}

impl Watch {
    pub(super) fn new(now_millis: u64) -> Self {
        Self {
            preface: 0,
            received: Frames::default(),
            sent: Frames::default(),
            last_stream: 0,
            opened: 0,
            refused: 0,
            rejected: 0,
            is_leaving: false,
            now_millis,
            cheap: Allowance::full(&CHEAP),
            resets: Allowance::full(&RESETS),
            malformed: Allowance::full(&MALFORMED),
        }
    }

    /// Looks at bytes from the client before anyone else does, and spoils requests that are malformed. Whether there are requests in them; a
    /// fault means that none of them may be handed on.
    pub(super) fn received(&mut self, bytes: &mut [u8], now_millis: u64) -> Result<bool, Fault> {
        self.advance(now_millis);
        let expected = &PREFACE[self.preface..];
        let mut at = expected.len().min(bytes.len());
        if !expected.starts_with(&bytes[..at]) {
            return Err(Fault::Preface);
        }
        self.preface += at;
        let (before, mut fault) = (self.last_stream, None);
        while let Some(frame) = self.received.next(bytes, &mut at) {
            let whole = at.checked_sub(HEADER).map(|start| start..at + frame.length as usize);
            if let Some(whole) = whole.filter(|_| frame.kind == HEADERS).and_then(|whole| bytes.get_mut(whole)) {
                spoil_if_malformed(whole, frame.stream > self.last_stream);
            }
            fault = fault.or(self.count(frame).map(Fault::Flood));
        }
        if let Some(fault) = fault {
            // Nobody has seen what this read brought.
            self.last_stream = before;
            return Err(fault);
        }
        Ok(self.last_stream != before)
    }

    /// Looks at bytes that have been written to the client.
    pub(super) fn sent(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let (mut fault, mut at) = (None, 0);
        while let Some(frame) = self.sent.next(bytes, &mut at) {
            match (frame.kind, frame.code) {
                (DATA, _) => self.cheap.earn(EARNED * 1_000, MOST_EARNED),
                (RST_STREAM, Some(REFUSED_STREAM)) => self.refused += 1,
                (GOAWAY, code) => {
                    self.is_leaving = true;
                    fault = fault.or((code == Some(ENHANCE_YOUR_CALM)).then_some(Fault::Flood(Flood::Other)));
                }
                _ => {}
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Counts the requests that hyper has rejected by itself, when all that has been received has been looked at: `served` of them were not.
    pub(super) fn settle(&mut self, served: u64) -> Result<(), Fault> {
        let whole = self.opened - u64::from(self.received.is_in_header_block() && self.opened > 0);
        let rejected = whole.saturating_sub(served + self.refused);
        let more = rejected.saturating_sub(self.rejected);
        self.rejected = self.rejected.max(rejected);
        let is_too_much = more > 0 && !self.is_leaving && !self.malformed.spend(more);
        if is_too_much { Err(Fault::Flood(Flood::Malformed)) } else { Ok(()) }
    }

    /// How many of the next bytes to the client surely belong to what has begun. Zero where a frame of our own may stand.
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
            self.resets.refill(&RESETS, millis);
            self.malformed.refill(&MALFORMED, millis);
        }
    }

    /// Counts a frame of the client's. Says what there is too much of.
    fn count(&mut self, frame: Frame) -> Option<Flood> {
        let (flood, cost) = match frame.kind {
            HEADERS if frame.stream > self.last_stream => {
                self.last_stream = frame.stream;
                self.opened += 1;
                self.cheap.earn(EARNED * 1_000, MOST_EARNED);
                self.resets.earn(EARNED_RESETS_MILLI, RESETS.at_once);
                return None;
            }
            DATA if frame.length > 0 || frame.ends_stream() => return None,
            RST_STREAM => return (!self.resets.spend(1)).then_some(Flood::Resets),
            DATA => (Flood::EmptyData, 1),
            HEADERS | CONTINUATION => (Flood::HeaderFrames, 1),
            PRIORITY | PRIORITY_UPDATE => (Flood::Priority, 1),
            SETTINGS => (Flood::Settings, SETTINGS_COST),
            PING => (Flood::Ping, 1),
            WINDOW_UPDATE => (Flood::WindowUpdate, 1),
            _ => (Flood::Unknown, 1),
        };
        (!self.cheap.spend(cost)).then_some(flood)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::goaway;
    use super::*;

    fn frame(length: u8, kind: u8, flags: u8, stream: u32) -> Vec<u8> {
        let [a, b, c, d] = stream.to_be_bytes();
        [&[0, 0, length, kind, flags, a, b, c, d][..], &vec![0; length.into()]].concat()
    }

    fn received(watch: &mut Watch, bytes: &[u8], now_millis: u64) -> Result<bool, Fault> {
        watch.received(&mut bytes.to_vec(), now_millis)
    }

    /// A connection that has begun.
    fn watch() -> Watch {
        let mut watch = Watch::new(0);
        assert_eq!(received(&mut watch, PREFACE, 0), Ok(false));
        watch
    }

    /// How many frames are taken at this time, up to a bound.
    fn taken(watch: &mut Watch, frame: &[u8], now_millis: u64) -> (u32, Option<Flood>) {
        for count in 0..100_000 {
            match received(watch, frame, now_millis) {
                Ok(_) => {}
                Err(Fault::Flood(flood)) => return (count, Some(flood)),
                Err(Fault::Preface) => panic!("it has begun"),
            }
        }
        (100_000, None)
    }

    fn ping() -> Vec<u8> {
        frame(8, PING, 0, 0)
    }

    fn window_update() -> Vec<u8> {
        frame(4, WINDOW_UPDATE, 0, 0)
    }

    #[test]
    fn frames_that_bring_no_request_forward_are_bounded_at_once_and_a_second() {
        for (frame, flood, at_once, per_second) in [
            (ping(), Flood::Ping, 2_000, 1_000),
            (frame(8, PING, 1, 0), Flood::Ping, 2_000, 1_000),
            (window_update(), Flood::WindowUpdate, 2_000, 1_000),
            (frame(5, PRIORITY, 0, 3), Flood::Priority, 2_000, 1_000),
            (frame(5, PRIORITY_UPDATE, 0, 0), Flood::Priority, 2_000, 1_000),
            (frame(0, DATA, 0, 1), Flood::EmptyData, 2_000, 1_000),
            (frame(0, HEADERS, 0, 0), Flood::HeaderFrames, 2_000, 1_000),
            (frame(0, CONTINUATION, 0, 1), Flood::HeaderFrames, 2_000, 1_000),
            (frame(9, 0xbe, 0, 1), Flood::Unknown, 2_000, 1_000),
            (frame(0, SETTINGS, 0, 0), Flood::Settings, 200, 100),
            (frame(4, RST_STREAM, 0, 1), Flood::Resets, 2_000, 1_000),
        ] {
            let mut watch = watch();
            assert_eq!(taken(&mut watch, &frame, 0), (at_once, Some(flood)));
            assert_eq!(taken(&mut watch, &frame, 1_000), (per_second, Some(flood)));
            assert_eq!(taken(&mut watch, &frame, 1_500), (per_second / 2, Some(flood)));
            assert_eq!(taken(&mut watch, &frame, 1_000_000), (at_once, Some(flood)), "no more is saved up");
            assert_eq!(taken(&mut watch, &frame, 999_000), (0, Some(flood)), "a clock that goes back brings nothing");
        }
        // The same in one read.
        assert_eq!(received(&mut watch(), &ping().repeat(2_000), 0), Ok(false));
        assert_eq!(received(&mut watch(), &ping().repeat(2_001), 0), Err(Fault::Flood(Flood::Ping)));
    }

    #[test]
    fn requests_and_bodies_are_not_bounded() {
        for frame in [frame(1, DATA, 0, 1), frame(0, DATA, 1, 1), frame(200, DATA, 0, 1)] {
            assert_eq!(taken(&mut watch(), &frame, 0), (100_000, None));
        }
        let mut watch = watch();
        for stream in (1..200_000).step_by(2) {
            assert_eq!(received(&mut watch, &frame(3, HEADERS, 4, stream), 0), Ok(true));
        }
        assert_eq!(watch.last_stream(), 199_999);
    }

    /// Clients answer each DATA frame with one or two frames that open a window, some with a PING: on a fast line that is thousands a second.
    #[test]
    fn what_answers_data_or_belongs_to_a_request_is_paid_for_by_it() {
        let mut watch = watch();
        for _ in 0..100_000 {
            assert_eq!(watch.sent(&frame(100, DATA, 0, 1)), Ok(()));
            let answer = [window_update(), window_update(), ping()].concat();
            assert_eq!(received(&mut watch, &answer, 0), Ok(false));
        }
        // Long before they are answered, too.
        let mut late = self::watch();
        for _ in 0..50_000 {
            assert_eq!(late.sent(&frame(1, DATA, 0, 1)), Ok(()));
        }
        assert_eq!(taken(&mut late, &window_update(), 0), (100_000, None));
        // A priority and a window for each request.
        for stream in (1..100_000).step_by(2) {
            let more =
                [frame(3, HEADERS, 4, stream), frame(5, PRIORITY, 0, stream), frame(4, WINDOW_UPDATE, 0, stream)];
            assert_eq!(received(&mut late, &more.concat(), 0), Ok(true));
        }
        // What was earned has an end.
        for _ in 0..1_000_000 {
            assert_eq!(late.sent(&frame(0, DATA, 1, 1)), Ok(()));
        }
        let all = (0..20).map(|_| taken(&mut late, &window_update(), 0).0).sum::<u32>();
        assert_eq!(u64::from(all), MOST_EARNED);
    }

    /// A busy proxy may cancel thousands of requests a second, if it sends many more.
    #[test]
    fn requests_that_are_taken_back_are_bounded_by_those_that_are_not() {
        let request_and_reset = |stream| [frame(3, HEADERS, 4, stream), frame(4, RST_STREAM, 0, stream)].concat();
        let mut watch = watch();
        for stream in (1..400_001).step_by(4) {
            assert_eq!(received(&mut watch, &request_and_reset(stream), 0), Ok(true));
            assert_eq!(received(&mut watch, &frame(3, HEADERS, 4, stream + 2), 0), Ok(true));
        }
        let mut rapid = self::watch();
        let taken = (1..).step_by(2).position(|stream| received(&mut rapid, &request_and_reset(stream), 0).is_err());
        assert_eq!(taken, Some(3_999));
    }

    #[test]
    fn requests_that_nobody_was_asked_to_serve_are_bounded() {
        let open = |watch: &mut Watch, count: u32| {
            for _ in 0..count {
                let request = frame(3, HEADERS, 4, watch.last_stream() + 2);
                assert_eq!(received(watch, &request, 0), Ok(true));
            }
        };
        let mut watch = watch();
        open(&mut watch, 10_000);
        assert_eq!(watch.settle(10_000), Ok(()), "all of them are served");
        open(&mut watch, 50);
        assert_eq!(watch.settle(10_000), Ok(()));
        assert_eq!(watch.settle(10_000), Ok(()), "each counts once");
        open(&mut watch, 100);
        assert_eq!(watch.settle(10_100), Ok(()));
        open(&mut watch, 1);
        assert_eq!(watch.settle(10_100), Err(Fault::Flood(Flood::Malformed)));
        assert_eq!(received(&mut watch, &[], 1_000), Ok(false));
        open(&mut watch, 10);
        assert_eq!(watch.settle(10_100), Ok(()), "a second later");
        open(&mut watch, 1);
        assert_eq!(watch.settle(10_100), Err(Fault::Flood(Flood::Malformed)));
        // Too many at once: no fault of the client's, which has not seen our settings yet.
        let mut eager = self::watch();
        open(&mut eager, 1_000);
        for _ in 0..900 {
            assert_eq!(eager.sent(&[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, 7]), Ok(()));
        }
        assert_eq!(eager.settle(100), Ok(()));
        // A request that has not come as a whole yet.
        let mut slow = self::watch();
        open(&mut slow, 50);
        assert_eq!(slow.settle(0), Ok(()));
        for begun in [&frame(3, HEADERS, 0, 901)[..], &frame(3, HEADERS, 4, 901)[..10]] {
            let mut slow = self::watch();
            open(&mut slow, 50);
            assert_eq!(received(&mut slow, begun, 0), Ok(true));
            assert_eq!(slow.settle(0), Ok(()));
        }
        // After a farewell nothing more is served.
        let mut leaving = self::watch();
        assert_eq!(leaving.sent(&goaway(0x7fff_ffff, 0, "")), Ok(()));
        open(&mut leaving, 1_000);
        assert_eq!(leaving.settle(0), Ok(()));
        // What hyper itself ends.
        assert_eq!(self::watch().sent(&goaway(1, ENHANCE_YOUR_CALM, "why")), Err(Fault::Flood(Flood::Other)));
    }

    #[test]
    fn a_preface_is_that_of_http_2_to_its_last_byte() {
        for step in 1..=PREFACE.len() {
            let mut watch = Watch::new(0);
            assert!(PREFACE.chunks(step).all(|piece| received(&mut watch, piece, 0) == Ok(false)));
        }
        for wrong in 0..PREFACE.len() {
            let mut bytes = PREFACE.to_vec();
            bytes[wrong] ^= 1;
            let mut watch = Watch::new(0);
            let at = bytes.chunks(1).position(|byte| received(&mut watch, byte, 0) == Err(Fault::Preface));
            assert_eq!(at, Some(wrong));
        }
    }

    #[test]
    fn the_last_stream_is_the_last_that_was_handed_on() {
        let mut watch = watch();
        assert_eq!(received(&mut watch, &frame(3, HEADERS, 4, 5), 0), Ok(true));
        let flood = [frame(3, HEADERS, 4, 7), ping().repeat(3_000)].concat();
        assert!(received(&mut watch, &flood, 0).is_err());
        assert_eq!(watch.last_stream(), 5);
    }

    #[test]
    fn each_flood_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = Flood::ALL.iter().map(|flood| flood.word()).collect();
        assert_eq!(words.len(), Flood::ALL.len());
    }
}
