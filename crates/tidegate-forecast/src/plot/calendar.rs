//! A moment as an axis of times has it.

use tidegate_input::calendar::{Civil, day_start};

/// A moment of the calendar.
pub(super) struct Moment(Civil);

impl Moment {
    pub(super) fn new(second: i64) -> Self {
        Self(Civil::at(second))
    }

    pub(super) fn year(&self) -> i64 {
        self.0.year
    }

    /// How many months after the beginning of the year 0.
    pub(super) fn months(&self) -> i64 {
        self.0.year * 12 + i64::from(self.0.month) - 1
    }

    /// `Jan`
    pub(super) fn month(&self) -> &'static str {
        self.0.month_name()
    }

    /// `19 Jan`
    pub(super) fn day(&self) -> String {
        format!("{} {}", self.0.day, self.month())
    }

    /// `16:30`
    pub(super) fn minute(&self) -> String {
        format!("{:02}:{:02}", self.0.hour, self.0.minute)
    }

    /// `16:30:00`
    pub(super) fn second(&self) -> String {
        format!("{}:{:02}", self.minute(), self.0.second)
    }

    /// `2026-01-19T16:30:00Z`
    pub(super) fn whole(&self) -> String {
        format!("{:04}-{:02}-{:02}T{}Z", self.0.year, self.0.month, self.0.day, self.second())
    }
}

/// The second in which a month begins, by [`Moment::months`].
pub(super) fn month_start(months: i64) -> Option<i64> {
    day_start(months.div_euclid(12), months.rem_euclid(12) + 1, 1)
}
