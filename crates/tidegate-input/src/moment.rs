//! Times as files write them.

use crate::calendar::day_start;

const NANOS: i128 = 1_000_000_000;

/// Nanoseconds since 1970, or since whatever plain seconds count from: `12.5`, `2026-01-19T16:30:00.125Z`,
/// `2026-01-19 16:30:00+02:00`, `2026-01-19`. A time without a zone is UTC.
pub fn unix_nanos(text: &str) -> Option<i128> {
    let text = text.trim();
    if text.get(4..5) == Some("-") && text.is_ascii() { calendar(text) } else { plain(text) }
}

fn plain(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if let (Some(whole), Some(fraction)) = (digits(whole), fraction_nanos(fraction)) {
        return Some(i128::from(whole) * NANOS + fraction);
    }
    // As 1.7e9.
    let seconds: f64 = text.parse().ok().filter(|_| text.contains(['e', 'E']))?;
    (0.0..1e12).contains(&seconds).then_some((seconds * 1e9) as i128)
}

/// At most twelve: tens of thousands of years of seconds.
fn digits(text: &str) -> Option<u64> {
    let are_digits = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok())?
}

/// Digits beyond the ninth are below what is counted.
fn fraction_nanos(text: &str) -> Option<i128> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine: String = text.chars().chain(std::iter::repeat('0')).take(9).collect();
    digits(&nine).map(i128::from)
}

/// The form is read here and not by `jiff`, which accepts more (`20260119T1630`, zones in brackets) and less
/// (`2026-1-19`), and takes a leap second for the one before it.
fn calendar(text: &str) -> Option<i128> {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, "00:00:00Z"),
    };
    let [year, month, day] = numbers(date, '-')?;
    let begins = day_start(year, month, day)?;
    let (clock, offset) = zone(time)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let [hour, minute, second] = numbers(clock, ':')?;
    // 60 is a leap second, which files that were written in one have.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = begins + hour * 3_600 + minute * 60 + second - offset;
    Some(i128::from(seconds) * NANOS + fraction_nanos(fraction)?)
}

/// Three numbers and nothing else.
fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts =
        text.split(between).map(|part| digits(part).filter(|_| part.len() <= 4).map(|number| number as i64));
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// The time of day, and how many seconds its zone is ahead of UTC.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.find(['+', '-']) else { return Some((time, 0)) };
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let (hours, minutes) = (digits(hours)? as i64, digits(minutes)? as i64);
    let sign = if time.as_bytes()[at] == b'-' { -1 } else { 1 };
    (hours < 24 && minutes < 60).then_some((&time[..at], sign * (hours * 3_600 + minutes * 60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, seconds, nanos_after) in [
            ("0", 0, 0),
            ("12.5", 12, 500_000_000),
            ("1.", 1, 0),
            ("1700158546.680590012345", 1_700_158_546, 680_590_012),
            ("1.5e3", 1_500, 0),
            ("1970-01-01", 0, 0),
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2000-02-29 00:00:00", 951_782_400, 0),
            ("2026-01-19T16:30:05.125Z", 1_768_840_205, 125_000_000),
            ("2026-01-19 18:30:05+02:00", 1_768_840_205, 0),
            ("2026-01-19t15:00:05-01:30", 1_768_840_205, 0),
            ("2100-03-01T00:00:00Z", 4_107_542_400, 0),
            ("2023-11-16 18:15:46.6805900", 1_700_158_546, 680_590_000),
            ("2026-1-9 6:3:5", 1_767_938_585, 0),
            ("2016-12-31T23:59:60Z", 1_483_228_800, 0),
            ("2026-01-19T16:30:05.Z", 1_768_840_205, 0),
            ("2026-01-19T16:30:05+2:0", 1_768_833_005, 0),
            ("1969-12-31T23:59:58.5Z", -2, 500_000_000),
            ("0000-01-01", -62_167_219_200, 0),
            ("9999-12-31T23:59:60Z", 253_402_300_800, 0),
        ] {
            assert_eq!(unix_nanos(text), Some(seconds * NANOS + nanos_after), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            " ",
            "-1",
            "+1",
            "a",
            "1.x",
            ".5",
            "inf",
            "NaN",
            "1e400",
            "1e13",
            "0x10",
            "1e-x",
            "2026-13-01",
            "2026-02-29",
            "2026-00-10",
            "2026-01-00",
            "2026-01-19T",
            "2026-01-19T24:00:00",
            "2026-01-19T1:2",
            "2026-01-19T10:00:00+25:00",
            "2026-01-19T10:00:00+0200x",
            "2026-01-19T10:00:00.1.2",
            "2016-12-31T23:59:61Z",
            "2026-01-19T10:60:00Z",
            "2026-01-19T10:00",
            "2026-01-19T100000Z",
            "2026-01-19T10:00:00Z[UTC]",
            "2026-01-19T10:00:00[Europe/Paris]",
            "2026-01-19T10:00:00 Z",
            "2026-01-19T10:00:00+02",
            "2026-W04-1",
            "2026-019",
            "20260119T100000Z",
            "-2026-01-19",
            "+002026-01-19",
            "9999999999999",
            "2026-é1-01",
        ] {
            assert_eq!(unix_nanos(text), None, "{text}");
        }
    }
}
