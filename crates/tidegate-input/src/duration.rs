//! Lengths of time as text.

use std::fmt;
use std::time::Duration;

/// Nanoseconds of a second.
pub const SECOND: f64 = 1e9;
/// Nanoseconds of a day.
pub const DAY: f64 = 86_400e9;
const MICROSECOND: f64 = 1e3;
const MILLISECOND: f64 = 1e6;
const MINUTE: f64 = 60e9;
const HOUR: f64 = 3_600e9;

/// As configurations have them: `500ms`, `10s`, `5 min`, `1h`, `1d`.
pub const CONFIGURATION: Notation = Notation {
    units: &[("ms", MILLISECOND), ("s", SECOND), ("m", MINUTE), ("min", MINUTE), ("h", HOUR), ("d", DAY)],
    blanks: true,
    exponents: false,
};

/// As a target's service time is given: `5ms`, `250us`.
pub const SERVICE_TIME: Notation = Notation { units: SHORT, blanks: false, exponents: false };

/// As logs have them: `250ms`, `1.2e-05`.
pub const LOG: Notation = Notation { units: SHORT, blanks: true, exponents: true };

const SHORT: &[(&str, f64)] =
    &[("s", SECOND), ("ms", MILLISECOND), ("us", MICROSECOND), ("µs", MICROSECOND), ("ns", 1.0)];

/// How durations are written somewhere: a number, and behind it a unit.
///
/// What one accepts is a mistake in another: `5m` is five minutes in a configuration, and unclear in a log.
#[derive(Clone, Copy, Debug)]
pub struct Notation {
    /// The names of the units, and how many nanoseconds they have.
    units: &'static [(&'static str, f64)],
    /// Whether blanks may stand between the number and its unit.
    blanks: bool,
    /// Whether a number may have a sign and an exponent.
    exponents: bool,
}

impl Notation {
    /// How many nanoseconds a text means. A number without a unit is counted in `bare`, or rejected if that is none.
    /// Rounding is left to the caller, who knows how exact the text is meant.
    pub fn nanos(&self, text: &str, bare: Option<f64>) -> Option<f64> {
        let written = text.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == 'µ');
        let unit = match &text[written.len()..] {
            "" => bare?,
            name => self.units.iter().find(|(known, _)| *known == name)?.1,
        };
        let number = if self.blanks { written.trim_end() } else { written };
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        // What Rust reads as a number besides, such as `inf`, ends with a letter, and so was taken for a unit.
        let number: f64 = number.parse().ok().filter(|_| is_plain || self.exponents)?;
        Some(number * unit)
    }
}

/// A duration as configurations have it: `60s`, `500ms`, `1.5s`.
pub fn text(duration: Duration) -> impl fmt::Display {
    Text(duration)
}

struct Text(Duration);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if nanos == 0 {
            write!(f, "{seconds}s")
        } else if seconds == 0 && nanos.is_multiple_of(1_000_000) {
            write!(f, "{}ms", nanos / 1_000_000)
        } else {
            write!(f, "{}s", self.0.as_secs_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds to the next whole one.
    fn read(notation: Notation, text: &str, bare: Option<f64>) -> Option<i64> {
        notation.nanos(text, bare).map(|nanos| nanos.round() as i64)
    }

    /// What each notation makes of a text, in nanoseconds; -1 is a mistake. Numbers without a unit are seconds, except
    /// in a service time, which must have one.
    #[test]
    fn each_notation_accepts_its_own_texts_and_no_others() {
        const MS: i64 = 1_000_000;
        const S: i64 = 1_000 * MS;
        for (text, configuration, service_time, log) in [
            ("0", 0, -1, 0),
            ("0s", 0, 0, 0),
            ("60", 60 * S, -1, 60 * S),
            ("0.5", S / 2, -1, S / 2),
            (".5", S / 2, -1, S / 2),
            ("5.", 5 * S, -1, 5 * S),
            ("5.s", 5 * S, 5 * S, 5 * S),
            ("500ms", 500 * MS, 500 * MS, 500 * MS),
            ("0.3ms", 300_000, 300_000, 300_000),
            ("1.5s", 1_500 * MS, 1_500 * MS, 1_500 * MS),
            ("10 s", 10 * S, -1, 10 * S),
            ("10\ts", 10 * S, -1, 10 * S),
            ("250us", -1, 250_000, 250_000),
            ("250µs", -1, 250_000, 250_000),
            ("3 us", -1, -1, 3_000),
            ("7ns", -1, 7, 7),
            ("5m", 300 * S, -1, -1),
            ("5min", 300 * S, -1, -1),
            ("1.5 h", 5_400 * S, -1, -1),
            ("1d", 86_400 * S, -1, -1),
            ("1w", -1, -1, -1),
            ("5M", -1, -1, -1),
            ("5S", -1, -1, -1),
            ("5sec", -1, -1, -1),
            ("1h30m", -1, -1, -1),
            ("PT5S", -1, -1, -1),
            ("1e3", -1, -1, 1_000 * S),
            ("1e3s", -1, -1, 1_000 * S),
            ("1.2e-05", -1, -1, 12_000),
            ("+5s", -1, -1, 5 * S),
            ("-5s", -1, -1, -5 * S),
            ("1.2.3s", -1, -1, -1),
            ("1_000s", -1, -1, -1),
            ("", -1, -1, -1),
            (" ", -1, -1, -1),
            ("s", -1, -1, -1),
            (".s", -1, -1, -1),
            ("inf", -1, -1, -1),
            ("infs", -1, -1, -1),
            ("NaN", -1, -1, -1),
            ("0x10", -1, -1, -1),
            ("٣s", -1, -1, -1),
            ("5 s s", -1, -1, -1),
        ] {
            let is = |notation, bare| read(notation, text, bare).unwrap_or(-1);
            assert_eq!(is(CONFIGURATION, Some(SECOND)), configuration, "a configuration's {text:?}");
            assert_eq!(is(SERVICE_TIME, None), service_time, "a service time's {text:?}");
            assert_eq!(is(LOG, Some(SECOND)), log, "a log's {text:?}");
        }
        assert_eq!(read(LOG, "12", Some(MILLISECOND)), Some(12 * MS), "in the unit that the log's field has");
    }

    #[test]
    fn a_written_duration_is_read_as_the_same() {
        for (nanos, expected) in [
            (0, "0s"),
            (20_000_000, "20ms"),
            (999_000_000, "999ms"),
            (1_000_000_000, "1s"),
            (1_500_000_000, "1.5s"),
            (500_000, "0.0005s"),
            (86_400_000_000_000, "86400s"),
        ] {
            let written = text(Duration::from_nanos(nanos)).to_string();
            assert_eq!(written, expected);
            assert_eq!(read(CONFIGURATION, &written, None), Some(nanos as i64), "{written}");
        }
    }
}
