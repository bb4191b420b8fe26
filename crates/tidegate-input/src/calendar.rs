//! The calendar, in UTC: `jiff`'s, carried on before its first year and after its last.

use jiff::Timestamp;
use jiff::civil::{self, Date};
use jiff::tz::Offset;

/// After 400 years the calendar repeats itself, to the day and its weekday.
const ERA_YEARS: i64 = 400;
const ERA_SECONDS: i64 = 146_097 * 86_400;
const EPOCH: Date = civil::date(1970, 1, 1);

/// The months as logs, HTTP and pictures name them.
pub const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A second of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; the one before 1 is 0.
    pub year: i64,
    /// From 1 on.
    pub month: u8,
    /// Of the month, from 1 on.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59: the seconds of Unix have no leap seconds.
    pub second: u8,
}

impl Civil {
    /// So many seconds after 1970 began; before, if they are negative.
    pub fn at(second: i64) -> Self {
        // In the 400 years that begin with 1970, all of which `jiff` knows.
        let time = Timestamp::from_second(second.rem_euclid(ERA_SECONDS)).expect("a second before the year 2370");
        let civil = Offset::UTC.to_datetime(time);
        Self {
            year: i64::from(civil.year()) + ERA_YEARS * second.div_euclid(ERA_SECONDS),
            month: civil.month().unsigned_abs(),
            day: civil.day().unsigned_abs(),
            hour: civil.hour().unsigned_abs(),
            minute: civil.minute().unsigned_abs(),
            second: civil.second().unsigned_abs(),
        }
    }

    /// `Jan`
    pub fn month_name(self) -> &'static str {
        MONTHS[usize::from(self.month) - 1]
    }
}

/// How many seconds after 1970 a day begins; none if there is no such day.
pub fn day_start(year: i64, month: i64, day: i64) -> Option<i64> {
    let (era, year) = (year.div_euclid(ERA_YEARS), year.rem_euclid(ERA_YEARS));
    let (year, month, day) = (i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let date = Date::new(year, month, day).ok()?;
    date.duration_since(EPOCH).as_secs().checked_add(era.checked_mul(ERA_SECONDS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_leap(year: i64) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    /// More than 400 years around 1970, and the borders of the years that jiff knows.
    #[test]
    fn each_day_follows_the_one_before() {
        for (first, last) in [(1_560, 2_400), (-401, 1), (-10_001, -9_998), (9_999, 10_001)] {
            follow(first, last);
        }
    }

    fn follow(first: i64, last: i64) {
        let (mut year, mut month, mut day) = (first, 1, 1);
        let mut start = day_start(year, month, day).expect("a day");
        while year <= last {
            assert_eq!(day_start(year, month, day), Some(start), "{year}-{month}-{day}");
            let civil = Civil::at(start + 86_399);
            assert_eq!((civil.year, i64::from(civil.month), i64::from(civil.day)), (year, month, day));
            let length = match month {
                2 => 28 + i64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            assert_eq!(day_start(year, month, length + 1), None, "{year}-{month}");
            (start, day) = (start + 86_400, day + 1);
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn the_clock_goes_forward_before_and_after_1970() {
        let clock = |second| {
            let at = Civil::at(second);
            (at.hour, at.minute, at.second)
        };
        for (second, expected) in [
            (0, (0, 0, 0)),
            (-1, (23, 59, 59)),
            (86_399, (23, 59, 59)),
            (-86_400, (0, 0, 0)),
            (1_768_840_205, (16, 30, 5)),
            (i64::MAX, (15, 30, 7)),
            (i64::MIN, (8, 29, 52)),
        ] {
            assert_eq!(clock(second), expected, "{second}");
        }
        assert_eq!((Civil::at(-1).year, Civil::at(-1).month_name(), Civil::at(0).month_name()), (1969, "Dec", "Jan"));
    }

    #[test]
    fn what_is_no_day_is_none() {
        for (year, month, day) in
            [(2026, 0, 1), (2026, 13, 1), (2026, 1, 0), (2026, 1, 32), (2026, 2, 29), (2100, 2, 29), (2026, 257, 1)]
        {
            assert_eq!(day_start(year, month, day), None, "{year}-{month}-{day}");
        }
        assert_eq!(day_start(2024, 2, 29), Some(1_709_164_800));
        assert_eq!(day_start(0, 3, 1), Some(-719_468 * 86_400));
        assert_eq!((day_start(i64::MAX, 1, 1), day_start(i64::MIN, 1, 1)), (None, None));
    }
}
