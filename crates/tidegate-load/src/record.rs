//! What became of the requests: counted and timed, by group and by second.
//!
//! A request that timed out has waited at least that long, so its time stands among the latencies: percentiles of the
//! responses alone would hide the very worst. A failure of another kind says nothing about how long a response takes (a
//! refused connection is quick) and is only counted, and so is what a stop left unfinished.

mod counts;
mod latencies;
mod time_histogram;

pub use counts::{Cause, Counts, End, Missed};
pub use latencies::Latencies;
pub(crate) use time_histogram::rank;
pub use time_histogram::{Coarse, Fine, TimeHistogram};

use std::time::Duration;

use crate::plan::Class;

/// The most steps that a run is divided into: those of a longer one are longer than a second. A step's times take some
/// kilobytes.
pub(crate) const MOST_STEPS: u64 = 3_600;
/// The most requests that a record holds: sums of such numbers are far from the end of what a count can be.
pub(crate) const MOST_REQUESTS: u64 = 1_000_000_000_000_000;
/// The most requests of a step.
pub(crate) const MOST_A_STEP: u64 = u32::MAX as u64;

/// A request that has ended. Times are counted from the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The index of its client's group.
    pub group: usize,
    /// When it should have been sent.
    pub intended: Duration,
    /// When it was.
    pub sent: Duration,
    /// When its response had come as a whole, or it had failed.
    pub finished: Duration,
    /// How it ended.
    pub end: End,
}

/// What became of the requests of a run, or of several runs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// How long a step is.
    pub step: Duration,
    /// The class of each group.
    pub classes: Vec<Class>,
    /// By group, in the plan's order.
    pub groups: Vec<Tally>,
    /// By group, what clients sent again: none of it was planned, so it is counted apart.
    pub retries: Vec<Tally>,
    /// By step of the intended time.
    pub steps: Vec<Step>,
    /// How much later than intended requests were sent.
    pub lag: Fine,
}

/// What became of some requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// How they ended.
    pub counts: Counts,
    /// From the intended time to the end, of those that got a response or timed out, by class of the status.
    pub latency: Latencies,
    /// From sending to the end, of the same.
    pub service: Fine,
}

/// A second of a run, or some: by class and not by group, so that what is kept does not grow with the groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Those for whom the service is there.
    pub honest: StepTally,
    /// Those it must be protected from.
    pub attacker: StepTally,
}

/// What became of the requests of one class that were due in one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTally {
    /// How they ended.
    pub counts: Counts,
    /// From the intended time to the end, of those that got a response or timed out; coarser than that of the whole
    /// run.
    pub latency: Coarse,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.latency.add(&other.latency);
        self.service.add(&other.service);
    }

    fn note(&mut self, sample: &Sample) {
        self.counts.note(sample.end);
        if has_waited(sample.end) {
            self.latency.note(sample.end, sample.finished.saturating_sub(sample.intended));
            self.service.note(sample.finished.saturating_sub(sample.sent));
        }
    }
}

/// Whether the time until this end is one that a client had to wait.
fn has_waited(end: End) -> bool {
    matches!(end, End::Responded(_) | End::Failed(Cause::TimedOut))
}

impl Step {
    /// Of a class.
    pub fn of(&self, class: Class) -> &StepTally {
        match class {
            Class::Honest => &self.honest,
            Class::Attacker => &self.attacker,
        }
    }

    pub(crate) fn of_mut(&mut self, class: Class) -> &mut StepTally {
        match class {
            Class::Honest => &mut self.honest,
            Class::Attacker => &mut self.attacker,
        }
    }
}

impl Record {
    /// Of a run of this length, with groups of these classes.
    pub fn new(length: Duration, classes: &[Class]) -> Self {
        let seconds = length.as_secs() + u64::from(length.subsec_nanos() > 0);
        Self {
            step: Duration::from_secs(seconds.div_ceil(MOST_STEPS).max(1)),
            classes: classes.to_vec(),
            groups: vec![Tally::default(); classes.len()],
            retries: vec![Tally::default(); classes.len()],
            steps: Vec::new(),
            lag: Fine::default(),
        }
    }

    /// Counts a request that was planned.
    pub fn add(&mut self, sample: &Sample) {
        self.lag.note(sample.sent.saturating_sub(sample.intended));
        self.groups[sample.group].note(sample);
        let step = self.step_at(sample.intended, sample.group);
        step.counts.note(sample.end);
        if has_waited(sample.end) {
            step.latency.note(sample.finished.saturating_sub(sample.intended));
        }
    }

    /// Counts a request that a client sent once more.
    pub fn add_retry(&mut self, sample: &Sample) {
        self.retries[sample.group].note(sample);
    }

    /// Counts a retry that was owed and never sent.
    pub fn give_up(&mut self, group: usize) {
        self.retries[group].counts.given_up += 1;
    }

    /// Counts a request that was due and never sent.
    pub fn miss(&mut self, group: usize, intended: Duration, missed: Missed) {
        self.groups[group].counts.miss(missed);
        self.step_at(intended, group).counts.miss(missed);
    }

    fn step_at(&mut self, intended: Duration, group: usize) -> &mut StepTally {
        // Nothing is due after the end; if it were, it would count to the last step.
        let index = (intended.as_secs() / self.step.as_secs()).min(MOST_STEPS - 1) as usize;
        if self.steps.len() <= index {
            self.steps.resize(index + 1, Step::default());
        }
        self.steps[index].of_mut(self.classes[group])
    }

    /// Adds what another instance recorded of the same plan, exactly: as if one had recorded both.
    pub fn merge(&mut self, other: &Self) -> Result<(), NotAlike> {
        if self.step != other.step || self.classes != other.classes {
            return Err(NotAlike::Shape);
        }
        if self.is_too_much_with(other) {
            return Err(NotAlike::TooMuch);
        }
        let pairs = self.groups.iter_mut().chain(&mut self.retries).zip(other.groups.iter().chain(&other.retries));
        pairs.for_each(|(ours, theirs)| ours.add(theirs));
        let length = self.steps.len().max(other.steps.len());
        self.steps.resize(length, Step::default());
        for (ours, theirs) in self.steps.iter_mut().zip(&other.steps) {
            for class in Class::ALL {
                ours.of_mut(class).counts.add(&theirs.of(class).counts);
                ours.of_mut(class).latency.add(&theirs.of(class).latency);
            }
        }
        self.lag.add(&other.lag);
        Ok(())
    }

    fn is_too_much_with(&self, other: &Self) -> bool {
        let total = |tallies: &[Tally]| tallies.iter().map(|tally| tally.counts.total()).sum::<u64>();
        let steps = self.steps.iter().zip(&other.steps);
        let mut steps = steps.flat_map(|(ours, theirs)| Class::ALL.map(|class| (ours.of(class), theirs.of(class))));
        total(&self.groups) + total(&other.groups) > MOST_REQUESTS
            || total(&self.retries) + total(&other.retries) > MOST_REQUESTS
            || steps.any(|(ours, theirs)| ours.counts.total() + theirs.counts.total() > MOST_A_STEP)
    }

    /// All groups together.
    pub fn all(&self) -> Tally {
        sum(&self.groups)
    }

    /// What was sent again, by all groups together.
    pub fn all_retries(&self) -> Tally {
        sum(&self.retries)
    }

    /// The groups of one class together; nothing if there are none.
    pub fn class(&self, class: Class) -> Option<Tally> {
        let mut tallies = self.groups.iter().zip(&self.classes).filter(|(_, of)| **of == class).map(|(tally, _)| tally);
        let first = tallies.next()?.clone();
        Some(tallies.fold(first, |mut all, tally| {
            all.add(tally);
            all
        }))
    }
}

fn sum(tallies: &[Tally]) -> Tally {
    let mut all = Tally::default();
    for tally in tallies {
        all.add(tally);
    }
    all
}

/// Records that can't be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAlike {
    /// They are of plans that differ.
    Shape,
    /// Together they would hold more than can be counted exactly.
    TooMuch,
}

impl std::fmt::Display for NotAlike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Shape => "the results are of plans that differ in their groups or their length",
            Self::TooMuch => "the results together have more requests than can be counted exactly",
        })
    }
}

impl std::error::Error for NotAlike {}
