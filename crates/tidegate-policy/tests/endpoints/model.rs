//! What a pool should do, in the plainest form: it keeps everything that ever happened and counts it anew each time.

use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{
    Cause, Change, EjectionSettings, Forced, Health, HealthThresholds, Reason, Standing, SuccessRateSettings, Tried,
};

/// Something that counts for failures in a row.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Succeeded,
    Failed {
        at: u64,
    },
    /// The failures before it were judged.
    Judged,
}

/// An endpoint was to be ejected.
#[derive(Clone, Copy)]
struct Trouble {
    at: u64,
    /// Until when it was ejected, and which in a row that was, unless too many were already.
    ejected: Option<(u64, u32)>,
}

const TEN_SECONDS: f64 = 10e9;
/// Failures that are further apart are not in a row.
const LONGEST_GAP: u64 = 300_000_000_000;

/// Something that counts for the latency. Times are in nanoseconds.
#[derive(Clone, Copy)]
enum Sign {
    Began { at: u64 },
    Sampled { at: u64, took: f64 },
    Ended { began: u64 },
}

#[derive(Default)]
pub(crate) struct Endpoint {
    /// The requests in flight: their numbers.
    pub(crate) open: Vec<u64>,
    pub(crate) forced: Forced,
    checks: Vec<bool>,
    marks: Vec<Mark>,
    signs: Vec<Sign>,
    troubles: Vec<Trouble>,
    /// Whether the end of the last ejection was reported.
    is_returned: bool,
    last_reason: Option<Reason>,
    interval: Option<u64>,
    outcomes: Vec<bool>,
    pub(crate) successes: u64,
    pub(crate) failures: u64,
}

impl Endpoint {
    pub(crate) fn ejections(&self) -> usize {
        self.troubles.iter().filter(|trouble| trouble.ejected.is_some()).count()
    }

    pub(crate) fn health(&self, thresholds: HealthThresholds) -> Health {
        let mut health = Health::Unknown;
        let mut row: Vec<bool> = Vec::new();
        for passed in &self.checks {
            row.push(*passed);
            let tail = |wanted: bool| row.iter().rev().take_while(|passed| **passed == wanted).count();
            let next = match health {
                Health::Unknown => Some(if *passed { Health::Healthy } else { Health::Unhealthy }),
                Health::Healthy if tail(false) >= thresholds.unhealthy.get() as usize => Some(Health::Unhealthy),
                Health::Unhealthy if tail(true) >= thresholds.healthy.get() as usize => Some(Health::Healthy),
                Health::Healthy | Health::Unhealthy => None,
            };
            if let Some(next) = next {
                health = next;
                row.clear();
            }
        }
        health
    }

    fn until(&self) -> Option<u64> {
        if self.is_returned {
            return None;
        }
        self.troubles.iter().rev().find_map(|trouble| trouble.ejected).map(|(until, _)| until)
    }

    pub(crate) fn is_ejected(&self, now: u64) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    pub(crate) fn ejected(&self, now: u64) -> Option<(Reason, Duration)> {
        let until = self.until().filter(|until| now < *until)?;
        Some((self.last_reason?, Duration::from_nanos(until - now)))
    }

    fn is_in_service(&self) -> bool {
        matches!(self.forced, Forced::Auto | Forced::Up)
    }

    pub(crate) fn standing(&self, thresholds: HealthThresholds, now: u64) -> Standing {
        match self.forced {
            Forced::Down => Standing::Down,
            Forced::Drain => Standing::Drain,
            Forced::Auto if self.health(thresholds) == Health::Unhealthy => Standing::Unhealthy,
            Forced::Auto if self.is_ejected(now) => Standing::Ejected,
            Forced::Up | Forced::Auto => Standing::Up,
        }
    }

    /// The number of ejections in a row: one more for each, one less for each interval without trouble.
    pub(crate) fn in_a_row(&self, settings: &EjectionSettings, now: u64) -> u32 {
        let interval = settings.interval.as_nanos() as u64;
        let (mut row, mut since) = (0_u32, 0);
        for trouble in &self.troubles {
            row = row.saturating_sub((trouble.at.saturating_sub(since) / interval) as u32);
            since = trouble.at;
            if let Some((until, in_a_row)) = trouble.ejected {
                (row, since) = (in_a_row, until);
            }
        }
        row.saturating_sub((now.saturating_sub(since) / interval).min(1 << 30) as u32)
    }

    pub(crate) fn begin(&mut self, number: u64, now: u64) {
        self.open.push(number);
        self.signs.push(Sign::Began { at: now });
    }

    pub(crate) fn end(&mut self, number: u64, began: u64) {
        self.open.retain(|open| *open != number);
        self.signs.push(Sign::Ended { began });
    }

    /// A response to a request that began then; how long it took is not known.
    pub(crate) fn respond_unmeasured(&mut self, began: u64) {
        self.signs.push(Sign::Ended { began });
    }

    /// A response, or a failure that takes longer than expected.
    fn sample(&mut self, took: f64, now: u64) {
        self.signs.push(Sign::Sampled { at: now, took });
    }

    /// The estimate at the last sample, and when that came: a quarter up, or down by the time since the one before.
    fn measured(&self) -> (f64, u64) {
        let (mut measured, mut sampled_at) = (0.0, 0_u64);
        for sign in &self.signs {
            if let Sign::Sampled { at, took } = *sign {
                let elapsed = at.saturating_sub(sampled_at) as f64;
                let down = (elapsed / (elapsed + TEN_SECONDS)).max(1.0 / 16.0);
                let step = if took > measured { 0.25 } else { down };
                measured = if measured == 0.0 { took } else { (1.0 - step) * measured + step * took };
                sampled_at = at;
            }
        }
        (measured, sampled_at)
    }

    /// When the first request began after a sample, unless another sample came, or a request ended that began then.
    pub(crate) fn silent_since(&self) -> Option<u64> {
        let mut since: Option<u64> = None;
        for sign in &self.signs {
            since = match *sign {
                // The epoch itself is no moment to begin at.
                Sign::Began { at } => since.or(Some(at).filter(|at| *at > 0)),
                Sign::Ended { began } => since.filter(|since| *since != began),
                Sign::Sampled { .. } => None,
            };
        }
        since
    }

    pub(crate) fn latency(&self, now: u64) -> Option<f64> {
        let (measured, sampled_at) = self.measured();
        let latency = match self.silent_since() {
            Some(since) => (now.saturating_sub(since) as f64).clamp(measured, 10.0 * measured),
            None => measured * TEN_SECONDS / (TEN_SECONDS + now.saturating_sub(sampled_at) as f64),
        };
        (measured > 0.0).then_some(latency)
    }

    fn streak(&self) -> usize {
        let mut later = None;
        let is_in_row = |mark: &&Mark| match **mark {
            Mark::Failed { at } => later.replace(at).is_none_or(|later| later.saturating_sub(at) <= LONGEST_GAP),
            Mark::Succeeded | Mark::Judged => false,
        };
        self.marks.iter().rev().take_while(is_in_row).count()
    }

    fn rate(&self) -> f64 {
        self.outcomes.iter().filter(|succeeded| **succeeded).count() as f64 / self.outcomes.len() as f64
    }
}

pub(crate) struct Model {
    /// All endpoints there ever were.
    pub(crate) endpoints: Vec<Endpoint>,
    /// Those in the pool, by their index there, with their weights.
    pub(crate) pool: Vec<(usize, u32)>,
    pub(crate) ejection: EjectionSettings,
    pub(crate) thresholds: HealthThresholds,
}

impl Model {
    /// How good each endpoint of the pool is for a request; the least is best, and from 1,000 on they were tried.
    pub(crate) fn ranks(&self, tried: &Tried, now: u64) -> Vec<Option<u32>> {
        let rank = |(index, (id, weight)): (usize, &(usize, u32))| {
            let standing = match self.endpoints[*id].standing(self.thresholds, now) {
                Standing::Up => 0,
                Standing::Ejected | Standing::Unhealthy => 100,
                Standing::Drain => 200,
                Standing::Down => return None,
            };
            Some(1_000 * u32::from(tried.contains(index)) + standing + u32::from(*weight == 0))
        };
        self.pool.iter().enumerate().map(rank).collect()
    }

    fn index(&self, id: usize) -> Option<usize> {
        self.pool.iter().position(|(other, _)| *other == id)
    }

    /// The head of a response has come.
    pub(crate) fn respond(&mut self, id: usize, took: Duration, now: u64) {
        self.endpoints[id].sample(nanos(took), now);
    }

    pub(crate) fn succeed(&mut self, id: usize, generation: usize) {
        self.succeed_in_part(id);
        let endpoint = &mut self.endpoints[id];
        if generation == endpoint.ejections() {
            endpoint.marks.push(Mark::Succeeded);
        }
    }

    /// The client left while its response came.
    pub(crate) fn succeed_in_part(&mut self, id: usize) {
        let endpoint = &mut self.endpoints[id];
        endpoint.successes += 1;
        endpoint.outcomes.push(true);
    }

    pub(crate) fn fail(
        &mut self,
        id: usize,
        generation: usize,
        (last, took): (Cause, Option<Duration>),
        now: u64,
    ) -> Option<Change> {
        let standing = self.endpoints[id].standing(self.thresholds, now);
        let endpoint = &mut self.endpoints[id];
        if let Some(took) = took.map(nanos).filter(|took| *took > endpoint.measured().0) {
            endpoint.sample(took, now);
        }
        endpoint.failures += 1;
        endpoint.outcomes.push(false);
        if generation != endpoint.ejections() || standing == Standing::Ejected {
            return None;
        }
        endpoint.marks.push(Mark::Failed { at: now });
        let most = self.ejection.consecutive_failures?.get() as usize;
        let index = self.index(id)?;
        if self.endpoints[id].streak() < most {
            return None;
        }
        self.endpoints[id].marks.push(Mark::Judged);
        self.eject(index, Reason::ConsecutiveFailures { last }, now)
    }

    fn eject(&mut self, index: usize, reason: Reason, now: u64) -> Option<Change> {
        let count = self.pool.len();
        let standing = |id: &usize| self.endpoints[*id].standing(self.thresholds, now);
        let with = |wanted| self.pool.iter().filter(|(id, _)| standing(id) == wanted).count();
        let (up, ejected) = (with(Standing::Up), with(Standing::Ejected));
        let most_out = (count as f64 * self.ejection.max_share).floor() as usize;
        // Whatever is out counts for the share. One may always be ejected, but never the last that is up.
        let may_eject = up > 1 && (ejected == 0 || count - up < most_out);
        let endpoint = &mut self.endpoints[self.pool[index].0];
        let is_up = endpoint.standing(self.thresholds, now) == Standing::Up;
        if count == 1 || !is_up || endpoint.forced == Forced::Up {
            return None;
        }
        if !may_eject {
            endpoint.troubles.push(Trouble { at: now, ejected: None });
            return Some(Change::NotEjected { index, reason });
        }
        let longest = self.ejection.max.as_nanos().div_ceil(self.ejection.base.as_nanos()) as u32;
        let in_a_row = (endpoint.in_a_row(&self.ejection, now) + 1).min(longest);
        let length = (self.ejection.base * in_a_row).min(self.ejection.max);
        let until = now + length.as_nanos() as u64;
        endpoint.troubles.push(Trouble { at: now, ejected: Some((until, in_a_row)) });
        endpoint.is_returned = false;
        endpoint.last_reason = Some(reason);
        Some(Change::Ejected { index, reason, length, in_a_row })
    }

    pub(crate) fn step(&mut self, now: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        let number = now / self.ejection.interval.as_nanos() as u64;
        let mut rates = Vec::new();
        for (index, (id, _)) in self.pool.iter().enumerate() {
            let endpoint = &mut self.endpoints[*id];
            if endpoint.until().is_some_and(|until| until <= now) {
                endpoint.is_returned = true;
                changes.push(Change::Returned { index });
            }
            let closed = endpoint.interval.replace(number);
            if closed == Some(number) {
                continue;
            }
            let enough = |settings: SuccessRateSettings| endpoint.outcomes.len() as u64 >= settings.min_requests;
            if closed.is_some() && endpoint.is_in_service() && self.ejection.success_rate.is_some_and(enough) {
                rates.push((index, endpoint.rate()));
            }
            endpoint.outcomes.clear();
        }
        if let Some(settings) = self.ejection.success_rate.filter(|settings| rates.len() >= settings.min_endpoints) {
            for (index, reason) in outliers(&rates, &settings) {
                changes.extend(self.eject(index, reason, now));
            }
        }
        changes
    }

    pub(crate) fn check(&mut self, index: usize, passed: bool) -> Option<Change> {
        let endpoint = &mut self.endpoints[self.pool[index].0];
        let before = endpoint.health(self.thresholds);
        endpoint.checks.push(passed);
        let health = endpoint.health(self.thresholds);
        (health != before).then_some(Change::HealthChanged { index, health })
    }

    pub(crate) fn forget_checks(&mut self, index: usize) -> Option<Change> {
        let endpoint = &mut self.endpoints[self.pool[index].0];
        let before = endpoint.health(self.thresholds);
        endpoint.checks.clear();
        (before != Health::Unknown).then_some(Change::HealthChanged { index, health: Health::Unknown })
    }

    pub(crate) fn force(&mut self, index: usize, forced: Forced) -> Option<Change> {
        let endpoint = &mut self.endpoints[self.pool[index].0];
        let before = endpoint.forced;
        endpoint.forced = forced;
        (before != forced).then_some(Change::ForcedChanged { index, forced })
    }
}

/// Those below the others by the definition of mean and standard deviation, the worst first.
fn outliers(rates: &[(usize, f64)], settings: &SuccessRateSettings) -> Vec<(usize, Reason)> {
    let mut found: Vec<(usize, f64, f64)> = Vec::new();
    for (index, rate) in rates {
        let others: Vec<f64> = rates.iter().filter(|(other, _)| other != index).map(|(_, rate)| *rate).collect();
        let count = others.len() as f64;
        let mean = others.iter().sum::<f64>() / count;
        let deviation = (others.iter().map(|other| (other - mean).powi(2)).sum::<f64>() / count).sqrt();
        if *rate < mean - settings.deviations * deviation && *rate < settings.tolerated_share * mean {
            found.push((*index, *rate, mean));
        }
    }
    found.sort_by(|one, other| one.1.total_cmp(&other.1));
    found.into_iter().map(|(index, rate, others)| (index, Reason::SuccessRate { rate, others })).collect()
}

/// Whether two changes are the same but for what arithmetic loses.
pub(crate) fn is_same(one: &Change, other: &Change) -> bool {
    let close = |one: &Reason, other: &Reason| match (one, other) {
        (Reason::SuccessRate { rate, others }, Reason::SuccessRate { rate: other_rate, others: other_others }) => {
            (rate - other_rate).abs() < 1e-9 && (others - other_others).abs() < 1e-9
        }
        (one, other) => one == other,
    };
    match (one, other) {
        (
            Change::Ejected { index, reason, length, in_a_row },
            Change::Ejected { index: other_index, reason: other_reason, length: other_length, in_a_row: other_row },
        ) => (index, length, in_a_row) == (other_index, other_length, other_row) && close(reason, other_reason),
        (Change::NotEjected { index, reason }, Change::NotEjected { index: other_index, reason: other_reason }) => {
            index == other_index && close(reason, other_reason)
        }
        (one, other) => one == other,
    }
}

/// At least one.
fn nanos(took: Duration) -> f64 {
    took.as_nanos().max(1) as f64
}

pub(crate) const fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}
