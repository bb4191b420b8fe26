//! What can be meant but hardly is: settings that have no effect, or one that nobody wants. They are told, and used as they stand.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tidegate_policy::{Decision, Limiter as _, Rule, Timestamp};

use super::{LimitSettings, RouteSettings};
use crate::config::model::{Config, Missing, Route};
use crate::config::secret::Secret;
use crate::config::{Problem, model};
use crate::routes::{Hidden, Matcher, hidden};

/// Everything doubtful in a configuration that has been found good. `known_tiers`: those of API keys, and the default one.
pub(super) fn doubts(
    config: &Config,
    limits: &[LimitSettings],
    routes: &[RouteSettings],
    known_tiers: &BTreeSet<&str>,
    admin_listen: Option<SocketAddr>,
) -> Vec<Problem> {
    let mut doubts = Vec::new();
    let mut doubt = |path: String, message: &str| doubts.push(Problem { path, message: message.to_owned() });

    let identity = &config.identity;
    let knows_callers = identity.api_keys.is_some() || identity.jwt.is_some() || identity.trusted_headers.is_some();
    for limit in limits {
        let name = limit.name.as_str();
        if never_admits(limit) {
            doubt(format!("limits.{name}.cost"), "is more than the limit ever holds: every request is refused");
        }
        if limit.key.is_up_to_clients() {
            let message =
                "is made of what clients choose: whoever is refused takes another; join it with `ip` or `user`";
            doubt(format!("limits.{name}.key"), message);
        }
        let is_of_tier = config.limits.as_ref().is_some_and(|written| !written.contains_key(name));
        if limit.key.needs_caller() && !knows_callers && !is_of_tier {
            let without = match limit.missing {
                Missing::Share => "all requests share one account",
                Missing::Ip => "requests are counted by their address",
                Missing::Refuse => "every request is refused",
                Missing::Skip => "the limit applies to no request",
            };
            let message = format!("asks who the caller is, but `identity` names no way to know: {without}");
            doubt(format!("limits.{name}.key"), &message);
        }
    }
    for (name, limit) in config.limits.iter().flatten() {
        for tier in limit.tiers.keys().filter(|tier| !may_occur(tier, config, known_tiers)) {
            let known: Vec<&str> = known_tiers.iter().copied().collect();
            let message = format!("no identity source gives this tier; known tiers: {}", known.join(", "));
            doubt(format!("limits.{name}.tiers.{tier}"), &message);
        }
    }
    for name in config.upstreams.keys() {
        let is_used = |route: &Route| route.upstream.as_ref().is_none_or(|used| used == name);
        if !config.routes.is_empty() && !config.routes.iter().any(is_used) {
            doubt(format!("upstreams.{name}"), "is used by no route");
        }
    }
    for (place, route) in config.routes.iter().enumerate() {
        if route.methods.iter().any(|method| method.eq_ignore_ascii_case("CONNECT")) {
            let message = "CONNECT requests never reach a route: the gateway rejects them with 501";
            doubt(format!("routes[{place}].methods"), message);
        }
        for (field, path) in [("path", &route.path), ("prefix", &route.prefix), ("pattern", &route.pattern)] {
            let Some(path) = path else { continue };
            if config.admin.listen.is_none() && crate::admin::is_local(path) {
                let message = "is one of the gateway's own paths: the route is never reached without `admin.listen`";
                doubt(format!("routes[{place}].{field}"), message);
            }
            if path.contains(['?', '#']) || field != "pattern" && path.contains('*') {
                let message = "has a character that no path has as it is matched; queries are no part of it, and `*` is for `pattern`";
                doubt(format!("routes[{place}].{field}"), message);
            }
        }
    }
    let adaptive = &config.adaptive;
    if adaptive.forecaster.is_none() && adaptive.mode.is_some_and(|mode| mode != model::AdaptiveMode::Off) {
        doubt("adaptive.mode".to_owned(), "is set, but no `adaptive.forecaster`: nothing is adapted");
    }
    if identity.trusted_headers.is_some() && config.trusted_proxies.is_empty() {
        doubt("identity.trusted_headers".to_owned(), "are believed from `trusted_proxies` alone, and there are none");
    }
    let matchers: Vec<&Matcher> = routes.iter().map(|route| &route.matcher).collect();
    for Hidden { route, by } in hidden(&matchers) {
        // Two routes of which each hides the other match the same.
        let is_same = |other: &usize| !hidden(&[matchers[route], matchers[*other]]).is_empty();
        doubt(format!("routes[{route}]"), &never_reached(&by, by.iter().any(is_same)));
    }
    let has_token = config.admin.token.is_some() || config.admin.token_file.is_some();
    if admin_listen.is_some_and(|address| !address.ip().is_loopback()) && !has_token && !config.admin.open {
        doubt(
            "admin.listen".to_owned(),
            "is not on the loopback, and without a token: who can connect can change limits",
        );
    }
    for (path, secret) in secrets(config) {
        if secret.expose().starts_with("${") {
            doubt(path, "begins with `${`: variables are not replaced in this file, it is taken as it stands");
        }
    }
    doubts
}

/// Whether not even the first request passes.
fn never_admits(limit: &LimitSettings) -> bool {
    let Ok(rule) = limit.numbers.rule(limit.soft) else { return false };
    let unused = <Rule as tidegate_policy::Limiter>::State::default();
    matches!(rule.decide(&unused, limit.cost, Timestamp::default()), Decision::Refuse { retry_after: None, .. })
}

/// Whether a caller can have this tier. Tokens and proxies may name any.
fn may_occur(tier: &str, config: &Config, known_tiers: &BTreeSet<&str>) -> bool {
    let identity = &config.identity;
    let has_tier_header = identity.trusted_headers.as_ref().is_some_and(|headers| headers.tier.is_some());
    let names_any = identity.jwt.is_some() || has_tier_header && !config.trusted_proxies.is_empty();
    names_any || known_tiers.contains(tier)
}

/// Why a route is never reached, and what to do about it. `is_same`: the earlier route matches nothing else.
fn never_reached(by: &[usize], is_same: bool) -> String {
    let names: Vec<String> = by.iter().map(|place| format!("routes[{place}]")).collect();
    match &names[..] {
        [] => "is never reached: paths are matched in their normal form, without empty, `.` and `..` segments, parameters (`;`) and \
               backslashes"
            .to_owned(),
        [one] if is_same => format!("is never reached: {one} matches the same requests; remove one of them"),
        [one] => format!("is never reached: {one} takes every request that it matches; put the narrower route first"),
        [most @ .., last] => format!(
            "is never reached: {} and {last} together take every request that it matches; put the narrower route first",
            most.join(", ")
        ),
    }
}

fn secrets(config: &Config) -> Vec<(String, &Secret)> {
    let keys = config.identity.api_keys.iter().flat_map(|table| table.keys.iter().enumerate());
    let keys = keys.filter_map(|(place, key): (usize, &model::ApiKey)| {
        key.key.as_ref().map(|secret| (format!("identity.api_keys.keys[{place}].key"), secret))
    });
    let token = config.admin.token.as_ref().map(|token| ("admin.token".to_owned(), token));
    let jwt = config.identity.jwt.as_ref().and_then(|jwt| jwt.secret.as_ref());
    token.into_iter().chain(jwt.map(|secret| ("identity.jwt.secret".to_owned(), secret))).chain(keys).collect()
}
