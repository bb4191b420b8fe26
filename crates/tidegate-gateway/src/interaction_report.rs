//! What is known of policies in force, for the admin API and for metrics.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_policy::Timestamp;
use tidegate_policy::breaker::{Breaker, Forced};
use tidegate_serve::{Exposition, Kind};

use crate::interaction::Interaction;
use crate::plan::Plan;

/// All breakers.
pub(crate) fn breakers(plan: &Plan, now: Timestamp) -> Value {
    let all = plan.site.interactions.iter().filter_map(|interaction| breaker(interaction, now));
    json!({ "breakers": all.collect::<Vec<_>>() })
}

/// The breaker of an interaction, if it has one.
pub(crate) fn breaker(interaction: &Interaction, now: Timestamp) -> Option<Value> {
    let snapshot = interaction.breaker.as_ref()?.snapshot(now);
    let totals = snapshot.totals;
    Some(json!({
        "policy": interaction.policy,
        "upstream": interaction.upstream,
        "state": snapshot.phase.name(),
        "set": snapshot.forced.name(),
        "secondsLeft": snapshot.open_for.map(|left| left.as_secs_f64()),
        "attempts": snapshot.calls,
        "failures": snapshot.failures,
        "slow": snapshot.slow,
        "failuresInARow": snapshot.failures_in_a_row,
        "probes": snapshot.probes,
        "probesSucceeded": snapshot.probes_succeeded,
        "totals": {
            "successes": totals.successes,
            "failures": totals.failures,
            "slow": totals.slow,
            "rejected": totals.rejected,
            "late": totals.late,
        },
    }))
}

/// The interaction with this breaker, or what is known instead.
pub(crate) fn with_breaker<'a>(
    plan: &'a Plan,
    policy: &str,
    upstream: &str,
) -> Result<(&'a Interaction, &'a Arc<Breaker>), String> {
    let mut all = plan.site.interactions.iter().filter_map(|it| Some((&**it, it.breaker.as_ref()?)));
    let found = all.clone().find(|(it, _)| (&*it.policy, &*it.upstream) == (policy, upstream));
    found.ok_or_else(|| {
        let mut known: Vec<String> = all.by_ref().map(|(it, _)| format!("{}/{}", it.policy, it.upstream)).collect();
        if known.is_empty() {
            known.push("none".to_owned());
        }
        format!("unknown breaker \"{policy}/{upstream}\"; known breakers: {}", known.join(", "))
    })
}

/// The state of this name that an operator may set.
pub(crate) fn forced(word: &str) -> Option<Forced> {
    Forced::ALL.into_iter().find(|forced| forced.name() == word)
}

/// A part of the interactions that have it.
type Having<'a, T> = Vec<([(&'static str, &'a str); 2], T)>;

fn having<'a, T>(plan: &'a Plan, part: impl Fn(&'a Interaction) -> Option<T>) -> Having<'a, T> {
    let all = plan.site.interactions.iter().map(|interaction| &**interaction);
    let labels = |it: &'a Interaction| [("service", &*it.upstream), ("policy", &*it.policy)];
    all.filter_map(|interaction| Some((labels(interaction), part(interaction)?))).collect()
}

/// Writes the metrics of all policies in force.
pub(crate) fn write(plan: &Plan, now: Timestamp, page: &mut Exposition) {
    write_breakers(plan, now, page);
    write_retries(plan, now, page);
    write_bulkheads(plan, page);
}

fn write_breakers(plan: &Plan, now: Timestamp, page: &mut Exposition) {
    let breakers = having(plan, |interaction| Some(interaction.breaker.as_ref()?.snapshot(now)));
    let help = "Circuit breakers: 0 closed, 1 open, 2 half-open.";
    let mut family = page.family("circuit_breaker_state", help, Kind::Gauge);
    for (labels, snapshot) in &breakers {
        family.sample(labels, u64::from(snapshot.phase.number()));
    }
    let help = "1 for what an operator wants of a breaker.";
    let mut family = page.family("tidegate_breaker_set", help, Kind::Gauge);
    for ([service, policy], snapshot) in &breakers {
        for forced in Forced::ALL {
            family.sample(&[*service, *policy, ("state", forced.name())], snapshot.forced == forced);
        }
    }
    let help = "What a breaker has counted: successes and failures, which of both were slow, what it rejected, and \
                results that came too late to count.";
    let mut family = page.family("tidegate_breaker_calls_total", help, Kind::Counter);
    for ([service, policy], snapshot) in &breakers {
        let totals = snapshot.totals;
        let kinds = [
            ("success", totals.successes),
            ("failure", totals.failures),
            ("slow", totals.slow),
            ("rejected", totals.rejected),
            ("late", totals.late),
        ];
        for (kind, count) in kinds {
            family.sample(&[*service, *policy, ("kind", kind)], count);
        }
    }
    let help = "Transitions of a breaker, by the state that they led to.";
    let mut family = page.family("tidegate_breaker_transitions_total", help, Kind::Counter);
    for ([service, policy], snapshot) in &breakers {
        for (to, count) in ["closed", "open", "half_open"].into_iter().zip(snapshot.totals.transitions) {
            family.sample(&[*service, *policy, ("to", to)], count);
        }
    }
}

fn write_retries(plan: &Plan, now: Timestamp, page: &mut Exposition) {
    let retries = having(plan, |it| Some((it.budget.as_ref()?.snapshot(now), &it.stats)));
    let mut family = page.family("tidegate_retries_total", "Attempts that were repeated.", Kind::Counter);
    for (labels, (_, stats)) in &retries {
        family.sample(labels, stats.retries.get());
    }
    let help = "Failures worth another attempt that got none: the request must not be repeated or its body is not \
                whole, all attempts were made, the time or the budget was used up, the breaker was open, or limits, \
                breaker or bulkhead rejected it after its pause.";
    let mut family = page.family("tidegate_retries_denied_total", help, Kind::Counter);
    for ([service, policy], (_, stats)) in &retries {
        for (reason, count) in stats.all_not_repeated() {
            family.sample(&[*service, *policy, ("reason", reason)], count);
        }
        family.sample(&[*service, *policy, ("reason", "rejected")], stats.rejected_retries.get());
    }
    let hedges = having(plan, |it| Some((it.hedge.as_ref()?.delay(now), &it.stats)));
    let help = "Attempts that were made beside another that had no response yet.";
    let mut family = page.family("tidegate_hedges_total", help, Kind::Counter);
    for (labels, (_, stats)) in &hedges {
        family.sample(labels, stats.hedges.get());
    }
    let help = "Attempts beside another that brought the response.";
    let mut family = page.family("tidegate_hedges_won_total", help, Kind::Counter);
    for (labels, (_, stats)) in &hedges {
        family.sample(labels, stats.hedges_won.get());
    }
    let help = "After how long without a response another attempt is made beside the first. Missing while too few \
                latencies are known.";
    let mut family = page.family("tidegate_hedge_delay_seconds", help, Kind::Gauge);
    for (labels, (delay, _)) in &hedges {
        if let Some(delay) = delay {
            family.sample(labels, delay.as_secs_f64());
        }
    }
    let help = "Retries that the budget has left.";
    let mut family = page.family("tidegate_retry_budget_left", help, Kind::Gauge);
    for (labels, (budget, _)) in &retries {
        family.sample(labels, budget.left);
    }
    let help = "Requests sent again at once, because the kept connection had ended.";
    let mut family = page.family("tidegate_resent_total", help, Kind::Counter);
    for (labels, stats) in having(plan, |it| Some(&it.stats)) {
        family.sample(&labels, stats.resent.get());
    }
}

fn write_bulkheads(plan: &Plan, page: &mut Exposition) {
    let bulkheads = having(plan, |it| Some((it.bulkhead.as_ref()?.snapshot(), it.stats.waited_in_vain.get())));
    let mut family = page.family("tidegate_bulkhead_limit", "The most attempts in flight.", Kind::Gauge);
    for (labels, (snapshot, _)) in &bulkheads {
        family.sample(labels, u64::from(snapshot.settings.limit));
    }
    let mut family = page.family("tidegate_bulkhead_in_flight", "Attempts in flight.", Kind::Gauge);
    for (labels, (snapshot, _)) in &bulkheads {
        family.sample(labels, u64::from(snapshot.in_flight));
    }
    let mut family = page.family("tidegate_bulkhead_waiting", "Requests that wait for a slot.", Kind::Gauge);
    for (labels, (snapshot, _)) in &bulkheads {
        family.sample(labels, u64::from(snapshot.waiting));
    }
    let help = "Requests that got no slot: there was no room to wait, or none became free in time.";
    let mut family = page.family("tidegate_bulkhead_rejected_total", help, Kind::Counter);
    for ([service, policy], (snapshot, waited_in_vain)) in &bulkheads {
        family.sample(&[*service, *policy, ("reason", "full")], snapshot.rejected);
        family.sample(&[*service, *policy, ("reason", "wait")], *waited_in_vain);
    }
}
