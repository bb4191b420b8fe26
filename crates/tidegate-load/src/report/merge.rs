//! Several reports as one.

use std::fmt;

use serde_json::Value;

use super::Report;
use super::file::MOST_INSTANCES;
use super::instance::Instance;
use crate::plan::differences;

/// Reports that can't be one: which, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotMerge(String);

impl fmt::Display for CannotMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotMerge {}

impl Report {
    /// All of these together, exactly as if one instance had recorded everything; each comes with its name, for errors.
    /// They must be of the same plan: of parts of it that have no request in common, or of the whole of it, each of
    /// which is load of its own.
    pub fn merge(reports: impl IntoIterator<Item = (String, Self)>) -> Result<Self, CannotMerge> {
        let mut reports = reports.into_iter();
        let Some((first, mut all)) = reports.next() else {
            return Err(CannotMerge("there is nothing to merge".to_owned()));
        };
        let mut names = vec![first.clone(); all.instances.len()];
        for (name, report) in reports {
            let rejected = |reason: String| CannotMerge(format!("{name}: {reason}"));
            if report.setting.digest != all.setting.digest || report.setting.groups != all.setting.groups {
                let fields = differences(&report.setting.plan, &all.setting.plan);
                let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
                let fields = if fields.is_empty() { String::new() } else { format!(": in {}", fields.join(", ")) };
                return Err(rejected(format!("is of another plan than {first}{fields}")));
            }
            for (index, other) in all.instances.iter().enumerate() {
                let clash = report.instances.iter().find_map(|instance| clash(instance, other, &names[index]));
                if let Some(reason) = clash {
                    return Err(rejected(reason));
                }
            }
            all.setting.add_thresholds(report.setting.thresholds).map_err(|reason| rejected(reason.to_owned()))?;
            if all.instances.len() + report.instances.len() > MOST_INSTANCES {
                return Err(rejected(format!("is one too many; at most {MOST_INSTANCES} can be merged")));
            }
            all.record.merge(&report.record).map_err(|error| rejected(error.to_string()))?;
            names.extend(std::iter::repeat_n(name, report.instances.len()));
            all.instances.extend(report.instances);
        }
        all.instances.sort_by(|one, other| one.order().cmp(&other.order()));
        if all.instances.len() > 1
            && let Value::Object(plan) = &mut all.setting.plan
        {
            // Each has its own.
            plan.remove("part");
            plan.remove("startAt");
        }
        Ok(all)
    }
}

/// Why two runs can't be counted together; `there` is where the other is.
fn clash(one: &Instance, other: &Instance, there: &str) -> Option<String> {
    match (one.part, other.part) {
        (Some(part), Some(same)) if part == same => Some(format!("is of part {part}, and so is {there}")),
        (Some(part), Some(other)) if part.overlaps(other) => {
            Some(format!("is of part {part}, which has requests of part {other} too, as in {there}"))
        }
        (Some(part), None) => Some(format!("is of part {part}, but {there} is of the whole plan")),
        (None, Some(part)) => Some(format!("is of the whole plan, but {there} is of part {part}")),
        (None, None) if one.test_id == other.test_id && one.started_millis == other.started_millis => {
            Some(format!("is of the same run as {there}"))
        }
        _ => None,
    }
}
