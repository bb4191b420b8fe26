/// How good forecasts were lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    distance: f64,
    came: f64,
    covered: f64,
    count: f64,
}

/// How much of it is kept from one value to the next: ten minutes of seconds.
const KEEPING: f64 = 1.0 - 1.0 / 600.0;

impl Accuracy {
    pub(super) fn forget(&mut self) {
        self.distance *= KEEPING;
        self.came *= KEEPING;
        self.covered *= KEEPING;
        self.count *= KEEPING;
    }

    pub(super) fn score(&mut self, expected: f64, high: f64, came: f64) {
        self.distance += (came - expected).abs();
        self.came += came;
        self.covered += f64::from(u8::from(came <= high));
        self.count += 1.0;
    }

    /// The mean distance of a value from what was expected, as a share of the mean value; none while nothing is known.
    pub fn error(self) -> Option<f64> {
        (self.came > 0.0).then(|| self.distance / self.came)
    }

    /// How many values lay at or below their 90 % quantile; none while nothing is known.
    pub fn covered(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.covered / self.count)
    }
}
