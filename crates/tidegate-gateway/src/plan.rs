//! What requests are judged by: everything a configuration says, ready to be used. It never changes; a change makes a new one and swaps
//! it in, and requests under way end with the one they began with.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use http::{HeaderName, Method};
use ipnet::IpNet;
use tidegate_policy::{Keyed, Rule, Timestamp};
use tidegate_serve::{Counter, Shard};
use tidegate_store::{Sharing, Store};

use crate::config::model::{Connections, State};
use crate::config::numbers::LimitNumbers;
use crate::config::{LimitSettings, RouteSettings, Settings};
use crate::identity::Identity;
use crate::limits::{Counts, Limit, LimitStats};
use crate::routes::Matcher;
use crate::upstream::Upstream;

/// Everything a request is judged by.
pub(crate) struct Plan {
    pub(crate) site: Arc<Site>,
    /// All limits; routes and upstreams name them by their places.
    pub(crate) limits: Vec<Limit>,
    /// Of the numbers that were set while running.
    pub(crate) version: u64,
}

/// The part of a plan that only a reload changes.
pub(crate) struct Site {
    pub(crate) routes: Vec<RoutePlan>,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) connections: Connections,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) identity: Identity,
    /// Headers that only a trusted proxy may set.
    pub(crate) guarded: Vec<HeaderName>,
    pub(crate) default_tier: Box<str>,
    pub(crate) admin_token: Option<String>,
    pub(crate) admin_open: bool,
    /// Whether changes and metrics have a listener of their own.
    pub(crate) admin_apart: bool,
    /// The tiers that the configuration names, for metrics; all others are one.
    pub(crate) tiers: Vec<Box<str>>,
    /// Refusals by route and tier.
    exceeded: Vec<Arc<Counter>>,
}

/// A route.
pub(crate) struct RoutePlan {
    pub(crate) name: Box<str>,
    matcher: Matcher,
    pub(crate) upstream: usize,
    pub(crate) limits: Vec<usize>,
}

/// The tier that stands for all that the configuration does not name.
pub(crate) const OTHER_TIER: &str = "other";

impl Site {
    /// The route of a request, by its place.
    pub(crate) fn route(&self, host: &str, method: &Method, path: &str) -> Option<usize> {
        self.routes.iter().position(|route| route.matcher.matches(host, method, path))
    }

    pub(crate) fn is_trusted(&self, ip: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|net| net.contains(&ip))
    }

    /// Refusals by route and tier.
    pub(crate) fn exceeded(&self) -> impl Iterator<Item = ((&str, &str), u64)> {
        let named = self.routes.iter().flat_map(|route| self.tiers.iter().map(|tier| (&*route.name, &**tier)));
        named.zip(&self.exceeded).map(|(name, counter)| (name, counter.get()))
    }

    /// Counts a refusal.
    pub(crate) fn count_exceeded(&self, route: usize, tier: &str) {
        let tier = self.tiers.iter().position(|known| **known == *tier).unwrap_or(self.tiers.len() - 1);
        self.exceeded[route * self.tiers.len() + tier].inc();
    }
}

/// What outlives a plan: counts and statistics, by name.
#[derive(Default)]
pub(crate) struct Kept {
    limits: BTreeMap<String, KeptLimit>,
    upstreams: BTreeMap<String, Arc<crate::upstream::UpstreamStats>>,
    /// By route and tier.
    exceeded: BTreeMap<(String, String), Arc<Counter>>,
}

#[derive(Clone)]
struct KeptLimit {
    state: State,
    max_keys: NonZeroUsize,
    counts: Counts,
    stats: Arc<[Shard<LimitStats>]>,
}

/// Numbers set while running, by limit.
pub(crate) type Overrides = BTreeMap<String, LimitNumbers>;

impl Plan {
    /// The plan of a configuration, over the counts that are kept. `Err` says which limit can't be had and why; nothing has changed then.
    pub(crate) fn build(
        settings: Settings,
        overrides: &Overrides,
        kept: &mut Kept,
        store: Option<&Store>,
        now: Timestamp,
    ) -> Result<Self, String> {
        let limits = build_limits(&settings.limits, overrides, kept, store, settings.workers, now)?;
        let workers = settings.workers;
        let upstreams = settings.upstreams.into_iter().map(|upstream| {
            let stats = kept.upstreams.entry(upstream.name.to_string()).or_default();
            Arc::new(Upstream::new(upstream, workers, Arc::clone(stats)))
        });
        let upstreams = upstreams.collect();
        let mut tiers: Vec<Box<str>> =
            settings.limits.iter().flat_map(|limit| &limit.tiers).map(|(tier, _)| tier.clone()).collect();
        tiers.extend(settings.identity.tiers().into_iter().map(Into::into));
        tiers.push(settings.default_tier.as_str().into());
        tiers.sort();
        tiers.dedup();
        tiers.retain(|tier| **tier != *OTHER_TIER);
        tiers.push(OTHER_TIER.into());
        let mut exceeded = Vec::new();
        for route in &settings.routes {
            for tier in &tiers {
                let counter = kept.exceeded.entry((route.name.to_string(), tier.to_string())).or_default();
                exceeded.push(Arc::clone(counter));
            }
        }
        let route = |route: RouteSettings| {
            let RouteSettings { name, matcher, upstream, limits } = route;
            RoutePlan { name, matcher, upstream, limits }
        };
        let site = Site {
            routes: settings.routes.into_iter().map(route).collect(),
            upstreams,
            connections: settings.connections,
            trusted_proxies: settings.trusted_proxies,
            guarded: settings.identity.guarded_headers().cloned().collect(),
            identity: settings.identity,
            default_tier: settings.default_tier.into(),
            admin_token: settings.admin_token,
            admin_open: settings.admin_open,
            admin_apart: settings.admin_listen.is_some(),
            tiers,
            exceeded,
        };
        Ok(Self { site: Arc::new(site), limits, version: 0 })
    }

    /// The same with other numbers for some limits.
    pub(crate) fn with_numbers(
        &self,
        settings: &[LimitSettings],
        overrides: &Overrides,
        kept: &mut Kept,
        store: Option<&Store>,
        now: Timestamp,
    ) -> Result<Self, String> {
        let workers = self.limits.first().map_or(1, |limit| limit.stats.len());
        let limits = build_limits(settings, overrides, kept, store, workers, now)?;
        Ok(Self { site: Arc::clone(&self.site), limits, version: self.version })
    }

    /// Whether a limit could have these numbers.
    pub(crate) fn check_numbers(
        limit: &LimitSettings,
        numbers: &LimitNumbers,
        store: Option<&Store>,
    ) -> Result<(), String> {
        rule(limit, numbers, store).map(|_| ())
    }

    pub(crate) fn limit(&self, name: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.name() == name)
    }
}

fn build_limits(
    settings: &[LimitSettings],
    overrides: &Overrides,
    kept: &mut Kept,
    store: Option<&Store>,
    workers: usize,
    now: Timestamp,
) -> Result<Vec<Limit>, String> {
    // Everything is checked before anything is changed.
    let wanted = wanted(settings, overrides, store)?;
    let mut limits = Vec::with_capacity(wanted.len());
    for (limit, rule) in wanted {
        let name = limit.name.as_str().to_owned();
        let known = kept
            .limits
            .get(&name)
            .filter(|known| (known.state, known.max_keys) == (limit.state, limit.max_keys))
            .cloned();
        let (counts, stats) = if let Some(KeptLimit { counts, stats, .. }) = known {
            match &counts {
                Counts::Memory(keyed) if keyed.limiter() != rule => keyed.change(&rule, now),
                Counts::Memory(_) => {}
                Counts::Shared(shared) => {
                    shared.change(&rule, now).map_err(|error| format!("limits.{name}: {error}"))?;
                }
            }
            (counts, stats)
        } else {
            let counts = match store.filter(|_| limit.state != State::Memory) {
                None => Counts::Memory(Arc::new(Keyed::new(rule, limit.max_keys))),
                Some(store) => {
                    let shared = store.limit(limit.name.clone(), rule, sharing(limit.state), limit.max_keys);
                    Counts::Shared(shared.map_err(|error| format!("limits.{name}: {error}"))?)
                }
            };
            let stats: Arc<[Shard<LimitStats>]> = (0..workers).map(|_| Shard(LimitStats::default())).collect();
            (counts, stats)
        };
        let (known, stats_kept) = (counts.clone(), Arc::clone(&stats));
        kept.limits
            .insert(name, KeptLimit { state: limit.state, max_keys: limit.max_keys, counts: known, stats: stats_kept });
        let is_set = overrides.contains_key(limit.name.as_str());
        limits.push(Limit::new(limit, is_set, counts, stats));
    }
    // What no configuration names any more is forgotten.
    kept.limits.retain(|name, _| limits.iter().any(|limit| limit.name() == name));
    Ok(limits)
}

/// All limits with their numbers in force, and their rules; or which of them can't be had.
fn wanted(
    settings: &[LimitSettings],
    overrides: &Overrides,
    store: Option<&Store>,
) -> Result<Vec<(LimitSettings, Rule)>, String> {
    let mut wanted = Vec::with_capacity(settings.len());
    for limit in settings {
        let mut limit = limit.clone();
        if let Some(numbers) = overrides.get(limit.name.as_str()) {
            limit.numbers = numbers.clone();
        }
        let rule = rule(&limit, &limit.numbers, store);
        let rule = rule.map_err(|error| format!("limits.{}: {error}", limit.name.as_str()))?;
        wanted.push((limit, rule));
    }
    Ok(wanted)
}

/// The rule that a limit has with these numbers, if it can be had where its counts are kept.
fn rule(limit: &LimitSettings, numbers: &LimitNumbers, store: Option<&Store>) -> Result<Rule, String> {
    let rule = numbers.rule(limit.soft).map_err(|error| error.to_string())?;
    if let Some(store) = store.filter(|_| limit.state != State::Memory) {
        let trial = store.limit(limit.name.clone(), rule, sharing(limit.state), limit.max_keys);
        trial.map_err(|error| error.to_string())?;
    }
    Ok(rule)
}

fn sharing(state: State) -> Sharing {
    if state == State::Leased { Sharing::Leased } else { Sharing::Exact }
}
