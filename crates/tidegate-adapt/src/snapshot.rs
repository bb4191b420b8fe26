//! What is sent to the forecaster: the limit as it is, and what came since the last snapshot.

use serde_json::{Map, Value, json};
use tidegate_policy::Timestamp;
use tidegate_policy::numbers::LimitNumbers;

use crate::guard_rails::rounded;
use crate::numbers_json::numbers_json;
use crate::recent_seconds::Period;
use crate::second::figure;

/// What is sent to the forecaster.
pub struct Snapshot<'a> {
    /// When it was made.
    pub at: Timestamp,
    /// What the forecaster does not know yet.
    pub period: &'a Period,
    /// The 95th percentile of the upstream's latency, in seconds.
    pub p95: Option<f64>,
    /// The numbers in force.
    pub in_force: &'a LimitNumbers,
    /// The operator's numbers.
    pub base: &'a LimitNumbers,
    /// The name of the series.
    pub source: &'a str,
    /// How often the forecaster is asked.
    pub interval_seconds: f64,
    /// Requests a second that the limit is never raised above.
    pub ceiling: f64,
}

impl Snapshot<'_> {
    /// The figures, for the history too.
    pub fn figures(&self) -> Map<String, Value> {
        let figures = json!({
            "timestamp": unix_seconds(self.at),
            "observedRps": rounded(self.period.rate.unwrap_or(0.0)),
            "rejectedRate": (self.period.rejected_share() * 1e4).round() / 1e4,
            "latencyP95": self.p95.map(|p95| (p95 * 1e6).round() / 1e6),
            "errors5xx": self.period.sum.errors,
        });
        let Value::Object(figures) = figures else { return Map::new() };
        figures
    }

    /// As it is sent.
    pub fn json(&self) -> Value {
        let mut fields = self.figures();
        // Every value is there: those of other algorithms are null.
        for field in ["limit", "window", "capacity", "fillRate"] {
            fields.insert(field.to_owned(), Value::Null);
        }
        fields.extend(numbers_json(self.in_force));
        fields.insert("source".to_owned(), self.source.into());
        fields.insert("interval".to_owned(), self.interval_seconds.into());
        fields.insert("base".to_owned(), numbers_json(self.base).into());
        fields.insert("ceilingRps".to_owned(), rounded(self.ceiling).into());
        if !self.period.series.is_empty() {
            let series = json!({ "start": self.period.start, "step": 1, "offered": self.period.series });
            fields.insert("series".to_owned(), series);
        }
        Value::Object(fields)
    }
}

/// A moment in Unix seconds, to the millisecond.
pub fn unix_seconds(at: Timestamp) -> f64 {
    figure(at.as_nanos() / 1_000_000) / 1_000.0
}
