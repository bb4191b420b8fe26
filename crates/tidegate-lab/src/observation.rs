//! What was seen of a run: request by request, as it ended, live and in simulated time alike.

use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;
use tidegate_load::{Cause, Class, End, Group, Observed};

/// The most steps that a run is divided into; those of a longer one are longer than a second.
const MOST_STEPS: u64 = 3_600;
/// The most clients of a group whose shares are counted apart.
const MOST_CLIENTS: u64 = 10_000;

/// What was seen of a run.
#[derive(Debug)]
pub struct Observation {
    /// How long a step is, in seconds.
    pub step: u64,
    /// How long the load lasts.
    length: Duration,
    /// The longest useful duration of a response.
    objective: Duration,
    classes: Vec<Class>,
    /// By when requests were due.
    pub rows: Vec<Row>,
    /// How long good responses took, in microseconds from when they were due.
    pub latency: Histogram<u64>,
    /// By group and client.
    clients: Vec<Vec<Share>>,
    /// By group.
    groups: Vec<GroupSeen>,
    /// Requests that failed or were rejected, and how long they took in all, in microseconds.
    failed: (u64, u64),
    /// When something went wrong, on purpose.
    faults: Vec<Range<Duration>>,
}

/// What was seen of a group of clients.
#[derive(Clone, Debug)]
pub(crate) struct GroupSeen {
    pub(crate) name: String,
    /// Requests, however often each was sent.
    pub(crate) requests: u64,
    /// Those that got a good response in time.
    pub(crate) good: u64,
    /// The same by the step in which they were due.
    good_by_step: Vec<u64>,
    /// How long good responses and timeouts took, in microseconds: before the first fault, and while faults lasted.
    before: Histogram<u64>,
    during: Histogram<u64>,
}

impl GroupSeen {
    fn new(group: &Group, steps: usize) -> Self {
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        let good_by_step = vec![0; steps];
        Self { name: group.name.clone(), requests: 0, good: 0, good_by_step, before: histogram(), during: histogram() }
    }

    /// The share of requests that got a good response. None without requests.
    pub(crate) fn served(&self) -> Option<f64> {
        (self.requests > 0).then(|| ratio(self.good, self.requests))
    }

    /// The 99th percentile while faults lasted, as a multiple of that before the first. None if either is not known.
    pub(crate) fn slowdown(&self) -> Option<f64> {
        let p99 = |latency: &Histogram<u64>| (!latency.is_empty()).then(|| count(latency.value_at_quantile(0.99)));
        Some(p99(&self.during)? / p99(&self.before)?)
    }
}

/// What became of the requests of a step.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Of honest clients.
    pub honest: Tally,
    /// Of attackers, from whom the service is to be protected.
    pub attackers: Tally,
    latency: Option<Histogram<u32>>,
}

/// How requests ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All that were due and sent.
    pub offered: u64,
    /// Rejected by the gateway itself: by a limit, a circuit breaker or a bulkhead.
    pub rejected: u64,
    /// Responses of 2xx.
    pub good: u64,
    /// Responses of 5xx.
    pub target_errors: u64,
    /// Timed out, cut off, or any other response.
    pub errors: u64,
}

/// How much of a client's requests was admitted.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    offered: u64,
    admitted: u64,
}

impl Tally {
    /// Sent on to the target.
    pub fn admitted(&self) -> u64 {
        self.offered - self.rejected
    }

    fn note(&mut self, end: End, is_rejected: bool) {
        self.offered += 1;
        match end {
            _ if is_rejected => self.rejected += 1,
            End::Responded(200..300) => self.good += 1,
            End::Responded(500..600) => self.target_errors += 1,
            End::Responded(_) | End::Failed(_) | End::Unfinished => self.errors += 1,
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.offered += other.offered;
        self.rejected += other.rejected;
        self.good += other.good;
        self.target_errors += other.target_errors;
        self.errors += other.errors;
        self
    }
}

impl Row {
    /// Of all clients.
    pub fn all(&self) -> Tally {
        self.honest.and(&self.attackers)
    }

    /// A percentile of the duration of good responses, in seconds. None without a good response.
    pub fn latency(&self, percent: f64) -> Option<f64> {
        self.latency.as_ref().map(|latency| seconds(latency.value_at_quantile(percent / 100.0)))
    }

    /// Of a class.
    pub fn of_class(&self, class: Class) -> &Tally {
        match class {
            Class::Honest => &self.honest,
            Class::Attacker => &self.attackers,
        }
    }

    fn of(&mut self, class: Class) -> &mut Tally {
        match class {
            Class::Honest => &mut self.honest,
            Class::Attacker => &mut self.attackers,
        }
    }
}

/// Microseconds, in seconds.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl Observation {
    /// Of a run of this length, with these groups of clients.
    pub fn new(length: Duration, groups: &[Group]) -> Self {
        let whole = length.as_secs() + u64::from(length.subsec_nanos() > 0);
        let step = whole.div_ceil(MOST_STEPS).max(1);
        let rows = vec![Row::default(); usize::try_from(whole.div_ceil(step).max(1)).unwrap_or(1)];
        let latency = Histogram::new(3).expect("three digits are allowed");
        let classes = groups.iter().map(|group| group.class).collect();
        let shares = |group: &Group| vec![Share::default(); group.count.min(MOST_CLIENTS) as usize];
        let clients = groups.iter().map(shares).collect();
        let groups = groups.iter().map(|group| GroupSeen::new(group, rows.len())).collect();
        let objective = Duration::MAX;
        Self { step, length, objective, classes, rows, latency, clients, groups, failed: (0, 0), faults: Vec::new() }
    }

    /// The same, and a response that takes longer than this is no use.
    #[must_use]
    pub fn with_objective(mut self, objective: Duration) -> Self {
        self.objective = objective;
        self
    }

    /// The same, with something that goes wrong at these times.
    #[must_use]
    pub fn with_faults(mut self, faults: Vec<Range<Duration>>) -> Self {
        self.faults = faults;
        self
    }

    /// Requests that clients had. What they send again is no new request.
    pub fn requests(&self) -> u64 {
        self.groups.iter().map(|group| group.requests).sum()
    }

    /// How long requests took that failed or were rejected, on average, in seconds. None if all were good.
    pub(crate) fn failed_wait(&self) -> Option<f64> {
        let (number, micros) = self.failed;
        (number > 0).then(|| seconds(micros) / count(number))
    }

    /// The names of the groups, with good responses by step.
    pub fn good_by_group(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.groups.iter().map(|group| (group.name.as_str(), group.good_by_step.as_slice()))
    }

    pub(crate) fn groups(&self) -> &[GroupSeen] {
        &self.groups
    }

    /// A request has ended.
    pub fn note(&mut self, observed: &Observed) {
        let Observed { sample, client, retries, .. } = observed;
        let is_rejected = observed.is_rejected || sample.end == End::Responded(429);
        let class = self.classes[sample.group];
        let last = self.rows.len() - 1;
        let step = ((sample.intended.as_secs() / self.step) as usize).min(last);
        let row = &mut self.rows[step];
        row.of(class).note(sample.end, is_rejected);
        let group = &mut self.groups[sample.group];
        group.requests += u64::from(*retries == 0);
        let is_good = matches!(sample.end, End::Responded(200..300));
        let is_useful = is_good && sample.finished.saturating_sub(sample.intended) <= self.objective;
        group.good += u64::from(is_useful);
        group.good_by_step[step] += u64::from(is_useful);
        let micros = (sample.finished.saturating_sub(sample.intended).as_micros() as u64).max(1);
        if !is_good {
            self.failed = (self.failed.0 + 1, self.failed.1 + micros);
        }
        if has_waited(sample.end) {
            if self.faults.iter().any(|fault| fault.contains(&sample.intended)) {
                group.during.record(micros).expect("histograms grow by themselves");
            } else if self.faults.iter().all(|fault| sample.intended < fault.start) {
                group.before.record(micros).expect("histograms grow by themselves");
            }
            self.latency.record(micros).expect("histograms grow by themselves");
            let latency = row.latency.get_or_insert_with(|| Histogram::new(2).expect("two digits are allowed"));
            latency.record(micros).expect("histograms grow by themselves");
        }
        if let Some(share) = self.clients[sample.group].get_mut(*client as usize) {
            share.offered += 1;
            share.admitted += u64::from(!is_rejected);
        }
    }

    /// The seconds of the load, a last fraction of one included.
    pub(crate) fn seconds(&self) -> usize {
        (self.length.as_secs() + u64::from(self.length.subsec_nanos() > 0)) as usize
    }

    /// How many seconds of load a step has: the last one may be short.
    pub(crate) fn seconds_of(&self, index: usize) -> f64 {
        let begins = count(index as u64 * self.step);
        (self.length.as_secs_f64() - begins).clamp(0.0, count(self.step))
    }

    /// Steps that are not short.
    pub(crate) fn whole_rows(&self) -> &[Row] {
        let whole = (self.length.as_secs() / self.step) as usize;
        &self.rows[..whole.min(self.rows.len())]
    }

    /// The most that a limit for each client admits of what each of them offered.
    pub(crate) fn allowed_each(&self, rate: f64) -> f64 {
        let most = rate * self.length.as_secs_f64();
        self.clients.iter().flatten().map(|share| count(share.offered).min(most)).sum()
    }

    /// All steps together.
    pub fn total(&self) -> Row {
        let sum = |of: fn(&Row) -> &Tally| self.rows.iter().fold(Tally::default(), |sum, row| sum.and(of(row)));
        Row { honest: sum(|row| &row.honest), attackers: sum(|row| &row.attackers), latency: None }
    }

    /// Jain's index of the shares of honest clients' requests that were admitted: 1 if all have the same, 1/n if one of
    /// n has everything.
    pub fn fairness(&self) -> Option<f64> {
        let honest = self.clients.iter().zip(&self.classes).filter(|(_, class)| **class == Class::Honest);
        let shares = honest.flat_map(|(shares, _)| shares).filter(|share| share.offered > 0);
        let shares: Vec<f64> = shares.map(|share| ratio(share.admitted, share.offered)).collect();
        let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), it| (sum + it, squares + it * it));
        (squares > 0.0).then(|| sum * sum / (count(shares.len() as u64) * squares))
    }
}

/// Whether its duration shows how long the target lets clients wait. Rejections are quick and would hide that.
fn has_waited(end: End) -> bool {
    matches!(end, End::Responded(200..300) | End::Failed(Cause::TimedOut))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

/// A share; 0 of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { count(part) / count(whole) }
}
