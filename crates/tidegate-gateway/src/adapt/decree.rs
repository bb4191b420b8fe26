//! What the gateway that adapts publishes for those that share the limit: the numbers, and what they are good for.

use serde::{Deserialize, Serialize};
use tidegate_policy::Timestamp;

use super::snapshot::unix_seconds;
use crate::config::model::Numbers;
use crate::config::numbers::LimitNumbers;

/// Numbers to follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decree {
    /// The operator's numbers that they were decided for: whoever has others does not follow.
    base: Numbers,
    /// What is held by recommendation.
    numbers: Numbers,
    /// The measured ceiling, while it binds: apart, for it passes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound: Option<f64>,
    /// When they end by themselves, in Unix seconds, and which return then: for whoever takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<(f64, Numbers)>,
}

/// A decree as a limit can have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decreed {
    pub(crate) numbers: LimitNumbers,
    /// The measured ceiling, in requests a second.
    pub(crate) bound: Option<f64>,
    pub(crate) ends: Option<(Timestamp, LimitNumbers)>,
}

impl Decree {
    pub(crate) fn new(base: &LimitNumbers, decreed: Decreed) -> Self {
        let ends = decreed.ends.map(|(at, numbers)| (unix_seconds(at), numbers.relevant()));
        Self { base: base.relevant(), numbers: decreed.numbers.relevant(), bound: decreed.bound, ends }
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a text means for a limit with these numbers of the operator's; none if it is for others, or can't be used.
    pub(crate) fn read(text: &[u8], base: &LimitNumbers, soft: u64) -> Option<Decreed> {
        let decree: Self = serde_json::from_slice(text).ok()?;
        if decree.base != base.relevant() || decree.bound.is_some_and(|bound| !(bound.is_finite() && bound > 0.0)) {
            return None;
        }
        let numbers = |numbers: Numbers| Some(LimitNumbers::new(numbers, soft).ok()?.remembering(base));
        let ends = match decree.ends {
            None => None,
            Some((seconds, then)) if (0.0..1e10).contains(&seconds) => {
                let millis = (seconds * 1e3).round() as u64;
                Some((Timestamp::from_nanos(millis * 1_000_000), numbers(then)?))
            }
            Some(_) => return None,
        };
        Some(Decreed { numbers: numbers(decree.numbers)?, bound: decree.bound, ends })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(limit: u64) -> LimitNumbers {
        let json = format!(r#"{{"algorithm": "fixed", "limit": {limit}, "window": 1}}"#);
        LimitNumbers::new(serde_json::from_str(&json).expect("JSON"), 0).expect("numbers")
    }

    #[test]
    fn what_is_published_is_what_is_read_by_who_has_the_same_operator() {
        let at = Timestamp::from_nanos(1_700_000_000_250_000_000);
        for (ends, bound) in [(None, Some(72.9)), (Some((at, numbers(100))), None)] {
            let decreed = Decreed { numbers: numbers(250), bound, ends };
            let text = Decree::new(&numbers(100), decreed.clone()).text();
            let read = Decree::read(text.as_bytes(), &numbers(100), 0);
            assert_eq!(read, Some(decreed), "{text}");
            assert_eq!(Decree::read(text.as_bytes(), &numbers(90), 0), None);
        }
    }

    #[test]
    fn garbage_is_not_followed() {
        let ends = Some((Timestamp::default(), numbers(100)));
        let good = Decree::new(&numbers(100), Decreed { numbers: numbers(250), bound: Some(72.9), ends }).text();
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
            assert_eq!(Decree::read(bad.as_bytes(), &numbers(100), 0), None, "{bad}");
        }
    }
}
