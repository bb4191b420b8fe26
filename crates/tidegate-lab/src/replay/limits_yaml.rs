//! The `limits` section of a configuration, as text that can be pasted: every setting that is not the default.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use tidegate_gateway::config::model::Limit;

/// Settings in the order in which people write them; others follow.
const ORDER: [&str; 14] = [
    "algorithm",
    "limit",
    "window",
    "capacity",
    "fill_rate",
    "hold",
    "key",
    "missing",
    "soft",
    "cost",
    "status",
    "dry_run",
    "state",
    "max_keys",
];

/// These limits; those that are not `is_changed` are marked as unchanged.
pub(super) fn section(limits: &BTreeMap<String, Limit>, is_changed: impl Fn(&str) -> bool) -> String {
    let mut text = String::from("limits:\n");
    for (name, limit) in limits {
        let mark = if is_changed(name) { "" } else { " # unchanged" };
        let _infallible = writeln!(text, "  {}:{mark}", word(name));
        mapping(&settings(limit), 4, &mut text);
    }
    text
}

/// All settings of a limit that are not the default.
fn settings(limit: &Limit) -> Vec<(String, Value)> {
    let fields = |limit: &Limit| match serde_json::to_value(limit) {
        Ok(Value::Object(fields)) => fields,
        // A struct with names for fields is an object.
        _ => Map::new(),
    };
    let (mut written, usual) = (fields(limit), fields(&Limit::default()));
    written.retain(|name, value| usual.get(name) != Some(value));
    let mut ordered: Vec<(String, Value)> =
        ORDER.iter().filter_map(|name| written.remove(*name).map(|value| ((*name).to_owned(), value))).collect();
    ordered.extend(written);
    ordered
}

fn mapping<'a>(fields: impl IntoIterator<Item = &'a (String, Value)>, indent: usize, text: &mut String) {
    for (name, value) in fields {
        // Tiers' numbers are serialised as the admin API names them; a file has one spelling for all.
        let name = if name == "fillRate" && value.is_number() { "fill_rate".to_owned() } else { word(name) };
        let _infallible = match value {
            Value::Object(inner) if !inner.is_empty() => {
                let _infallible = writeln!(text, "{:indent$}{name}:", "");
                let inner: Vec<(String, Value)> =
                    inner.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                mapping(&inner, indent + 2, text);
                Ok(())
            }
            Value::String(value) => writeln!(text, "{:indent$}{name}: {}", "", word(value)),
            // JSON is YAML too.
            other => writeln!(text, "{:indent$}{name}: {other}", ""),
        };
    }
}

/// Words that YAML takes for something else.
const TAKEN: [&str; 11] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];

/// A word as it is, if YAML takes it for one; else as JSON, which YAML reads.
fn word(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+.".contains(&byte))
        && !TAKEN.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_gateway::config;
    use tidegate_gateway::config::model::{Missing, Numbers, Soft, State, TierNumbers, Unlimited};
    use tidegate_gateway::config::span::Span;

    fn any_limit(random: &mut fastrand::Rng) -> Limit {
        let numbers = |random: &mut fastrand::Rng| Numbers {
            algorithm: random.bool().then(|| "token".to_owned()),
            capacity: Some(random.u64(1..1_000)),
            fill_rate: Some(random.f64() * 1_000.0 + 1e-3),
            ..Numbers::default()
        };
        let names = ["gold", "no", "0123", "a.b", "x y", "é", "null", "a: b", "- c", "#d", "\"e\""];
        let tiers = (0..random.usize(..4)).map(|_| {
            let tier = names[random.usize(..names.len())].to_owned();
            let unlimited = TierNumbers::Word(Unlimited::Unlimited);
            (tier, if random.bool() { unlimited } else { TierNumbers::Numbers(numbers(random)) })
        });
        let tiers = tiers.collect();
        let keys = ["ip", "user+endpoint", "header:x-tenant", "ip+header:x-a"];
        Limit {
            algorithm: "gcra".to_owned(),
            limit: random.bool().then(|| random.u64(..)),
            window: random.bool().then(|| Span::from_millis(random.u64(1..100_000))),
            capacity: random.bool().then(|| random.u64(1..1 << 40)),
            fill_rate: random.bool().then(|| random.f64() * 1e6),
            hold: random.bool().then(|| Span::from_secs(random.u64(1..100_000))),
            key: random.bool().then(|| keys[random.usize(..4)].to_owned()),
            missing: [Missing::Share, Missing::Ip, Missing::Refuse, Missing::Skip][random.usize(..4)],
            tiers,
            soft: [Soft::Switch(true), Soft::Switch(false), Soft::Count(7), Soft::Count(0)][random.usize(..4)],
            cost: random.bool().then(|| random.u32(1..)),
            status: random.bool().then(|| random.u16(400..600)),
            dry_run: random.bool(),
            state: random.bool().then(|| [State::Memory, State::Exact, State::Leased][random.usize(..3)]),
            max_keys: random.bool().then(|| random.usize(1..1_000)),
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let mut random = fastrand::Rng::with_seed(12);
        for _ in 0..500 {
            let limits: BTreeMap<String, Limit> = ["default", "on", "7", "per-ip", "a b"]
                .iter()
                .map(|name| ((*name).to_owned(), any_limit(&mut random)))
                .collect();
            let text = section(&limits, |name| name == "7");
            let again = config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).limits.expect("limits");
            assert_eq!(
                serde_json::to_value(again).expect("JSON"),
                serde_json::to_value(&limits).expect("JSON"),
                "{text}"
            );
        }
    }

    #[test]
    fn it_reads_as_people_write_it() {
        let limit = Limit {
            algorithm: "fixed".to_owned(),
            limit: Some(5),
            window: Some(Span::from_secs(60)),
            key: Some("user+endpoint".to_owned()),
            status: Some(503),
            tiers: BTreeMap::from([
                ("gold".to_owned(), TierNumbers::Word(Unlimited::Unlimited)),
                ("silver".to_owned(), TierNumbers::Numbers(Numbers { fill_rate: Some(9.5), ..Numbers::default() })),
            ]),
            ..Limit::default()
        };
        let expected = "limits:\n  search:\n    algorithm: fixed\n    limit: 5\n    window: 60\n    \
            key: user+endpoint\n    status: 503\n    \
            tiers:\n      gold: unlimited\n      silver:\n        fill_rate: 9.5\n";
        assert_eq!(section(&BTreeMap::from([("search".to_owned(), limit)]), |_| true), expected);
    }
}
