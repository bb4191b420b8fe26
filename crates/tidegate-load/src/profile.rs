//! How many requests a second, over time.

mod shape;

pub use shape::Shape;

use std::time::Duration;

/// A rate over time: shapes, one after the other. Beyond its length nothing is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pieces: Vec<Piece>,
    /// In seconds.
    length: f64,
    /// Requests in all.
    total: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Piece {
    shape: Shape,
    /// When it begins, in seconds.
    start: f64,
    /// How many requests were due before.
    before: f64,
}

/// In seconds; more than a request may be late.
const FORGOTTEN: f64 = 61.0;

impl Profile {
    /// One shape for so long.
    pub fn of(shape: Shape, length: Duration) -> Self {
        Self::sequence([(shape, length)])
    }

    /// Shapes in sequence, each for its time and from its own beginning.
    pub fn sequence(phases: impl IntoIterator<Item = (Shape, Duration)>) -> Self {
        let mut profile = Self { pieces: Vec::new(), length: 0.0, total: 0.0 };
        for (shape, length) in phases {
            let (start, before, length) = (profile.length, profile.total, length.as_secs_f64());
            profile.length += length;
            profile.total += shape.expected(length);
            profile.pieces.push(Piece { shape, start, before });
        }
        profile
    }

    /// How long it lasts.
    pub fn length(&self) -> Duration {
        Duration::from_secs_f64(self.length)
    }

    /// Requests in all.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Requests a second at this time from the start.
    pub fn rate(&self, time: Duration) -> f64 {
        let time = time.as_secs_f64();
        match self.piece_at(time) {
            Some(piece) if time < self.length => piece.shape.rate(time - piece.start),
            _ => 0.0,
        }
    }

    /// How many requests are due before this time: the integral of the rate.
    pub fn expected(&self, time: Duration) -> f64 {
        let time = time.as_secs_f64().min(self.length);
        self.piece_at(time).map_or(0.0, |piece| piece.before + piece.shape.expected(time - piece.start))
    }

    /// When the count of requests goes beyond `count`; never if all of them are fewer.
    pub fn due(&self, count: f64) -> Option<Duration> {
        if count >= self.total {
            return None;
        }
        // What was due before the first piece that is still known was due then at the latest.
        let index = self.pieces.partition_point(|piece| piece.before <= count).saturating_sub(1);
        let piece = self.pieces.get(index)?;
        let time = piece.start + piece.shape.due((count - piece.before).max(0.0))?;
        // Rounding must not push it beyond the end, nor into the next piece's time before that.
        let end = self.pieces.get(index + 1).map_or(self.length, |next| next.start);
        Some(Duration::from_secs_f64(time.clamp(piece.start, end)))
    }

    /// The same until `time`, and then another shape to the end, which takes the place of changes that would begin
    /// later. What was over more than a minute before is forgotten: nothing is sent so late.
    #[must_use]
    pub fn changed(&self, time: Duration, shape: Shape) -> Self {
        let start = time.as_secs_f64().min(self.length);
        let before = self.expected(time);
        let ends = self.pieces.iter().skip(1).map(|next| next.start).chain([self.length]);
        let kept = self.pieces.iter().zip(ends).filter(|(piece, end)| piece.start < start && *end > start - FORGOTTEN);
        let mut pieces: Vec<Piece> = kept.map(|(piece, _)| piece.clone()).collect();
        let total = before + shape.expected(self.length - start);
        pieces.push(Piece { shape, start, before });
        Self { pieces, length: self.length, total }
    }

    /// The highest rate that it reaches.
    pub fn peak(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.shape.peak()).fold(0.0, f64::max)
    }

    /// The last burst that begins after `from` and not after `to`: when, and at which rate.
    pub fn burst_between(&self, from: Duration, to: Duration) -> Option<(Duration, f64)> {
        let (from, to) = (from.as_secs_f64(), to.as_secs_f64().min(self.length));
        let index = self.pieces.partition_point(|piece| piece.start <= to).checked_sub(1)?;
        let piece = &self.pieces[index];
        let begun = match (piece.shape.burst_before(to - piece.start), index.checked_sub(1)) {
            (Some((time, rate)), _) => (piece.start + time, rate),
            (None, Some(previous)) if piece.shape.rate(0.0) > self.pieces[previous].shape.rate(f64::MAX) => {
                (piece.start, piece.shape.rate(0.0))
            }
            _ => return None,
        };
        (begun.0 > from).then(|| (Duration::from_secs_f64(begun.0), begun.1))
    }

    fn piece_at(&self, time: f64) -> Option<&Piece> {
        let index = self.pieces.partition_point(|piece| piece.start <= time);
        index.checked_sub(1).map(|index| &self.pieces[index])
    }
}
