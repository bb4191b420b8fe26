use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::calendar::Civil;

/// A moment as people and machines read it: `2026-01-19T16:30:00.125Z`.
///
/// The date is `jiff`'s, the digits are put in their places here: an access log has one for each request.
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
        let time = Timestamp::from_second(self.unix()).unwrap_or(Timestamp::MAX);
        let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap_or_default();
        text.as_bytes().try_into().expect("years from 1970 to 9999 have four digits")
    }

    /// `19/Jan/2026:16:30:00 +0000`, as access logs have it.
    pub fn common_log(self) -> impl fmt::Display {
        let mut text = *b"00/Jan/0000:00:00:00 +0000";
        let at = Civil::at(self.unix());
        put(&mut text[..2], at.day.into());
        text[3..6].copy_from_slice(at.month_name().as_bytes());
        put(&mut text[7..11], at.year.unsigned_abs());
        put(&mut text[12..14], at.hour.into());
        put(&mut text[15..17], at.minute.into());
        put(&mut text[18..20], at.second.into());
        Ascii(text)
    }

    fn put_seconds(self, text: &mut [u8]) {
        let at = Civil::at(self.unix());
        put(&mut text[..4], at.year.unsigned_abs());
        put(&mut text[5..7], at.month.into());
        put(&mut text[8..10], at.day.into());
        put(&mut text[11..13], at.hour.into());
        put(&mut text[14..16], at.minute.into());
        put(&mut text[17..19], at.second.into());
    }

    fn unix(self) -> i64 {
        i64::try_from(self.seconds).unwrap_or(i64::MAX)
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
        assert_eq!(&Utc::from_unix(0).http_date(), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(Utc::from_unix(u64::MAX).http_date().len(), 29, "no panic");
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
    fn a_clock_before_1970_is_no_panic() {
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Utc::from(before), at(0, 0));
    }
}
