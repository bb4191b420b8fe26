//! What is shown of a run while it goes on.

use tidegate_lab::live::Moment;
use tidegate_lab::{Row, Scenario, Tally, Variant};
use tidegate_load::Class;

/// Figures of the last second whose requests have ended, and of all seconds before.
pub(super) struct Figures {
    /// Requests a second, second by second.
    pub(super) offered: Vec<f64>,
    pub(super) admitted: Vec<f64>,
    pub(super) rejected: Vec<f64>,
    /// None where there is no limit, or each client has its own.
    pub(super) limit: Option<Vec<f64>>,
    /// What is shown for the limit then.
    pub(super) other_limit: String,
    /// Good responses a second of each group of clients, where the gateway has its own configuration.
    pub(super) groups: Vec<(String, Vec<f64>)>,
    /// Of the last second: failed requests, and how long 95 of 100 good responses took, in seconds.
    pub(super) errors: u64,
    pub(super) p95: Option<f64>,
    /// Of the last second, where there are attackers: what became of everybody else.
    honest: Option<Tally>,
    /// Of the target, if it was seen.
    pub(super) busy: Option<u64>,
    pub(super) waiting: Option<u64>,
}

impl Figures {
    pub(super) fn of(moment: &Moment<'_>, scenario: &Scenario, variant: Variant) -> Self {
        let rows = settled(moment, scenario);
        let rate = |of: fn(&Row) -> u64| rows.iter().map(|row| count(of(row), moment.observation.step)).collect();
        let last = rows.last().cloned().unwrap_or_default();
        let base = variant.algorithm.and_then(|_| scenario.shared_rate());
        let limit = base.map(|base| {
            let mut seen: Vec<f64> = moment.levels.limit.iter().map(|limit| limit.unwrap_or(base)).collect();
            seen.resize(rows.len(), seen.last().copied().unwrap_or(base));
            if seen.is_empty() { vec![base] } else { seen }
        });
        let good = moment.observation.good_by_group().filter(|_| scenario.gateway.is_some());
        let groups = good.map(|(name, good)| {
            let good = good.iter().take(rows.len()).map(|good| count(*good, moment.observation.step));
            (name.to_owned(), good.collect())
        });
        Self {
            groups: groups.collect(),
            offered: rate(|row| row.all().offered),
            admitted: rate(|row| row.all().admitted()),
            rejected: rate(|row| row.all().rejected),
            limit,
            other_limit: match variant.algorithm {
                Some(_) => scenario.limit.map_or_else(String::new, |limit| format!("{}/s each", limit.rate)),
                None => "none".to_owned(),
            },
            honest: scenario.plan.clients.iter().any(|group| group.class == Class::Attacker).then_some(last.honest),
            errors: last.all().target_errors + last.all().errors,
            p95: last.latency(95.0),
            busy: moment.levels.busy.last().copied().flatten(),
            waiting: moment.levels.queue.last().copied().flatten(),
        }
    }

    /// How many seconds they are of.
    pub(super) fn seconds(&self) -> u64 {
        self.offered.len() as u64
    }

    /// `honest clients: 2 of 125 failed, 0 rejected`
    pub(super) fn of_honest(&self) -> Option<(String, bool)> {
        let honest = self.honest.filter(|_| !self.offered.is_empty())?;
        let failed = honest.target_errors + honest.errors;
        let text = format!("honest clients: {failed} of {} failed, {} rejected", honest.offered, honest.rejected);
        Some((text, failed > 0))
    }

    /// `p95 5.2 ms · target 2 of 4 busy, 0 waiting · 0 failed`
    pub(super) fn sentence(&self, workers: usize) -> String {
        let p95 = self.p95.map_or_else(|| "–".to_owned(), millis);
        let seen = |level: Option<u64>| level.map_or_else(|| "–".to_owned(), |level| level.to_string());
        format!(
            "p95 {p95} · target {} of {workers} busy, {} waiting · {} failed",
            seen(self.busy),
            seen(self.waiting),
            self.errors
        )
    }
}

/// The seconds that can be shown: requests count when they have ended, so those of a second that is just over are not
/// all there.
fn settled<'a>(moment: &Moment<'a>, scenario: &Scenario) -> &'a [Row] {
    let rows = &moment.observation.rows;
    let over = moment.elapsed.saturating_sub(scenario.objective).as_secs() / moment.observation.step;
    &rows[..usize::try_from(over).unwrap_or(usize::MAX).min(rows.len())]
}

/// The last of them, for people: `350/s`.
pub(super) fn latest(rates: &[f64]) -> String {
    rates.last().map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}/s"))
}

/// Seconds for people.
pub(super) fn millis(seconds: f64) -> String {
    if seconds >= 0.01 { format!("{:.0} ms", seconds * 1e3) } else { format!("{:.1} ms", seconds * 1e3) }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(requests: u64, seconds: u64) -> f64 {
    requests as f64 / seconds as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_lab::{Levels, Observation};

    use super::*;

    #[test]
    fn a_second_is_shown_when_its_requests_have_ended() {
        let (name, text) = tidegate_lab::DEMO[0];
        let scenario = Scenario::read(name, text).expect("a scenario");
        let observation = Observation::new(scenario.duration(), &scenario.plan.clients);
        let (duration, levels) = (scenario.duration(), Levels::default());
        let reported = |millis: u64| {
            let elapsed = Duration::from_millis(millis);
            let moment = Moment { elapsed, duration, observation: &observation, levels: &levels, events: &[] };
            settled(&moment, &scenario).len()
        };
        assert_eq!([reported(0), reported(2_100), reported(2_300), reported(1_000_000)], [0, 1, 2, 6]);
    }
}
