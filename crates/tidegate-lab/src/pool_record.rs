//! What was seen of several targets, second by second, live and in simulated time alike.

use tidegate_policy::endpoints::Weight;

use crate::observation::{count, ratio};
use crate::scenario::{Fault, Scenario};

/// What was seen of several targets.
#[derive(Clone, Debug)]
pub struct PoolRecord {
    weights: Vec<Weight>,
    /// The upstream that each of them belongs to: requests are spread over those of one upstream.
    upstreams: Vec<usize>,
    /// Their names, for people.
    names: Vec<String>,
    /// At the end of each second, each target.
    seconds: Vec<Vec<Seen>>,
}

/// A target at the end of a second, as the gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether it gets requests, and if not, why.
    pub(crate) state: String,
    /// Attempts that succeeded, since the start.
    pub(crate) successes: u64,
    /// Attempts that failed, since the start.
    pub(crate) failures: u64,
}

/// A target that is available.
const UP: &str = "up";

impl Seen {
    /// A target that no upstream has.
    pub(crate) fn unused() -> Self {
        Self { state: UP.to_owned(), successes: 0, failures: 0 }
    }
}

impl PoolRecord {
    /// Of a scenario's targets, all behind one upstream.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let weights = scenario.targets.iter().map(|target| target.weight).collect();
        Self::of(scenario, vec![0; scenario.targets.len()], weights)
    }

    /// Of a scenario's targets, each behind the upstream with this index, with this weight.
    pub(crate) fn of(scenario: &Scenario, upstreams: Vec<usize>, weights: Vec<Weight>) -> Self {
        let names = (0..scenario.targets.len()).map(|index| scenario.target_name(index)).collect();
        Self { weights, upstreams, names, seconds: Vec::new() }
    }

    /// How many targets there are.
    pub(crate) fn len(&self) -> usize {
        self.weights.len()
    }

    /// A second is over. Returns which targets have another state than a second ago, for people.
    pub(crate) fn seen(&mut self, targets: Vec<Seen>) -> Vec<String> {
        let before = self.seconds.last();
        let mut events = Vec::new();
        for (index, target) in targets.iter().enumerate() {
            let was = before.and_then(|before| before.get(index)).map_or(UP, |before| &before.state);
            if was != target.state {
                events.push(format!("{}: {}, was {was}", self.names[index], target.state));
            }
        }
        self.seconds.push(targets);
        events
    }

    /// A second that nobody saw is like the one before.
    pub(crate) fn missed(&mut self) {
        let last = self.seconds.last().cloned();
        self.seconds.push(last.unwrap_or_default());
    }

    /// The name of a target, and the index of its upstream, if any has it.
    pub(crate) fn place(&self, target: usize) -> (&str, Option<usize>) {
        (&self.names[target], Some(self.upstreams[target]).filter(|upstream| *upstream != usize::MAX))
    }

    /// Successes and failures of each target, with its weight.
    pub(crate) fn totals(&self) -> Vec<(Weight, u64, u64)> {
        let last = self.seconds.last().map_or(&[][..], Vec::as_slice);
        let seen = self.weights.iter().zip(last);
        seen.map(|(weight, seen)| (*weight, seen.successes, seen.failures)).collect()
    }

    /// Successes of each target in each second.
    pub(crate) fn successes(&self) -> Vec<Vec<u64>> {
        let of = |index: usize| (0..self.seconds.len()).map(move |second| self.successes_in(index, second));
        (0..self.weights.len()).map(|index| of(index).collect()).collect()
    }

    fn successes_in(&self, index: usize, second: usize) -> u64 {
        let until = |row: Option<&Vec<Seen>>| row.and_then(|row| row.get(index)).map_or(0, |seen| seen.successes);
        let before = second.checked_sub(1).and_then(|before| self.seconds.get(before));
        until(self.seconds.get(second)).saturating_sub(until(before))
    }

    /// Attempts that failed, of all.
    pub(crate) fn failed_attempts(&self) -> f64 {
        let sum = |of: fn(&(Weight, u64, u64)) -> u64| self.totals().iter().map(of).sum::<u64>();
        let (successes, failures) = (sum(|it| it.1), sum(|it| it.2));
        ratio(failures, successes + failures)
    }

    /// Jain's index of successes ÷ weight before the first fault of a target. None with several upstreams.
    pub(crate) fn spread(&self, scenario: &Scenario) -> Option<f64> {
        if self.upstreams.iter().any(|upstream| *upstream != 0) {
            return None;
        }
        let first = of_targets(scenario).map(|fault| fault.at.as_secs() as usize).min();
        let seen = self.seconds[..first.unwrap_or(usize::MAX).min(self.seconds.len())].last()?;
        let weighted = self.weights.iter().zip(seen).filter(|(weight, _)| weight.get() > 0);
        let parts: Vec<f64> = weighted.map(|(weight, seen)| count(seen.successes) / f64::from(weight.get())).collect();
        let (sum, squares) = parts.iter().fold((0.0, 0.0), |(sum, squares), it| (sum + it, squares + it * it));
        (squares > 0.0).then(|| sum * sum / (count(parts.len() as u64) * squares))
    }

    /// From the end of a target's fault to the first second in which it has half of its share of the requests, in
    /// seconds: the longest. None without a fault that ends before the load, or if the load does not return.
    pub(crate) fn load_back(&self, scenario: &Scenario) -> Option<f64> {
        let ended = of_targets(scenario).filter(|fault| fault.until < scenario.duration());
        let mut longest = None;
        for fault in ended {
            let (index, end) = (fault.kind.target()?, fault.until.as_secs_f64());
            let second = (end.ceil() as usize..self.seconds.len()).find(|second| self.has_half(index, *second))?;
            longest = Some(f64::max(longest.unwrap_or(0.0), count(second as u64) - end));
        }
        longest
    }

    /// Whether a target has at least half of its share of a second's successes.
    fn has_half(&self, index: usize, second: usize) -> bool {
        let others = || (0..self.weights.len()).filter(|other| self.upstreams[*other] == self.upstreams[index]);
        let all: u64 = others().map(|index| self.successes_in(index, second)).sum();
        let weights: f64 = others().map(|index| f64::from(self.weights[index].get())).sum();
        let share = f64::from(self.weights[index].get()) / weights;
        all > 0 && count(self.successes_in(index, second)) >= 0.5 * share * count(all)
    }
}

/// Faults of one of several targets.
fn of_targets(scenario: &Scenario) -> impl Iterator<Item = &Fault> {
    scenario.faults.iter().filter(|fault| fault.kind.target().is_some())
}
