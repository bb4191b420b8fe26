//! Counts and times as they are written.

use serde::{Deserialize, Serialize};

use super::MOST_PAIRS;
use super::bounded::at_most;
use crate::record::{Cause, Coarse, Counts, Fine, Latencies, MOST_REQUESTS, StepTally, Tally};
use crate::status_class::StatusClass;

/// Leaves out what is usual.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct CountsText {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, 900>")]
    statuses: Vec<(u16, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, 5>")]
    failures: Vec<(String, u64)>,
    #[serde(skip_serializing_if = "is_zero")]
    unfinished: u64,
    #[serde(skip_serializing_if = "is_zero")]
    too_late: u64,
    #[serde(skip_serializing_if = "is_zero")]
    no_room: u64,
    #[serde(skip_serializing_if = "is_zero")]
    given_up: u64,
}

/// A tally as it is written: times in microseconds, each with how often it occurred.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TallyText {
    counts: CountsText,
    /// Those whose status is not known: all, in files of the first format.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MOST_PAIRS>")]
    latency: Vec<(u64, u64)>,
    /// By class of the status; in files of the first format there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MOST_PARTS>")]
    latencies: Vec<PartText>,
    #[serde(deserialize_with = "at_most::<_, _, MOST_PAIRS>")]
    service: Vec<(u64, u64)>,
}

/// Each class of statuses, and timeouts.
const MOST_PARTS: usize = StatusClass::ALL.len() + 1;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PartText {
    of: String,
    #[serde(deserialize_with = "at_most::<_, _, MOST_PAIRS>")]
    times: Vec<(u64, u64)>,
}

/// A step's tally as it is written.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepTallyText {
    counts: CountsText,
    #[serde(deserialize_with = "at_most::<_, _, MOST_PAIRS>")]
    latency: Vec<(u64, u32)>,
}

impl StepTallyText {
    pub(super) fn is_empty(&self) -> bool {
        self.counts == CountsText::default() && self.latency.is_empty()
    }

    pub(super) fn tally(&self) -> Result<StepTally, &'static str> {
        let (counts, latency) = (self.counts.counts()?, Coarse::from_pairs(&self.latency)?);
        fits(&counts, latency.len())?;
        Ok(StepTally { counts, latency })
    }
}

impl TallyText {
    pub(super) fn tally(&self) -> Result<Tally, &'static str> {
        let counts = self.counts.counts()?;
        let (unknown, service) = (Fine::from_pairs(&self.latency)?, Fine::from_pairs(&self.service)?);
        let part = |part: &PartText| Ok((part.of.clone(), Fine::from_pairs(&part.times)?));
        let parts = self.latencies.iter().map(part).collect::<Result<Vec<_>, &'static str>>()?;
        let latency = Latencies::from_parts(parts, &unknown, &counts)?;
        fits(&counts, service.len())?;
        Ok(Tally { counts, latency, service })
    }
}

/// Each request that got a response or timed out has a time, and no other.
fn fits(counts: &Counts, times: u64) -> Result<(), &'static str> {
    let is_fit = counts.responded() + counts.timed_out() == times;
    if is_fit { Ok(()) } else { Err("has more or fewer times than requests that have one") }
}

impl CountsText {
    fn counts(&self) -> Result<Counts, &'static str> {
        let by_kind =
            self.statuses.iter().map(|(_, count)| *count).chain(self.failures.iter().map(|(_, count)| *count));
        let all = by_kind.chain([self.unfinished, self.too_late, self.no_room, self.given_up]);
        if all.map(u128::from).sum::<u128>() > u128::from(MOST_REQUESTS) {
            return Err("has more requests than can be counted exactly");
        }
        let mut counts = Counts::default();
        (counts.unfinished, counts.given_up) = (self.unfinished, self.given_up);
        (counts.too_late, counts.no_room) = (self.too_late, self.no_room);
        for (status, count) in &self.statuses {
            if !(100..=999).contains(status) || *count == 0 {
                return Err("has an invalid status, or one that never occurred");
            }
            counts.add_status(*status, *count);
        }
        for (name, count) in &self.failures {
            let cause = Cause::ALL.into_iter().find(|cause| cause.name() == name);
            counts.add_failures(cause.ok_or("has a failure of an unknown cause")?, *count);
        }
        Ok(counts)
    }
}

impl From<&Counts> for CountsText {
    fn from(counts: &Counts) -> Self {
        Self {
            statuses: counts.statuses().collect(),
            failures: counts.failures().map(|(cause, count)| (cause.name().to_owned(), count)).collect(),
            unfinished: counts.unfinished,
            too_late: counts.too_late,
            no_room: counts.no_room,
            given_up: counts.given_up,
        }
    }
}

impl From<&Tally> for TallyText {
    fn from(tally: &Tally) -> Self {
        let part = |(of, part): (&str, &Fine)| PartText { of: of.to_owned(), times: part.pairs().collect() };
        Self {
            counts: (&tally.counts).into(),
            latency: tally.latency.unknown().pairs().collect(),
            latencies: tally.latency.parts().map(part).collect(),
            service: tally.service.pairs().collect(),
        }
    }
}

impl From<&StepTally> for StepTallyText {
    fn from(tally: &StepTally) -> Self {
        Self { counts: (&tally.counts).into(), latency: tally.latency.pairs().collect() }
    }
}
