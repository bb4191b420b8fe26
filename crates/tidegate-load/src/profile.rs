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
        let place = self.pieces.partition_point(|piece| piece.before <= count).checked_sub(1)?;
        let piece = &self.pieces[place];
        let time = piece.start + piece.shape.due(count - piece.before)?;
        // Rounding must not push it beyond the end, nor into the next piece's time before that.
        let end = self.pieces.get(place + 1).map_or(self.length, |next| next.start);
        Some(Duration::from_secs_f64(time.clamp(piece.start, end)))
    }

    fn piece_at(&self, time: f64) -> Option<&Piece> {
        let place = self.pieces.partition_point(|piece| piece.start <= time);
        place.checked_sub(1).map(|place| &self.pieces[place])
    }
}
