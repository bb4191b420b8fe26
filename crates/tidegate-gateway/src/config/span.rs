//! Lengths of time as files have them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_input::duration::{self, SECOND};

/// A length of time, written as seconds (`60`, `0.5`) or with a unit (`500ms`, `10s`, `5m`, `1h`, `1d`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

impl Span {
    /// A [`Duration`] as a setting has it.
    pub const fn of(duration: Duration) -> Self {
        Self(duration)
    }

    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// As a [`Duration`].
    pub const fn get(self) -> Duration {
        self.0
    }

    fn parse(text: &str) -> Option<Self> {
        Self::seconds(duration::CONFIGURATION.nanos(text, Some(SECOND))? / SECOND)
    }

    /// This many seconds. None if that is negative, not a number, or longer than a configuration may have.
    pub fn seconds(seconds: f64) -> Option<Self> {
        // Rounded to the microsecond: files have no finer times, and 0.1 is then exactly a tenth.
        let micros = (seconds * 1e6).round();
        (0.0..1e16).contains(&micros).then(|| Self(Duration::from_micros(micros as u64)))
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&duration::text(self.0), f)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

/// As a number of seconds, as the API has it.
impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.subsec_nanos() == 0 {
            serializer.serialize_u64(self.0.as_secs())
        } else {
            serializer.serialize_f64(self.0.as_secs_f64())
        }
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time: seconds (60, 0.5) or with a unit (500ms, 10s, 5m, 1h, 1d), at most 10000000000s")
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
        if seconds > 10_000_000_000 {
            return Err(E::invalid_value(de::Unexpected::Unsigned(seconds), &self));
        }
        Ok(Span::from_secs(seconds))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
        let wrong = || E::invalid_value(de::Unexpected::Signed(seconds), &self);
        u64::try_from(seconds).map_err(|_| wrong()).and_then(|seconds| self.visit_u64(seconds))
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Span, E> {
        Span::seconds(seconds).ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        Span::parse(text.trim()).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A length of time: seconds, or text with a unit (ms, s, m, h, d).",
            "anyOf": [
                { "type": "number", "minimum": 0, "maximum": 10_000_000_000_u64 },
                { "type": "string", "pattern": "^ *([0-9]+\\.?[0-9]*|\\.[0-9]+) *(ms|s|m|min|h|d)? *$" }
            ]
        })
    }
}
