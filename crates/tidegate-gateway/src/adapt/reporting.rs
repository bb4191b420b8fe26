//! Writes what adaptation does to the log, the history and metrics.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value};
use tidegate_adapt::{AttackEvent, Decision, Miss, Missed, PastOutage, Verdict, difference, numbers_json};
use tidegate_policy::Timestamp;
use tidegate_policy::numbers::LimitNumbers;

use crate::config::model::AdaptiveMode;
use crate::control::limit_in_words;
use crate::gateway::Gateway;

/// The component that log lines name.
pub(super) const COMPONENT: &str = "AdaptiveController";

/// What the history shows beside a decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// The snapshot's figures.
    pub(super) observed: Option<Map<String, Value>>,
    /// The recommendation as received.
    pub(super) recommendation: Option<Value>,
}

/// Reports a decision about this limit.
pub(super) fn decided(
    gateway: &Gateway,
    at: Timestamp,
    limit: &str,
    mode: AdaptiveMode,
    made: &Decision,
    beside: Beside,
) {
    let is_shadow = mode == AdaptiveMode::Shadow && made.verdict.is_change();
    let verdict = if is_shadow { Verdict::Shadow } else { made.verdict };
    gateway.adaptation.gauges.decided(verdict);
    let log = &gateway.log;
    for cap in &made.caps {
        log.warn(COMPONENT, format_args!("AI provided out-of-range value, using cap {cap}{}", limit_in_words(limit)));
    }
    let line = difference(&made.from, &made.to);
    let (reason, which) = (made.reason(), limit_in_words(limit));
    match verdict {
        // The cap that leaves the numbers as they are has been logged above.
        Verdict::Capped if made.from.relevant() == made.to.relevant() => {}
        Verdict::Applied | Verdict::Capped | Verdict::Reverted => {
            log.info(COMPONENT, format_args!("AI update applied: {line}, reason: {reason}{which}"));
        }
        Verdict::Shadow => {
            log.info(COMPONENT, format_args!("AI update not applied (shadow): {line}, reason: {reason}{which}"));
        }
        Verdict::Deferred | Verdict::Frozen => {
            log.info(COMPONENT, format_args!("AI update waits: {}{which}", made.why));
        }
        Verdict::Refused => log.warn(COMPONENT, format_args!("AI update refused: {}{which}", made.why)),
        Verdict::Lowered => {
            log.warn(
                COMPONENT,
                format_args!("Upstream overloaded, lowering the limit: {line}, reason: {}{which}", made.why),
            );
        }
        Verdict::Released => {
            log.info(COMPONENT, format_args!("Upstream recovered, the limit is no longer lowered: {}{which}", made.to));
        }
        Verdict::Unchanged => {}
    }
    let mut entry = made.history_entry(verdict);
    if let Some(observed) = beside.observed {
        entry.insert("observed".to_owned(), observed.into());
    }
    if let Some(recommendation) = beside.recommendation {
        entry.insert("recommendation".to_owned(), recommendation);
    }
    gateway.adaptation.record(at, "decision", entry);
}

/// Reports that an attack begins or ends.
pub(super) fn attack(gateway: &Gateway, at: Timestamp, event: &AttackEvent) {
    let adaptation = &gateway.adaptation;
    let (event, reason) = match event {
        AttackEvent::Begins(why) => {
            gateway.log.warn(COMPONENT, format_args!("Attack begins: {why}; limits are not raised because of it"));
            ("attack_begins", why.clone())
        }
        AttackEvent::Ends => {
            gateway.log.info(COMPONENT, "Attack is over");
            ("attack_ends", String::new())
        }
    };
    adaptation.gauges.attack.store(event == "attack_begins", Relaxed);
    adaptation.record(at, event, because(reason));
}

/// Reports that the forecaster gave no usable response: the first time, and after `most` misses in a row.
pub(super) fn missed(gateway: &Gateway, at: Timestamp, miss: &Miss, missed: Missed, most: u32) {
    let (log, adaptation) = (&gateway.log, &gateway.adaptation);
    if missed.is_news {
        let what = if miss.is_response() { "AI module's response can't be used" } else { "AI module unreachable" };
        log.warn(COMPONENT, format_args!("{what}, continuing with last known limits: {miss}"));
        adaptation.record(at, miss.word(), because(miss.to_string()));
    }
    adaptation.gauges.misses.store(missed.misses, Relaxed);
    if missed.is_stale {
        adaptation.gauges.stale.store(true, Relaxed);
        let message = format!(
            "no usable response of the AI module, {most} times in a row: the last recommendation stays in force until \
             it ends, nothing else changes"
        );
        log.warn(COMPONENT, &message);
        adaptation.record(at, "stale", because(message));
    }
}

/// Reports that the forecaster responds again.
pub(super) fn is_back(gateway: &Gateway, at: Timestamp, outage: PastOutage) {
    let PastOutage { misses, lasted } = outage;
    let message = format!("AI module is back after {misses} missed responses ({:.1} s)", lasted.as_secs_f64());
    gateway.log.info(COMPONENT, &message);
    gateway.adaptation.record(at, "back", because(message));
    gateway.adaptation.gauges.misses.store(0, Relaxed);
    gateway.adaptation.gauges.stale.store(false, Relaxed);
}

/// Reports that this gateway has become the leader, or a follower.
pub(super) fn leadership(gateway: &Gateway, at: Timestamp, limit: &str, is_leader: bool) {
    let (event, message) = if is_leader {
        ("holder", "This gateway adapts the limit for all that share it")
    } else {
        ("follower", "Another gateway adapts the limit, this one follows")
    };
    gateway.log.info(COMPONENT, format_args!("{message}{}", limit_in_words(limit)));
    gateway.adaptation.record(at, event, because(message));
}

/// Reports that a decision of another gateway is in force here too.
pub(super) fn followed(gateway: &Gateway, at: Timestamp, limit: &str, from: &LimitNumbers, to: &LimitNumbers) {
    let (line, which) = (difference(from, to), limit_in_words(limit));
    gateway.log.info(COMPONENT, format_args!("AI update followed: {line}, decided by another gateway{which}"));
    let mut fields = because("decided by another gateway");
    fields.insert("from".to_owned(), numbers_json(from).into());
    fields.insert("to".to_owned(), numbers_json(to).into());
    gateway.adaptation.record(at, "followed", fields);
}

/// The fields of an entry of the history with this reason.
pub(super) fn because(reason: impl Into<String>) -> Map<String, Value> {
    Map::from_iter([("reason".to_owned(), Value::String(reason.into()))])
}
