//! The results of an experiment, for machines (JSON) and people (a page that needs nothing else).

mod load;
mod page;
mod status;

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_load::Class;

use crate::observation::{Observation, Row, count};
use crate::pool_record::PoolRecord;
use crate::rounding::rounded;
use crate::run::{Exempt, Instead, Outcome};
use crate::scenario::{Expectation, Scenario, TargetModel, Variant};
use crate::scores::{FORMULAS, POLICY_FORMULAS, POOL_FORMULAS, Scores, peaks};

pub use page::page;
pub use status::Status;

/// How an experiment was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In simulated time.
    Simulated,
    /// With real sockets.
    Live,
    /// With real sockets, as a demonstration.
    Demo,
}

impl Kind {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Live => "live",
            Self::Demo => "demo",
        }
    }
}

/// An experiment: scenarios and their runs.
#[derive(Debug)]
pub struct Report {
    kind: Kind,
    seed: Option<u64>,
    scenarios: Vec<ScenarioReport>,
    /// Where and when it was made. Simulated time depends on neither.
    setting: Option<Setting>,
    is_interrupted: bool,
}

/// Where and when an experiment was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// RFC 3339.
    pub created_at: String,
    /// Processors.
    pub cpus: usize,
    /// Such as `Linux 6.1 x86_64`.
    pub system: String,
}

/// A scenario and the results of its runs.
#[derive(Debug)]
struct ScenarioReport {
    scenario: Scenario,
    runs: Vec<Run>,
}

/// A run and its results.
#[derive(Debug)]
pub struct Run {
    /// Which one.
    pub variant: Variant,
    /// Its figures; none if it was not made.
    pub scores: Option<Scores>,
    /// What was expected, and what was found.
    pub expectations: Vec<Checked>,
    /// What is wrong with the run itself, so that its figures prove nothing.
    pub fault: Option<String>,
    /// What must be known to read its figures, a sentence each.
    pub notes: Vec<String>,
    value: Value,
}

/// An expectation and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What was expected.
    pub expectation: Expectation,
    /// The figure that was found; none where the run has no such figure.
    pub value: Option<f64>,
}

impl Checked {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.value.is_some_and(|value| self.expectation.comparison.holds(value))
    }
}

impl Run {
    /// A run by what was seen of it.
    pub fn of(scenario: &Scenario, variant: Variant, outcome: &Outcome, kind: Kind, fault: Option<String>) -> Self {
        let scores = Scores::of(scenario, outcome);
        let is_live = kind != Kind::Simulated;
        let applies = |expectation: &&Expectation| expectation.applies(scenario, variant, is_live);
        let checked = |expectation: &Expectation| Checked {
            expectation: expectation.clone(),
            value: scores.compared(&expectation.comparison),
        };
        let expectations: Vec<Checked> = scenario.expectations.iter().filter(applies).map(checked).collect();
        let value = value_of(scenario, variant, outcome, &scores);
        let notes = outcome.exempt.iter().map(Exempt::sentence).collect();
        Self { variant, scores: Some(scores), expectations, fault, notes, value }
    }

    /// One that was not made.
    pub fn skipped(scenario: &Scenario, variant: Variant, why: String) -> Self {
        let value = json!({ "numbers": numbers(scenario, variant) });
        Self { variant, scores: None, expectations: Vec::new(), fault: Some(why), notes: Vec::new(), value }
    }

    /// What came of it.
    pub fn status(&self) -> Status {
        match (&self.scores, &self.fault) {
            (None, _) => Status::Skipped,
            (Some(_), Some(_)) => Status::Invalid,
            (Some(_), None) if self.expectations.iter().all(Checked::holds) => Status::Passed,
            (Some(_), None) => Status::Failed,
        }
    }

    fn to_json(&self, scenario: &Scenario) -> Value {
        let mut run = self.value.clone();
        run["id"] = self.variant.id(scenario).into();
        run["algorithm"] = self.variant.algorithm.map(tidegate_policy::Algorithm::name).into();
        run["adaptation"] = self.variant.adaptation.into();
        run["variant"] = self.variant.configuration(scenario).into();
        run["status"] = self.status().name().into();
        run["reason"] = self.fault.clone().into();
        run["notes"] = self.notes.clone().into();
        let checked = |checked: &Checked| {
            let comparison = &checked.expectation.comparison;
            let value = checked.value.map(|value| comparison.figure.shown(value));
            json!({ "text": comparison.to_string(), "passed": checked.holds(), "value": value })
        };
        run["expectations"] = self.expectations.iter().map(checked).collect();
        run
    }
}

impl Report {
    /// An empty one.
    pub fn new(kind: Kind, seed: Option<u64>, setting: Option<Setting>) -> Self {
        Self { kind, seed, scenarios: Vec::new(), setting, is_interrupted: false }
    }

    /// With the runs of another scenario.
    pub fn push(&mut self, scenario: Scenario, runs: Vec<Run>) {
        self.scenarios.push(ScenarioReport { scenario, runs });
    }

    /// Marks it as ended before its time.
    pub fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = (&Scenario, &Run)> {
        self.scenarios.iter().flat_map(|report| report.runs.iter().map(|run| (&report.scenario, run)))
    }

    /// Whether everything was run, and every expectation holds.
    pub fn is_passed(&self) -> bool {
        !self.is_interrupted && self.runs().all(|(_, run)| run.status() == Status::Passed)
    }

    /// For machines; the page reads it too.
    pub fn to_json(&self) -> Value {
        let of = |status: Status| self.runs().filter(|(_, run)| run.status() == status).count();
        let formula = |(name, text): &(&str, &str)| json!({ "name": name, "text": text });
        let setting = self.setting.as_ref();
        let has_pool = |scenario: &Scenario| scenario.upstream.is_some() || scenario.gateway.is_some();
        let has_pools = self.scenarios.iter().any(|report| has_pool(&report.scenario));
        let of_pools = if has_pools { &POOL_FORMULAS[..] } else { &[] };
        let has_policies = self.scenarios.iter().any(|report| report.scenario.gateway.is_some());
        let of_policies = if has_policies { &POLICY_FORMULAS[..] } else { &[] };
        json!({
            "format": "tidegate-lab-report/1",
            "version": env!("CARGO_PKG_VERSION"),
            "kind": self.kind.name(),
            "createdAt": setting.map(|setting| &setting.created_at),
            "seed": self.seed.or_else(|| self.scenarios.first().map(|report| report.scenario.seed)),
            "environment": setting.map(|setting| json!({ "cpus": setting.cpus, "system": setting.system })),
            "verdict": {
                "passed": self.is_passed(),
                "runs": self.runs().count(),
                "passedRuns": of(Status::Passed),
                "failedRuns": of(Status::Failed),
                "invalidRuns": of(Status::Invalid),
                "skippedRuns": of(Status::Skipped),
                "interrupted": self.is_interrupted,
            },
            "formulas": FORMULAS.iter().chain(of_pools).chain(of_policies).map(formula).collect::<Vec<_>>(),
            "scenarios": self.scenarios.iter().map(ScenarioReport::to_json).collect::<Vec<_>>(),
        })
    }
}

impl ScenarioReport {
    fn to_json(&self) -> Value {
        let scenario = &self.scenario;
        let weights: f64 = scenario.plan.clients.iter().map(|group| group.weight).sum();
        let client = |group: &tidegate_load::Group| {
            let share = rounded(group.weight / weights);
            json!({ "name": group.name, "class": group.class.name(), "count": group.count, "share": share })
        };
        let fault = |fault: &crate::scenario::Fault| {
            let (at, until) = (fault.at.as_secs_f64(), fault.until.as_secs_f64());
            let label = fault.kind.label(&scenario.target_names);
            json!({ "at": at, "until": until, "kind": fault.kind.name(), "label": label })
        };
        json!({
            "name": scenario.name,
            "title": scenario.title,
            "description": scenario.about.trim(),
            "duration": scenario.duration().as_secs_f64(),
            "seed": scenario.seed,
            "capacity": rounded(scenario.capacity()),
            "objective": scenario.objective.as_secs_f64(),
            "limit": scenario.limit.map(|limit| json!({
                "rate": limit.rate, "window": limit.window, "burst": limit.burst,
                "key": if limit.is_per_client { "client" } else { "global" },
            })),
            "load": load::in_words(scenario),
            "clients": scenario.plan.clients.iter().map(client).collect::<Vec<_>>(),
            "target": targets_in_words(scenario),
            "store": scenario.store.name(),
            "faults": scenario.faults.iter().map(fault).collect::<Vec<_>>(),
            "runs": self.runs.iter().map(|run| run.to_json(scenario)).collect::<Vec<_>>(),
        })
    }
}

/// `4 workers, 5 ms each, 64 may wait`; several that are alike together, those with names one by one.
fn targets_in_words(scenario: &Scenario) -> String {
    let targets = &scenario.targets;
    let one = |target: &TargetModel| {
        let millis = rounded(target.service_time.mean().as_secs_f64() * 1e3);
        format!("{} workers, {millis} ms each, {} may wait", target.workers, target.queue)
    };
    if !scenario.target_names.is_empty() {
        let named = scenario.target_names.iter().zip(targets);
        return named.map(|(name, target)| format!("{name}: {}", one(target))).collect::<Vec<_>>().join("; ");
    }
    let alike = targets.chunk_by(|one, other| one == other).map(|group| match group {
        [only] => one(only),
        [first, ..] => format!("{} targets with {}", group.len(), one(first)),
        [] => String::new(),
    });
    alike.collect::<Vec<_>>().join("; ")
}

fn numbers(scenario: &Scenario, variant: Variant) -> Value {
    if scenario.gateway.is_some() {
        return Value::Null;
    }
    let numbers = variant.algorithm.zip(scenario.limit).and_then(|(algorithm, limit)| limit.numbers(algorithm).ok());
    numbers.map_or_else(|| "no limit".into(), |numbers| numbers.to_string().into())
}

fn value_of(scenario: &Scenario, variant: Variant, outcome: &Outcome, scores: &Scores) -> Value {
    let all = outcome.observation.total().all();
    let peak = |peak: &crate::scores::Peak| {
        json!({
            "at": peak.at, "until": peak.until, "offered": peak.offered, "action": peak.action(scenario.rate()),
            "limitBefore": peak.limit_before, "limitDuring": peak.limit_during,
            "predicted": peak.predicted.map(rounded), "actual": peak.offered,
            "targetP95": peak.target_p95, "targetErrors": peak.target_errors,
        })
    };
    let event =
        |event: &crate::run::Event| json!({ "at": rounded(event.at), "kind": event.kind.name(), "text": event.text });
    let latency = scores.latency.map(|it| {
        json!({
            "mean": it.mean, "p50": it.p50, "p90": it.p90, "p95": it.p95, "p99": it.p99, "p999": it.p999,
            "max": it.max,
        })
    });
    let mut value = json!({
        "numbers": numbers(scenario, variant),
        "totals": {
            "offered": all.offered, "admitted": all.admitted(), "refused": all.rejected, "good": all.good,
            "targetErrors": all.target_errors, "errors": all.errors,
        },
        "scores": {
            "protection": scores.protection.map(rounded), "goodput": scores.goodput.map(rounded),
            "worstWindow": scores.worst_window.map(rounded), "overAdmitted": scores.over_admitted.map(rounded),
            "underAdmitted": scores.under_admitted.map(rounded), "fairness": scores.fairness.map(rounded),
            "refusedShare": rounded(scores.refused), "refusedHonest": scores.refused_honest.map(rounded),
            "refusedAttackers": scores.refused_attackers.map(rounded),
            "targetErrorShare": rounded(scores.target_errors),
            "recoverySeconds": scores.recovery.map(rounded), "peakStability": scores.peak_stability.map(rounded),
            "refusedInOutage": scores.refused_in_outage.map(rounded),
            "limitingBackSeconds": scores.limiting_back.map(rounded), "latency": latency,
        },
        "gateway": outcome.gateway.map(|gateway| json!({
            "cpuSeconds": rounded(gateway.cpu_seconds),
            "cpuPerRequest": gateway.cpu_seconds / count(all.offered.max(1)),
            "refusalP99": gateway.rejection_p99,
        })),
        "series": series(&outcome.observation, outcome),
        "exempt": outcome.exempt.iter().map(exempt).collect::<Vec<_>>(),
        "peaks": peaks(scenario, outcome).iter().map(peak).collect::<Vec<_>>(),
        "events": outcome.events.iter().map(event).collect::<Vec<_>>(),
    });
    if outcome.policies.is_some() {
        value["scores"]["served"] = scores.served.map(rounded).into();
        value["scores"]["amplification"] = scores.amplification.map(rounded).into();
        value["scores"]["failedWaitSeconds"] = scores.failed_wait.map(rounded).into();
        value["scores"]["openAfterSeconds"] = scores.open_after.map(rounded).into();
        let group = |group: &crate::scores::GroupScores| {
            let (served, slowdown) = (group.served.map(rounded), group.slowdown.map(rounded));
            json!({ "name": group.name, "served": served, "slowdown": slowdown })
        };
        value["groups"] = scores.groups.iter().map(group).collect();
    }
    if let Some(targets) = &outcome.targets {
        value["scores"]["failedAttempts"] = scores.failed_attempts.map(rounded).into();
        value["scores"]["spread"] = scores.spread.map(rounded).into();
        value["scores"]["loadBackSeconds"] = scores.load_back.map(rounded).into();
        value["targets"] = targets_json(targets);
    }
    value
}

/// Each target: attempts in all, and those that succeeded by second.
fn targets_json(targets: &PoolRecord) -> Value {
    let each = targets.totals().into_iter().zip(targets.successes()).enumerate();
    let each = each.map(|(index, ((weight, successes, failures), series))| {
        let (name, upstream) = targets.place(index);
        json!({
            "name": name, "upstream": upstream, "weight": weight.get(), "requests": successes + failures,
            "successes": successes, "failures": failures, "series": series,
        })
    });
    each.collect()
}

fn exempt(exempt: &Exempt) -> Value {
    json!({
        "from": rounded(exempt.from), "until": rounded(exempt.until), "reason": exempt.instead.reason(),
        "label": match exempt.instead {
            Instead::AdmitsAll => "no limit, not scored",
            Instead::RejectsAll => "all rejected, not scored",
        },
        "admitted": exempt.admitted, "refused": exempt.rejected,
    })
}

/// The limit by step; none where part of a step had no limit, because more may have been admitted in it.
fn limits(observation: &Observation, outcome: &Outcome) -> Vec<Option<f64>> {
    let limits = outcome.levels.limit.iter().enumerate();
    let limits = limits.map(|(index, limit)| {
        let begins = count(index as u64 * observation.step);
        limit.filter(|_| outcome.unlimited_share(begins, begins + observation.seconds_of(index)) <= 0.0)
    });
    limits.collect()
}

fn series(observation: &Observation, outcome: &Outcome) -> Value {
    let step = count(observation.step);
    let rate = |of: &dyn Fn(&Row) -> u64| -> Vec<f64> {
        observation.rows.iter().map(|row| rounded(count(of(row)) / step)).collect()
    };
    let latency =
        |percent: f64| -> Vec<Option<f64>> { observation.rows.iter().map(|row| row.latency(percent)).collect() };
    let levels = &outcome.levels;
    let has_forecast = levels.forecast.iter().any(Option::is_some);
    let forecast = |of: fn(&crate::run::Band) -> f64| {
        let values = levels.forecast.iter().map(|band| band.as_ref().map(|band| rounded(of(band))));
        has_forecast.then(|| values.collect::<Vec<_>>())
    };
    let attackers = observation.rows.iter().any(|row| row.of_class(Class::Attacker).offered > 0);
    json!({
        "step": observation.step,
        "offered": rate(&|row| row.all().offered),
        "admitted": rate(&|row| row.all().admitted()),
        "refused": rate(&|row| row.all().rejected),
        "good": rate(&|row| row.all().good),
        "errors": rate(&|row| row.all().target_errors + row.all().errors),
        "offeredByAttackers": attackers.then(|| rate(&|row| row.attackers.offered)),
        "limit": limits(observation, outcome),
        "forecast": forecast(|band| band.middle),
        "forecastLow": forecast(|band| band.low),
        "forecastHigh": forecast(|band| band.high),
        "p50": latency(50.0),
        "p95": latency(95.0),
        "p99": latency(99.0),
        "busy": levels.busy,
        "queue": levels.queue,
    })
}

/// How long an experiment takes at least, if it is live.
pub fn live_time(scenarios: &[Scenario]) -> Duration {
    scenarios.iter().map(|scenario| scenario.duration() * Variant::all(scenario).len() as u32).sum()
}
