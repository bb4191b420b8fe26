//! Runs as they are written.

use std::str::FromStr as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounded::at_most;
use super::{InvalidReport, LONGEST_MICROS, invalid, is_line};
use crate::plan::Part;
use crate::record::MOST_REQUESTS;
use crate::report::Ended;
use crate::report::instance::{Instance, LONGEST_ID, LONGEST_NOTE, MOST_NOTES};

/// A run as it is written.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct InstanceText {
    test_id: String,
    part: Option<String>,
    is_stopped: bool,
    started_millis: u64,
    elapsed_micros: u64,
    sent: u64,
    too_late: u64,
    lag_p99_micros: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MOST_NOTES>")]
    notes: Vec<String>,
}

impl InstanceText {
    pub(super) fn instance(self) -> Result<Instance, InvalidReport> {
        let part = self.part.as_deref().map(Part::from_str).transpose();
        if !is_line(&self.test_id, LONGEST_ID) {
            return Err(invalid("`testId` is too long, or can't be printed"));
        }
        if !self.notes.iter().all(|note| is_line(note, LONGEST_NOTE)) {
            return Err(invalid("`notes` has one that is too long, or can't be printed"));
        }
        // Later years can't be written as a date. Sums of numbers up to here fit.
        if self.started_millis > 253_402_300_799_999 || self.elapsed_micros > 10 * LONGEST_MICROS {
            return Err(invalid("an instance's `startedMillis` or `elapsedMicros` is beyond what is possible"));
        }
        if self.sent > MOST_REQUESTS || self.too_late > MOST_REQUESTS {
            return Err(invalid("an instance's `sent` or `tooLate` is beyond what is possible"));
        }
        Ok(Instance {
            started_millis: self.started_millis,
            part: part.map_err(|error| invalid(format!("`part` {error}")))?,
            test_id: self.test_id,
            ended: if self.is_stopped { Ended::Stopped } else { Ended::Completed },
            elapsed: Duration::from_micros(self.elapsed_micros),
            sent: self.sent,
            too_late: self.too_late,
            lag_p99_micros: self.lag_p99_micros,
            notes: self.notes,
        })
    }
}

impl From<&Instance> for InstanceText {
    fn from(instance: &Instance) -> Self {
        Self {
            test_id: instance.test_id.clone(),
            part: instance.part.map(|part| part.to_string()),
            is_stopped: instance.ended == Ended::Stopped,
            started_millis: instance.started_millis,
            elapsed_micros: instance.elapsed.as_micros() as u64,
            sent: instance.sent,
            too_late: instance.too_late,
            lag_p99_micros: instance.lag_p99_micros,
            notes: instance.notes.clone(),
        }
    }
}
