//! Counts over time, of a log whose length is not known beforehand. Steps become longer as it goes on, so that there
//! are never too many.

/// How long steps may be, in seconds: each a multiple of the one before, so that steps are joined whole.
const STEPS: [u64; 13] = [1, 2, 10, 30, 60, 300, 900, 3_600, 10_800, 43_200, 86_400, 604_800, 2_419_200];
/// The most rows.
pub(super) const MOST_ROWS: usize = 1_500;

/// Rows of counts, all of the same width.
#[derive(Clone, Debug)]
pub struct Rows {
    width: usize,
    /// Which step.
    size: usize,
    /// When the first row begins, in seconds since 1970; none before the first count.
    start: Option<u64>,
    counts: Vec<u64>,
}

impl Rows {
    /// Without rows, of so many counts each.
    pub fn new(width: usize) -> Self {
        Self { width, size: 0, start: None, counts: Vec::new() }
    }

    /// How long a step is, in seconds.
    pub fn step(&self) -> u64 {
        STEPS[self.size]
    }

    /// When the first row begins, in seconds since 1970.
    pub fn start(&self) -> Option<u64> {
        self.start
    }

    /// How many rows there are.
    fn len(&self) -> usize {
        self.counts.len() / self.width
    }

    /// Counts one of this second. What is before the first row counts there, what is beyond the last possible row in
    /// that one.
    pub fn add(&mut self, second: u64, column: usize) {
        let start = *self.start.get_or_insert(second);
        let mut row = second.saturating_sub(start) / self.step();
        while row >= MOST_ROWS as u64 && self.size + 1 < STEPS.len() {
            self.join();
            row = second.saturating_sub(self.start.unwrap_or(start)) / self.step();
        }
        let row = (row as usize).min(MOST_ROWS - 1);
        if row >= self.len() {
            self.counts.resize((row + 1) * self.width, 0);
        }
        self.counts[row * self.width + column] += 1;
    }

    /// Longer steps.
    fn join(&mut self) {
        let (step, start) = (self.step(), self.start.unwrap_or(0));
        self.size += 1;
        let begins = start / self.step() * self.step();
        let mut joined = Vec::new();
        for (row, counts) in self.counts.chunks(self.width).enumerate() {
            let index = ((start + row as u64 * step - begins) / self.step()) as usize * self.width;
            if joined.len() < index + self.width {
                joined.resize(index + self.width, 0);
            }
            joined[index..].iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        (self.counts, self.start) = (joined, Some(begins));
    }

    /// A count, row by row.
    pub fn column(&self, column: usize) -> impl Iterator<Item = u64> + '_ {
        self.counts.chunks(self.width).map(move |row| row[column])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_with_the_log_and_lose_nothing() {
        let mut rows = Rows::new(2);
        let mut expected = 0;
        for second in (7..200_000).step_by(3) {
            rows.add(second, 1);
            expected += 1;
        }
        assert!(rows.len() <= MOST_ROWS, "{}", rows.len());
        assert_eq!((rows.step(), rows.start()), (300, Some(0)));
        assert_eq!((rows.column(1).sum::<u64>(), rows.column(0).sum::<u64>()), (expected, 0));
        assert!(
            rows.column(1).skip(1).take(600).all(|count| count == 100),
            "each as if it had been counted so at once"
        );
    }

    #[test]
    fn a_gap_of_centuries_is_bounded_too() {
        let mut rows = Rows::new(1);
        rows.add(0, 0);
        rows.add(u64::MAX / 2_000_000_000, 0);
        rows.add(5, 0);
        assert!(rows.len() <= MOST_ROWS);
        assert_eq!(rows.column(0).sum::<u64>(), 3);
    }
}
