//! Values at equal steps of time, with gaps.

/// Values at equal steps, the newest last; bounded: the oldest are forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Seconds since 1970 of the first value.
    start: i64,
    /// Seconds from one value to the next.
    step: u32,
    /// How many are kept.
    most: usize,
    /// NaN where nothing is known. Single precision: a day of seconds takes half a megabyte.
    values: Vec<f32>,
}

/// A part of a series, up to now.
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    /// Seconds since 1970 of the first value.
    pub start: i64,
    /// Seconds from one value to the next.
    pub step: u32,
    /// NaN where nothing is known.
    pub values: &'a [f32],
}

/// The highest value that is taken for one: far above what any machine can send, far below where sums of squares lose
/// their meaning.
const HIGHEST: f64 = 1e9;
/// The farthest time from 1970, in seconds: far beyond any calendar, and no sum of it and a history's length overflows.
const FARTHEST: u64 = 1 << 52;

/// 1980. Nobody counted requests before: such times are seconds from a beginning of their own, and "1 Jan 1970" would
///       mean nothing.
const FIRST_DATE: i64 = 315_532_800;

impl Series {
    /// A series without values. `step` and `most` are at least 1.
    pub fn new(step: u32, most: usize) -> Self {
        Self { start: 0, step: step.max(1), most: most.max(1), values: Vec::new() }
    }

    /// Puts a value at a time, which is rounded down to a whole step. What lies between it and the last one becomes a
    /// gap; a value for a time that has one replaces it; what is older than all that is kept, negative, or no number,
    /// is left out. `false` if it was.
    pub fn put(&mut self, second: i64, value: f64) -> bool {
        if !self.takes(second, value) {
            return false;
        }
        let step = i64::from(self.step);
        let second = second.div_euclid(step) * step;
        if self.values.is_empty() {
            self.start = second;
        }
        let index = ((second - self.start) / step) as usize;
        // After a pause longer than what is kept nothing of before is left.
        if index >= self.values.len().saturating_add(self.most) {
            self.values.clear();
            self.start = second;
            self.values.push(value as f32);
            return true;
        }
        if index >= self.values.len() {
            self.values.resize(index + 1, f32::NAN);
        }
        self.values[index] = value as f32;
        self.forget();
        true
    }

    /// Whether [`Series::put`] would take it.
    pub fn takes(&self, second: i64, value: f64) -> bool {
        let is_old = !self.values.is_empty() && second < self.start;
        (0.0..=HIGHEST).contains(&value) && second.unsigned_abs() <= FARTHEST && !is_old
    }

    /// Forgets in large pieces: moving the rest for every value would cost more than the value.
    fn forget(&mut self) {
        if self.values.len() > self.most + self.most / 4 {
            let surplus = self.values.len() - self.most;
            self.values.drain(..surplus);
            self.start += surplus as i64 * i64::from(self.step);
        }
    }

    /// All that is kept.
    pub fn history(&self) -> History<'_> {
        let surplus = self.values.len().saturating_sub(self.most);
        History {
            start: self.start + surplus as i64 * i64::from(self.step),
            step: self.step,
            values: &self.values[surplus..],
        }
    }

    /// How much memory its values take: at most ten bytes for each that is kept.
    pub fn allocated_bytes(&self) -> usize {
        self.values.capacity() * size_of::<f32>()
    }

    /// Seconds from one value to the next.
    pub fn step(&self) -> u32 {
        self.step
    }
}

impl<'a> History<'a> {
    /// Whether its times are those of a calendar. Dates before 1970 are; seconds that count from 0 are not.
    pub fn is_dated(&self) -> bool {
        !(0..FIRST_DATE).contains(&self.start)
    }

    /// The last `count` values of it, or all.
    #[must_use]
    pub fn last(self, count: usize) -> Self {
        let surplus = self.values.len().saturating_sub(count);
        self.skip(surplus)
    }

    /// Without the first `count`.
    fn skip(self, count: usize) -> Self {
        Self { start: self.start + count as i64 * i64::from(self.step), step: self.step, values: &self.values[count..] }
    }

    /// As it was when it had `count` values.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        Self { values: &self.values[..count.min(self.values.len())], ..self }
    }

    /// The time after its last value, in seconds since 1970.
    pub fn end(self) -> i64 {
        self.start + self.values.len() as i64 * i64::from(self.step)
    }

    /// What is known, with its index.
    pub fn known(self) -> impl DoubleEndedIterator<Item = (usize, f64)> + 'a {
        self.values
            .iter()
            .enumerate()
            .filter(|(_, value)| !value.is_nan())
            .map(|(index, value)| (index, f64::from(*value)))
    }

    /// How many values are known.
    pub fn known_count(self) -> usize {
        self.known().count()
    }
}
