//! Times as logs write them, read quickly: most lines are of the same day as the one before.

use crate::calendar::MONTHS;
use crate::moment::unix_nanos;

const SECOND: u64 = 1_000_000_000;

/// Reads times, in nanoseconds since 1970, and remembers the last day.
#[derive(Debug, Default)]
pub struct LogTimes {
    /// A date as it is written, and when it began, in seconds since 1970.
    day: [u8; 11],
    begins: i64,
    /// A zone as it is written, and how many seconds it is ahead of UTC.
    zone: [u8; 5],
    ahead: i64,
    /// The same of dates that are written `2000-10-10`.
    iso_day: [u8; 10],
    iso_begins: i64,
}

impl LogTimes {
    /// `10/Oct/2000:13:55:36 -0700`, also with a fraction of the second, as common and combined logs have it.
    pub fn common(&mut self, text: &[u8]) -> Option<u64> {
        let (day, rest) = text.split_first_chunk::<11>()?;
        if *day != self.day {
            self.begins = day_begins(day)?;
            self.day = *day;
        }
        let [b':', clock @ ..] = rest else { return None };
        let (clock, rest) = clock.split_first_chunk::<8>()?;
        let seconds = seconds_of_day(*clock)?;
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                (fraction_nanos(&rest[..digits])?, &rest[digits..])
            }
            _ => (0, rest),
        };
        let ahead = match rest {
            [] => 0,
            [b' ', zone @ ..] if zone.len() == 5 => {
                if *zone != self.zone {
                    self.ahead = seconds_ahead(zone)?;
                    self.zone.copy_from_slice(zone);
                }
                self.ahead
            }
            _ => return None,
        };
        let seconds = u64::try_from(self.begins + seconds - ahead).ok()?;
        seconds.checked_mul(SECOND)?.checked_add(fraction)
    }

    /// Any other form, as [`any`] knows them.
    pub fn other(&mut self, text: &str) -> Option<u64> {
        self.iso(text.as_bytes()).or_else(|| any(text))
    }

    /// `2026-01-19T16:30:05.125Z`, which most logs of JSON have.
    fn iso(&mut self, text: &[u8]) -> Option<u64> {
        let (day, rest) = text.strip_suffix(b"Z")?.split_first_chunk::<10>()?;
        let [b'T', clock @ ..] = rest else { return None };
        if *day != self.iso_day {
            self.iso_begins = i64::try_from(unix_nanos(str::from_utf8(day).ok()?)? / i128::from(SECOND)).ok()?;
            self.iso_day = *day;
        }
        let (clock, fraction) = clock.split_first_chunk::<8>()?;
        let fraction = match fraction {
            [] => 0,
            [b'.', digits @ ..] => fraction_nanos(digits)?,
            _ => return None,
        };
        let seconds = u64::try_from(self.iso_begins + seconds_of_day(*clock)?).ok()?;
        seconds.checked_mul(SECOND)?.checked_add(fraction)
    }
}

/// Any other form: seconds since 1970 (milliseconds, microseconds and nanoseconds too, told apart by their size), or a
/// calendar's. In nanoseconds since 1970.
pub fn any(text: &str) -> Option<u64> {
    let calendar = |text: &str| u64::try_from(unix_nanos(text)?).ok();
    larger_unit(text)
        .or_else(|| calendar(text))
        .or_else(|| calendar(&usual(text)?))
        .filter(|nanos| i64::try_from(*nanos).is_ok())
}

/// `2026-01-19 16:30:05,125 +0200` as it is usually written: with a point, and with a zone that stands close and has a
/// colon.
fn usual(text: &str) -> Option<String> {
    let mut text = text.replacen(',', ".", 1);
    if let Some(zone) = text.len().checked_sub(5).and_then(|at| text.get(at..))
        && zone.starts_with(['+', '-'])
        && zone[1..].bytes().all(|byte| byte.is_ascii_digit())
    {
        let (hours, minutes) = (zone[..3].to_owned(), zone[3..].to_owned());
        text = format!("{}{hours}:{minutes}", text[..text.len() - 5].trim_end());
    }
    Some(text).filter(|text| text.len() > 10)
}

/// Milliseconds, microseconds or nanoseconds since 1970.
fn larger_unit(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let unit: u64 = match whole.len() {
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        18..=19 => 1,
        _ => return None,
    };
    whole.parse::<u64>().ok()?.checked_mul(unit)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    Some(digit(tens)? * 10 + digit(ones)?)
}

fn seconds_of_day(clock: [u8; 8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = clock else { return None };
    let (hour, minute, second) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
    // 60 is a leap second.
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3_600 + minute * 60 + second)
}

/// What follows a second's point: up to nine digits.
pub fn fraction_nanos(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value, byte| value * 10 + u64::from(byte - b'0'));
    Some(value * 10_u64.pow(9 - digits.len() as u32))
}

fn seconds_ahead(zone: &[u8]) -> Option<i64> {
    let [sign @ (b'+' | b'-'), h1, h2, m1, m2] = *zone else { return None };
    let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
    let seconds = hours * 3_600 + minutes * 60;
    (hours < 24 && minutes < 60).then_some(if sign == b'-' { -seconds } else { seconds })
}

/// `10/Oct/2000`
fn day_begins(day: &[u8; 11]) -> Option<i64> {
    let [d1, d2, b'/', name @ .., b'/', _, _, _, _] = day else { return None };
    let month = MONTHS.iter().position(|month| month.as_bytes() == name)? + 1;
    let year = str::from_utf8(&day[7..]).ok()?;
    let date = format!("{year}-{month:02}-{}{}", char::from(*d1), char::from(*d2));
    i64::try_from(unix_nanos(&date)? / i128::from(SECOND)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_access_logs_are_read() {
        let mut times = LogTimes::default();
        for (text, seconds, nanos) in [
            ("10/Oct/2000:13:55:36 -0700", 971_211_336, 0),
            ("10/Oct/2000:13:55:37 -0700", 971_211_337, 0),
            ("10/Oct/2000:20:55:36 +0000", 971_211_336, 0),
            ("10/Oct/2000:20:55:36", 971_211_336, 0),
            ("29/Feb/2024:00:00:00.125 +0530", 1_709_145_000, 125_000_000),
            ("01/Jan/1970:00:00:01 +0000", 1, 0),
            ("1 /Jan/1970:00:00:01 +0000", 1, 0),
            ("31/Dec/2016:23:59:60 +0000", 1_483_228_800, 0),
        ] {
            assert_eq!(times.common(text.as_bytes()), Some(seconds * SECOND + nanos), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        let mut times = LogTimes::default();
        for text in [
            "",
            "10/Oct/2000",
            "10/Oct/2000:13:55:36 -070",
            "10/Oct/2000:13:55:36 0700",
            "10/Xxx/2000:13:55:36 -0700",
            "30/Feb/2000:13:55:36 -0700",
            "10/Oct/2000:24:55:36 -0700",
            "10/Oct/2000:1x:55:36 -0700",
            "10-Oct-2000:13:55:36 -0700",
            "10/Oct/2000:13:55:36. -0700",
            "01/Jan/1969:13:55:36 -0700",
            "1é/Oct/2000:13:55:36 -0700",
        ] {
            assert_eq!(times.common(text.as_bytes()), None, "{text}");
            assert_eq!(any(text), None, "{text}");
        }
    }

    #[test]
    fn plain_numbers_are_distinguished_by_their_size() {
        for text in ["1700158546", "1700158546000", "1700158546000000", "1700158546000000000", "2023-11-16T18:15:46Z"] {
            assert_eq!(any(text), Some(1_700_158_546 * SECOND), "{text}");
            assert_eq!(LogTimes::default().other(text), Some(1_700_158_546 * SECOND), "{text}");
        }
        for text in ["2023-11-16 18:15:46,5", "2023-11-16 20:15:46.5 +0200", "2023-11-16T17:45:46.5-0030"] {
            assert_eq!(any(text), Some(1_700_158_546 * SECOND + SECOND / 2), "{text}");
        }
        let mut times = LogTimes::default();
        for text in
            ["2026-01-19T16:30:05.125Z", "2026-01-19T16:30:06Z", "2024-02-29T00:00:00.5Z", "2026-01-19T24:30:06Z"]
        {
            assert_eq!(times.other(text), any(text), "the quick way and the other: {text}");
        }
        assert_eq!(any("1700158546.25"), Some(1_700_158_546 * SECOND + SECOND / 4));
        assert_eq!(any("1700158546250.5"), Some(1_700_158_546 * SECOND + SECOND / 4));
        assert_eq!((any("12.5"), any("-1"), any("99999999999999999999")), (Some(12 * SECOND + SECOND / 2), None, None));
    }
}
