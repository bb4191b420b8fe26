/// A forecast whose time is not over.
pub(super) struct Pending {
    /// The end of the history it was made from, in seconds since 1970.
    end: i64,
    pub(super) mean: Vec<f64>,
    /// The 90 % quantile of each step.
    pub(super) high: Vec<f64>,
    /// Of each model, if it made a forecast.
    pub(super) paths: Vec<Option<Vec<f64>>>,
    highest: f64,
    seen: usize,
    /// Steps that turned out to be idle time. No forecast can be right or wrong about them.
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

    /// The highest value that was expected, and the one that came; none if too little is known, or if most of the time
    /// was idle.
    pub(super) fn peaks(&self) -> Option<(f64, f64)> {
        let expected = self.mean.iter().copied().fold(0.0, f64::max);
        let is_known = (self.seen + self.idle) * 10 >= self.mean.len() * 9 && self.seen >= self.idle;
        is_known.then_some((expected, self.highest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where load comes and goes, nearly every forecast has a pause in it: the highest step was never compared then.
    #[test]
    fn a_pause_is_no_reason_not_to_compare_the_highest_step() {
        let seen = |seen: usize, idle: usize| {
            let mut pending = Pending::new(0, vec![100.0; 60], vec![110.0; 60], Vec::new());
            (0..seen).for_each(|_| pending.saw(105.0));
            (0..idle).for_each(|_| pending.idled());
            pending.peaks()
        };
        assert_eq!(seen(60, 0), Some((100.0, 105.0)));
        assert_eq!(seen(42, 18), Some((100.0, 105.0)));
        assert_eq!(seen(25, 35), None, "mostly idle");
        assert_eq!(seen(42, 0), None, "mostly unknown");
    }
}
