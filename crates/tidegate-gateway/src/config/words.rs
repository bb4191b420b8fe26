//! Settings that are one of a few words, for types of other crates.

use std::fmt;
use std::marker::PhantomData;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::json;
use tidegate_policy::endpoints::Balance;
use tidegate_serve::{LogFormat, LogLevel};
use tidegate_store::FailureMode;

use super::ranges::single_values;

/// A type whose values are words.
pub(super) trait Word: Copy + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// As written in a file.
    fn word(self) -> &'static str;

    /// What it means, for the schema and the reference page.
    fn meaning(self) -> &'static str;
}

macro_rules! words {
    ($type:ident { $($word:ident: $meaning:literal,)* }) => {
        impl Word for $type {
            const ALL: &'static [Self] = &$type::ALL;

            fn word(self) -> &'static str {
                self.name()
            }

            fn meaning(self) -> &'static str {
                match self {
                    $( Self::$word => $meaning, )*
                }
            }
        }

        single_values!($type);
    };
}

words! {
    FailureMode {
        Open: "Requests are admitted.",
        Closed: "Requests are rejected.",
        Local: "Limits are kept in the memory of each gateway.",
    }
}

words! {
    Balance {
        LeastRequests: "To an endpoint chosen at random by weight, or to another that has clearly less to do: requests \
                        in flight × latency ÷ weight.",
        RoundRobin: "In turn, by weight.",
        Hash: "Requests with the same `hash_key` go to the same endpoint, as long as it is available.",
    }
}

words! {
    LogFormat {
        Text: "`[time] LEVEL component - message`",
        Json: "One JSON object per line.",
    }
}

words! {
    LogLevel {
        Debug: "Details for finding a fault.",
        Info: "Ordinary events.",
        Warn: "Events that need attention.",
        Error: "Failures.",
    }
}

fn all<T: Word>() -> Vec<&'static str> {
    T::ALL.iter().map(|value| value.word()).collect()
}

/// A value as written in a file.
struct Written<T>(T);

impl<'de, T: Word> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WordVisitor(PhantomData)).map(Self)
    }
}

struct WordVisitor<T>(PhantomData<T>);

impl<T: Word> Visitor<'_> for WordVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = all::<T>().iter().map(|word| format!("`{word}`")).collect();
        write!(f, "one of {}", words.join(", "))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let found = T::ALL.iter().copied().find(|value| value.word() == text);
        found.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// For `deserialize_with`.
pub(super) fn read<'de, T: Word, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Written::deserialize(deserializer).map(|Written(value)| value)
}

/// For `serialize_with`.
pub(super) fn write<T: Word, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.word())
}

/// For `schema_with`.
pub(super) fn schema<T: Word>(_: &mut SchemaGenerator) -> Schema {
    let word = |value: &T| json!({ "type": "string", "const": value.word(), "description": value.meaning() });
    json_schema!({ "oneOf": T::ALL.iter().map(word).collect::<Vec<_>>() })
}
