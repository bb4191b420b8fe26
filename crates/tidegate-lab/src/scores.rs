//! The figures of a run. Every formula stands in [`FORMULAS`], which reports repeat.

use std::time::Duration;

use crate::observation::{Row, count, ratio, seconds};
use crate::pool_record::PoolRecord;
use crate::run::{Outcome, Prediction};
use crate::scenario::{Comparison, Fault, Figure, Scenario};

/// How figures are computed, for readers of a report.
pub const FORMULAS: [(&str, &str); 13] = [
    (
        "protection",
        "100 × (1 − target errors) × (1 − over-admitted) × in time × use. In time: good responses within the \
         scenario's objective, as a share of all good responses. Use: the sum over all seconds of good responses, \
         divided by what could have been admitted: the sum of the least of offered, limit in force and capacity, or \
         what the exact definition would have admitted (admitted − over-admitted + under-admitted) if that is less; \
         at most 1.",
    ),
    ("goodput", "good responses ÷ the sum over all seconds of min(offered, capacity), at most 1"),
    (
        "worst window",
        "the most requests admitted in any window of the limit's length, wherever it begins, ÷ what the limit in force \
         allows in it. 1 is exact, 2 is a fixed window used up twice around its edge. A shaper's requests count when \
         they leave.",
    ),
    (
        "over-admitted",
        "requests admitted although the window before them was full by the exact definition, or beyond the burst that \
         a bucket may have on top ÷ admitted",
    ),
    (
        "not scored",
        "while the gateway knows that Redis is unavailable, on_failure open admits and closed rejects every request, \
         by design. Such a time is listed with its run, and marked in its charts. Its requests count neither as over- \
         nor as under-admitted, and in no window; without a limit the use counts them up to the capacity. What comes \
         before and after is scored, and with on_failure local everything is.",
    ),
    ("under-admitted", "requests rejected although the window before them had room by the exact definition ÷ offered"),
    (
        "refused",
        "requests that the gateway rejected ÷ offered; honest clients and attackers apart. With the gateway's own \
         configuration also those that a circuit breaker or a bulkhead rejected",
    ),
    ("target errors", "responses of 5xx that clients got from the target ÷ requests that were sent on to it"),
    (
        "a limit for each client",
        "use counts what each client offered up to its own limit; peaks are not listed, because a sum over clients \
         shows no peak of one of them",
    ),
    (
        "fairness",
        "Jain's index over honest clients of the share of their requests that was admitted: 1 if all have the same",
    ),
    ("latency", "of good responses and timeouts, from when a request was due"),
    (
        "recovery",
        "the longest time from the end of a peak or a fault to the first second without target errors and with a p95 \
         of at most twice the usual one (the median over seconds that are neither), or the objective if that is more. \
         With the gateway's own configuration it must also have 99 % good responses",
    ),
    (
        "stability at the peak",
        "1 − standard deviation ÷ mean of good responses a second, over the seconds in which more than 1.2 times the \
         operator's limit was offered; at least 0",
    ),
];

/// The same for figures of several targets, which only reports with such scenarios have.
pub(crate) const POOL_FORMULAS: [(&str, &str); 3] = [
    (
        "failed attempts",
        "attempts on targets that failed ÷ all attempts; a request has up to three, and more with retries. Failed: no \
         response, or a status that ejection counts (502, 503, 504)",
    ),
    ("spread", "Jain's index over targets of successful attempts ÷ weight, before the first fault of a target"),
    (
        "load back",
        "the longest time from the end of a target's fault to the first second in which it has at least half of its \
         share, by weight, of the successful attempts",
    ),
];

/// The same for figures of policies, which only reports with the gateway's own configuration have.
pub(crate) const POLICY_FORMULAS: [(&str, &str); 5] = [
    (
        "served",
        "requests that got a good response within the objective ÷ requests; one that its client sends again is one \
         request. Of all, or of a group of clients",
    ),
    (
        "slowdown",
        "a group's p99 of good responses and timeouts, of requests due while faults lasted ÷ of those due before the \
         first fault",
    ),
    (
        "amplification",
        "requests that targets got ÷ requests that clients had; what clients or the gateway send again was one before",
    ),
    ("failed wait", "the mean time from when a request was due to its end, of those that failed or were rejected"),
    ("open after", "the time from the start of the first fault until a circuit breaker opens"),
];

/// The figures of a run; none where they make no sense.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// 0 to 100.
    pub protection: Option<f64>,
    /// See [`FORMULAS`], as all that follow.
    pub goodput: Option<f64>,
    /// The most in any window.
    pub worst_window: Option<f64>,
    /// Of admitted.
    pub over_admitted: Option<f64>,
    /// Of offered.
    pub under_admitted: Option<f64>,
    /// Of offered.
    pub refused: f64,
    /// Of what honest clients offered.
    pub refused_honest: Option<f64>,
    /// Of what attackers offered.
    pub refused_attackers: Option<f64>,
    /// Of admitted.
    pub target_errors: f64,
    /// Of offered.
    pub errors: f64,
    /// From 1/n to 1.
    pub fairness: Option<f64>,
    /// Seconds.
    pub recovery: Option<f64>,
    /// Up to 1.
    pub peak_stability: Option<f64>,
    /// While Redis was away.
    pub refused_in_outage: Option<f64>,
    /// Seconds from Redis' return.
    pub limiting_back: Option<f64>,
    /// Of all attempts on several targets.
    pub failed_attempts: Option<f64>,
    /// Over several targets, from 1/n to 1.
    pub spread: Option<f64>,
    /// Seconds from the end of a target's fault.
    pub load_back: Option<f64>,
    /// Of all requests; only with the gateway's own configuration, as all that follow.
    pub served: Option<f64>,
    /// A multiple of the clients' requests.
    pub amplification: Option<f64>,
    /// Seconds, on average.
    pub failed_wait: Option<f64>,
    /// Seconds from the start of the first fault.
    pub open_after: Option<f64>,
    /// By group of clients.
    pub groups: Vec<GroupScores>,
    /// Seconds.
    pub latency: Option<Latency>,
}

/// The figures of a group of clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupScores {
    /// Its name.
    pub name: String,
    /// Of its requests.
    pub served: Option<f64>,
    /// A multiple of its own p99 before the first fault.
    pub slowdown: Option<f64>,
}

/// How long good responses took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Percentiles.
    pub p50: f64,
    /// 90 of 100 took no longer; and so on.
    pub p90: f64,
    #[allow(missing_docs, reason = "as above")]
    pub p95: f64,
    #[allow(missing_docs, reason = "as above")]
    pub p99: f64,
    #[allow(missing_docs, reason = "as above")]
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// A time in which more was offered than the operator's limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// The first second.
    pub at: usize,
    /// The second after the last.
    pub until: usize,
    /// The highest second, in requests.
    pub offered: f64,
    /// The limit in force in the second before it, in requests a second.
    pub limit_before: Option<f64>,
    /// The highest limit during it.
    pub limit_during: Option<f64>,
    /// What adaptation expected of it beforehand.
    pub predicted: Option<f64>,
    /// The target's p95 during it, in seconds: the worst second.
    pub target_p95: Option<f64>,
    /// Errors of the target during it.
    pub target_errors: u64,
}

impl Peak {
    /// What adaptation did about it.
    pub fn action(&self, base: f64) -> &'static str {
        let highest = self.limit_during.unwrap_or(base).max(self.limit_before.unwrap_or(base));
        let lowest = self.limit_during.unwrap_or(base);
        match () {
            () if highest > base * 1.01 => "raised",
            () if lowest < base * 0.99 => "lowered",
            () => "none",
        }
    }
}

impl Scores {
    /// The figures of a run.
    pub fn of(scenario: &Scenario, outcome: &Outcome) -> Self {
        let (observation, policies) = (&outcome.observation, outcome.policies.as_ref());
        let total = observation.total();
        let all = total.all();
        let target_errors = ratio(all.target_errors, all.admitted());
        let (mut could, mut allowed) = (0.0, 0.0);
        for (index, row) in observation.rows.iter().enumerate() {
            let (offered, seconds) = (count(row.all().offered), observation.seconds_of(index));
            let limit = outcome.levels.limit.get(index).copied().flatten().unwrap_or(f64::INFINITY);
            let capacity = scenario.capacity();
            could += offered.min(capacity * seconds);
            let begins = count(index as u64 * observation.step);
            let unlimited = outcome.unlimited_share(begins, begins + seconds);
            let rate = capacity.min(limit) * (1.0 - unlimited) + capacity * unlimited;
            allowed += offered.min(rate * seconds);
        }
        if scenario.is_limited_per_client() && outcome.judged.is_some() {
            allowed = allowed.min(observation.allowed_each(scenario.rate()));
        }
        // A second is a fixed window's idea of a limit. What an exact limit admits, if less, is what could be admitted.
        if let Some(judged) = outcome.judged.filter(|judged| judged.admitted > 0) {
            let exact = count(judged.admitted - judged.over + judged.under) / count(judged.admitted);
            let unlimited = outcome.admitted_unlimited().min(all.admitted());
            allowed = allowed.min(exact * count(all.admitted() - unlimited) + count(unlimited));
        }
        // With several upstreams it is not known which of them could have served what.
        let has_one = scenario.gateway.is_none();
        let share = |whole: f64| (has_one && whole > 0.0).then(|| (count(all.good) / whole).min(1.0));
        let in_time = in_time(outcome, scenario.objective);
        let judged = outcome.judged.as_ref();
        let over_admitted = judged.map(|judged| ratio(judged.over, judged.admitted));
        let kept = 1.0 - over_admitted.unwrap_or(0.0);
        let protection =
            share(allowed).map(|used| 100.0 * (1.0 - target_errors) * kept * in_time.unwrap_or(0.0) * used);
        let of = |part: u64, whole: u64| (whole > 0).then(|| ratio(part, whole));
        Self {
            protection,
            goodput: share(could),
            worst_window: judged.map(|judged| judged.worst),
            over_admitted,
            under_admitted: judged.map(|judged| ratio(judged.under, all.offered)),
            refused: ratio(all.rejected, all.offered),
            refused_honest: of(total.honest.rejected, total.honest.offered),
            refused_attackers: of(total.attackers.rejected, total.attackers.offered),
            target_errors,
            errors: ratio(all.errors, all.offered),
            fairness: observation.fairness(),
            recovery: recovery(scenario, outcome),
            peak_stability: stability(scenario, outcome),
            refused_in_outage: outcome.outage.and_then(|outage| of(outage.rejected, outage.offered)),
            limiting_back: outcome.outage.and_then(|outage| outage.limiting_back).map(|back| back.as_secs_f64()),
            failed_attempts: outcome.targets.as_ref().map(PoolRecord::failed_attempts),
            spread: outcome.targets.as_ref().and_then(|targets| targets.spread(scenario)),
            load_back: outcome.targets.as_ref().and_then(|targets| targets.load_back(scenario)),
            served: policies.and_then(|_| served(outcome)),
            amplification: policies.and_then(|policies| of(policies.sent?, observation.requests())),
            failed_wait: policies.and_then(|_| observation.failed_wait()),
            open_after: policies.and_then(|policies| open_after(scenario, &policies.opened_at)),
            groups: policies.map_or_else(Vec::new, |_| groups(outcome)),
            latency: latency(outcome),
        }
    }

    /// What a comparison compares.
    pub fn compared(&self, comparison: &Comparison) -> Option<f64> {
        let Some(name) = &comparison.group else { return self.figure(comparison.figure) };
        let group = self.groups.iter().find(|group| group.name == *name)?;
        match comparison.figure {
            Figure::Served => group.served,
            Figure::Slowdown => group.slowdown,
            other => self.figure(other),
        }
    }

    /// A figure by its name.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Refused => Some(self.refused),
            Figure::RefusedHonest => self.refused_honest,
            Figure::RefusedAttackers => self.refused_attackers,
            Figure::Goodput => self.goodput,
            Figure::WorstWindow => self.worst_window,
            Figure::OverAdmitted => self.over_admitted,
            Figure::UnderAdmitted => self.under_admitted,
            Figure::TargetErrors => Some(self.target_errors),
            Figure::Errors => Some(self.errors),
            Figure::Fairness => self.fairness,
            Figure::P50 => self.latency.map(|latency| latency.p50),
            Figure::P95 => self.latency.map(|latency| latency.p95),
            Figure::P99 => self.latency.map(|latency| latency.p99),
            Figure::Recovery => self.recovery,
            Figure::Protection => self.protection,
            Figure::RefusedInOutage => self.refused_in_outage,
            Figure::LimitingBack => self.limiting_back,
            Figure::FailedAttempts => self.failed_attempts,
            Figure::Spread => self.spread,
            Figure::LoadBack => self.load_back,
            Figure::Served => self.served,
            // Only groups have it.
            Figure::Slowdown => None,
            Figure::Amplification => self.amplification,
            Figure::FailedWait => self.failed_wait,
            Figure::OpenAfter => self.open_after,
        }
    }
}

fn served(outcome: &Outcome) -> Option<f64> {
    let (good, all) =
        (outcome.observation.groups().iter().map(|group| group.good).sum(), outcome.observation.requests());
    (all > 0).then(|| ratio(good, all))
}

fn groups(outcome: &Outcome) -> Vec<GroupScores> {
    let groups = outcome.observation.groups().iter();
    let scores = groups.map(|group| GroupScores {
        name: group.name.clone(),
        served: group.served(),
        slowdown: group.slowdown(),
    });
    scores.collect()
}

fn open_after(scenario: &Scenario, opened_at: &[f64]) -> Option<f64> {
    let first = scenario.faults.iter().map(|fault| fault.at).min()?.as_secs_f64();
    opened_at.iter().find(|at| **at >= first).map(|at| at - first)
}

fn latency(outcome: &Outcome) -> Option<Latency> {
    let spread = &outcome.observation.latency;
    if spread.is_empty() {
        return None;
    }
    let at = |percent: f64| seconds(spread.value_at_quantile(percent / 100.0));
    Some(Latency {
        mean: spread.mean() / 1e6,
        p50: at(50.0),
        p90: at(90.0),
        p95: at(95.0),
        p99: at(99.0),
        p999: at(99.9),
        max: seconds(spread.max()),
    })
}

/// The share of good responses that came within the objective.
fn in_time(outcome: &Outcome, objective: Duration) -> Option<f64> {
    let spread = &outcome.observation.latency;
    let micros = u64::try_from(objective.as_micros()).unwrap_or(u64::MAX);
    (!spread.is_empty()).then(|| spread.quantile_below(micros))
}

/// A little more than the limit is chance.
const PEAK: f64 = 1.2;

/// Whether more is offered in a second than the operator's limit. Where each client has its own limit, no sum shows it.
fn is_peak(scenario: &Scenario, row: &Row, step: u64) -> bool {
    scenario.shared_rate().is_some_and(|rate| count(row.all().offered) > PEAK * rate * count(step))
}

/// Times in which more was offered than the operator's limit.
pub fn peaks(scenario: &Scenario, outcome: &Outcome) -> Vec<Peak> {
    let (rows, step) = (outcome.observation.whole_rows(), outcome.observation.step);
    let mut peaks: Vec<Peak> = Vec::new();
    let mut index = 0;
    while index < rows.len() {
        let length = rows[index..].iter().take_while(|row| is_peak(scenario, row, step)).count();
        if length == 0 {
            index += 1;
            continue;
        }
        let (at, until) = (index, index + length);
        let span = &rows[at..until];
        let limit = |second: usize| outcome.levels.limit.get(second).copied().flatten();
        let most = |figures: &mut dyn Iterator<Item = f64>| figures.reduce(f64::max);
        peaks.push(Peak {
            at: at * step as usize,
            until: until * step as usize,
            offered: most(&mut span.iter().map(|row| count(row.all().offered) / count(step))).unwrap_or(0.0),
            limit_before: at.checked_sub(1).and_then(limit),
            limit_during: most(&mut (at..until).filter_map(limit)),
            predicted: predicted(&outcome.predictions, count((at as u64) * step)),
            target_p95: most(&mut span.iter().filter_map(|row| row.latency(95.0))),
            target_errors: span.iter().map(|row| row.all().target_errors).sum(),
        });
        index = until;
    }
    peaks
}

/// The last prediction before this second, if it covers it.
fn predicted(predictions: &[Prediction], second: f64) -> Option<f64> {
    let before = predictions.iter().rev().find(|prediction| prediction.at < second)?;
    (second <= before.at + before.valid_for).then_some(before.highest)
}

/// With the gateway's own configuration, an ordinary second also has this share of good responses: a breaker that
/// rejects everything is no recovery.
const WELL_SERVED: f64 = 0.99;

/// From the end of each peak and fault to an ordinary second, the longest.
fn recovery(scenario: &Scenario, outcome: &Outcome) -> Option<f64> {
    let (rows, step) = (outcome.observation.whole_rows(), outcome.observation.step);
    let is_quiet = |index: usize| {
        let (begins, ends) = (count(index as u64 * step), count((index as u64 + 1) * step));
        let is_faulty = |fault: &Fault| fault.at.as_secs_f64() < ends && fault.until.as_secs_f64() > begins;
        !is_peak(scenario, &rows[index], step) && !scenario.faults.iter().any(is_faulty)
    };
    let mut usual: Vec<f64> =
        (0..rows.len()).filter(|index| is_quiet(*index)).filter_map(|index| rows[index].latency(95.0)).collect();
    usual.sort_by(f64::total_cmp);
    let usual = usual.get(usual.len() / 2).copied().unwrap_or(0.0);
    let bound = (2.0 * usual).max(scenario.objective.as_secs_f64());
    let has_policies = scenario.gateway.is_some();
    let is_served = |row: &Row| !has_policies || count(row.all().good) >= WELL_SERVED * count(row.all().offered);
    let is_well =
        |row: &Row| row.all().target_errors == 0 && is_served(row) && row.latency(95.0).is_none_or(|p95| p95 <= bound);
    let ends = (1..rows.len()).filter(|index| is_quiet(*index) && !is_quiet(*index - 1));
    let took = ends.map(|end| {
        // Until it is well, or the next peak or fault begins: it was not well for at least so long.
        let quiet = (end..rows.len()).take_while(|index| is_quiet(*index));
        count(quiet.take_while(|index| !is_well(&rows[*index])).count() as u64 * step)
    });
    took.reduce(f64::max)
}

/// How steady the rate of good responses is while more is offered than the limit.
fn stability(scenario: &Scenario, outcome: &Outcome) -> Option<f64> {
    let step = outcome.observation.step;
    let rows = outcome.observation.whole_rows().iter().filter(|row| is_peak(scenario, row, step));
    let good: Vec<f64> = rows.map(|row| count(row.all().good)).collect();
    let number = count(good.len() as u64);
    let mean = good.iter().sum::<f64>() / number;
    let variance = good.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>() / number;
    (good.len() > 1 && mean > 0.0).then(|| (1.0 - variance.sqrt() / mean).max(0.0))
}
