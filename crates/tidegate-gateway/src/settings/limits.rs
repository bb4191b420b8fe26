//! Limits, those of tiers among them.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use tidegate_policy::Cost;
use tidegate_store::{Name, Unshareable};

use super::{LimitSettings, Problems};
use crate::config::model::{self, Config, Numbers, State, TierNumbers};
use crate::config::numbers::LimitNumbers;
use crate::config::span::Span;
use crate::key::KeyParts;

/// The seed's default: 100 requests a minute for all clients together.
pub fn default_limit() -> model::Limit {
    model::Limit {
        algorithm: "fixed".to_owned(),
        limit: Some(100),
        window: Some(Span::from_secs(60)),
        ..model::Limit::default()
    }
}

/// All limits, those of tiers behind them, and the places of those that can be named.
pub(super) fn check_limits(config: &Config, problems: &mut Problems) -> (Vec<LimitSettings>, BTreeMap<String, usize>) {
    let defaults = BTreeMap::from([("default".to_owned(), default_limit())]);
    let written = config.limits.as_ref().unwrap_or(&defaults);
    let mut limits = Vec::new();
    let mut places = BTreeMap::new();
    // Counts are kept by name: of two limits of one name each would count what the other lets through.
    let mut names: BTreeSet<String> = written.keys().cloned().collect();
    for (name, limit) in written {
        let path = format!("limits.{name}");
        let Some(base) = check_limit(&path, name, limit, config.redis.is_some(), problems) else { continue };
        check_sharing(&path, &base, "state", problems);
        places.insert(name.clone(), limits.len());
        limits.push(base);
    }
    for (name, limit) in written {
        let Some(&place) = places.get(name) else { continue };
        for (tier, numbers) in &limit.tiers {
            let path = format!("limits.{name}.tiers.{tier}");
            problems.ok(&path, Name::new(tier));
            let instead = match numbers {
                TierNumbers::Word(_) => None,
                TierNumbers::Numbers(numbers) => {
                    if !names.insert(format!("{name}.{tier}")) {
                        let message = format!("is known as `{name}.{tier}`, but there is another limit of that name");
                        problems.add(&path, message);
                    }
                    let base = limits[place].clone();
                    let Some(own) = check_tier(&path, base, tier, numbers, problems) else { continue };
                    check_sharing(&path, &own, "algorithm", problems);
                    limits.push(own);
                    Some(limits.len() - 1)
                }
            };
            limits[place].tiers.push((tier.as_str().into(), instead));
        }
    }
    (limits, places)
}

/// Whether Redis can hold a limit's numbers, if it shall. `chosen` is the field that decides whether they are leased.
fn check_sharing(path: &str, limit: &LimitSettings, chosen: &str, problems: &mut Problems) {
    let Some(sharing) = limit.state.sharing() else { return };
    // Numbers that make no rule have been told of already.
    let Ok(rule) = limit.numbers.rule(limit.soft) else { return };
    if let Err(error) = sharing.check(&rule) {
        let path = match error {
            Unshareable::NotLeasable { .. } => format!("{path}.{chosen}"),
            Unshareable::LongLog { .. } => format!("{path}.limit"),
            Unshareable::SubMicrosecond { .. } | Unshareable::TooFine { .. } => path.to_owned(),
        };
        problems.add(path, error.to_string());
    }
}

fn check_tier(
    path: &str,
    base: LimitSettings,
    tier: &str,
    numbers: &Numbers,
    problems: &mut Problems,
) -> Option<LimitSettings> {
    let mut numbers = numbers.clone();
    numbers.algorithm.get_or_insert_with(|| base.numbers.algorithm().name().to_owned());
    let numbers = LimitNumbers::new(numbers, base.soft);
    let numbers = numbers.map_err(|error| problems.add(format!("{path}.{}", error.field), error.reason)).ok()?;
    let name = problems.ok(path, Name::new(&format!("{}.{tier}", base.name.as_str())))?;
    Some(LimitSettings { name, numbers, tiers: Vec::new(), ..base })
}

fn check_limit(
    path: &str,
    name: &str,
    limit: &model::Limit,
    with_redis: bool,
    problems: &mut Problems,
) -> Option<LimitSettings> {
    let soft = problems.within(&format!("{path}.soft"), limit.soft.count(), 0, 1 << 20);
    let name = problems.ok(path, Name::new(name));
    let numbers = LimitNumbers::of_limit(limit, soft);
    let numbers = numbers.map_err(|error| problems.add(format!("{path}.{}", error.field), error.reason)).ok();
    let key = limit.key.as_deref().unwrap_or("global");
    let key = problems.ok(&format!("{path}.key"), key.parse::<KeyParts>());
    let cost = limit.cost.unwrap_or(1);
    let cost = Cost::new(cost);
    if cost.is_none() {
        problems.add(format!("{path}.cost"), "is 0; from 1 is allowed");
    }
    let status = limit.status.unwrap_or(429);
    problems.within(&format!("{path}.status"), status, 400, 599);
    let state = limit.kept_in(with_redis);
    if state != State::Memory && !with_redis {
        problems.add(format!("{path}.state"), "needs Redis; configure `redis`, or take `memory`");
    }
    let max_keys = problems.within(&format!("{path}.max_keys"), limit.max_keys.unwrap_or(100_000), 1, 100_000_000);
    let numbers = numbers?;
    Some(LimitSettings {
        name: name?,
        numbers,
        soft,
        key: key?,
        missing: limit.missing,
        tiers: Vec::new(),
        cost: cost?,
        status: StatusCode::from_u16(status).ok()?,
        dry_run: limit.dry_run,
        state,
        max_keys: std::num::NonZeroUsize::new(max_keys)?,
    })
}

/// Where limits are, by name.
pub(super) struct Places<'a> {
    pub(super) good: BTreeMap<String, usize>,
    /// All that are written, good or not.
    pub(super) written: Option<&'a BTreeMap<String, model::Limit>>,
}

impl Places<'_> {
    pub(super) fn get(&self, name: &str) -> Option<&usize> {
        self.good.get(name)
    }
}

/// The places of limits that are named, each once.
pub(super) fn named(path: &str, names: &[String], places: &Places<'_>, problems: &mut Problems) -> Vec<usize> {
    let mut found = Vec::new();
    for (place, name) in names.iter().enumerate() {
        match places.get(name) {
            Some(limit) if found.contains(limit) => {
                problems.add(format!("{path}[{place}]"), format!("`{name}` is named twice"));
            }
            Some(limit) => found.push(*limit),
            // One that is written but wrong has been told of already.
            None if places.written.is_some_and(|written| written.contains_key(name)) => {}
            None => {
                let there_are = places.written.map_or_else(|| list(&places.good), list);
                problems.add(format!("{path}[{place}]"), format!("there is no limit `{name}`; there are: {there_are}"));
            }
        }
    }
    found
}

pub(super) fn list<T>(names: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
