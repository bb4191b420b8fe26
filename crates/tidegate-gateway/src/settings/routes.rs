//! Which requests go where, and what uses which limit.

use std::collections::BTreeSet;

use http::StatusCode;
use tidegate_policy::MAX_LEVELS;
use tidegate_store::Name;

use super::limits::{Places, list, named};
use super::{LimitSettings, Problems, RouteSettings, UpstreamSettings};
use crate::config::model::{self, Config};
use crate::routes::Matcher;

pub(super) fn check_routes(
    config: &Config,
    upstreams: &[UpstreamSettings],
    places: &Places<'_>,
    problems: &mut Problems,
) -> Vec<RouteSettings> {
    let common = match &config.common_limits {
        Some(names) => named("common_limits", names, places, problems),
        None => places.get("default").copied().into_iter().collect(),
    };
    let everything = [model::Route { name: Some("default".to_owned()), ..model::Route::default() }];
    let written = if config.routes.is_empty() { &everything[..] } else { &config.routes };
    let mut routes = Vec::new();
    let mut names = BTreeSet::new();
    for (place, route) in written.iter().enumerate() {
        let path = format!("routes[{place}]");
        let name = route.name.clone().unwrap_or_else(|| format!("route-{}", place + 1));
        problems.ok(&format!("{path}.name"), Name::new(&name));
        if !names.insert(name.clone()) {
            problems.add(format!("{path}.name"), format!("`{name}` is the name of an earlier route"));
        }
        let upstream = which_upstream(&path, route, config, upstreams, problems);
        let mut limits = common.clone();
        for limit in named(&format!("{path}.limits"), &route.limits, places, problems) {
            if limits.contains(&limit) {
                problems.add(format!("{path}.limits"), "names a limit that is among `common_limits`");
            } else {
                limits.push(limit);
            }
        }
        if limits.len() > MAX_LEVELS {
            problems.add(
                format!("{path}.limits"),
                format!("are {} with the common ones; at most {MAX_LEVELS}", limits.len()),
            );
        }
        let matcher =
            Matcher::new(route).map_err(|(field, reason)| problems.add(format!("{path}.{field}"), reason)).ok();
        if let (Some(upstream), Some(matcher)) = (upstream, matcher) {
            routes.push(RouteSettings { name: name.into(), matcher, upstream, limits });
        }
    }
    routes
}

fn which_upstream(
    path: &str,
    route: &model::Route,
    config: &Config,
    upstreams: &[UpstreamSettings],
    problems: &mut Problems,
) -> Option<usize> {
    let path = format!("{path}.upstream");
    match &route.upstream {
        Some(name) => {
            let found = upstreams.iter().position(|upstream| *upstream.name == **name);
            // One that is written but wrong has been told of already.
            if found.is_none() && !config.upstreams.contains_key(name) {
                problems.add(path, format!("there is no upstream `{name}`; there are: {}", list(&config.upstreams)));
            }
            found
        }
        None if config.upstreams.len() <= 1 => (!upstreams.is_empty()).then_some(0),
        None => {
            problems.add(path, format!("is missing; one of {}", list(&config.upstreams)));
            None
        }
    }
}

/// A limit of an upstream is answered with 503, unless it says otherwise.
pub(super) fn with_statuses(
    mut limits: Vec<LimitSettings>,
    upstreams: &[UpstreamSettings],
    config: &Config,
) -> Vec<LimitSettings> {
    let written = config.limits.as_ref();
    for place in upstreams.iter().flat_map(|upstream| &upstream.limits) {
        let name = limits[*place].name.as_str().to_owned();
        if written.and_then(|written| written.get(&name)).is_some_and(|limit| limit.status.is_none()) {
            limits[*place].status = StatusCode::SERVICE_UNAVAILABLE;
            for tier in limits[*place].tiers.clone().into_iter().filter_map(|(_, tier)| tier) {
                limits[tier].status = StatusCode::SERVICE_UNAVAILABLE;
            }
        }
    }
    limits
}

/// A limit that nothing uses, or that is used for clients and upstreams alike, is a mistake. What is written counts: a route that is
/// wrong uses its limits all the same.
pub(super) fn check_use(config: &Config, limits: &[LimitSettings], places: &Places<'_>, problems: &mut Problems) {
    let has = |names: &[String], name: &str| names.iter().any(|used| used == name);
    for (name, place) in &places.good {
        let is_common = config.common_limits.as_ref().map_or(name == "default", |common| has(common, name));
        let for_clients = is_common || config.routes.iter().any(|route| has(&route.limits, name));
        let for_upstreams = config.upstreams.values().any(|upstream| has(&upstream.limits, name));
        let path = format!("limits.{name}");
        match (for_clients, for_upstreams) {
            (false, false) => {
                problems
                    .add(path, "is used by nothing; name it in `common_limits`, or in `limits` of a route or upstream");
            }
            (true, true) => problems.add(path, "is used for routes and for an upstream; make two limits of it"),
            (false, true) if limits[*place].dry_run => {
                problems.add(format!("{path}.dry_run"), "is for limits of routes");
            }
            _ => {}
        }
    }
}
