//! The course of a run: figures by step of the intended time.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::Class;
use crate::record::{Step, StepTally};
use crate::report::Report;
use crate::report::percentiles::Percentiles;

#[derive(Serialize)]
pub(super) struct Moment {
    second: u64,
    #[serde(flatten)]
    classes: BTreeMap<&'static str, MomentFigures>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MomentFigures {
    sent: u64,
    success: u64,
    rate_limited: u64,
    errors: u64,
    missed: u64,
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    at_least: Vec<&'static str>,
}

impl Report {
    pub(super) fn series(&self) -> Vec<Moment> {
        let classes = Class::ALL.into_iter().filter_map(|class| Some((class, self.record.class(class)?.latency.max())));
        let classes: Vec<(Class, u64)> = classes.collect();
        let moment = |(index, step): (u64, &Step)| Moment {
            second: index * self.record.step.as_secs(),
            classes: classes
                .iter()
                .map(|(class, longest)| (class.name(), self.moment(step, *class, *longest)))
                .collect(),
        };
        (0..).zip(&self.record.steps).map(moment).collect()
    }

    /// None of it took longer than the longest of its class.
    fn moment(&self, step: &Step, class: Class, longest: u64) -> MomentFigures {
        let StepTally { counts, latency } = step.of(class);
        let latency = Percentiles::latency(latency, counts, self.setting.timeout).within(longest);
        let [p50, p99] = [("p50Seconds", 50.0), ("p99Seconds", 99.0)].map(|(name, at)| (name, latency.at(at)));
        let bounds = [p50, p99].into_iter().filter(|(_, at)| at.is_some_and(|at| at.is_at_least));
        MomentFigures {
            sent: counts.sent(),
            success: counts.success(),
            rate_limited: counts.rate_limited(),
            errors: counts.errors(),
            missed: counts.missed(),
            p50_seconds: p50.1.map(|at| at.value),
            p99_seconds: p99.1.map(|at| at.value),
            at_least: bounds.map(|(name, _)| name).collect(),
        }
    }
}
