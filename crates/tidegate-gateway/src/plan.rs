//! The plan: everything that requests are judged by. A plan never changes. A change of the configuration builds a new
//! one and swaps it in; requests under way end with the plan that they began with.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use http::{HeaderName, Method};
use ipnet::IpNet;
use tidegate_http::share::MostHeld;
use tidegate_policy::{Keyed, Rule, Timestamp};
use tidegate_serve::{Counter, Log, Shard};
use tidegate_store::Store;

use crate::config::model::{Connections, State};
use crate::config::numbers::LimitNumbers;
use crate::endpoints::Endpoints;
use crate::identity::Identity;
use crate::interaction::Interaction;
use crate::limit::{Counts, Limit, LimitStats, SetBy};
use crate::routes::{Matcher, readings};
use crate::settings::{AdaptiveSettings, LimitSettings, PolicySettings, RouteSettings, Settings, UpstreamSettings};
use crate::upstream::{Upstream, UpstreamStats};

/// Everything that requests are judged by.
pub(crate) struct Plan {
    pub(crate) site: Arc<Site>,
    /// All limits; routes and upstreams refer to them by index.
    pub(crate) limits: Vec<Limit>,
    /// The version of the numbers that were set while running.
    pub(crate) version: u64,
    /// Grows whenever the operator's numbers change: what was adapted before is no longer valid.
    pub(crate) generation: u64,
}

/// The part of a plan that only a reload changes.
pub(crate) struct Site {
    pub(crate) routes: Vec<RoutePlan>,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// The policies that are in force, each for one upstream.
    pub(crate) interactions: Vec<Arc<Interaction>>,
    pub(crate) connections: Connections,
    /// How much one client address may hold.
    pub(crate) most_held: MostHeld,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) identity: Identity,
    /// Headers that only a trusted proxy may set.
    pub(crate) guarded: Vec<HeaderName>,
    pub(crate) default_tier: Box<str>,
    pub(crate) admin_token: Option<String>,
    pub(crate) admin_open: bool,
    /// Whether changes and metrics have a separate listener.
    pub(crate) admin_apart: bool,
    /// The tiers that the configuration names, for metrics; all others count as [`OTHER_TIER`].
    pub(crate) tiers: Vec<Box<str>>,
    /// Adaptation, unless it is off.
    pub(crate) adaptive: Option<Arc<AdaptiveSettings>>,
    /// Rejections by route and tier.
    exceeded: Vec<Arc<Counter>>,
}

/// A route.
pub(crate) struct RoutePlan {
    pub(crate) name: Box<str>,
    matcher: Matcher,
    pub(crate) upstream: usize,
    pub(crate) limits: Vec<usize>,
    /// Its policy, for its upstream.
    pub(crate) interaction: Option<Arc<Interaction>>,
}

/// A request's route.
pub(crate) struct Found<'a> {
    /// The path in its normal form.
    pub(crate) path: Cow<'a, str>,
    pub(crate) route: usize,
    /// Other routes that match if the upstream interprets the path in another way: their limits count too.
    others: Vec<usize>,
}

impl Found<'_> {
    /// The indexes of the other routes.
    pub(crate) fn others(&self) -> &[usize] {
        &self.others
    }
}

/// The limits of a route, by index.
#[derive(Clone, Copy)]
pub(crate) struct RouteLimits<'a> {
    /// The route's name.
    pub(crate) route: &'a str,
    pub(crate) limits: &'a [usize],
}

impl RoutePlan {
    pub(crate) fn limits(&self) -> RouteLimits<'_> {
        RouteLimits { route: &self.name, limits: &self.limits }
    }
}

/// The tier in metrics for all tiers that the configuration does not name.
pub(crate) const OTHER_TIER: &str = "other";

impl Site {
    /// The route of a request, and other routes whose limits apply to it.
    pub(crate) fn find<'a>(&self, host: &[u8], method: &Method, path: &'a str) -> Option<Found<'a>> {
        let route_of = |path: &str| self.routes.iter().position(|route| route.matcher.matches(host, method, path));
        let (path, other_readings) = readings(path);
        let route = route_of(&path)?;
        let mut others = Vec::new();
        for other in other_readings.iter().filter_map(|reading| route_of(reading)) {
            if other != route && !others.contains(&other) {
                others.push(other);
            }
        }
        Some(Found { path, route, others })
    }

    pub(crate) fn is_trusted(&self, ip: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|net| net.contains(&ip))
    }

    /// Rejections by route and tier.
    pub(crate) fn exceeded(&self) -> impl Iterator<Item = ((&str, &str), u64)> {
        let named = self.routes.iter().flat_map(|route| self.tiers.iter().map(|tier| (&*route.name, &**tier)));
        named.zip(&self.exceeded).map(|(name, counter)| (name, counter.get()))
    }

    /// Counts a rejection.
    pub(crate) fn count_exceeded(&self, route: usize, tier: &str) {
        let tier = self.tiers.iter().position(|known| **known == *tier).unwrap_or(self.tiers.len() - 1);
        self.exceeded[route * self.tiers.len() + tier].inc();
    }
}

/// What outlives a plan: counts, connections and statistics, by name. What the plan in force does not name is dropped.
#[derive(Default)]
pub(crate) struct Kept {
    /// The seed of hash tables, for reproducible runs; without it each has its own secret one.
    seed: Option<u64>,
    limits: BTreeMap<String, KeptLimit>,
    upstreams: BTreeMap<String, KeptUpstream>,
    /// By policy and upstream.
    interactions: BTreeMap<(Box<str>, Box<str>), Arc<Interaction>>,
    /// Where breakers report their transitions.
    log: Option<Log>,
    /// By route and tier.
    exceeded: BTreeMap<(String, String), Arc<Counter>>,
}

struct KeptUpstream {
    endpoints: Arc<Endpoints>,
    stats: Arc<UpstreamStats>,
}

impl Kept {
    /// Nothing kept yet; hash tables get this seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::default() }
    }

    /// Nothing kept yet; breakers report their transitions here.
    pub(crate) fn logging(log: &Log) -> Self {
        Self { log: Some(log.clone()), ..Self::default() }
    }

    /// The interaction of each route that has a policy. Those of no route are dropped.
    fn interactions(
        &mut self,
        policies: &[PolicySettings],
        routes: &[RouteSettings],
        upstreams: &[UpstreamSettings],
    ) -> Result<Vec<Option<Arc<Interaction>>>, String> {
        let mut interactions: BTreeMap<(Box<str>, Box<str>), Arc<Interaction>> = BTreeMap::new();
        let mut of_routes = Vec::with_capacity(routes.len());
        for route in routes {
            let upstream = &upstreams[route.upstream];
            let Some(policy) = route.policy.map(|policy| &policies[policy]) else {
                of_routes.push(None);
                continue;
            };
            let name = (policy.name.clone(), upstream.name.clone());
            let interaction = if let Some(interaction) = interactions.get(&name) {
                Arc::clone(interaction)
            } else {
                let (has_limits, known) = (!upstream.limits.is_empty(), self.interactions.get(&name));
                let known = known.map(|known| &**known);
                let interaction = Interaction::new(policy, &upstream.name, has_limits, known, self.log.as_ref())?;
                let interaction = Arc::new(interaction);
                interactions.insert(name, Arc::clone(&interaction));
                interaction
            };
            of_routes.push(Some(interaction));
        }
        self.interactions = interactions;
        Ok(of_routes)
    }

    /// An upstream with its statistics, and with what is known of endpoints that it had before.
    fn upstream(&mut self, settings: UpstreamSettings, workers: usize, now: Timestamp) -> Upstream {
        let name = settings.name.to_string();
        let before = self.upstreams.remove(&name);
        let known = before.as_ref().map(|before| &*before.endpoints);
        let endpoints = Arc::new(Endpoints::new(&settings, known, workers, now));
        let stats = before.map_or_else(Arc::default, |before| before.stats);
        let upstream = Upstream::new(settings, Arc::clone(&endpoints), Arc::clone(&stats));
        self.upstreams.insert(name, KeptUpstream { endpoints, stats });
        upstream
    }

    /// Counters of rejections, by route and tier. Those of other routes and tiers are dropped.
    fn exceeded(&mut self, routes: &[RouteSettings], tiers: &[Box<str>]) -> Vec<Arc<Counter>> {
        let mut before = std::mem::take(&mut self.exceeded);
        let mut exceeded = Vec::new();
        for route in routes {
            for tier in tiers {
                let series = (route.name.to_string(), tier.to_string());
                let counter = before.remove(&series).unwrap_or_default();
                self.exceeded.insert(series, Arc::clone(&counter));
                exceeded.push(counter);
            }
        }
        exceeded
    }

    fn forget_upstreams_except(&mut self, named: &[Arc<Upstream>]) {
        self.upstreams.retain(|name, kept| {
            let is_named = named.iter().any(|upstream| *upstream.name == **name);
            if !is_named {
                kept.endpoints.close();
            }
            is_named
        });
    }
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

/// Adapted numbers. They replace the operator's and are never stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overlay {
    pub(crate) limit: String,
    pub(crate) numbers: LimitNumbers,
}

/// The numbers that replace those of the file.
#[derive(Clone, Copy)]
pub(crate) struct RuntimeNumbers<'a> {
    pub(crate) overrides: &'a Overrides,
    pub(crate) overlay: Option<&'a Overlay>,
}

impl RuntimeNumbers<'_> {
    /// A limit with the numbers in force, and who set them.
    fn apply(&self, mut limit: LimitSettings) -> (LimitSettings, SetBy) {
        let mut set_by = SetBy::File;
        if let Some(numbers) = self.overrides.get(limit.name.as_str()) {
            limit.numbers = numbers.clone();
            set_by = SetBy::Api;
        }
        if let Some(overlay) = self.overlay.filter(|overlay| overlay.limit == limit.name.as_str()) {
            set_by = SetBy::Adaptive(std::mem::replace(&mut limit.numbers, overlay.numbers.clone()));
        }
        (limit, set_by)
    }
}

impl Plan {
    /// The plan of a configuration, with what is kept of the last plan. `Err` names a limit that can't be built and
    /// why; then nothing has changed.
    pub(crate) fn build(
        settings: Settings,
        overrides: &Overrides,
        kept: &mut Kept,
        store: Option<&Store>,
        now: Timestamp,
    ) -> Result<Self, String> {
        let runtime = RuntimeNumbers { overrides, overlay: None };
        let limits = build_limits(&settings.limits, runtime, kept, store, settings.workers, now)?;
        let tiers = tiers(&settings);
        let exceeded = kept.exceeded(&settings.routes, &tiers);
        let workers = settings.workers;
        let interactions = kept.interactions(&settings.policies, &settings.routes, &settings.upstreams)?;
        let upstreams = settings.upstreams.into_iter().map(|upstream| Arc::new(kept.upstream(upstream, workers, now)));
        let upstreams: Vec<_> = upstreams.collect();
        kept.forget_upstreams_except(&upstreams);
        let route = |(route, interaction): (RouteSettings, Option<Arc<Interaction>>)| {
            let RouteSettings { name, matcher, upstream, limits, .. } = route;
            RoutePlan { name, matcher, upstream, limits, interaction }
        };
        let site = Site {
            routes: settings.routes.into_iter().zip(interactions).map(route).collect(),
            upstreams,
            interactions: kept.interactions.values().cloned().collect(),
            most_held: MostHeld::new(settings.connections.max_client_share),
            connections: settings.connections,
            trusted_proxies: settings.trusted_proxies,
            guarded: settings.identity.guarded_headers().cloned().collect(),
            identity: settings.identity,
            default_tier: settings.default_tier.into(),
            admin_token: settings.admin_token,
            admin_open: settings.admin_open,
            admin_apart: settings.admin_listen.is_some(),
            adaptive: settings.adaptive,
            tiers,
            exceeded,
        };
        Ok(Self { site: Arc::new(site), limits, version: 0, generation: 0 })
    }

    /// This plan with other numbers for some limits.
    pub(crate) fn with_numbers(
        &self,
        settings: &[LimitSettings],
        runtime: RuntimeNumbers<'_>,
        kept: &mut Kept,
        store: Option<&Store>,
        now: Timestamp,
    ) -> Result<Self, String> {
        let workers = self.limits.first().map_or(1, |limit| limit.stats.len());
        let limits = build_limits(settings, runtime, kept, store, workers, now)?;
        Ok(Self { site: Arc::clone(&self.site), limits, version: self.version, generation: self.generation })
    }

    /// Checks that a limit can have these numbers.
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

/// All tiers that the configuration names, and [`OTHER_TIER`] at the end.
fn tiers(settings: &Settings) -> Vec<Box<str>> {
    let mut tiers: Vec<Box<str>> =
        settings.limits.iter().flat_map(|limit| &limit.tiers).map(|(tier, _)| tier.clone()).collect();
    tiers.extend(settings.identity.tiers().into_iter().map(Into::into));
    tiers.push(settings.default_tier.as_str().into());
    tiers.sort();
    tiers.dedup();
    tiers.retain(|tier| **tier != *OTHER_TIER);
    tiers.push(OTHER_TIER.into());
    tiers
}

fn build_limits(
    settings: &[LimitSettings],
    runtime: RuntimeNumbers<'_>,
    kept: &mut Kept,
    store: Option<&Store>,
    workers: usize,
    now: Timestamp,
) -> Result<Vec<Limit>, String> {
    // Everything is checked before anything is changed.
    let wanted = wanted(settings, runtime, store)?;
    let mut limits = Vec::with_capacity(wanted.len());
    for (limit, set_by, rule) in wanted {
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
            let counts = match store.zip(limit.state.sharing()) {
                None => Counts::Memory(Arc::new(match kept.seed {
                    Some(seed) => Keyed::with_seed(rule, limit.max_keys, seed),
                    None => Keyed::new(rule, limit.max_keys),
                })),
                Some((store, sharing)) => {
                    let shared = store.limit(limit.name.clone(), rule, sharing, limit.max_keys);
                    Counts::Shared(shared.map_err(|error| format!("limits.{name}: {error}"))?)
                }
            };
            // Metrics continue even if the counts start anew in another store.
            let stats = kept.limits.get(&name).map(|known| Arc::clone(&known.stats));
            (counts, stats.unwrap_or_else(|| (0..workers).map(|_| Shard(LimitStats::default())).collect()))
        };
        let (known, stats_kept) = (counts.clone(), Arc::clone(&stats));
        kept.limits
            .insert(name, KeptLimit { state: limit.state, max_keys: limit.max_keys, counts: known, stats: stats_kept });
        limits.push(Limit::new(limit, set_by, counts, stats));
    }
    // Limits that the configuration no longer names are dropped.
    kept.limits.retain(|name, _| limits.iter().any(|limit| limit.name() == name));
    Ok(limits)
}

/// All limits with their numbers in force and their rules, or the first that is invalid and why.
fn wanted(
    settings: &[LimitSettings],
    runtime: RuntimeNumbers<'_>,
    store: Option<&Store>,
) -> Result<Vec<(LimitSettings, SetBy, Rule)>, String> {
    let mut wanted = Vec::with_capacity(settings.len());
    for limit in settings {
        let (limit, set_by) = runtime.apply(limit.clone());
        let rule = rule(&limit, &limit.numbers, store);
        let rule = rule.map_err(|error| format!("limits.{}: {error}", limit.name.as_str()))?;
        wanted.push((limit, set_by, rule));
    }
    Ok(wanted)
}

/// The rule of a limit with these numbers, if the limit's state can hold it.
fn rule(limit: &LimitSettings, numbers: &LimitNumbers, store: Option<&Store>) -> Result<Rule, String> {
    let rule = numbers.rule(limit.soft).map_err(|error| error.to_string())?;
    if let Some(sharing) = limit.state.sharing().filter(|_| store.is_some()) {
        sharing.check(&rule).map_err(|error| error.to_string())?;
    }
    Ok(rule)
}
