//! Routes, and where limits are used.

use std::collections::BTreeSet;

use http::StatusCode;
use tidegate_input::Problems;
use tidegate_policy::MAX_LEVELS;
use tidegate_store::Name;

use super::limits::{LimitIndexes, list, named};
use super::policies::named_policy;
use super::{LimitSettings, RouteSettings, UpstreamSettings};
use crate::config::model::{self, Config};
use crate::routes::Matcher;

pub(super) fn check_routes(
    config: &Config,
    upstreams: &[UpstreamSettings],
    indexes: &LimitIndexes<'_>,
    problems: &Problems,
) -> Vec<RouteSettings> {
    let common = match &config.common_limits {
        Some(names) => named("common_limits", names, indexes, problems),
        None => indexes.get("default").copied().into_iter().collect(),
    };
    let everything = [model::Route { name: Some("default".to_owned()), ..model::Route::default() }];
    let written = if config.routes.is_empty() { &everything[..] } else { &config.routes };
    let mut routes = Vec::new();
    let mut names = BTreeSet::new();
    for (index, route) in written.iter().enumerate() {
        let path = format!("routes[{index}]");
        let name = route.name.clone().unwrap_or_else(|| format!("route-{}", index + 1));
        problems.ok(&format!("{path}.name"), Name::new(&name));
        if !names.insert(name.clone()) {
            problems.add(format!("{path}.name"), format!("must differ from earlier routes, got `{name}`"));
        }
        let upstream = which_upstream(&path, route, config, upstreams, problems);
        let mut limits = common.clone();
        for limit in named(&format!("{path}.limits"), &route.limits, indexes, problems) {
            if limits.contains(&limit) {
                problems.add(format!("{path}.limits"), "must not repeat a limit of `common_limits`");
            } else {
                limits.push(limit);
            }
        }
        if limits.len() > MAX_LEVELS {
            let message = format!("must be at most {MAX_LEVELS} with `common_limits`, got {}", limits.len());
            problems.add(format!("{path}.limits"), message);
        }
        let policy = named_policy(&format!("{path}.policy"), route.policy.as_deref(), config, problems);
        let matcher =
            Matcher::new(route).map_err(|(field, reason)| problems.add(format!("{path}.{field}"), reason)).ok();
        if let (Some(upstream), Some(matcher)) = (upstream, matcher) {
            let policy = policy.or_else(|| upstreams.get(upstream)?.policy);
            routes.push(RouteSettings { name: name.into(), matcher, upstream, limits, policy });
        }
    }
    routes
}

fn which_upstream(
    path: &str,
    route: &model::Route,
    config: &Config,
    upstreams: &[UpstreamSettings],
    problems: &Problems,
) -> Option<usize> {
    let path = format!("{path}.upstream");
    match &route.upstream {
        Some(name) => {
            let found = upstreams.iter().position(|upstream| *upstream.name == **name);
            // An upstream that is written but invalid has been reported already.
            if found.is_none() && !config.upstreams.contains_key(name) {
                let known = list(&config.upstreams);
                problems.add(path, format!("unknown upstream {name:?}; known upstreams: {known}"));
            }
            found
        }
        None if config.upstreams.len() <= 1 => (!upstreams.is_empty()).then_some(0),
        None => {
            problems.add(path, format!("is required: one of {}", list(&config.upstreams)));
            None
        }
    }
}

/// Limits of upstreams reject with 503, unless they set another status.
pub(super) fn with_statuses(
    mut limits: Vec<LimitSettings>,
    upstreams: &[UpstreamSettings],
    config: &Config,
) -> Vec<LimitSettings> {
    let written = config.limits.as_ref();
    for index in upstreams.iter().flat_map(|upstream| &upstream.limits) {
        let name = limits[*index].name.as_str().to_owned();
        if written.and_then(|written| written.get(&name)).is_some_and(|limit| limit.status.is_none()) {
            limits[*index].status = StatusCode::SERVICE_UNAVAILABLE;
            for tier in limits[*index].tiers.clone().into_iter().filter_map(|(_, tier)| tier) {
                limits[tier].status = StatusCode::SERVICE_UNAVAILABLE;
            }
        }
    }
    limits
}

/// Reports limits that nothing uses, and those used for routes and upstreams alike. The configuration as written
/// counts: an invalid route uses its limits too.
pub(super) fn check_use(config: &Config, limits: &[LimitSettings], indexes: &LimitIndexes<'_>, problems: &Problems) {
    let has = |names: &[String], name: &str| names.iter().any(|used| used == name);
    for (name, index) in &indexes.good {
        let is_common = config.common_limits.as_ref().map_or(name == "default", |common| has(common, name));
        let for_clients = is_common || config.routes.iter().any(|route| has(&route.limits, name));
        let for_upstreams = config.upstreams.values().any(|upstream| has(&upstream.limits, name));
        let path = format!("limits.{name}");
        match (for_clients, for_upstreams) {
            (false, false) => {
                let message = "must be used: name it in `common_limits`, or in `limits` of a route or upstream";
                problems.add(path, message);
            }
            (true, true) => problems.add(path, "can't be used for routes and for an upstream: make two limits of it"),
            (false, true) if limits[*index].dry_run => {
                problems.add(format!("{path}.dry_run"), "can't be used for a limit of an upstream");
            }
            (true, false) | (false, true) => {}
        }
    }
}
