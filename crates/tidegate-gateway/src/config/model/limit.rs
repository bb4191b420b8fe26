//! Limits, as written.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_input::Problems;
use tidegate_policy::Algorithm;
use tidegate_store::Sharing;

use crate::config::ranges::{RangeCheck, Setting, single_values};
use crate::config::section::section;
use crate::config::span::Span;

section! {
    /// A limit: an algorithm with its numbers, and the key that requests are counted by.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(transform = described_as_numbers, transform = with_other_spellings)]
    pub struct Limit {
        /// See [`Numbers::algorithm`].
        #[schemars(schema_with = "algorithm_names")]
        pub algorithm: String;
        /// See [`Numbers::limit`].
        pub limit: Option<u64>;
        /// See [`Numbers::window`].
        pub window: Option<Span>;
        /// See [`Numbers::capacity`].
        #[serde(alias = "burst")]
        pub capacity: Option<u64>;
        /// See [`Numbers::fill_rate`].
        #[serde(alias = "fillRate")]
        pub fill_rate: Option<f64>;
        /// See [`Numbers::hold`].
        pub hold: Option<Span>;
        /// What requests are counted by: `global` (all together), or one or several (joined by `+`) of `ip`, `user`,
        /// `apiKey`, `clientId`, `tier`, `endpoint` (the route), `resource` (the path), `provider` (the upstream),
        /// `method`, `host`, `header:NAME`.
        pub key: Option<String>, else "global".to_owned();
        /// What happens to requests that lack what `key` needs.
        #[serde(default)]
        pub missing: Missing;
        /// Other numbers for some tiers, by tier. All other tiers have the numbers above.
        #[serde(default)]
        pub tiers: BTreeMap<String, TierNumbers>;
        /// This many requests above the limit are still admitted, marked for the upstream with `X-Tidegate-Degraded`.
        /// `true` means 10. Not for `leaky`.
        #[serde(default)]
        pub soft: Soft, in 0..=1_048_576;
        /// What a request takes from the limit.
        pub cost: Option<u32>, else 1, in 1..=u32::MAX;
        /// Status of a rejection. Limits of an upstream have 503 by default.
        pub status: Option<u16>, else 429, in 400..=599;
        /// Whether it is a dry run: it decides, counts and reports in a header, but never rejects.
        #[serde(default)]
        pub dry_run: bool;
        /// Where counts are kept. Default: `exact` if Redis is configured, else `memory`.
        pub state: Option<State>;
        /// The most keys kept in memory; beyond it the least used are forgotten. A change resets the counts.
        pub max_keys: Option<usize>, else 100_000, in 1..=100_000_000;
    }
}

impl Limit {
    /// Where its counts are kept: as written, or the default.
    pub fn kept_in(&self, with_redis: bool) -> State {
        self.state.unwrap_or(if with_redis { State::Exact } else { State::Memory })
    }
}

/// The limit of a file without limits: 100 requests per minute for all clients together.
pub fn default_limit() -> Limit {
    Limit {
        algorithm: Algorithm::FixedWindow.name().to_owned(),
        limit: Some(100),
        window: Some(Span::from_secs(60)),
        ..Limit::default()
    }
}

/// The schema of an algorithm's name.
fn algorithm_names(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// The schema of an algorithm's name that may be left out.
fn algorithm_names_or_none(_: &mut SchemaGenerator) -> Schema {
    let names = Algorithm::ALL.iter().map(|algorithm| Some(algorithm.name())).chain([None]);
    json_schema!({ "type": ["string", "null"], "enum": names.collect::<Vec<_>>() })
}

/// Describes the numbers of a limit as [`Numbers`] does.
fn described_as_numbers(schema: &mut Schema) {
    let numbers = SchemaGenerator::default().into_root_schema_for::<Numbers>();
    let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) else { return };
    for (name, property) in properties {
        let spelling = if name == "fill_rate" { "fillRate" } else { name };
        if let Some(described) = numbers.get("properties").and_then(|known| known.get(spelling)) {
            property["description"] = described["description"].clone();
        }
    }
}

/// Adds the aliases that serde accepts and schemars does not know: one name of each pair, never both.
fn with_other_spellings(schema: &mut Schema) {
    let mut never_both = Vec::new();
    for (one, other) in [("capacity", "burst"), ("fill_rate", "fillRate")] {
        let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) else { return };
        let (known, new) = if properties.contains_key(one) { (one, other) } else { (other, one) };
        let mut property = properties.get(known).cloned().unwrap_or_default();
        property["description"] = format!("The same as `{known}`.").into();
        properties.insert(new.to_owned(), property);
        never_both.push(serde_json::json!({ "not": { "required": [known, new] } }));
    }
    schema.insert("allOf".to_owned(), never_both.into());
}

section! {
    /// The numbers of a limit, as `POST /config/limits` takes them too. Those of other algorithms may be present.
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[schemars(transform = with_other_spellings)]
    pub struct Numbers {
        /// The algorithm that decides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "algorithm_names_or_none")]
        pub algorithm: Option<String>;
        /// Requests in a window (`fixed`, `sliding`, `sliding_log`), or in flight (`concurrency`).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub limit: Option<u64>;
        /// Length of the window; a bare number is seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub window: Option<Span>;
        /// Requests that may come at once (`token`, `gcra`), or wait (`leaky`).
        #[serde(skip_serializing_if = "Option::is_none", alias = "burst")]
        pub capacity: Option<u64>;
        /// Requests per second in the long run (`token`, `gcra`, `leaky`); may be fractional.
        #[serde(skip_serializing_if = "Option::is_none", alias = "fill_rate")]
        pub fill_rate: Option<f64>;
        /// The longest time that a request may hold its slot (`concurrency`). Default: 1 h.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hold: Option<Span>;
    }
}

/// Values of `limits.NAME.tiers`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TierNumbers {
    /// A word instead of numbers.
    Word(Unlimited),
    /// Other numbers.
    Numbers(Numbers),
}

impl RangeCheck for TierNumbers {
    fn check_ranges(&self, path: &str, problems: &Problems) {
        match self {
            Self::Word(_) => {}
            Self::Numbers(numbers) => numbers.check_ranges(path, problems),
        }
    }
}

impl<'de> Deserialize<'de> for TierNumbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TierVisitor)
    }
}

/// Not derived: for a mistake in the numbers a derived implementation would only report that no variant matches.
struct TierVisitor;

impl<'de> Visitor<'de> for TierVisitor {
    type Value = TierNumbers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers, or `unlimited`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<TierNumbers, E> {
        match word {
            "unlimited" => Ok(TierNumbers::Word(Unlimited::Unlimited)),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, numbers: A) -> Result<TierNumbers, A::Error> {
        Numbers::deserialize(MapAccessDeserializer::new(numbers)).map(TierNumbers::Numbers)
    }
}

/// The word `unlimited`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unlimited {
    /// The limit does not apply.
    Unlimited,
}

/// Values of `limits.NAME.missing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// They all share one key.
    #[default]
    Share,
    /// They are counted by their address.
    Ip,
    /// They are rejected with 400.
    Refuse,
    /// The limit does not apply to them.
    Skip,
}

/// Values of `limits.NAME.soft`.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Soft {
    /// On or off.
    Switch(bool),
    /// A number of requests.
    Count(u64),
}

impl<'de> Deserialize<'de> for Soft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SoftVisitor)
    }
}

struct SoftVisitor;

impl Visitor<'_> for SoftVisitor {
    type Value = Soft;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of requests, true or false")
    }

    fn visit_bool<E>(self, switch: bool) -> Result<Soft, E> {
        Ok(Soft::Switch(switch))
    }

    fn visit_u64<E>(self, count: u64) -> Result<Soft, E> {
        Ok(Soft::Count(count))
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Soft, E> {
        let wrong = || E::invalid_value(de::Unexpected::Signed(count), &self);
        u64::try_from(count).map(Soft::Count).map_err(|_| wrong())
    }
}

impl Soft {
    /// How many requests above the limit.
    pub fn count(self) -> u64 {
        match self {
            Self::Switch(false) => 0,
            Self::Switch(true) => 10,
            Self::Count(count) => count,
        }
    }
}

impl Default for Soft {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl Setting for Soft {
    type Value = u64;

    fn given(&self) -> Option<u64> {
        Some(self.count())
    }
}

/// Values of `limits.NAME.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// In this process.
    Memory,
    /// In Redis, with one call for each request.
    Exact,
    /// In Redis, with tokens taken in advance.
    Leased,
}

single_values!(Missing, State);

impl State {
    /// How counts are shared. None if they are kept in memory.
    pub fn sharing(self) -> Option<Sharing> {
        match self {
            Self::Memory => None,
            Self::Exact => Some(Sharing::Exact),
            Self::Leased => Some(Sharing::Leased),
        }
    }
}
