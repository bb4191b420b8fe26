/// A forecast whose time is not over.
pub(super) struct Pending {
    /// The end of the history it was made from, in seconds since 1970.
    end: i64,
    pub(super) mean: Vec<f64>,
    /// The 90 % quantile of each step.
    pub(super) high: Vec<f64>,
    /// Of each model, if it had something to say.
    pub(super) paths: Vec<Option<Vec<f64>>>,
    highest: f64,
    seen: usize,
    /// Steps that turned out to be idle time, of which nothing could be expected.
    idle: usize,
}

impl Pending {
    pub(super) fn new(end: i64, mean: Vec<f64>, high: Vec<f64>, paths: Vec<Option<Vec<f64>>>) -> Self {
        Self { end, mean, high, paths, highest: 0.0, seen: 0, idle: 0 }
    }

    /// How many steps after its end this second is, if it is within the forecast.
    pub(super) fn lead(&self, second: i64, step: u32) -> Option<usize> {
        let lead = usize::try_from((second - self.end).div_euclid(i64::from(step))).ok()?;
        (lead < self.mean.len()).then_some(lead)
    }

    pub(super) fn saw(&mut self, value: f64) {
        self.highest = self.highest.max(value);
        self.seen += 1;
    }

    pub(super) fn idled(&mut self) {
        self.idle += 1;
    }

    /// Whether nothing will come any more.
    pub(super) fn is_over(&self, second: i64, step: u32) -> bool {
        second - self.end >= (self.mean.len() as i64 - 1) * i64::from(step)
    }

    /// The highest value that was expected, and the one that came; none if too little is known, or if most of the time was idle.
    pub(super) fn peaks(&self) -> Option<(f64, f64)> {
        let expected = self.mean.iter().copied().fold(0.0, f64::max);
        let is_known = (self.seen + self.idle) * 10 >= self.mean.len() * 9 && self.seen >= self.idle;
        is_known.then_some((expected, self.highest))
    }
}
