//! A series laid over itself, cycle upon cycle.

/// Means by phase.
pub(super) struct Folded<'a> {
    values: &'a [f64],
    pub(super) profile: Profile,
    /// Of the known values.
    count: usize,
}

impl<'a> Folded<'a> {
    pub(super) fn new(values: &'a [f64], period: f64) -> Self {
        let mut profile = Profile::empty(period);
        let mut counts = vec![0_u32; profile.means.len()];
        let mut count = 0;
        for (place, value) in values.iter().enumerate() {
            if !value.is_nan() {
                let part = profile.part(place as f64);
                profile.means[part] += value;
                counts[part] += 1;
                count += 1;
            }
        }
        for (mean, count) in profile.means.iter_mut().zip(counts) {
            *mean /= f64::from(count.max(1));
        }
        Self { values, profile, count }
    }

    /// The share of the variance that the cycle explains, less what as many means would explain by chance.
    pub(super) fn explained(&self) -> f64 {
        let known = || self.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
        let mean = known().map(|(_, value)| value).sum::<f64>() / self.count.max(1) as f64;
        let (mut within, mut all) = (0.0, 0.0);
        for (place, value) in known() {
            let rest = value - self.profile.at(place as f64);
            within += rest * rest;
            all += (value - mean) * (value - mean);
        }
        let parts = self.profile.means.len();
        if self.count <= parts + 1 || all <= 0.0 {
            return 0.0;
        }
        1.0 - within / (self.count - parts) as f64 / (all / (self.count - 1) as f64)
    }
}

/// What a cycle looks like: a value for each part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profile {
    period: f64,
    means: Vec<f64>,
}

impl Profile {
    /// One of nothing but zeros, with a part for each step.
    pub(super) fn empty(period: f64) -> Self {
        Self { period, means: vec![0.0; (period.round() as usize).max(2)] }
    }

    /// Which part of the cycle so many steps from its beginning are in.
    pub(super) fn part(&self, steps: f64) -> usize {
        let phase = steps.rem_euclid(self.period) / self.period;
        // The small excess: a step that lies on the border of two parts belongs to the later one, whatever rounding says.
        ((phase * self.means.len() as f64 + 1e-6) as usize) % self.means.len()
    }

    /// What the cycle has so many steps from its beginning.
    pub(super) fn at(&self, steps: f64) -> f64 {
        self.means[self.part(steps)]
    }
}
