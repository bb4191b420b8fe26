//! What became of the requests: counted and timed, by group and by second.

mod counts;

pub use counts::{Cause, Counts, End, Missed};

use std::time::Duration;

use hdrhistogram::Histogram;

/// The most steps that a run is divided into: those of a longer one are longer than a second.
const MOST_STEPS: u64 = 7_200;
/// What is longer counts as so long.
const LONGEST: Duration = Duration::from_secs(3_600);

/// A request that has ended. Times are counted from the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The place of its client's group.
    pub group: usize,
    /// When it should have been sent.
    pub intended: Duration,
    /// When it was.
    pub sent: Duration,
    /// When its answer had come as a whole, or it had failed.
    pub finished: Duration,
    /// How it ended.
    pub end: End,
}

/// What became of the requests of a run, or of several runs together.
#[derive(Clone, Debug)]
pub struct Record {
    /// How long a step is.
    pub step: Duration,
    /// By group, in the plan's order.
    pub groups: Vec<Tally>,
    /// By group, what polite clients sent again: none of it was planned, so it is counted apart.
    pub retries: Vec<Tally>,
    /// By step of the intended time.
    pub steps: Vec<Step>,
    /// How much later than intended requests were sent.
    pub lag: Histogram<u64>,
}

/// What became of some requests.
#[derive(Clone, Debug)]
pub struct Tally {
    /// How they ended.
    pub counts: Counts,
    /// From the intended time to the end, in microseconds, of those that were answered.
    pub latency: Histogram<u64>,
    /// From sending to the end, in microseconds, of those that were answered.
    pub service: Histogram<u64>,
}

/// A second of a run, or some.
#[derive(Clone, Debug)]
pub struct Step {
    /// By group.
    pub groups: Vec<StepTally>,
}

/// What became of the requests of one group that were due in one step.
#[derive(Clone, Debug)]
pub struct StepTally {
    /// How they ended.
    pub counts: Counts,
    /// From the intended time to the end, in microseconds, coarser than that of the whole run.
    pub latency: Histogram<u32>,
}

impl Tally {
    fn new() -> Self {
        Self { counts: Counts::default(), latency: fine(), service: fine() }
    }

    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        add(&mut self.latency, &other.latency);
        add(&mut self.service, &other.service);
    }
}

/// To three digits.
fn fine() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

fn add<C: hdrhistogram::Counter>(histogram: &mut Histogram<C>, other: &Histogram<C>) {
    histogram.add(other).expect("histograms grow by themselves");
}

/// At least one: zero has no place in a histogram of this kind.
fn micros(time: Duration) -> u64 {
    (time.min(LONGEST).as_micros() as u64).max(1)
}

fn note<C: hdrhistogram::Counter>(histogram: &mut Histogram<C>, time: Duration) {
    histogram.record(micros(time)).expect("histograms grow by themselves");
}

impl Record {
    /// Of a run of this length, with so many groups of clients.
    pub fn new(length: Duration, groups: usize) -> Self {
        let step = length.as_secs().div_ceil(MOST_STEPS).max(1);
        let tallies = || (0..groups).map(|_| Tally::new()).collect();
        Self { step: Duration::from_secs(step), groups: tallies(), retries: tallies(), steps: Vec::new(), lag: fine() }
    }

    /// Counts a request that was planned.
    pub fn add(&mut self, sample: &Sample) {
        let Sample { group, intended, sent, finished, end } = *sample;
        let latency = finished.saturating_sub(intended);
        note(&mut self.lag, sent.saturating_sub(intended));
        let tally = &mut self.groups[group];
        tally.counts.note(end);
        if matches!(end, End::Answered(_)) {
            note(&mut tally.latency, latency);
            note(&mut tally.service, finished.saturating_sub(sent));
        }
        let step = self.step_at(intended, group);
        step.counts.note(end);
        if matches!(end, End::Answered(_)) {
            note(&mut step.latency, latency);
        }
    }

    /// Counts a request that a polite client sent once more.
    pub fn add_retry(&mut self, sample: &Sample) {
        let tally = &mut self.retries[sample.group];
        tally.counts.note(sample.end);
        if matches!(sample.end, End::Answered(_)) {
            note(&mut tally.latency, sample.finished.saturating_sub(sample.intended));
            note(&mut tally.service, sample.finished.saturating_sub(sample.sent));
        }
    }

    /// Counts a request that was due and never sent.
    pub fn miss(&mut self, group: usize, intended: Duration, missed: Missed) {
        self.groups[group].counts.miss(missed);
        self.step_at(intended, group).counts.miss(missed);
    }

    fn step_at(&mut self, intended: Duration, group: usize) -> &mut StepTally {
        let place = (intended.as_secs() / self.step.as_secs()) as usize;
        let groups = self.groups.len();
        while self.steps.len() <= place {
            let coarse = || Histogram::new(2).expect("two digits are allowed");
            let tally = |_| StepTally { counts: Counts::default(), latency: coarse() };
            self.steps.push(Step { groups: (0..groups).map(tally).collect() });
        }
        &mut self.steps[place].groups[group]
    }

    /// Adds what another instance recorded of the same plan, exactly: as if one had recorded both.
    pub fn merge(&mut self, other: &Self) -> Result<(), NotAlike> {
        if self.step != other.step || self.groups.len() != other.groups.len() {
            return Err(NotAlike);
        }
        let pairs = self.groups.iter_mut().chain(&mut self.retries).zip(other.groups.iter().chain(&other.retries));
        pairs.for_each(|(ours, theirs)| ours.add(theirs));
        for (place, theirs) in other.steps.iter().enumerate() {
            for (group, theirs) in theirs.groups.iter().enumerate() {
                let ours = self.step_at(self.step * place as u32, group);
                ours.counts.add(&theirs.counts);
                add(&mut ours.latency, &theirs.latency);
            }
        }
        add(&mut self.lag, &other.lag);
        Ok(())
    }

    /// All groups together.
    pub fn all(&self) -> Tally {
        let mut all = Tally::new();
        self.groups.iter().for_each(|group| all.add(group));
        all
    }
}

/// Records of plans that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAlike;

impl std::fmt::Display for NotAlike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the results are of plans that differ in their groups or their length")
    }
}

impl std::error::Error for NotAlike {}
