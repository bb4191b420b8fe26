//! Bodies of any length that nobody holds: what stands at each place is known, so they are made and checked on the way.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// A prime, so that what is lost, doubled or moved does not come to lie on its like.
const PERIOD: usize = 65_521;

/// The repeated part, twice: any piece of a period's length is in it.
static BLOCK: LazyLock<Bytes> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(7);
    let once: Vec<u8> = (0..PERIOD).map(|_| random.u8(..)).collect();
    [&once[..], &once[..]].concat().into()
});

/// A place in the endless sequence of bytes that bodies are cut from.
#[derive(Default)]
pub(crate) struct Pattern {
    pub(crate) position: u64,
}

impl Pattern {
    /// The next bytes, `most` at most; no more than a period at once.
    pub(crate) fn next(&mut self, most: u64) -> Bytes {
        let start = (self.position % PERIOD as u64) as usize;
        let count = usize::try_from(most).unwrap_or(usize::MAX).min(PERIOD);
        self.position += count as u64;
        BLOCK.slice(start..start + count)
    }

    /// Whether these bytes are the next ones.
    pub(crate) fn takes(&mut self, bytes: &[u8]) -> bool {
        bytes.chunks(PERIOD).all(|piece| self.next(piece.len() as u64) == piece)
    }
}

/// A request's body of so many bytes.
pub(crate) struct PatternBody {
    pattern: Pattern,
    left: u64,
    /// Whether its length is declared beforehand.
    reported: bool,
    sent: Arc<AtomicU64>,
}

impl PatternBody {
    pub(crate) fn new(length: u64, reported: bool) -> Self {
        Self { pattern: Pattern::default(), left: length, reported, sent: Arc::default() }
    }

    /// How much of it has been taken.
    pub(crate) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }
}

impl http_body::Body for PatternBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let most = self.left;
        let data = self.pattern.next(most);
        self.left -= data.len() as u64;
        self.sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.reported && self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        if self.reported { SizeHint::with_exact(self.left) } else { SizeHint::default() }
    }
}

/// What the other tests rely on: no fault of a body goes unseen.
#[test]
fn a_body_that_has_lost_doubled_or_changed_a_byte_is_seen() {
    let mut whole = Vec::new();
    let mut pattern = Pattern::default();
    while whole.len() < 3 * PERIOD {
        whole.extend_from_slice(&pattern.next(10_000));
    }
    assert!(Pattern::default().takes(&whole));
    for place in [0, 1, PERIOD - 1, PERIOD, 2 * PERIOD + 7] {
        let (before, after) = whole.split_at(place);
        let lost = [before, &after[1..]].concat();
        let doubled = [before, &after[..1], after].concat();
        let changed = [before, &[after[0] ^ 1], &after[1..]].concat();
        for faulty in [lost, doubled, changed] {
            assert!(!Pattern::default().takes(&faulty), "at {place}");
        }
    }
}
