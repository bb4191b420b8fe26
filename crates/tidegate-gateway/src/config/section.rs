//! A section of the configuration file, declared once. From its declaration come the struct that serde reads, the JSON
//! Schema, the reference page, the check of ranges and its error texts.

use std::ops::RangeInclusive;

use schemars::Schema;
use serde::Serialize;
use serde_json::Value;
use tidegate_input::Problems;

use super::span::Span;

/// Declares a section. A setting is written as in a struct, with a doc comment that describes it and, after its type,
///
/// - `= VALUE`: its default, where the section has `#[serde(default)]`;
/// - `, else VALUE`: its default where its type is an `Option`; the section gets a method of the setting's name that
///   returns the value or the default;
/// - `, in LEAST..=MOST`: its valid values;
/// - `, length LEAST..=MOST`: how long a text may be. The schema and the reference page have it; the code that reads
///   the text checks it.
///
/// The doc comment repeats none of them. It says "Default: …" only where the default is not a fixed value, such as one
/// worker per core.
macro_rules! section {
    (
        $(#[$about:meta])*
        pub struct $section:ident {
            $(
                $(#[$text:meta])*
                pub $field:ident: $type:ty
                    $(= $default:expr)?
                    $(, else $usual:expr)?
                    $(, in $range:expr)?
                    $(, length $length:expr)?;
            )*
        }
    ) => {
        $(#[$about])*
        #[schemars(transform = $section::annotate)]
        pub struct $section {
            $( $(#[$text])* pub $field: $type, )*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $( $field: $crate::config::section::initial!($($default)?), )* }
            }
        }

        impl $section {
            $($(
                #[doc = concat!("`", stringify!($field), "` as written, or its default.")]
                pub fn $field(&self) -> <$type as $crate::config::section::Setting>::Value {
                    $crate::config::section::or(&self.$field, || $usual)
                }
            )?)*

            /// With the default of every setting that is not set and has one.
            #[must_use]
            #[allow(unused_mut, reason = "a section may have no default")]
            pub fn with_defaults(mut self) -> Self {
                $($( self.$field = Some($crate::config::section::or(&self.$field, || $usual)); )?)*
                self
            }

            /// Reports every setting that is outside its range. The section is at `path`.
            #[allow(dead_code, unused_variables, reason = "a section may have no range")]
            pub(crate) fn check_ranges(&self, path: &str, problems: &tidegate_input::Problems) {
                $($(
                    let given = $crate::config::section::Setting::given(&self.$field);
                    $crate::config::section::check_range(path, stringify!($field), given.as_ref(), &$range, problems);
                )?)*
            }

            /// Adds ranges and defaults to the section's schema.
            fn annotate(schema: &mut schemars::Schema) {
                let facts = [
                    $(
                        $crate::config::section::Fact::of(stringify!($field))
                            $(.default::<<$type as $crate::config::section::Setting>::Value>(&$usual))?
                            $(.range::<<$type as $crate::config::section::Setting>::Value>(&$range))?
                            $(.length(&$length))?,
                    )*
                ];
                $crate::config::section::annotate(facts, schema);
            }
        }
    };
}

/// The value of a setting in a section that is not written.
macro_rules! initial {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

pub(crate) use {initial, section};

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

/// The value if it is set, otherwise the default.
pub(crate) fn or<T: Setting>(setting: &T, usual: impl FnOnce() -> T::Value) -> T::Value {
    setting.given().unwrap_or_else(usual)
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

/// Reports a value that is outside its range.
pub(crate) fn check_range<T: Ranged>(
    path: &str,
    field: &str,
    value: Option<&T>,
    range: &RangeInclusive<T>,
    problems: &Problems,
) {
    if let Some(value) = value.filter(|value| !range.contains(value)) {
        let (least, most) = (range.start().written(), range.end().written());
        problems.add(at(path, field), format!("must be between {least} and {most}, got {}", value.found()));
    }
}

/// What the declaration of a setting says besides its type and description.
pub(crate) struct Fact {
    name: &'static str,
    /// Keywords of JSON Schema with their values.
    keywords: Vec<(&'static str, Value)>,
}

impl Fact {
    pub(crate) fn of(name: &'static str) -> Self {
        Self { name, keywords: Vec::new() }
    }

    pub(crate) fn default<T: Serialize>(self, value: &T) -> Self {
        self.with("default", value)
    }

    pub(crate) fn range<T: Ranged>(self, range: &RangeInclusive<T>) -> Self {
        self.with("minimum", range.start()).with("maximum", range.end())
    }

    pub(crate) fn length(self, length: &RangeInclusive<usize>) -> Self {
        let bounded = self.with("minLength", length.start());
        if *length.end() == usize::MAX { bounded } else { bounded.with("maxLength", length.end()) }
    }

    fn with<T: Serialize>(mut self, keyword: &'static str, value: &T) -> Self {
        let value = serde_json::to_value(value).expect("numbers, times and words are JSON");
        self.keywords.push((keyword, value));
        self
    }
}

/// Adds the facts about a section's settings to its schema. The range of a time is in seconds: text with a unit has no
/// range there.
pub(crate) fn annotate(facts: impl IntoIterator<Item = Fact>, schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for fact in facts {
        let Some(property) = properties.get_mut(fact.name).and_then(Value::as_object_mut) else { continue };
        for (keyword, value) in fact.keywords {
            property.insert(keyword.to_owned(), value);
        }
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
        check_range("upstreams.app", "idle_timeout", Some(&Span::from_secs(0)), &(least..=most), &problems);
        check_range("", "workers", Some(&257_usize), &(1..=256), &problems);
        check_range("adaptive", "errors", Some(&f64::NAN), &(0.0..=1.0), &problems);
        check_range("", "workers", Some(&256_usize), &(1..=256), &problems);
        check_range("", "workers", None, &(1..=256_usize), &problems);
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
