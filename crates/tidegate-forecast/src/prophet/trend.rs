//! The trend of Prophet's model: pieces between changepoints, which meet there.

use augurs_prophet::TrendIndicator;

/// One piece of a trend. Linear: `rate · t + offset`; flat: `offset`; logistic: `cap / (1 + exp(−rate · (t −
/// offset)))`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    pub(super) rate: f64,
    pub(super) offset: f64,
}

/// The trend at a time, and how it changes with its piece.
pub(super) struct Point {
    pub(super) value: f64,
    pub(super) by: Piece,
}

/// The pieces before, between and after the changepoints. Prophet writes them as a matrix of zeros and ones by `delta`;
/// a running sum is the same.
pub(super) fn pieces(kind: TrendIndicator, changes: &[f64], k: f64, m: f64, delta: &[f64]) -> Vec<Piece> {
    let mut piece = Piece { rate: k, offset: m };
    let mut pieces = vec![piece];
    for (change, delta) in changes.iter().zip(delta) {
        let rate = piece.rate + delta;
        let offset = match kind {
            TrendIndicator::Linear => piece.offset - change * delta,
            TrendIndicator::Logistic => change - (change - piece.offset) * piece.rate / rate,
            TrendIndicator::Flat => piece.offset,
        };
        piece = Piece { rate, offset };
        pieces.push(piece);
    }
    pieces
}

impl Piece {
    pub(super) fn at(self, kind: TrendIndicator, t: f64, cap: f64) -> Point {
        match kind {
            TrendIndicator::Linear => Point { value: self.rate * t + self.offset, by: Piece { rate: t, offset: 1.0 } },
            TrendIndicator::Flat => Point { value: self.offset, by: Piece { rate: 0.0, offset: 1.0 } },
            TrendIndicator::Logistic => {
                let share = 1.0 / (1.0 + (-self.rate * (t - self.offset)).exp());
                let slope = cap * share * (1.0 - share);
                Point { value: cap * share, by: Piece { rate: slope * (t - self.offset), offset: -slope * self.rate } }
            }
        }
    }
}

/// From the gradient by each piece to the one by `k`, `m` and `delta`: the chain that [`pieces`] goes forwards,
/// backwards.
pub(super) fn chain(
    kind: TrendIndicator,
    changes: &[f64],
    pieces: &[Piece],
    mut by: Vec<Piece>,
    delta: &mut [f64],
) -> Piece {
    for index in (0..delta.len()).rev() {
        let (before, after) = (pieces[index], pieces[index + 1]);
        let Piece { rate, offset } = by[index + 1];
        let change = changes[index];
        match kind {
            TrendIndicator::Linear => {
                delta[index] = rate - change * offset;
                by[index].rate += rate;
                by[index].offset += offset;
            }
            TrendIndicator::Logistic => {
                let reach = change - before.offset;
                let by_rate = rate + offset * reach * before.rate / (after.rate * after.rate);
                delta[index] = by_rate;
                by[index].rate += by_rate - offset * reach / after.rate;
                by[index].offset += offset * before.rate / after.rate;
            }
            TrendIndicator::Flat => {
                delta[index] = 0.0;
                by[index].offset += offset;
            }
        }
    }
    by[0]
}
