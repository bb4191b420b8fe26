//! What became of a plan's thresholds.

use serde::Serialize;

use super::Report;
use super::numbers::float;
use super::percentiles::{Percentiles, Reading};
use crate::plan::{Figure, Outcome, Statistic, Threshold};
use crate::status_class::StatusClass;

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// A time.
    Seconds,
    /// From 0 to 1, of the requests whose outcome is known.
    Share,
    /// Requests a second.
    PerSecond,
}

/// What became of a threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    /// As it was written.
    pub threshold: String,
    /// What it bounds. Nothing if there was nothing to measure.
    pub value: Option<f64>,
    /// What the value counts.
    pub unit: Unit,
    /// Whether the value is only known not to be below this.
    #[serde(rename = "atLeast")]
    pub is_at_least: bool,
    /// Whether it is kept to, for certain. Nothing for the rate of a part: it is of the whole plan, and judged when all
    /// parts are there.
    pub holds: Option<bool>,
}

impl Report {
    /// How each threshold of the plan fared.
    pub fn thresholds(&self) -> Vec<Judged> {
        let tally = self.record.all();
        let counts = &tally.counts;
        let all = tally.latency.all();
        // Nothing where it is not known which latencies are of the class.
        let latency = |of: Option<StatusClass>| match of {
            None => Some(Percentiles::latency(&all, counts, self.setting.timeout)),
            Some(class) => tally.latency.of(class).map(|known| Percentiles::of_class(known, counts)),
        };
        // What was unfinished at a stop has no outcome.
        let ended = counts.due() - counts.unfinished;
        let share = |count: u64| (ended > 0).then(|| exactly(float(count) / float(ended)));
        let is_whole = self.missing_parts().is_none();
        let judge = |threshold: &Threshold| {
            let value = match threshold.figure {
                Figure::Latency(statistic, of) => latency(of).and_then(|latency| match statistic {
                    Statistic::Percentile(percent) => latency.at(percent),
                    Statistic::Mean => latency.mean(),
                    Statistic::Max => latency.max(),
                }),
                Figure::Share(Outcome::Success) => share(counts.success()),
                Figure::Share(Outcome::RateLimited) => share(counts.rate_limited()),
                Figure::Share(Outcome::Error) => share(counts.errors()),
                Figure::Share(Outcome::Missed) => share(counts.missed()),
                Figure::Rate => Some(exactly(self.rate(counts.sent()))),
            };
            let holds = value.is_some_and(|at| threshold.holds(at.value) && !(threshold.is_upper && at.is_at_least));
            Judged {
                threshold: threshold.to_string(),
                value: value.map(|at| at.value),
                is_at_least: value.is_some_and(|at| at.is_at_least),
                holds: (is_whole || threshold.figure != Figure::Rate).then_some(holds),
                unit: match threshold.figure {
                    Figure::Latency(..) => Unit::Seconds,
                    Figure::Share(_) => Unit::Share,
                    Figure::Rate => Unit::PerSecond,
                },
            }
        };
        self.setting.thresholds.iter().map(judge).collect()
    }

    /// Whether all of them hold that can be judged.
    pub fn thresholds_hold(&self) -> bool {
        self.thresholds().iter().all(|judged| judged.holds != Some(false))
    }
}

fn exactly(value: f64) -> Reading {
    Reading { value, is_at_least: false }
}
