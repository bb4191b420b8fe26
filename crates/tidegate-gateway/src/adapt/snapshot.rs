//! What the forecaster is told: how it stands, and what came since it was told last.

use serde_json::{Map, Value, json};
use tidegate_policy::Timestamp;

use super::guard::rounded;
use super::ledger::Period;
use crate::config::numbers::LimitNumbers;

/// What a snapshot tells.
pub(crate) struct Snapshot<'a> {
    pub(crate) at: Timestamp,
    pub(crate) period: &'a Period,
    /// The 95th percentile of the upstream's latency, in seconds.
    pub(crate) p95: Option<f64>,
    pub(crate) in_force: &'a LimitNumbers,
    pub(crate) base: &'a LimitNumbers,
    /// Which series it is of.
    pub(crate) source: &'a str,
    pub(crate) interval_seconds: f64,
    pub(crate) ceiling: f64,
}

impl Snapshot<'_> {
    /// The figures, for the history too.
    pub(crate) fn figures(&self) -> Map<String, Value> {
        let figures = json!({
            "timestamp": unix_seconds(self.at),
            "observedRps": rounded(self.period.rate.unwrap_or(0.0)),
            "rejectedRate": (self.period.refused_share() * 1e4).round() / 1e4,
            "latencyP95": self.p95.map(|p95| (p95 * 1e6).round() / 1e6),
            "errors5xx": self.period.sum.errors,
        });
        let Value::Object(figures) = figures else { return Map::new() };
        figures
    }

    /// As it is sent.
    pub(crate) fn json(&self) -> Value {
        let mut fields = self.figures();
        // Every number is there, as the seed has it: those of other algorithms are null.
        for field in ["limit", "window", "capacity", "fillRate"] {
            fields.insert(field.to_owned(), Value::Null);
        }
        fields.extend(numbers(self.in_force));
        fields.insert("source".to_owned(), self.source.into());
        fields.insert("interval".to_owned(), self.interval_seconds.into());
        fields.insert("base".to_owned(), numbers(self.base).into());
        fields.insert("ceilingRps".to_owned(), rounded(self.ceiling).into());
        if !self.period.series.is_empty() {
            let series = json!({ "start": self.period.start, "step": 1, "offered": self.period.series });
            fields.insert("series".to_owned(), series);
        }
        Value::Object(fields)
    }
}

/// The numbers that count, as JSON.
pub(crate) fn numbers(numbers: &LimitNumbers) -> Map<String, Value> {
    match serde_json::to_value(numbers.relevant()) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A moment in Unix seconds, to the millisecond.
pub(crate) fn unix_seconds(at: Timestamp) -> f64 {
    crate::config::numbers::figure(at.as_nanos() / 1_000_000) / 1_000.0
}
