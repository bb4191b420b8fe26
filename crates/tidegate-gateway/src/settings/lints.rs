//! Warnings about a valid configuration: settings that have no effect, or one that is probably not meant. The
//! configuration is used as it is.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate_policy::endpoints::{Balance, Cause};
use tidegate_policy::{Decision, Limiter as _, Rule, Timestamp};

use super::{LimitSettings, PolicySettings, RouteSettings, UpstreamSettings};
use crate::config::Problem;
use crate::config::model::{self, AdaptiveMode, Config, Missing, Route};
use crate::config::own_paths::is_local;
use crate::config::secret::Secret;
use crate::config::span::Span;
use crate::routes::{Hidden, Matcher, hidden};

/// All warnings about a valid configuration. `known_tiers`: the tiers of API keys, and the default one.
pub(super) fn lints(
    config: &Config,
    limits: &[LimitSettings],
    upstreams: &[UpstreamSettings],
    policies: &[PolicySettings],
    routes: &[RouteSettings],
    known_tiers: &BTreeSet<&str>,
    admin_listen: Option<SocketAddr>,
) -> Vec<Problem> {
    let mut lints = Vec::new();
    for limit in limits {
        lint_limit(limit, config, &mut lints);
    }
    lint_tiers(config, known_tiers, &mut lints);
    lint_routes(config, &mut lints);
    lint_upstreams(config, upstreams, &mut lints);
    for (index, policy) in policies.iter().enumerate() {
        lint_policy(index, policy, upstreams, routes, &mut lints);
    }
    lint_adaptation(config, &mut lints);
    if config.identity.trusted_headers.is_some() && config.trusted_proxies.is_empty() {
        add(&mut lints, "identity.trusted_headers", "have no effect: `trusted_proxies` is empty");
    }
    lint_hidden_routes(routes, &mut lints);
    let has_token = config.admin.token.is_some() || config.admin.token_file.is_some();
    if admin_listen.is_some_and(|address| !address.ip().is_loopback()) && !has_token && !config.admin.open {
        let message = "is not on the loopback and has no token: everyone who can connect can change limits";
        add(&mut lints, "admin.listen", message);
    }
    for (path, secret) in secrets(config) {
        if secret.expose().starts_with("${") {
            let message = "begins with `${`: variables are not replaced in this file, the text is used as it is";
            add(&mut lints, path, message);
        }
    }
    lints
}

fn add(lints: &mut Vec<Problem>, path: impl Into<String>, message: impl Into<String>) {
    lints.push(Problem { path: path.into(), message: message.into() });
}

fn lint_limit(limit: &LimitSettings, config: &Config, lints: &mut Vec<Problem>) {
    let name = limit.name.as_str();
    if never_admits(limit) {
        add(lints, format!("limits.{name}.cost"), "is more than the limit ever holds: every request is rejected");
    }
    if limit.key.is_up_to_clients() {
        let message =
            "uses only client-controlled values, so a rejected client can evade it; join it with `ip` or `user`";
        add(lints, format!("limits.{name}.key"), message);
    }
    let identity = &config.identity;
    let knows_callers = identity.api_keys.is_some() || identity.jwt.is_some() || identity.trusted_headers.is_some();
    let is_of_tier = config.limits.as_ref().is_some_and(|written| !written.contains_key(name));
    if limit.key.needs_caller() && !knows_callers && !is_of_tier {
        let effect = match limit.missing {
            Missing::Share => "all requests share one key",
            Missing::Ip => "requests are counted by their address",
            Missing::Refuse => "every request is rejected",
            Missing::Skip => "the limit applies to no request",
        };
        let message = format!("needs a caller, but `identity` has no source of callers: {effect}");
        add(lints, format!("limits.{name}.key"), message);
    }
}

fn lint_tiers(config: &Config, known_tiers: &BTreeSet<&str>, lints: &mut Vec<Problem>) {
    for (name, limit) in config.limits.iter().flatten() {
        for tier in limit.tiers.keys().filter(|tier| !may_occur(tier, config, known_tiers)) {
            let known: Vec<&str> = known_tiers.iter().copied().collect();
            let message = format!("no identity source gives this tier; known tiers: {}", known.join(", "));
            add(lints, format!("limits.{name}.tiers.{tier}"), message);
        }
    }
}

fn lint_routes(config: &Config, lints: &mut Vec<Problem>) {
    for name in config.upstreams.keys() {
        let is_used = |route: &Route| route.upstream.as_ref().is_none_or(|used| used == name);
        if !config.routes.is_empty() && !config.routes.iter().any(is_used) {
            add(lints, format!("upstreams.{name}"), "is used by no route");
        }
    }
    for (index, route) in config.routes.iter().enumerate() {
        if route.methods.iter().any(|method| method.eq_ignore_ascii_case("CONNECT")) {
            let message = "CONNECT requests never reach a route: the gateway rejects them with 501";
            add(lints, format!("routes[{index}].methods"), message);
        }
        for (field, path) in [("path", &route.path), ("prefix", &route.prefix), ("pattern", &route.pattern)] {
            let Some(path) = path else { continue };
            if config.admin.listen.is_none() && is_local(path) {
                let message = "is one of the gateway's own paths: the route is never reached without `admin.listen`";
                add(lints, format!("routes[{index}].{field}"), message);
            }
            if path.contains(['?', '#']) || field != "pattern" && path.contains('*') {
                let message =
                    "probably never matches: paths are matched without query and fragment; `*` is for `pattern`";
                add(lints, format!("routes[{index}].{field}"), message);
            }
        }
    }
}

fn lint_upstreams(config: &Config, upstreams: &[UpstreamSettings], lints: &mut Vec<Problem>) {
    for (name, upstream) in &config.upstreams {
        let is_hash = upstream.balance == Balance::Hash;
        if upstream.hash_key.is_some() && !is_hash {
            add(lints, format!("upstreams.{name}.hash_key"), "has no effect without `balance: hash`");
        }
        if upstream.slow_start.is_some_and(|span| !span.get().is_zero()) && is_hash {
            add(lints, format!("upstreams.{name}.slow_start"), "has no effect with `balance: hash`");
        }
    }
    let mut hosts = upstreams.iter().flat_map(|upstream| &upstream.endpoints).map(|endpoint| &endpoint.host);
    if !config.resolver.servers.is_empty() && hosts.all(|host| host.parse::<IpAddr>().is_ok()) {
        add(lints, "resolver.servers", "has no effect: no endpoint has a host name");
    }
}

fn lint_policy(
    index: usize,
    policy: &PolicySettings,
    upstreams: &[UpstreamSettings],
    routes: &[RouteSettings],
    lints: &mut Vec<Problem>,
) {
    let path = format!("policies.{}", policy.name);
    let PolicySettings { terms, breaker, bulkhead, .. } = policy;
    if terms.timeout.is_none() && terms.attempt_timeout.is_none() && terms.retry.is_none() && breaker.is_none() {
        if bulkhead.is_none() {
            add(lints, &path, "does nothing: it has no timeout, no retry, no breaker and no bulkhead");
        }
    } else {
        lint_times(&path, policy, lints);
    }
    let is_used = |at: usize| routes.iter().any(|route| route.policy == Some(index) && route.upstream == at);
    let used: Vec<&UpstreamSettings> =
        upstreams.iter().enumerate().filter(|(at, _)| is_used(*at)).map(|(_, upstream)| upstream).collect();
    if used.is_empty() {
        add(lints, &path, "is in force for no route");
    }
    for upstream in used {
        lint_policy_for(&path, policy, upstream, lints);
    }
}

/// What hardly fits between a policy and an upstream that it is in force for.
fn lint_policy_for(path: &str, policy: &PolicySettings, upstream: &UpstreamSettings, lints: &mut Vec<Problem>) {
    let PolicySettings { terms, breaker, bulkhead, .. } = policy;
    let UpstreamSettings { name, bounds, endpoints, .. } = upstream;
    // A host name may stand for several endpoints.
    let has_names = endpoints.iter().any(|endpoint| endpoint.host.parse::<IpAddr>().is_err());
    let connections = bounds.max_connections.saturating_mul(endpoints.len());
    let is_above = |limit: u32| !has_names && limit as usize > connections;
    if let Some(bulkhead) = bulkhead.filter(|bulkhead| is_above(bulkhead.limit)) {
        let message = format!(
            "is never reached: upstream `{name}` has at most {connections} connections (`max_connections` for each \
             endpoint), got {}",
            bulkhead.limit
        );
        add(lints, format!("{path}.bulkhead.limit"), message);
    }
    let repeats_timeouts = policy.retry.as_ref().is_some_and(|retry| retry.on.has(Cause::Timeout));
    let takes_all = terms.timeout.is_some_and(|timeout| timeout <= bounds.response_timeout);
    if repeats_timeouts && takes_all && terms.attempt_timeout.is_none() {
        let message = format!(
            "without `attempt_timeout`, one attempt at upstream `{name}` may take all of it: timeouts are never \
             repeated"
        );
        add(lints, format!("{path}.timeout"), message);
    }
    let longest = terms.attempt_timeout.into_iter().chain(terms.timeout).chain([bounds.response_timeout]).min();
    let probe_timeout = breaker.map(|breaker| breaker.probe_timeout);
    if let (Some(longest), Some(probe_timeout)) = (longest, probe_timeout)
        && probe_timeout < longest
    {
        let message = format!("is shorter than an attempt at upstream `{name}` may take: {}", Span::of(longest));
        add(lints, format!("{path}.breaker.probe_timeout"), message);
    }
    if terms.attempt_timeout.is_some_and(|attempt| attempt > bounds.response_timeout) {
        let longest = Span::of(bounds.response_timeout);
        let message = format!("has no effect: `answer_timeout` of upstream `{name}` ends attempts after {longest}");
        add(lints, format!("{path}.attempt_timeout"), message);
    }
    let hedge = policy.retry.as_ref().and_then(|retry| retry.hedge);
    if let (Some(hedge), Some(longest)) = (hedge, longest)
        && hedge.min_delay >= longest
    {
        let message = format!("has no effect: an attempt at upstream `{name}` ends after {}", Span::of(longest));
        add(lints, format!("{path}.retry.hedge.min_delay"), message);
    }
    let slow = breaker.and_then(|breaker| breaker.slow).map(|slow| slow.threshold);
    if slow.is_some_and(|slow| slow >= bounds.response_timeout) {
        let longest = Span::of(bounds.response_timeout);
        let message = format!("has no effect: `answer_timeout` of upstream `{name}` ends attempts after {longest}");
        add(lints, format!("{path}.breaker.slow"), message);
    }
}

/// Times of a policy that do not fit together.
fn lint_times(path: &str, policy: &PolicySettings, lints: &mut Vec<Problem>) {
    let terms = &policy.terms;
    let (timeout, attempt_timeout) = (terms.timeout.map(Span::of), terms.attempt_timeout.map(Span::of));
    if let (Some(timeout), Some(attempt)) = (timeout, attempt_timeout)
        && attempt >= timeout
    {
        let message = format!("has no effect: `timeout` ends attempts after {timeout}");
        add(lints, format!("{path}.attempt_timeout"), message);
    }
    if let (Some(timeout), Some(wait)) = (terms.timeout, terms.bulkhead)
        && wait >= timeout
    {
        let message = format!("has no effect: `timeout` ends waits after {}", Span::of(timeout));
        add(lints, format!("{path}.bulkhead.wait"), message);
    }
    let longest = terms.attempt_timeout.into_iter().chain(terms.timeout).min();
    let slow = policy.breaker.and_then(|breaker| breaker.slow).map(|slow| slow.threshold);
    if let (Some(slow), Some(longest)) = (slow, longest)
        && slow >= longest
    {
        let message = format!("has no effect: a timeout ends attempts after {}", Span::of(longest));
        add(lints, format!("{path}.breaker.slow"), message);
    }
    let Some(retry) = terms.retry else { return };
    if retry.attempts == 1 {
        add(
            lints,
            format!("{path}.retry.attempts"),
            "1 means that no failed attempt is repeated: `retry` has no effect",
        );
        return;
    }
    let settings = policy.retry.as_ref();
    if settings.is_some_and(|retry| retry.budget.share * 10.0 + retry.budget.floor * 10.0 < 1.0) {
        add(lints, format!("{path}.retry.budget"), "may leave no retries: `share` and `floor` are 0, or nearly");
    }
    if settings.is_some_and(|retry| retry.hedge.is_some()) && policy.bulkhead.is_some_and(|it| it.limit == 1) {
        let message = "has no effect: the first attempt has the only slot of the bulkhead";
        add(lints, format!("{path}.retry.hedge"), message);
    }
    let Some(timeout) = terms.timeout else { return };
    let mut last = Duration::ZERO;
    let pauses = (1..retry.attempts).map(|number| {
        last = retry.backoff.range(number, last).0;
        last
    });
    let pauses: Duration = pauses.sum();
    let Some(attempt) = terms.attempt_timeout.filter(|attempt| *attempt < timeout) else { return };
    let needed = attempt.saturating_mul(retry.attempts).saturating_add(pauses);
    if needed > timeout {
        let message = format!(
            "is too short for {} attempts that time out, with the least pauses between them: they take {}",
            retry.attempts,
            Span::of(needed)
        );
        add(lints, format!("{path}.timeout"), message);
    }
}

fn lint_adaptation(config: &Config, lints: &mut Vec<Problem>) {
    let is_on = match config.adaptive.mode {
        Some(AdaptiveMode::On | AdaptiveMode::Shadow) => true,
        Some(AdaptiveMode::Off) | None => false,
    };
    if config.adaptive.forecaster.is_none() && is_on {
        add(lints, "adaptive.mode", "has no effect without `adaptive.forecaster`: nothing is adapted");
    }
}

fn lint_hidden_routes(routes: &[RouteSettings], lints: &mut Vec<Problem>) {
    let matchers: Vec<&Matcher> = routes.iter().map(|route| &route.matcher).collect();
    for Hidden { route, by } in hidden(&matchers) {
        // Two routes that hide each other match the same requests.
        let is_same = |other: &usize| !hidden(&[matchers[route], matchers[*other]]).is_empty();
        add(lints, format!("routes[{route}]"), never_reached(&by, by.iter().any(is_same)));
    }
}

/// Whether a limit rejects even the first request.
fn never_admits(limit: &LimitSettings) -> bool {
    let Ok(rule) = limit.numbers.rule(limit.soft) else { return false };
    let unused = <Rule as tidegate_policy::Limiter>::State::default();
    matches!(rule.decide(&unused, limit.cost, Timestamp::default()), Decision::Reject { retry_after: None, .. })
}

/// Whether a caller can have this tier. Tokens and proxies may name any tier.
fn may_occur(tier: &str, config: &Config, known_tiers: &BTreeSet<&str>) -> bool {
    let identity = &config.identity;
    let has_tier_header = identity.trusted_headers.as_ref().is_some_and(|headers| headers.tier.is_some());
    let names_any = identity.jwt.is_some() || has_tier_header && !config.trusted_proxies.is_empty();
    names_any || known_tiers.contains(tier)
}

/// Why a route is never reached, and what to do about it. `is_same`: an earlier route matches the same requests.
fn never_reached(by: &[usize], is_same: bool) -> String {
    let names: Vec<String> = by.iter().map(|index| format!("routes[{index}]")).collect();
    match &names[..] {
        [] => "is never reached: paths are matched in their normal form, without empty, `.` and `..` segments, \
               parameters (`;`) and backslashes"
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
    let keys = keys.filter_map(|(index, key): (usize, &model::ApiKey)| {
        key.key.as_ref().map(|secret| (format!("identity.api_keys.keys[{index}].key"), secret))
    });
    let token = config.admin.token.as_ref().map(|token| ("admin.token".to_owned(), token));
    let jwt = config.identity.jwt.as_ref().and_then(|jwt| jwt.secret.as_ref());
    token.into_iter().chain(jwt.map(|secret| ("identity.jwt.secret".to_owned(), secret))).chain(keys).collect()
}
