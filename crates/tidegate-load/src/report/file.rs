//! Reports as files: the figures, and behind them all that was recorded, so that reports can be read again and merged
//! exactly.
//!
//! Of a file that is read only the record counts, and the plan as it is shown; figures are computed anew. Nothing of it
//! is believed: what a record can't be is an error, and so is one whose parts don't fit each other.

mod bounded;
mod counted;
mod instances;

use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Report;
use super::figures::{EARLIER_FORMAT, FORMAT};
use super::instance::LONGEST_ID;
use super::setting::{LONGEST_TARGET, MOST_THRESHOLDS, Setting};
use crate::plan::{Class, MOST_GROUPS, Threshold, is_name};
use crate::record::{Counts, Fine, MOST_A_STEP, MOST_REQUESTS, MOST_STEPS, Record, Step};
use bounded::{Shown, at_most};
use counted::{StepTallyText, TallyText};
use instances::InstanceText;

/// The most runs that are merged.
pub(super) const MOST_INSTANCES: usize = 1_000;
/// The most pairs of a histogram; none of ours can have as many.
const MOST_PAIRS: usize = 30_000;
/// The longest plan, in microseconds: a week.
const LONGEST_MICROS: u64 = 604_800_000_000;

/// Why a file is not a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidReport(String);

impl fmt::Display for InvalidReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is not a result of tidegate load: {}", self.0)
    }
}

impl std::error::Error for InvalidReport {}

fn invalid(reason: impl Into<String>) -> InvalidReport {
    // Reasons may repeat what the file says, and are printed.
    let printable = |character: char| if character.is_control() { '?' } else { character };
    InvalidReport(reason.into().chars().take(300).map(printable).collect())
}

/// What is read of a file; the rest is for people.
#[derive(Deserialize)]
struct Document {
    format: String,
    plan: Shown,
    record: RecordText,
}

/// A record as it is written.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecordText {
    plan_digest: String,
    target: String,
    profile: String,
    duration_micros: u64,
    timeout_micros: u64,
    lag_budget_micros: u64,
    max_lag_micros: u64,
    concurrency: u64,
    #[serde(deserialize_with = "at_most::<_, _, MOST_THRESHOLDS>")]
    thresholds: Vec<String>,
    #[serde(deserialize_with = "at_most::<_, _, MOST_INSTANCES>")]
    instances: Vec<InstanceText>,
    #[serde(deserialize_with = "at_most::<_, _, MOST_GROUPS>")]
    groups: Vec<GroupText>,
    #[serde(deserialize_with = "at_most::<_, _, { MOST_STEPS as usize }>")]
    steps: Vec<StepText>,
    #[serde(deserialize_with = "at_most::<_, _, MOST_PAIRS>")]
    lag: Vec<(u64, u64)>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupText {
    name: String,
    is_attacker: bool,
    requests: TallyText,
    retries: TallyText,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    #[serde(default, skip_serializing_if = "StepTallyText::is_empty")]
    honest: StepTallyText,
    #[serde(default, skip_serializing_if = "StepTallyText::is_empty")]
    attacker: StepTallyText,
}

impl Report {
    /// The most bytes of a file. An hour of two classes, ten thousand requests a second, takes some 60 MB, a minute
    /// one.
    pub const MOST_BYTES: u64 = 512 << 20;

    /// As a file.
    pub fn write(&self) -> Vec<u8> {
        let figures = serde_json::to_string_pretty(&self.figures()).expect("names are text, and numbers finite");
        let record = serde_json::to_string(&self.text()).expect("names are text");
        // The figures are for people too; of the record a line each number would be too long for anybody.
        let figures = figures.trim_end().strip_suffix('}').unwrap_or(&figures).trim_end();
        format!("{figures},\n  \"record\": {record}\n}}\n").into_bytes()
    }

    /// Reads what [`write`](Self::write) wrote, and believes none of it.
    pub fn read(bytes: &[u8]) -> Result<Self, InvalidReport> {
        if bytes.len() as u64 > Self::MOST_BYTES {
            return Err(invalid(format!("it is longer than {} MiB", Self::MOST_BYTES >> 20)));
        }
        let document: Document = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        if ![FORMAT, EARLIER_FORMAT].contains(&document.format.as_str()) {
            let found = &document.format;
            return Err(invalid(format!("its format is {found:?}; {FORMAT:?} and {EARLIER_FORMAT:?} can be read")));
        }
        if !document.plan.0.is_object() {
            return Err(invalid("`plan` must be an object"));
        }
        document.record.report(document.plan.0)
    }

    fn text(&self) -> RecordText {
        let (setting, record) = (&self.setting, &self.record);
        let micros = |time: Duration| time.as_micros() as u64;
        let tallies = record.groups.iter().zip(&record.retries);
        let groups = setting.groups.iter().zip(tallies).map(|((name, class), (requests, retries))| GroupText {
            name: name.clone(),
            is_attacker: *class == Class::Attacker,
            requests: requests.into(),
            retries: retries.into(),
        });
        let instances = self.instances.iter().map(InstanceText::from);
        let step = |step: &Step| StepText { honest: (&step.honest).into(), attacker: (&step.attacker).into() };
        RecordText {
            plan_digest: format!("{:016x}", setting.digest),
            target: setting.target.clone(),
            profile: setting.profile.clone(),
            duration_micros: micros(setting.duration),
            timeout_micros: micros(setting.timeout),
            lag_budget_micros: micros(setting.lag_budget),
            max_lag_micros: micros(setting.max_lag),
            concurrency: setting.concurrency,
            thresholds: setting.thresholds.iter().map(ToString::to_string).collect(),
            instances: instances.collect(),
            groups: groups.collect(),
            steps: record.steps.iter().map(step).collect(),
            lag: record.lag.pairs().collect(),
        }
    }
}

/// Whether it can be printed, as one line.
fn is_line(text: &str, longest: usize) -> bool {
    text.chars().count() <= longest && !text.chars().any(char::is_control)
}

impl RecordText {
    fn report(self, plan: Value) -> Result<Report, InvalidReport> {
        let setting = self.setting(plan)?;
        let classes: Vec<Class> = setting.groups.iter().map(|(_, class)| *class).collect();
        let mut record = Record::new(setting.duration, &classes);
        for (index, group) in self.groups.iter().enumerate() {
            let wrong = |part: &str, reason: &str| invalid(format!("`groups[{index}].{part}` {reason}"));
            record.groups[index] = group.requests.tally().map_err(|reason| wrong("requests", reason))?;
            record.retries[index] = group.retries.tally().map_err(|reason| wrong("retries", reason))?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            let wrong = |part: &str, reason: &str| invalid(format!("`steps[{index}].{part}` {reason}"));
            record.steps.push(Step {
                honest: step.honest.tally().map_err(|reason| wrong("honest", reason))?,
                attacker: step.attacker.tally().map_err(|reason| wrong("attacker", reason))?,
            });
        }
        record.lag = Fine::from_pairs(&self.lag).map_err(|reason| invalid(format!("`lag` {reason}")))?;
        let instances = self.instances.into_iter().map(InstanceText::instance).collect::<Result<Vec<_>, _>>()?;
        let report = Report { setting, record, instances };
        report.check_fit()?;
        Ok(report)
    }

    fn setting(&self, plan: Value) -> Result<Setting, InvalidReport> {
        let times = [self.timeout_micros, self.lag_budget_micros, self.max_lag_micros];
        let problem = if !(1..=LONGEST_MICROS).contains(&self.duration_micros) {
            "`durationMicros` is not within a week"
        } else if times.iter().any(|micros| *micros > LONGEST_MICROS) {
            "`timeoutMicros`, `lagBudgetMicros` or `maxLagMicros` is not within a week"
        } else if !is_line(&self.target, LONGEST_TARGET) || !is_line(&self.profile, LONGEST_ID) {
            "`target` or `profile` is too long, or can't be printed"
        } else if self.groups.is_empty() {
            "`groups` is empty"
        } else if !self.groups.iter().all(|group| is_name(&group.name)) {
            "`groups` has an invalid name"
        } else if self.instances.is_empty() {
            "`instances` is empty"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(invalid(problem));
        }
        let digest = u64::from_str_radix(&self.plan_digest, 16)
            .map_err(|_| invalid("`planDigest` must be a hexadecimal number of 64 bits"))?;
        let thresholds = self.thresholds.iter().map(|text| Threshold::from_str(text));
        let thresholds = thresholds.collect::<Result<_, _>>().map_err(|error| invalid(error.to_string()))?;
        let class = |group: &GroupText| if group.is_attacker { Class::Attacker } else { Class::Honest };
        Ok(Setting {
            digest,
            target: self.target.clone(),
            profile: self.profile.clone(),
            duration: Duration::from_micros(self.duration_micros),
            timeout: Duration::from_micros(self.timeout_micros),
            lag_budget: Duration::from_micros(self.lag_budget_micros),
            max_lag: Duration::from_micros(self.max_lag_micros),
            concurrency: self.concurrency,
            thresholds,
            groups: self.groups.iter().map(|group| (group.name.clone(), class(group))).collect(),
            plan,
        })
    }
}

impl Report {
    /// Whether the parts of a record that was read are of one and the same.
    fn check_fit(&self) -> Result<(), InvalidReport> {
        let record = &self.record;
        let sums =
            [&record.groups, &record.retries].map(|tallies| tallies.iter().map(|tally| tally.counts.total()).sum());
        if sums.iter().any(|sum: &u64| *sum > MOST_REQUESTS) {
            return Err(invalid("it has more requests than can be counted exactly"));
        }
        for class in Class::ALL {
            let mut by_step = Counts::default();
            for step in &record.steps {
                if step.of(class).counts.total() > MOST_A_STEP {
                    return Err(invalid("a step has more requests than can be counted exactly"));
                }
                by_step.add(&step.of(class).counts);
            }
            if by_step != record.class(class).unwrap_or_default().counts {
                return Err(invalid(format!("the requests of its steps and of its groups differ ({})", class.name())));
            }
        }
        let counts = record.all().counts;
        let sums = self.instances.iter().fold((0, 0), |(sent, late), one| (sent + one.sent, late + one.too_late));
        if record.lag.len() != counts.sent() || sums != (counts.sent(), counts.too_late) {
            return Err(invalid("the requests of its lags, of its instances and of its groups differ"));
        }
        Ok(())
    }
}
