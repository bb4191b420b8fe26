//! A series laid over itself, cycle upon cycle.

/// Values to be folded by many lengths. NaN where nothing is known.
#[derive(Clone, Copy)]
pub(super) struct Foldable<'a> {
    values: &'a [f64],
    /// Of the known values.
    count: usize,
    /// The sum of the squares of their distances from zero, and from their mean.
    squares: f64,
    variation: f64,
}

impl<'a> Foldable<'a> {
    pub(super) fn new(values: &'a [f64]) -> Self {
        let known = values.iter().filter(|value| !value.is_nan());
        let (count, sum, squares) =
            known.fold((0, 0.0, 0.0), |(count, sum, squares), value| (count + 1, sum + value, squares + value * value));
        let variation = squares - sum * sum / f64::max(count as f64, 1.0);
        Self { values, count, squares, variation }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn known_count(&self) -> usize {
        self.count
    }

    /// Each part's sum and count. This is where the search for cycles spends its time: a walk without divisions.
    fn parts(&self, period: f64) -> Vec<(f64, u32)> {
        let mut walk = Walk::new(period);
        let mut parts = vec![(0.0, 0); walk.parts];
        for value in self.values {
            let part = walk.next_part();
            if !value.is_nan() {
                parts[part].0 += value;
                parts[part].1 += 1;
            }
        }
        parts
    }

    /// The share of the variance that a cycle of this length explains, less what as many means would explain by chance.
    pub(super) fn explained(&self, period: f64) -> f64 {
        let parts = self.parts(period);
        if self.count <= parts.len() + 1 || self.variation <= f64::EPSILON * self.count as f64 {
            return 0.0;
        }
        // Σ (value − mean of its part)² = Σ value² − Σ count · mean² of the parts.
        let means: f64 =
            parts.iter().filter(|(_, count)| *count > 0).map(|(sum, count)| sum * sum / f64::from(*count)).sum();
        let within = (self.squares - means).max(0.0);
        1.0 - within / (self.count - parts.len()) as f64 / (self.variation / (self.count - 1) as f64)
    }

    /// The values without a cycle of this length.
    pub(super) fn without(&self, period: f64) -> Vec<f64> {
        let parts = self.parts(period);
        let mut walk = Walk::new(period);
        let rest = self.values.iter().map(|value| {
            let (sum, count) = parts[walk.next_part()];
            value - sum / f64::from(count.max(1))
        });
        rest.collect()
    }
}

/// Step by step through a cycle, which has about a part a step.
struct Walk {
    parts: usize,
    /// How many parts a step is.
    pace: f64,
    at: f64,
}

impl Walk {
    fn new(period: f64) -> Self {
        let parts = (period.round() as usize).max(2);
        // The small excess: a step that lies on the border of two parts belongs to the later one, whatever rounding
        // says.
        Self { parts, pace: parts as f64 / period, at: 1e-6 }
    }

    fn next_part(&mut self) -> usize {
        let part = self.at as usize;
        self.at += self.pace;
        if self.at >= self.parts as f64 {
            self.at -= self.parts as f64;
        }
        part
    }
}
