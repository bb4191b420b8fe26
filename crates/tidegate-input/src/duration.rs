//! Lengths of time as text.

use std::fmt;
use std::time::Duration;

/// Nanoseconds of a microsecond.
pub const MICROSECOND: f64 = 1e3;
/// Nanoseconds of a millisecond.
pub const MILLISECOND: f64 = 1e6;
/// Nanoseconds of a second.
pub const SECOND: f64 = 1e9;
/// Nanoseconds of a minute.
pub const MINUTE: f64 = 60e9;
/// Nanoseconds of an hour.
pub const HOUR: f64 = 3_600e9;
/// Nanoseconds of a day.
pub const DAY: f64 = 86_400e9;

/// How durations are written somewhere: a number, and behind it a unit.
///
/// Each place has its own: what a configuration takes (`5m`, `1 h`) is not what a log means by it. What they have in
/// common stands here.
#[derive(Clone, Copy, Debug)]
pub struct Notation {
    /// The units that are known by their names, in nanoseconds.
    pub units: &'static [(&'static str, f64)],
    /// Whether blanks may stand between the number and its unit.
    pub blanks: bool,
    /// Whether a number may have a sign and an exponent, as `1e-3` has.
    pub exponents: bool,
}

impl Notation {
    /// How many nanoseconds a text means; those of a number without a unit are counted in `bare`, if that may be.
    /// They are as exact as the number is: rounding is left to those who know what they count in.
    pub fn nanos(&self, text: &str, bare: Option<f64>) -> Option<f64> {
        let written = text.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == 'µ');
        let unit = match &text[written.len()..] {
            "" => bare?,
            name => self.units.iter().find(|(known, _)| *known == name)?.1,
        };
        let number = if self.blanks { written.trim_end() } else { written };
        let is_plain = || number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        // What Rust reads as a number besides, such as `inf`, ends with a letter and is a unit that nobody knows.
        let number: f64 = if self.exponents || is_plain() { number.parse().ok()? } else { return None };
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
