//! A limit's numbers in JSON: towards the forecaster, in the history, and between gateways.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use tidegate_policy::numbers::{LimitNumbers, Values, seconds};

/// The values that count for a limit's algorithm, as a JSON object.
pub fn numbers_json(numbers: &LimitNumbers) -> Map<String, Value> {
    match serde_json::to_value(NumbersJson::of(numbers)) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// The JSON object. Values that the algorithm has no use for are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NumbersJson {
    algorithm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<Seconds>,
}

impl NumbersJson {
    pub(crate) fn of(numbers: &LimitNumbers) -> Self {
        let numbers = numbers.relevant();
        let Values { limit, window, capacity, fill_rate, hold } = *numbers.values();
        let (window, hold) = (window.map(Seconds), hold.map(Seconds));
        Self { algorithm: numbers.algorithm().name().to_owned(), limit, window, capacity, fill_rate, hold }
    }

    /// The numbers, if they make a rule. `soft` is what may come on top of the limit.
    pub(crate) fn read(self, soft: u64) -> Option<LimitNumbers> {
        let Self { algorithm, limit, window, capacity, fill_rate, hold } = self;
        let [window, hold] = [window, hold].map(|seconds| seconds.map(|Seconds(duration)| duration));
        let values = Values { limit, window, capacity, fill_rate, hold };
        LimitNumbers::new(algorithm.parse().ok()?, values, soft).ok()
    }
}

/// A length of time: whole seconds are written without a point.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
struct Seconds(Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.subsec_nanos() == 0 {
            serializer.serialize_u64(self.0.as_secs())
        } else {
            serializer.serialize_f64(self.0.as_secs_f64())
        }
    }
}

impl TryFrom<f64> for Seconds {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, &'static str> {
        seconds(number).map(Self).ok_or("must be between 0 and 10000000000 seconds")
    }
}

/// Numbers from JSON, for tests.
#[cfg(test)]
pub(crate) fn numbers(json: &Value) -> LimitNumbers {
    let read: NumbersJson = serde_json::from_value(json.clone()).expect("numbers in JSON");
    read.read(0).expect("numbers that make a rule")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for text in [
            r#"{"algorithm":"fixed","limit":100,"window":1}"#,
            r#"{"algorithm":"sliding","limit":7,"window":1.111112}"#,
            r#"{"algorithm":"token","capacity":200,"fillRate":62.5}"#,
            r#"{"algorithm":"concurrency","limit":5,"hold":3600}"#,
        ] {
            let read: NumbersJson = serde_json::from_str(text).expect("JSON");
            assert_eq!(serde_json::to_string(&read).expect("JSON"), text);
            assert_eq!(NumbersJson::of(&read.clone().read(0).expect("a rule")), read);
        }
    }

    #[test]
    fn only_the_values_of_the_algorithm_are_written() {
        let token = numbers(&json!({"algorithm": "token", "capacity": 20, "fillRate": 5.0}));
        let fixed = numbers(&json!({"algorithm": "fixed", "limit": 100, "window": 1}));
        let both = token.remembering(&fixed);
        assert_eq!(Value::from(numbers_json(&both)), json!({"algorithm": "token", "capacity": 20, "fillRate": 5.0}));
    }

    #[test]
    fn what_makes_no_rule_is_not_read() {
        for text in [
            r#"{"limit":100,"window":1}"#,
            r#"{"algorithm":"fixed","limit":100,"window":-1}"#,
            r#"{"algorithm":"fixed","limit":100,"window":1e300}"#,
            r#"{"algorithm":"fixed","limit":0,"window":1}"#,
            r#"{"algorithm":"magic","limit":100,"window":1}"#,
            r#"{"algorithm":"fixed","limit":100,"window":1,"unknown":1}"#,
        ] {
            let read: Option<NumbersJson> = serde_json::from_str(text).ok();
            assert_eq!(read.and_then(|read| read.read(0)), None, "{text}");
        }
    }
}
