//! Quantiles of what was seen.

/// The newest values, whose quantiles are given.
#[derive(Clone, Debug)]
pub(crate) struct Newest {
    values: Vec<f64>,
    most: usize,
    /// Where the next one goes, once it is full.
    next: usize,
}

impl Newest {
    pub(crate) fn new(most: usize) -> Self {
        Self { values: Vec::new(), most, next: 0 }
    }

    pub(crate) fn push(&mut self, value: f64) {
        if self.values.len() < self.most {
            self.values.push(value);
        } else {
            self.values[self.next] = value;
            self.next = (self.next + 1) % self.most;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = f64> {
        self.values.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// All of them in order, to ask for several quantiles.
    pub(crate) fn sorted(&self) -> Sorted {
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        Sorted(values)
    }
}

/// Values in order.
pub(crate) struct Sorted(Vec<f64>);

impl Sorted {
    /// The value below which a share `level` of them lies, as conformal prediction counts: of n values the one of rank
    /// ⌈level · (n + 1)⌉, at most the highest.
    pub(crate) fn quantile(&self, level: f64) -> Option<f64> {
        let rank = (level * (self.0.len() + 1) as f64).ceil() as usize;
        self.0.get(rank.clamp(1, self.0.len().max(1)) - 1).copied()
    }
}

/// The standard normal quantile (Abramowitz and Stegun 26.2.23, to 4.5e-4).
pub(crate) fn normal(level: f64) -> f64 {
    let tail = level.min(1.0 - level).max(1e-9);
    let t = (-2.0 * tail.ln()).sqrt();
    let upper = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let lower = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let distance = t - upper / lower;
    if level < 0.5 { -distance } else { distance }
}
