//! A section of the configuration file, declared once. From its declaration come the struct that serde reads, the JSON
//! Schema, the reference page, the check of ranges and its error texts.

use std::ops::RangeInclusive;

use schemars::Schema;
use serde::Serialize;
use serde_json::Value;

use super::ranges::{Ranged, Setting};

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
/// worker per core. If the setting is one of a few words, the doc comments of the words say what each means.
///
/// Every struct of the model is a section. The check of ranges (`ranges.rs`) begins at the whole file and walks through
/// all sections in it.
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
                pub fn $field(&self) -> <$type as $crate::config::ranges::Setting>::Value {
                    $crate::config::section::or(&self.$field, || $usual)
                }
            )?)*

            /// With the default of every setting that is not set and has one.
            #[must_use]
            pub fn with_defaults(self) -> Self {
                Self { $( $field: $crate::config::section::filled!(self.$field $(, $usual)?), )* }
            }

            /// Adds ranges and defaults to the section's schema.
            fn annotate(schema: &mut schemars::Schema) {
                let facts = [
                    $(
                        $crate::config::section::Fact::of(stringify!($field))
                            $(.default::<<$type as $crate::config::ranges::Setting>::Value>(&$usual))?
                            $(.range::<<$type as $crate::config::ranges::Setting>::Value>(&$range))?
                            $(.length(&$length))?,
                    )*
                ];
                $crate::config::section::annotate(facts, schema);
            }
        }

        impl $crate::config::ranges::RangeCheck for $section {
            fn check_ranges(&self, path: &str, problems: &tidegate_input::Problems) {
                $(
                    let at = $crate::config::ranges::at(path, stringify!($field));
                    $crate::config::section::checked!(self.$field, &at, problems $(, $range)?);
                )*
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

/// A setting with its default, if it has one and is not set.
macro_rules! filled {
    ($setting:expr) => {
        $setting
    };
    ($setting:expr, $usual:expr) => {
        Some($crate::config::section::or(&$setting, || $usual))
    };
}

/// Compares a setting with its range. If it has none, goes on with what is inside.
macro_rules! checked {
    ($setting:expr, $path:expr, $problems:expr) => {
        $crate::config::ranges::RangeCheck::check_ranges(&$setting, $path, $problems)
    };
    ($setting:expr, $path:expr, $problems:expr, $range:expr) => {
        $crate::config::ranges::check_range(&$setting, &$range, $path, $problems)
    };
}

pub(crate) use {checked, filled, initial, section};

/// The value if it is set, otherwise the default.
pub(crate) fn or<T: Setting>(setting: &T, usual: impl FnOnce() -> T::Value) -> T::Value {
    setting.given().unwrap_or_else(usual)
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
