//! What adaptation decides, and how it is put into words: for logs, for the history, for reports.

use serde_json::{Map, Value};
use tidegate_policy::numbers::LimitNumbers;

use crate::guard_rails::{Cap, rounded};
use crate::numbers_json::numbers_json;

/// What was made of a recommendation, a step of one, or a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it was recommended.
    Applied,
    /// As much of it as may be.
    Capped,
    /// It says what is in force already.
    Unchanged,
    /// It waits for Redis: there are no limits now, or each gateway keeps its own.
    Deferred,
    /// It waits for the end of an attack.
    Frozen,
    /// It is not used.
    Refused,
    /// It would have been applied.
    Shadow,
    /// Its time is over: the numbers before it are back.
    Reverted,
    /// Measurements lower the limit.
    Lowered,
    /// They no longer do.
    Released,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Applied,
        Self::Capped,
        Self::Unchanged,
        Self::Deferred,
        Self::Frozen,
        Self::Refused,
        Self::Shadow,
        Self::Reverted,
        Self::Lowered,
        Self::Released,
    ];

    /// As metrics and the history have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Capped => "capped",
            Self::Unchanged => "unchanged",
            Self::Deferred => "deferred",
            Self::Frozen => "frozen",
            Self::Refused => "refused",
            Self::Shadow => "shadow",
            Self::Reverted => "reverted",
            Self::Lowered => "lowered",
            Self::Released => "released",
        }
    }

    /// Whether other numbers are in force because of it.
    pub fn is_change(self) -> bool {
        match self {
            Self::Applied | Self::Capped | Self::Reverted | Self::Lowered | Self::Released => true,
            Self::Unchanged | Self::Deferred | Self::Frozen | Self::Refused | Self::Shadow => false,
        }
    }
}

/// Something that was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What was made of it.
    pub verdict: Verdict,
    /// The numbers before.
    pub from: LimitNumbers,
    /// The numbers after.
    pub to: LimitNumbers,
    /// In words.
    pub why: String,
    /// The bounds that were reached.
    pub caps: Vec<Cap>,
    /// The rate that the recommendation expects.
    pub predicted: Option<f64>,
}

impl Decision {
    /// Numbers and reason in one line.
    pub fn describe(&self) -> String {
        format!("{}: {} ({})", self.verdict.word(), difference(&self.from, &self.to), self.reason())
    }

    /// What is expected, and what the forecaster or the pilot has to say to it.
    pub fn reason(&self) -> String {
        match self.verdict {
            Verdict::Reverted | Verdict::Lowered | Verdict::Released => return self.why.clone(),
            Verdict::Applied
            | Verdict::Capped
            | Verdict::Unchanged
            | Verdict::Deferred
            | Verdict::Frozen
            | Verdict::Refused
            | Verdict::Shadow => {}
        }
        let forecast = self.predicted.map_or_else(|| "none".to_owned(), |rate| rounded(rate).to_string());
        let why = if self.why.is_empty() { String::new() } else { format!(" ({})", self.why) };
        format!("forecast={forecast} req/s{why}")
    }

    /// As the history keeps it, under this verdict.
    pub fn history_entry(&self, verdict: Verdict) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("verdict".to_owned(), verdict.word().into());
        fields.insert("from".to_owned(), numbers_json(&self.from).into());
        fields.insert("to".to_owned(), numbers_json(&self.to).into());
        let why = [self.why.clone()].into_iter().filter(|why| !why.is_empty());
        let why: Vec<String> = why.chain(self.caps.iter().map(|cap| format!("capped at {cap}"))).collect();
        fields.insert("reason".to_owned(), why.join("; ").into());
        fields
    }
}

/// What differs between two limits: `algorithm=fixed, limit from 100 to 250, window=1`.
pub fn difference(from: &LimitNumbers, to: &LimitNumbers) -> String {
    if from.algorithm() != to.algorithm() {
        return format!("{to} (was {from})");
    }
    let (was, is) = (numbers_json(from), numbers_json(to));
    let changed = |field: &&str| match (was.get(*field), is.get(*field)) {
        (Some(was), Some(is)) if was != is => Some(format!(", {field} from {was} to {is}")),
        (_, Some(is)) => Some(format!(", {field}={is}")),
        (_, None) => None,
    };
    let fields: String = ["limit", "window", "capacity", "fillRate"].iter().filter_map(changed).collect();
    format!("algorithm={}{fields}", to.algorithm())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::numbers_json::numbers;

    #[test]
    fn a_line_says_what_differs() {
        let fixed = numbers(&json!({"algorithm": "fixed", "limit": 100, "window": 1}));
        let more = numbers(&json!({"algorithm": "fixed", "limit": 250, "window": 1}));
        let token = numbers(&json!({"algorithm": "token", "capacity": 200, "fillRate": 50}));
        let faster = numbers(&json!({"algorithm": "token", "capacity": 200, "fillRate": 62.5}));
        for (from, to, line) in [
            (&fixed, &more, "algorithm=fixed, limit from 100 to 250, window=1"),
            (&token, &faster, "algorithm=token, capacity=200, fillRate from 50.0 to 62.5"),
            (&fixed, &token, "algorithm=token, capacity=200, fillRate=50 (was algorithm=fixed, limit=100, window=1)"),
        ] {
            assert_eq!(difference(from, to), line);
        }
    }
}
