//! Latencies by how requests ended.

use std::time::Duration;

use super::counts::{Cause, Counts, End};
use super::time_histogram::Fine;
use crate::status_class::StatusClass;

/// Index of timeouts: they have no status.
const TIMED_OUT: usize = StatusClass::ALL.len();
/// Index of latencies whose status nobody knows any more: results of earlier versions did not keep it.
const UNKNOWN: usize = TIMED_OUT + 1;

/// From the intended time to the end, of requests that got a response or timed out: by class of the status. Each counts
/// once, so all classes together are exactly what one histogram would have been.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies([Fine; UNKNOWN + 1]);

impl Latencies {
    /// Counts a request that got a response or timed out; others have no latency.
    pub(super) fn note(&mut self, end: End, latency: Duration) {
        let index = match end {
            End::Responded(status) => StatusClass::of(status) as usize,
            End::Failed(Cause::TimedOut) => TIMED_OUT,
            End::Failed(_) | End::Unfinished => return,
        };
        self.0[index].note(latency);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            ours.add(theirs);
        }
    }

    /// All of them.
    pub fn all(&self) -> Fine {
        let mut all = Fine::default();
        for some in &self.0 {
            all.add(some);
        }
        all
    }

    /// Those of responses of a class. Nothing if it is not known which they are.
    pub fn of(&self, class: StatusClass) -> Option<&Fine> {
        self.are_split().then_some(&self.0[class as usize])
    }

    /// Whether the status of each is known.
    pub fn are_split(&self) -> bool {
        self.unknown().is_empty()
    }

    /// Those whose status is not known.
    pub fn unknown(&self) -> &Fine {
        &self.0[UNKNOWN]
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.iter().map(Fine::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest, in microseconds.
    pub fn max(&self) -> u64 {
        self.0.iter().map(Fine::max).max().unwrap_or(0)
    }

    /// Each part that is not empty, by its name in files; those whose status is not known are not among them.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, &Fine)> {
        part_names().into_iter().zip(&self.0).filter(|(_, part)| !part.is_empty())
    }

    /// From parts by their names, and those whose status is not known, beside counts that they must fit. Where only
    /// requests of one kind can be meant, it is known which they are.
    pub(crate) fn from_parts(
        parts: impl IntoIterator<Item = (String, Fine)>,
        unknown: &Fine,
        counts: &Counts,
    ) -> Result<Self, &'static str> {
        let mut latencies = Self::default();
        for (name, part) in parts {
            let index = part_names().iter().position(|known| *known == name);
            latencies.0[index.ok_or("has times of an unknown status class")?].add(&part);
        }
        let mut expected = [0; UNKNOWN];
        for (status, count) in counts.statuses() {
            expected[StatusClass::of(status) as usize] += count;
        }
        expected[TIMED_OUT] = counts.timed_out();
        let left = expected.iter().zip(&latencies.0).map(|(count, part)| count.checked_sub(part.len()));
        let left: Option<Vec<u64>> = left.collect();
        let left = left.filter(|left| left.iter().sum::<u64>() == unknown.len());
        let left = left.ok_or("has more or fewer times than requests that have one")?;
        let mut lacking = (0..UNKNOWN).filter(|index| left[*index] > 0);
        let index = match (lacking.next(), lacking.next()) {
            (Some(only), None) => only,
            _ => UNKNOWN,
        };
        latencies.0[index].add(unknown);
        Ok(latencies)
    }
}

/// The names of all parts but the unknown one, in their order.
fn part_names() -> [&'static str; UNKNOWN] {
    let mut names = ["timedOut"; UNKNOWN];
    for class in StatusClass::ALL {
        names[class as usize] = class.name();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Split or not, all together are the same.
    #[test]
    fn classes_together_are_one_histogram() {
        let (mut split, mut whole) = (Latencies::default(), Fine::default());
        for number in 0..20_000_u64 {
            let latency = Duration::from_micros(number * number % 3_000_017);
            let end = match number % 7 {
                0 => End::Failed(Cause::TimedOut),
                kind => End::Responded([200, 204, 302, 404, 429, 503][(kind - 1) as usize]),
            };
            split.note(end, latency);
            whole.note(latency);
        }
        split.note(End::Unfinished, Duration::from_secs(9));
        split.note(End::Failed(Cause::Closed), Duration::from_secs(9));
        assert_eq!(split.all(), whole);
        assert_eq!((split.max(), split.len()), (whole.max(), whole.len()));
        assert!((split.all().mean() - whole.mean()).abs() < 1e-9);
        assert_eq!(split.parts().map(|(_, part)| part.len()).sum::<u64>(), whole.len());
    }
}
