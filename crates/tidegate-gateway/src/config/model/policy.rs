//! Policies, as written: what is done around the attempts of a request.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use tidegate_policy::retry;

use super::DAY;
use crate::config::ranges::single_values;
use crate::config::section::section;
use crate::config::span::Span;

const MILLISECOND: Span = Span::from_millis(1);

section! {
    /// What is done around the attempts of a request, so that a sick upstream harms nobody else. Each upstream for
    /// which a policy is in force has a breaker, a retry budget and a bulkhead of its own; all workers share them, and
    /// they stay over reloads.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Policy {
        /// The longest time to the head of the response, with all attempts and pauses. It begins when the limits of the
        /// route have admitted the request and its body has been read. An attempt whose body still comes then has what
        /// is left once its body has been sent. Default: none.
        pub timeout: Option<Span>, in MILLISECOND..=DAY;
        /// The longest time of one attempt, from choosing an endpoint to the head of its response. If the request's
        /// body still comes, it begins when that has been sent. Default: none but the upstream's own timeouts.
        pub attempt_timeout: Option<Span>, in MILLISECOND..=DAY;
        /// Which failed attempts are repeated. Default: none, but a request that could not be sent goes to another
        /// endpoint.
        pub retry: Option<Retry>;
        /// Stops requests to an upstream that fails or is slow. Default: none.
        pub breaker: Option<Breaker>;
        /// Bounds the attempts in flight. Default: none.
        pub bulkhead: Option<Bulkhead>;
    }
}

section! {
    /// Which failed attempts are repeated, and when. An attempt is repeated only where that is safe: nothing of it was
    /// sent, or the method is idempotent (`GET`, `HEAD`, `OPTIONS`, `PUT`, `DELETE`, `TRACE`), or the request has an
    /// idempotency key; and only if its body is not longer than `request_buffer_bytes`. It goes to another endpoint if
    /// there is one.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Retry {
        /// The most attempts, the first included. One that can't be sent and goes to another endpoint at once does not
        /// count.
        pub attempts: u32 = 3, in 1..=10;
        /// The pause before the first retry.
        pub base: Span = Span::from_millis(200), in Span::from_secs(0)..=DAY;
        /// The longest pause. A `Retry-After` of the upstream may make it longer, if there is a `timeout` and it fits.
        pub max: Span = Span::from_secs(2), in Span::from_secs(0)..=DAY;
        /// The factor by which the pause grows with each retry. 1: it stays the same.
        pub factor: f64 = 2.0, in 1.0..=100.0;
        /// How pauses are spread, so that requests that failed together are not sent again together. A number from
        /// above 0 to 1 is the share by which a pause is shorter or longer.
        pub jitter: Jitter = Jitter(retry::Jitter::Full);
        /// The failures that are worth another attempt: `connect`, `timeout`, `reset`, `4xx`, `5xx`, single statuses.
        /// Default: `connect`, `timeout`, `reset`, `5xx` and `429`.
        pub on: Vec<String> = words(&["connect", "timeout", "reset", "5xx", "429"]);
        /// The header that makes it safe to repeat requests with any method: the upstream does nothing twice for the
        /// same value. Default: none.
        pub idempotency_key: Option<String>;
        /// How many retries there may be, over all requests.
        pub budget: RetryBudget;
        /// A second attempt beside a first one that has had no response for long. Default: none.
        pub hedge: Option<Hedge>;
    }
}

section! {
    /// A second attempt beside the first, at another endpoint if there is one, when the first has had no response for
    /// longer than most: the client gets what comes first. It is made once for a request, where repeating it is safe,
    /// counts for `attempts` and draws on the budget.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Hedge {
        /// It is made when the first attempt has waited longer than this share of the first attempts of the last ten to
        /// twenty seconds did. None is made while fewer than 50 of them are known.
        pub quantile: f64 = 0.95, in 0.5..=0.999;
        /// It is not made earlier than that.
        pub min_delay: Span = Span::from_millis(10), in Span::from_secs(0)..=DAY;
    }
}

section! {
    /// Bounds the retries of all requests together, so that they never make an overload worse. When it is used up,
    /// failed attempts are not repeated.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct RetryBudget {
        /// Retries for each request of the last ten seconds.
        pub share: f64 = 0.2, in 0.0..=10.0;
        /// Retries each second besides `share`, whatever the requests.
        pub floor: f64 = 10.0, in 0.0..=1_000_000.0;
    }
}

section! {
    /// A circuit breaker. Closed, it counts how attempts end. When too many of them fail or are slow, it opens:
    /// requests get 503 at once. After a while it lets a few through, the probes. If all succeed it closes, if one
    /// fails it opens again. What clients or the gateway itself cause never counts.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Breaker {
        /// The attempts it judges by: a number is so many of the last ones, 1 to 100,000; a time with its unit (`30s`)
        /// is those that ended in it.
        pub window: BreakerWindow = BreakerWindow::Calls(100);
        /// Shares are judged once the window has so many attempts. Default: 10, or all of a smaller window.
        pub minimum: Option<u32>, in 1..=1_000_000;
        /// It opens when this share of the attempts has failed. Default: 0.5; with `consecutive`, none.
        pub failures: Option<f64>, in 0.0001..=1.0;
        /// It opens after so many failures in a row. Default: none.
        pub consecutive: Option<u32>, in 1..=1_000_000;
        /// An attempt is slow if the head of its response takes at least so long. Default: no attempt is.
        pub slow: Option<Span>, in MILLISECOND..=DAY;
        /// It opens when this share of the attempts is slow.
        pub slow_calls: Option<f64>, else 0.5, in 0.0001..=1.0;
        /// How long it stays open.
        pub open: Span = Span::from_secs(30), in Span::from_millis(10)..=DAY;
        /// The factor by which `open` grows each time a probe fails.
        pub growth: f64 = 1.0, in 1.0..=10.0;
        /// The longest that it stays open, with `growth`.
        pub max_open: Span = Span::from_secs(300), in Span::from_millis(10)..=DAY;
        /// So many probes are let through. All must succeed to close it.
        pub probes: u32 = 3, in 1..=1_000;
        /// When all probes are out and have not ended after this time, they have failed. It should be at least as long
        /// as an attempt may take.
        pub probe_timeout: Span = Span::from_secs(60), in MILLISECOND..=DAY;
        /// What counts as a failure: `connect`, `timeout`, `reset`, `4xx`, `5xx`, single statuses. Default: `connect`,
        /// `timeout`, `reset` and `5xx`.
        pub on: Vec<String> = words(&["connect", "timeout", "reset", "5xx"]);
    }
}

section! {
    /// Bounds the attempts in flight, so that a slow upstream can't take what others need. An attempt is in flight
    /// until the upstream has sent its whole response. Requests that find no room get 503.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Bulkhead {
        /// The most attempts in flight.
        pub limit: u32, in 1..=1_000_000;
        /// The most requests that wait for room, in the order of arrival.
        pub queue: Option<u32>, else 0, in 0..=100_000;
        /// The longest wait. It also ends with `timeout`.
        pub wait: Option<Span>, else Span::from_secs(1), in MILLISECOND..=DAY;
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The attempts that a breaker judges by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakerWindow {
    /// The last so many.
    Calls(u32),
    /// Those that ended in this time.
    Time(Span),
}

impl Serialize for BreakerWindow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Calls(calls) => serializer.serialize_u32(*calls),
            Self::Time(span) => serializer.collect_str(span),
        }
    }
}

impl<'de> Deserialize<'de> for BreakerWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WindowVisitor)
    }
}

struct WindowVisitor;

impl Visitor<'_> for WindowVisitor {
    type Value = BreakerWindow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of attempts (100) or a time with its unit (500ms, 30s, 5m)")
    }

    fn visit_u64<E: de::Error>(self, calls: u64) -> Result<BreakerWindow, E> {
        let wrong = || E::invalid_value(de::Unexpected::Unsigned(calls), &self);
        u32::try_from(calls).map(BreakerWindow::Calls).map_err(|_| wrong())
    }

    fn visit_i64<E: de::Error>(self, calls: i64) -> Result<BreakerWindow, E> {
        let wrong = || E::invalid_value(de::Unexpected::Signed(calls), &self);
        u64::try_from(calls).map_err(|_| wrong()).and_then(|calls| self.visit_u64(calls))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<BreakerWindow, E> {
        // A bare number in quotes could be meant either way.
        if text.trim().parse::<f64>().is_ok() {
            return Err(E::invalid_value(de::Unexpected::Str(text), &self));
        }
        let span = Span::deserialize(StrDeserializer::<E>::new(text));
        span.map(BreakerWindow::Time).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl JsonSchema for BreakerWindow {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BreakerWindow".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = Span::json_schema(generator).to_value();
        let text = span["anyOf"].as_array().and_then(|options| options.last().cloned()).unwrap_or(Value::Bool(true));
        json_schema!({ "anyOf": [{ "type": "integer" }, text] })
    }
}

/// How pauses between attempts are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter(pub(crate) retry::Jitter);

/// The words for it, and what each means.
const JITTERS: [(&str, retry::Jitter, &str); 4] = [
    ("full", retry::Jitter::Full, "Evenly from nothing to the whole pause."),
    ("equal", retry::Jitter::Equal, "Evenly from half of the pause to the whole."),
    ("decorrelated", retry::Jitter::Decorrelated, "Evenly from `base` to three times the last pause."),
    ("none", retry::Jitter::None, "Not at all."),
];

impl Serialize for Jitter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let retry::Jitter::Share(share) = self.0 {
            return serializer.serialize_f64(share);
        }
        let word = JITTERS.iter().find(|(_, jitter, _)| *jitter == self.0).map_or("full", |(word, ..)| word);
        serializer.serialize_str(word)
    }
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JitterVisitor)
    }
}

struct JitterVisitor;

impl Visitor<'_> for JitterVisitor {
    type Value = Jitter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`full`, `equal`, `decorrelated`, `none`, or a share from above 0 to 1")
    }

    fn visit_f64<E: de::Error>(self, share: f64) -> Result<Jitter, E> {
        let is_share = share > 0.0 && share <= 1.0;
        let wrong = || E::invalid_value(de::Unexpected::Float(share), &self);
        if is_share { Ok(Jitter(retry::Jitter::Share(share))) } else { Err(wrong()) }
    }

    fn visit_u64<E: de::Error>(self, share: u64) -> Result<Jitter, E> {
        if share == 1 { self.visit_f64(1.0) } else { Err(E::invalid_value(de::Unexpected::Unsigned(share), &self)) }
    }

    fn visit_i64<E: de::Error>(self, share: i64) -> Result<Jitter, E> {
        if share == 1 { self.visit_f64(1.0) } else { Err(E::invalid_value(de::Unexpected::Signed(share), &self)) }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Jitter, E> {
        let known = JITTERS.iter().find(|(word, ..)| *word == text);
        known.map(|(_, jitter, _)| Jitter(*jitter)).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl JsonSchema for Jitter {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Jitter".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word = |(word, _, meaning): &(&str, _, &str)| json!({ "const": word, "description": meaning });
        let words: Vec<Value> = JITTERS.iter().map(word).collect();
        json_schema!({ "anyOf": [{ "oneOf": words }, { "type": "number" }] })
    }
}

single_values!(BreakerWindow, Jitter);
