use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// A moment as people and machines read it: `2026-01-19T16:30:00.125Z`.
///
/// Written by hand since an access log needs one for each request, and nothing else here would need a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc {
    seconds: u64,
    millis: u16,
}

impl Utc {
    /// The moment it is.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// `2026-01-19T16:30:00.125Z`
    pub fn with_millis(self) -> impl fmt::Display {
        let mut text = *b"0000-00-00T00:00:00.000Z";
        self.put_seconds(&mut text);
        put(&mut text[20..23], u64::from(self.millis));
        Ascii(text)
    }

    /// `2026-01-19T16:30:00Z`
    pub fn with_seconds(self) -> impl fmt::Display {
        let mut text = *b"0000-00-00T00:00:00Z";
        self.put_seconds(&mut text);
        Ascii(text)
    }

    /// So many seconds after 1970 began.
    pub const fn from_unix(seconds: u64) -> Self {
        Self { seconds, millis: 0 }
    }

    /// `Mon, 19 Jan 2026 16:30:00 GMT`, as HTTP has it.
    pub fn http_date(self) -> [u8; 29] {
        const DAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
        let mut text = *b"Thu, 00 Jan 0000 00:00:00 GMT";
        let days = self.seconds / SECONDS_PER_DAY;
        let (year, month, day) = civil_date(days);
        let (second, name, weekday) = (self.seconds % SECONDS_PER_DAY, month as usize * 3 - 3, (days % 7) as usize * 3);
        text[..3].copy_from_slice(&DAYS[weekday..weekday + 3]);
        put(&mut text[5..7], day);
        text[8..11].copy_from_slice(&MONTHS[name..name + 3]);
        put(&mut text[12..16], year);
        put(&mut text[17..19], second / 3600);
        put(&mut text[20..22], second / 60 % 60);
        put(&mut text[23..25], second % 60);
        text
    }

    /// `19/Jan/2026:16:30:00 +0000`, as access logs have it.
    pub fn common_log(self) -> impl fmt::Display {
        let mut text = *b"00/Jan/0000:00:00:00 +0000";
        let (year, month, day) = civil_date(self.seconds / SECONDS_PER_DAY);
        let (second, name) = (self.seconds % SECONDS_PER_DAY, month as usize * 3 - 3);
        put(&mut text[..2], day);
        text[3..6].copy_from_slice(&MONTHS[name..name + 3]);
        put(&mut text[7..11], year);
        put(&mut text[12..14], second / 3600);
        put(&mut text[15..17], second / 60 % 60);
        put(&mut text[18..20], second % 60);
        Ascii(text)
    }

    fn put_seconds(self, text: &mut [u8]) {
        let (year, month, day) = civil_date(self.seconds / SECONDS_PER_DAY);
        let second = self.seconds % SECONDS_PER_DAY;
        put(&mut text[..4], year);
        put(&mut text[5..7], month);
        put(&mut text[8..10], day);
        put(&mut text[11..13], second / 3600);
        put(&mut text[14..16], second / 60 % 60);
        put(&mut text[17..19], second % 60);
    }
}

/// Before 1970 is 1970: a clock that stands there has not been set.
impl From<SystemTime> for Utc {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { seconds: since.as_secs(), millis: since.subsec_millis() as u16 }
    }
}

struct Ascii<const N: usize>([u8; N]);

impl<const N: usize> fmt::Display for Ascii<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.0).map_err(|_| fmt::Error)?)
    }
}

/// The last digits of `number`, as many as there is room for.
fn put(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day, `days` after 1970-01-01. Years are counted from March, so that the leap day is the last of its
/// year (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let era = days / 146_097; // 400 years
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn access_logs_have_their_own_form() {
        let moment = Utc::from(UNIX_EPOCH + Duration::from_secs(1_768_840_205));
        assert_eq!(moment.with_seconds().to_string(), "2026-01-19T16:30:05Z");
        assert_eq!(moment.common_log().to_string(), "19/Jan/2026:16:30:05 +0000");
        assert_eq!(&moment.http_date(), b"Mon, 19 Jan 2026 16:30:05 GMT");
        assert_eq!(&Utc::from_unix(784_111_777).http_date(), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    fn at(seconds: u64, millis: u16) -> Utc {
        Utc::from(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis.into()))
    }

    #[test]
    fn known_moments_are_written_as_iso_8601() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_768_840_200, "2026-01-19T16:30:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"), // 2100 has no leap day
        ] {
            assert_eq!(at(seconds, 0).with_seconds().to_string(), text);
        }
        assert_eq!(at(1_768_840_200, 7).with_millis().to_string(), "2026-01-19T16:30:00.007Z");
    }

    #[test]
    fn each_day_of_four_hundred_years_follows_the_one_before() {
        let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..146_097 {
            assert_eq!(civil_date(days), (year, month, day));
            let length = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn a_clock_before_1970_is_no_panic() {
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Utc::from(before), at(0, 0));
    }
}
