//! The figures of a report, as scripts read them.

mod series;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tidegate_input::Utc;

use super::judged::Judged;
use super::numbers::seconds;
use super::percentiles::{Percentiles, Reading};
use super::verdict::{PERCENTS, is_mostly_rejected};
use super::{Ended, Report};
use crate::plan::Class;
use crate::record::{Counts, Fine, Tally};
use crate::status_class::StatusClass;
use series::Moment;

/// Everything but what is needed to go on counting.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures<'a> {
    format: &'static str,
    version: &'static str,
    valid: bool,
    reasons: Vec<String>,
    qualifications: Vec<String>,
    test_id: &'a str,
    ended: &'static str,
    started_at: String,
    elapsed_seconds: f64,
    target: &'a str,
    profile: &'a str,
    duration_seconds: f64,
    requests: Requests,
    offered_per_second: f64,
    achieved_per_second: f64,
    mostly_rejected: bool,
    latency_seconds: Times,
    latency_by_status_seconds: ByStatus,
    service_seconds: Times,
    lag_seconds: Lag,
    retries: Retries,
    thresholds: Vec<Judged>,
    thresholds_hold: bool,
    classes: BTreeMap<&'static str, Outcomes>,
    groups: Vec<GroupFigures<'a>>,
    step_seconds: u64,
    series: Vec<Moment>,
    instances: Vec<InstanceFigures<'a>>,
    plan: &'a Value,
}

/// The format that files name.
pub(super) const FORMAT: &str = "tidegate-load-result/2";
/// The format of earlier versions, which is read too. It does not distinguish latencies by status.
pub(super) const EARLIER_FORMAT: &str = "tidegate-load-result/1";

/// Latencies by class of the status, of classes that occurred; nothing if their statuses are not known.
type ByStatus = Option<BTreeMap<&'static str, Times>>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Requests {
    planned: u64,
    sent: u64,
    success: u64,
    rate_limited: u64,
    errors: u64,
    unfinished: u64,
    missed: Missed,
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Missed {
    too_late: u64,
    no_room: u64,
}

impl Requests {
    fn new(counts: &Counts) -> Self {
        Self {
            planned: counts.due(),
            sent: counts.sent(),
            success: counts.success(),
            rate_limited: counts.rate_limited(),
            errors: counts.errors(),
            unfinished: counts.unfinished,
            missed: Missed { too_late: counts.too_late, no_room: counts.no_room },
            statuses: counts.statuses().collect(),
            failures: counts.failures().map(|(cause, count)| (cause.name(), count)).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    /// How many are known.
    count: u64,
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    #[serde(rename = "p99.9")]
    p99_9: Option<f64>,
    max: Option<f64>,
    at_least: Vec<&'static str>,
}

impl Times {
    fn new(times: &Percentiles<'_, u64, 3>, count: u64) -> Self {
        let [p50, p90, p95, p99, p99_9] = PERCENTS.map(|(name, percent)| (name, times.at(percent)));
        let (mean, max) = (("mean", times.mean()), ("max", times.max()));
        let is_bound = |(_, at): &&(&'static str, Option<Reading>)| at.is_some_and(|at| at.is_at_least);
        let all = [mean, p50, p90, p95, p99, p99_9, max];
        let at_least = all.iter().filter(is_bound).map(|(name, _)| *name).collect();
        let [mean, p50, p90, p95, p99, p99_9, max] = all.map(|(_, at)| at.map(|at| at.value));
        Self { count, mean, p50, p90, p95, p99, p99_9, max, at_least }
    }
}

#[derive(Serialize)]
struct Lag {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Lag {
    fn new(lag: &Fine) -> Self {
        let at = |percent| seconds(lag.percentile(percent));
        Self { p50: at(50.0), p99: at(99.0), max: seconds(lag.max()) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcomes {
    requests: Requests,
    latency_seconds: Times,
    latency_by_status_seconds: ByStatus,
    service_seconds: Times,
}

/// What was sent again is never planned, and so never missed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Retries {
    sent: u64,
    success: u64,
    rate_limited: u64,
    errors: u64,
    unfinished: u64,
    given_up: u64,
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<&'static str, u64>,
    service_seconds: Times,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupFigures<'a> {
    name: &'a str,
    class: &'static str,
    #[serde(flatten)]
    outcomes: Outcomes,
    retries: Retries,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InstanceFigures<'a> {
    test_id: &'a str,
    part: Option<String>,
    ended: &'static str,
    started_at: String,
    elapsed_seconds: f64,
    sent: u64,
    lag_p99_seconds: f64,
    notes: &'a [String],
}

fn started_at(millis: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(millis);
    Utc::from(time).with_millis().to_string()
}

impl Report {
    pub(super) fn figures(&self) -> Figures<'_> {
        let (setting, verdict, tally) = (&self.setting, self.verdict(), self.record.all());
        let outcomes = self.outcomes(&tally);
        let thresholds = self.thresholds();
        let first = self.instances.first();
        let elapsed = self.instances.iter().map(|instance| instance.elapsed).max().unwrap_or_default();
        let classes = Class::ALL.into_iter().filter_map(|class| Some((class, self.record.class(class)?)));
        Figures {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            valid: verdict.is_valid(),
            reasons: verdict.reasons,
            qualifications: verdict.qualifications,
            test_id: first.map_or("", |instance| &instance.test_id),
            ended: self.ended().name(),
            started_at: started_at(first.map_or(0, |instance| instance.started_millis)),
            elapsed_seconds: elapsed.as_secs_f64(),
            target: &setting.target,
            profile: &setting.profile,
            duration_seconds: setting.duration.as_secs_f64(),
            requests: outcomes.requests,
            offered_per_second: self.rate(tally.counts.due()),
            achieved_per_second: self.rate(tally.counts.sent()),
            mostly_rejected: is_mostly_rejected(&tally.counts),
            latency_seconds: outcomes.latency_seconds,
            latency_by_status_seconds: outcomes.latency_by_status_seconds,
            service_seconds: outcomes.service_seconds,
            lag_seconds: Lag::new(&self.record.lag),
            retries: self.retries(&self.record.all_retries()),
            thresholds_hold: self.thresholds_hold(),
            thresholds,
            classes: classes.map(|(class, tally)| (class.name(), self.outcomes(&tally))).collect(),
            groups: self.groups(),
            step_seconds: self.record.step.as_secs(),
            series: self.series(),
            instances: self.instance_figures(),
            plan: &setting.plan,
        }
    }

    fn outcomes(&self, tally: &Tally) -> Outcomes {
        let (counts, timeout) = (&tally.counts, self.setting.timeout);
        let latency = tally.latency.all();
        let by_status = StatusClass::ALL.into_iter().map(|class| Some((class, tally.latency.of(class)?)));
        let by_status = by_status.collect::<Option<Vec<_>>>().map(|classes| {
            let times = |known: &Fine| Times::new(&Percentiles::of_class(known, counts), known.len());
            let occurred = classes.into_iter().filter(|(_, known)| !known.is_empty());
            occurred.map(|(class, known)| (class.name(), times(known))).collect()
        });
        Outcomes {
            requests: Requests::new(counts),
            latency_seconds: Times::new(&Percentiles::latency(&latency, counts, timeout), latency.len()),
            latency_by_status_seconds: by_status,
            service_seconds: Times::new(&Percentiles::service(&tally.service, counts, timeout), tally.service.len()),
        }
    }

    fn retries(&self, tally: &Tally) -> Retries {
        let Outcomes { requests, service_seconds, .. } = self.outcomes(tally);
        Retries {
            sent: requests.sent,
            success: requests.success,
            rate_limited: requests.rate_limited,
            errors: requests.errors,
            unfinished: requests.unfinished,
            given_up: tally.counts.given_up,
            statuses: requests.statuses,
            failures: requests.failures,
            service_seconds,
        }
    }

    fn groups(&self) -> Vec<GroupFigures<'_>> {
        let tallies = self.record.groups.iter().zip(&self.record.retries);
        let groups = self.setting.groups.iter().zip(tallies).map(|((name, class), (tally, retries))| GroupFigures {
            name,
            class: class.name(),
            outcomes: self.outcomes(tally),
            retries: self.retries(retries),
        });
        groups.collect()
    }

    fn instance_figures(&self) -> Vec<InstanceFigures<'_>> {
        let figures = self.instances.iter().map(|instance| InstanceFigures {
            test_id: &instance.test_id,
            part: instance.part.map(|part| part.to_string()),
            ended: Ended::name(instance.ended),
            started_at: started_at(instance.started_millis),
            elapsed_seconds: instance.elapsed.as_secs_f64(),
            sent: instance.sent,
            lag_p99_seconds: seconds(instance.lag_p99_micros),
            notes: &instance.notes,
        });
        figures.collect()
    }
}
