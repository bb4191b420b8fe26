//! A share of a plan's requests, for one of several instances.

use std::fmt;
use std::str::FromStr;

/// The most instances that a plan is divided among.
const MOST: u64 = 1_000;

/// Every `of`th request of a plan, beginning with number `index`: all parts together are the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    index: u64,
    of: u64,
}

impl Part {
    /// From 1 on.
    pub fn index(self) -> u64 {
        self.index
    }

    /// How many parts there are.
    pub fn of(self) -> u64 {
        self.of
    }

    /// Whether request `number`, from 0 on, is one of it.
    pub fn has(self, number: u64) -> bool {
        number % self.of == self.index - 1
    }

    /// Whether some request would be in both.
    pub fn overlaps(self, other: Self) -> bool {
        // Two such sequences meet if and only if their beginnings differ by a multiple of what divides both steps.
        self.index.abs_diff(other.index).is_multiple_of(divisor(self.of, other.of))
    }
}

/// The greatest common one.
fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// An invalid part, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPart(String);

impl fmt::Display for InvalidPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be such as `2/3` (the second of three), of at most {MOST}, got {:?}", self.0)
    }
}

impl std::error::Error for InvalidPart {}

impl FromStr for Part {
    type Err = InvalidPart;

    fn from_str(text: &str) -> Result<Self, InvalidPart> {
        // A plus sign is a number for Rust, and for nobody else.
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
        let read = || {
            let (index, of) = text.split_once('/')?;
            let (index, of) = (number(index)?, number(of)?);
            ((1..=of).contains(&index) && of <= MOST).then_some(Self { index, of })
        };
        read().ok_or_else(|| InvalidPart(text.chars().take(60).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> Part {
        text.parse().expect(text)
    }

    #[test]
    fn all_parts_together_are_the_plan() {
        let parts = ["1/3", "2/3", "3/3"].map(part);
        for number in 0..100 {
            assert_eq!(parts.iter().filter(|part| part.has(number)).count(), 1, "{number}");
        }
        assert!(part("2/3").has(1) && part("2/3").has(4), "every third, beginning with the second");
        assert!(part("1/1").has(0) && part("1/1").has(17));
    }

    /// Counted out, for all small ones.
    #[test]
    fn parts_overlap_if_a_request_is_in_both() {
        let all: Vec<Part> = (1..=7).flat_map(|of| (1..=of).map(move |index| Part { index, of })).collect();
        for one in &all {
            assert_eq!(part(&one.to_string()), *one);
            for other in &all {
                let has_both = (0..42 * 10).any(|number| one.has(number) && other.has(number));
                assert_eq!(one.overlaps(*other), has_both, "{one} {other}");
            }
        }
    }

    #[test]
    fn an_invalid_part_is_rejected() {
        for text in [
            "",
            "/",
            "1",
            "0/3",
            "4/3",
            "1/0",
            "-1/3",
            "+1/3",
            "1/1001",
            "1/3/3",
            "1 / 3",
            "a/b",
            "1/99999999999999999999",
        ] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
