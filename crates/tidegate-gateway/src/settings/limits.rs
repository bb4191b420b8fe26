//! Limits, including those of tiers.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use tidegate_input::Problems;
use tidegate_policy::Cost;
use tidegate_store::{Name, Unshareable};

use super::LimitSettings;
use crate::config::model::{self, Config, Numbers, State, TierNumbers, default_limit};
use crate::config::numbers::{checked, of_limit};
use crate::key::KeyParts;

/// All limits, with those of tiers at the end, and the indexes of those that routes and upstreams can name.
pub(super) fn check_limits(config: &Config, problems: &Problems) -> (Vec<LimitSettings>, BTreeMap<String, usize>) {
    let defaults = BTreeMap::from([("default".to_owned(), default_limit())]);
    let written = config.limits.as_ref().unwrap_or(&defaults);
    let mut limits = Vec::new();
    let mut indexes = BTreeMap::new();
    // Counts are kept by name: two limits with one name would count each other's requests.
    let mut names: BTreeSet<String> = written.keys().cloned().collect();
    for (name, limit) in written {
        let path = format!("limits.{name}");
        let Some(base) = check_limit(&path, name, limit, config.redis.is_some(), problems) else { continue };
        check_sharing(&path, &base, "state", problems);
        indexes.insert(name.clone(), limits.len());
        limits.push(base);
    }
    for (name, limit) in written {
        let Some(&index) = indexes.get(name) else { continue };
        for (tier, numbers) in &limit.tiers {
            let path = format!("limits.{name}.tiers.{tier}");
            problems.ok(&path, Name::new(tier));
            let instead = match numbers {
                TierNumbers::Word(_) => None,
                TierNumbers::Numbers(numbers) => {
                    if !names.insert(format!("{name}.{tier}")) {
                        let message = format!("must not be named like another limit, got `{name}.{tier}`");
                        problems.add(&path, message);
                    }
                    let base = limits[index].clone();
                    let Some(own) = check_tier(&path, base, tier, numbers, problems) else { continue };
                    check_sharing(&path, &own, "algorithm", problems);
                    limits.push(own);
                    Some(limits.len() - 1)
                }
            };
            limits[index].tiers.push((tier.as_str().into(), instead));
        }
    }
    (limits, indexes)
}

/// Checks that Redis can hold a limit's numbers, if its state is in Redis. `chosen` is the field to blame if the limit
/// can't be leased.
fn check_sharing(path: &str, limit: &LimitSettings, chosen: &str, problems: &Problems) {
    let Some(sharing) = limit.state.sharing() else { return };
    // Invalid numbers have been reported already.
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
    problems: &Problems,
) -> Option<LimitSettings> {
    let mut numbers = numbers.clone();
    numbers.algorithm.get_or_insert_with(|| base.numbers.algorithm().name().to_owned());
    let numbers = checked(&numbers, base.soft);
    let numbers = numbers.map_err(|error| problems.add(format!("{path}.{}", error.field), error.reason)).ok()?;
    let name = problems.ok(path, Name::new(&format!("{}.{tier}", base.name.as_str())))?;
    Some(LimitSettings { name, numbers, tiers: Vec::new(), ..base })
}

fn check_limit(
    path: &str,
    name: &str,
    limit: &model::Limit,
    with_redis: bool,
    problems: &Problems,
) -> Option<LimitSettings> {
    let soft = limit.soft.count();
    let name = problems.ok(path, Name::new(name));
    let numbers = of_limit(limit, soft);
    let numbers = numbers.map_err(|error| problems.add(format!("{path}.{}", error.field), error.reason)).ok();
    let key = problems.ok(&format!("{path}.key"), limit.key().parse::<KeyParts>());
    let state = limit.kept_in(with_redis);
    if state != State::Memory && !with_redis {
        problems.add(format!("{path}.state"), "needs Redis: configure `redis`, or use `memory`");
    }
    let numbers = numbers?;
    Some(LimitSettings {
        name: name?,
        numbers,
        soft,
        key: key?,
        missing: limit.missing,
        tiers: Vec::new(),
        cost: Cost::new(limit.cost())?,
        status: StatusCode::from_u16(limit.status()).ok()?,
        dry_run: limit.dry_run,
        state,
        max_keys: std::num::NonZeroUsize::new(limit.max_keys())?,
    })
}

/// The indexes of limits, by name.
pub(super) struct LimitIndexes<'a> {
    pub(super) good: BTreeMap<String, usize>,
    /// All that are written, valid or not.
    pub(super) written: Option<&'a BTreeMap<String, model::Limit>>,
}

impl LimitIndexes<'_> {
    pub(super) fn get(&self, name: &str) -> Option<&usize> {
        self.good.get(name)
    }
}

/// The indexes of the limits with these names. Reports unknown and duplicate names.
pub(super) fn named(path: &str, names: &[String], indexes: &LimitIndexes<'_>, problems: &Problems) -> Vec<usize> {
    let mut found = Vec::new();
    for (position, name) in names.iter().enumerate() {
        match indexes.get(name) {
            Some(limit) if found.contains(limit) => {
                problems.add(format!("{path}[{position}]"), format!("duplicate limit {name:?}"));
            }
            Some(limit) => found.push(*limit),
            // A limit that is written but invalid has been reported already.
            None if indexes.written.is_some_and(|written| written.contains_key(name)) => {}
            None => {
                let known = indexes.written.map_or_else(|| list(&indexes.good), list);
                problems.add(format!("{path}[{position}]"), format!("unknown limit {name:?}; known limits: {known}"));
            }
        }
    }
    found
}

pub(super) fn list<T>(names: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
