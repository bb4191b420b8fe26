//! The check of ranges: one walk through a whole configuration file.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Serialize;
use tidegate_input::Problems;

use super::secret::Secret;
use super::span::Span;

/// What the walk can pass through. `section!` implements it for each section, and requires it of every setting that has
/// no range itself. So the walk reaches all sections: one that it could not enter does not compile.
pub(crate) trait RangeCheck {
    /// Reports every setting in it that is outside its range. It is at `path`.
    fn check_ranges(&self, path: &str, problems: &Problems);
}

impl<T: RangeCheck> RangeCheck for Option<T> {
    fn check_ranges(&self, path: &str, problems: &Problems) {
        if let Some(value) = self {
            value.check_ranges(path, problems);
        }
    }
}

impl<T: RangeCheck> RangeCheck for Vec<T> {
    fn check_ranges(&self, path: &str, problems: &Problems) {
        for (index, value) in self.iter().enumerate() {
            value.check_ranges(&format!("{path}[{index}]"), problems);
        }
    }
}

impl<T: RangeCheck> RangeCheck for BTreeMap<String, T> {
    fn check_ranges(&self, path: &str, problems: &Problems) {
        for (name, value) in self {
            value.check_ranges(&at(path, name), problems);
        }
    }
}

/// Types of single values: without a range at the setting, every value is valid here.
macro_rules! single_values {
    ($($type:ty),*) => {
        $(
            impl $crate::config::ranges::RangeCheck for $type {
                fn check_ranges(&self, _: &str, _: &tidegate_input::Problems) {}
            }
        )*
    };
}

pub(crate) use single_values;

single_values!(bool, u64, f64, String, PathBuf, Secret, Span);

/// The type of a setting in the model: a value, or an `Option` of one.
pub trait Setting {
    /// The type of the value.
    type Value;

    /// The value, if it is set.
    fn given(&self) -> Option<Self::Value>;
}

impl<T: Clone> Setting for Option<T> {
    type Value = T;

    fn given(&self) -> Option<T> {
        self.clone()
    }
}

/// A value that can have a range.
pub(crate) trait Ranged: PartialOrd + Serialize {
    /// The value as a file has it.
    fn written(&self) -> String;

    /// The value as error texts quote it.
    fn found(&self) -> String {
        self.written()
    }
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(
            impl Setting for $type {
                type Value = Self;

                fn given(&self) -> Option<Self> {
                    Some(*self)
                }
            }

            impl Ranged for $type {
                fn written(&self) -> String {
                    self.to_string()
                }
            }
        )*
    };
}

numbers!(u16 u32 u64 usize f64);

impl Setting for Span {
    type Value = Self;

    fn given(&self) -> Option<Self> {
        Some(*self)
    }
}

impl Ranged for Span {
    fn written(&self) -> String {
        const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "m")];
        let (seconds, nanos) = (self.get().as_secs(), self.get().subsec_nanos());
        let fits = |unit: &&(u64, &str)| nanos == 0 && seconds > 0 && seconds.is_multiple_of(unit.0);
        let unit = UNITS.iter().find(fits);
        unit.map_or_else(|| self.to_string(), |(length, name)| format!("{}{name}", seconds / length))
    }

    fn found(&self) -> String {
        format!("{:?}", self.written())
    }
}

/// The path of a setting in a section.
pub(crate) fn at(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Reports a setting that is outside its range. It is at `path`.
pub(crate) fn check_range<T: Setting<Value: Ranged>>(
    setting: &T,
    range: &RangeInclusive<T::Value>,
    path: &str,
    problems: &Problems,
) {
    if let Some(value) = setting.given().filter(|value| !range.contains(value)) {
        let (least, most) = (range.start().written(), range.end().written());
        problems.add(path, format!("must be between {least} and {most}, got {}", value.found()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_largest_unit_that_is_exact() {
        let table = [(0, "0s"), (20, "20ms"), (1_000, "1s"), (1_500, "1.5s"), (75_000, "75s"), (600_000, "10m")];
        for (millis, written) in table.into_iter().chain([(3_600_000, "1h"), (86_400_000, "1d")]) {
            assert_eq!(Span::from_millis(millis).written(), written);
        }
    }

    #[test]
    fn a_value_outside_its_range_is_reported_with_path_range_and_value() {
        let problems = Problems::default();
        let (least, most) = (Span::from_millis(20), Span::from_secs(86_400));
        check_range(&Span::from_secs(0), &(least..=most), "upstreams.app.idle_timeout", &problems);
        check_range(&Some(257_usize), &(1..=256), "workers", &problems);
        check_range(&f64::NAN, &(0.0..=1.0), "adaptive.errors", &problems);
        check_range(&Some(256_usize), &(1..=256), "workers", &problems);
        check_range(&None::<usize>, &(1..=256), "workers", &problems);
        let found: Vec<String> = problems.all().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "upstreams.app.idle_timeout: must be between 20ms and 1d, got \"0s\"",
                "workers: must be between 1 and 256, got 257",
                "adaptive.errors: must be between 0 and 1, got NaN",
            ]
        );
    }
}
