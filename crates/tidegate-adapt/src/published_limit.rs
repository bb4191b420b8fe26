//! What the leader publishes for the gateways that share its limit: the numbers to follow, and what they are good for.

use serde::{Deserialize, Serialize};
use tidegate_policy::Timestamp;
use tidegate_policy::numbers::LimitNumbers;

use crate::numbers_json::NumbersJson;
use crate::snapshot::unix_seconds;

/// Numbers to follow.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedLimit {
    /// What is held by recommendation.
    pub numbers: LimitNumbers,
    /// The measured ceiling in requests a second, while it binds: apart, for it passes by itself.
    pub bound: Option<f64>,
    /// When the numbers end by themselves, and which return then: for the next leader.
    pub ends: Option<(Timestamp, LimitNumbers)>,
}

/// As it is published.
#[derive(Serialize, Deserialize)]
struct Wire {
    /// The operator's numbers that these were decided for: a gateway with others does not follow.
    base: NumbersJson,
    numbers: NumbersJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound: Option<f64>,
    /// In Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<(f64, NumbersJson)>,
}

impl PublishedLimit {
    /// The text to publish, for gateways with these numbers of the operator's.
    pub fn text(&self, base: &LimitNumbers) -> String {
        let ends = self.ends.as_ref().map(|(at, numbers)| (unix_seconds(*at), NumbersJson::of(numbers)));
        let numbers = NumbersJson::of(&self.numbers);
        let wire = Wire { base: NumbersJson::of(base), numbers, bound: self.bound, ends };
        serde_json::to_string(&wire).unwrap_or_default()
    }

    /// What a text means for a limit with these numbers of the operator's; none if it is for others, or can't be used.
    pub fn read(text: &[u8], base: &LimitNumbers, soft: u64) -> Option<Self> {
        let wire: Wire = serde_json::from_slice(text).ok()?;
        if wire.base != NumbersJson::of(base) || wire.bound.is_some_and(|bound| !(bound.is_finite() && bound > 0.0)) {
            return None;
        }
        let numbers = |numbers: NumbersJson| Some(numbers.read(soft)?.remembering(base));
        let ends = match wire.ends {
            None => None,
            Some((seconds, then)) if (0.0..1e10).contains(&seconds) => {
                let millis = (seconds * 1e3).round() as u64;
                Some((Timestamp::from_nanos(millis * 1_000_000), numbers(then)?))
            }
            Some(_) => return None,
        };
        Some(Self { numbers: numbers(wire.numbers)?, bound: wire.bound, ends })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbers(limit: u64) -> LimitNumbers {
        crate::numbers_json::numbers(&json!({"algorithm": "fixed", "limit": limit, "window": 1}))
    }

    /// Gateways of different versions read it from Redis.
    #[test]
    fn the_text_is_a_contract() {
        let ends = Some((Timestamp::from_nanos(1_700_000_000_250_000_000), numbers(100)));
        let text = PublishedLimit { numbers: numbers(250), bound: Some(72.9), ends }.text(&numbers(90));
        let fixed = |limit: u64| format!(r#"{{"algorithm":"fixed","limit":{limit},"window":1}}"#);
        let (base, numbers, then) = (fixed(90), fixed(250), fixed(100));
        let ends = format!("[1700000000.25,{then}]");
        assert_eq!(text, format!(r#"{{"base":{base},"numbers":{numbers},"bound":72.9,"ends":{ends}}}"#));
    }

    #[test]
    fn what_is_published_is_what_a_gateway_with_the_same_operators_numbers_reads() {
        let at = Timestamp::from_nanos(1_700_000_000_250_000_000);
        for (ends, bound) in [(None, Some(72.9)), (Some((at, numbers(100))), None)] {
            let published = PublishedLimit { numbers: numbers(250), bound, ends };
            let text = published.text(&numbers(100));
            let read = PublishedLimit::read(text.as_bytes(), &numbers(100), 0);
            assert_eq!(read, Some(published), "{text}");
            assert_eq!(PublishedLimit::read(text.as_bytes(), &numbers(90), 0), None);
        }
    }

    #[test]
    fn garbage_is_not_followed() {
        let ends = Some((Timestamp::default(), numbers(100)));
        let good = PublishedLimit { numbers: numbers(250), bound: Some(72.9), ends }.text(&numbers(100));
        for bad in [
            String::new(),
            "{}".to_owned(),
            good.replace("250", "0"),
            good.replace("250", "-1"),
            good.replace("72.9", "0"),
            good.replace("72.9", "-1e9"),
            good.replace("[0.0", "[-1"),
            good.replace("[0.0", "[1e300"),
        ] {
            assert_ne!(bad, good);
            assert_eq!(PublishedLimit::read(bad.as_bytes(), &numbers(100), 0), None, "{bad}");
        }
    }
}
