//! The calendar, in UTC: also before 1970, and after 9999.

use tidegate_input::{Utc, moment};

/// After 400 years the calendar repeats itself, to the day.
const ERA_YEARS: i64 = 400;
const ERA_SECONDS: i64 = 146_097 * 86_400;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment of the calendar.
pub(super) struct Moment {
    pub(super) year: i64,
    /// What follows the year: `-01-19T16:30:00Z`
    rest: String,
}

impl Moment {
    pub(super) fn new(second: i64) -> Self {
        // In the era that begins with 1970.
        let text = Utc::from_unix(second.rem_euclid(ERA_SECONDS).unsigned_abs()).with_seconds().to_string();
        let (year, rest) = text.split_at(4);
        let year = year.parse::<i64>().unwrap_or(0) + ERA_YEARS * second.div_euclid(ERA_SECONDS);
        Self { year, rest: rest.to_owned() }
    }

    fn part(&self, from: usize, to: usize) -> &str {
        self.rest.get(from..to).unwrap_or_default()
    }

    /// How many months after the beginning of the year 0.
    pub(super) fn months(&self) -> i64 {
        self.year * 12 + self.part(1, 3).parse().unwrap_or(1) - 1
    }

    /// `Jan`
    pub(super) fn month(&self) -> &'static str {
        MONTHS[self.months().rem_euclid(12).unsigned_abs() as usize]
    }

    /// `19 Jan`
    pub(super) fn day(&self) -> String {
        format!("{} {}", self.part(4, 6).trim_start_matches('0'), self.month())
    }

    /// `16:30`
    pub(super) fn minute(&self) -> &str {
        self.part(7, 12)
    }

    /// `16:30:00`
    pub(super) fn second(&self) -> &str {
        self.part(7, 15)
    }

    /// `2026-01-19T16:30:00Z`
    pub(super) fn whole(&self) -> String {
        format!("{:04}{}", self.year, self.rest)
    }
}

/// The second in which a month begins, by [`Moment::months`].
pub(super) fn month_start(months: i64) -> Option<i64> {
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let (era, year) = (year.div_euclid(ERA_YEARS), year.rem_euclid(ERA_YEARS));
    let nanos = moment::unix_nanos(&format!("{year:04}-{month:02}-01"))?;
    Some(i64::try_from(nanos / 1_000_000_000).ok()? + era * ERA_SECONDS)
}
