//! What is said of adaptation: in the log, in the history, in metrics.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value};
use tidegate_policy::Timestamp;

use super::Adaptation;
use super::attack::AttackEvent;
use super::guard::rounded;
use super::pilot::{Decided, Verdict};
use super::snapshot;
use crate::config::model::AdaptiveMode;
use crate::config::numbers::LimitNumbers;
use crate::control::limit_in_words;
use crate::gateway::Gateway;

/// Who speaks in the log.
pub(super) const COMPONENT: &str = "AdaptiveController";

/// What stands beside a decision in the history.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// The snapshot's figures.
    pub(super) observed: Option<Map<String, Value>>,
    /// The recommendation as it came.
    pub(super) recommendation: Option<Value>,
}

/// Something was decided about this limit.
pub(super) fn decided(
    gateway: &Gateway,
    at: Timestamp,
    limit: &str,
    mode: AdaptiveMode,
    made: &Decided,
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
    let (reason, which) = (reason(made), limit_in_words(limit));
    match verdict {
        // That the same is wanted again, and may not be, has been told above.
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
    gateway.adaptation.record(at, "decision", entry(made, verdict, beside));
}

/// What was decided, without a gateway around it.
pub(super) fn in_words(made: &Decided) -> String {
    format!("{}: {} ({})", made.verdict.word(), difference(&made.from, &made.to), reason(made))
}

fn entry(made: &Decided, verdict: Verdict, beside: Beside) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("verdict".to_owned(), verdict.word().into());
    fields.insert("from".to_owned(), snapshot::numbers(&made.from).into());
    fields.insert("to".to_owned(), snapshot::numbers(&made.to).into());
    let why = [made.why.clone()].into_iter().filter(|why| !why.is_empty());
    let why: Vec<String> = why.chain(made.caps.iter().map(|cap| format!("capped at {cap}"))).collect();
    let why = why.join("; ");
    fields.insert("reason".to_owned(), why.into());
    if let Some(observed) = beside.observed {
        fields.insert("observed".to_owned(), observed.into());
    }
    if let Some(recommendation) = beside.recommendation {
        fields.insert("recommendation".to_owned(), recommendation);
    }
    fields
}

/// The seed's words: what is expected, and what the forecaster or we have to say to it.
fn reason(made: &Decided) -> String {
    if matches!(made.verdict, Verdict::Reverted | Verdict::Lowered | Verdict::Released) {
        return made.why.clone();
    }
    let forecast = made.predicted.map_or_else(|| "none".to_owned(), |rate| rounded(rate).to_string());
    let why = if made.why.is_empty() { String::new() } else { format!(" ({})", made.why) };
    format!("forecast={forecast} req/s{why}")
}

/// `algorithm=fixed, limit from 100 to 250, window=1`.
fn difference(from: &LimitNumbers, to: &LimitNumbers) -> String {
    if from.algorithm() != to.algorithm() {
        return format!("{to} (was {from})");
    }
    let (was, is) = (snapshot::numbers(from), snapshot::numbers(to));
    let told = |field: &&str| match (was.get(*field), is.get(*field)) {
        (Some(was), Some(is)) if was != is => Some(format!(", {field} from {was} to {is}")),
        (_, Some(is)) => Some(format!(", {field}={is}")),
        (_, None) => None,
    };
    let fields: String = ["limit", "window", "capacity", "fillRate"].iter().filter_map(told).collect();
    format!("algorithm={}{fields}", to.algorithm())
}

/// An attack begins or ends.
pub(super) fn attack(gateway: &Gateway, at: Timestamp, event: &AttackEvent) {
    let adaptation: &Adaptation = &gateway.adaptation;
    let (what, reason) = match event {
        AttackEvent::Begins(why) => {
            gateway.log.warn(COMPONENT, format_args!("Attack begins: {why}; limits are not raised because of it"));
            ("attack_begins", why.clone())
        }
        AttackEvent::Ends => {
            gateway.log.info(COMPONENT, "Attack is over");
            ("attack_ends", String::new())
        }
    };
    adaptation.gauges.attack.store(what == "attack_begins", Relaxed);
    adaptation.record(at, what, because(reason));
}

/// Another gateway adapts from now on, or this one.
pub(super) fn turn(gateway: &Gateway, at: Timestamp, limit: &str, is_mine: bool) {
    let (what, told) = if is_mine {
        ("holder", "This gateway adapts the limit for all that share it")
    } else {
        ("follower", "Another gateway adapts the limit, this one follows")
    };
    gateway.log.info(COMPONENT, format_args!("{told}{}", limit_in_words(limit)));
    gateway.adaptation.record(at, what, because(told));
}

/// What another gateway has decided is in force here too.
pub(super) fn followed(gateway: &Gateway, at: Timestamp, limit: &str, from: &LimitNumbers, to: &LimitNumbers) {
    let (line, which) = (difference(from, to), limit_in_words(limit));
    gateway.log.info(COMPONENT, format_args!("AI update followed: {line}, decided by another gateway{which}"));
    let mut fields = because("decided by another gateway");
    fields.insert("from".to_owned(), snapshot::numbers(from).into());
    fields.insert("to".to_owned(), snapshot::numbers(to).into());
    gateway.adaptation.record(at, "followed", fields);
}

/// A reason, as an entry has it.
pub(super) fn because(reason: impl Into<String>) -> Map<String, Value> {
    Map::from_iter([("reason".to_owned(), Value::String(reason.into()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(json: &str) -> LimitNumbers {
        LimitNumbers::new(serde_json::from_str(json).expect("JSON"), 0).expect("numbers")
    }

    #[test]
    fn a_line_says_what_differs() {
        let fixed = numbers(r#"{"algorithm": "fixed", "limit": 100, "window": 1}"#);
        let more = numbers(r#"{"algorithm": "fixed", "limit": 250, "window": 1}"#);
        let token = numbers(r#"{"algorithm": "token", "capacity": 200, "fillRate": 50}"#);
        let faster = numbers(r#"{"algorithm": "token", "capacity": 200, "fillRate": 62.5}"#);
        for (from, to, line) in [
            (&fixed, &more, "algorithm=fixed, limit from 100 to 250, window=1"),
            (&token, &faster, "algorithm=token, capacity=200, fillRate from 50.0 to 62.5"),
            (&fixed, &token, "algorithm=token, capacity=200, fillRate=50 (was algorithm=fixed, limit=100, window=1)"),
        ] {
            assert_eq!(difference(from, to), line);
        }
    }
}
