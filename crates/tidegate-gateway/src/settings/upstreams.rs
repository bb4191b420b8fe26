//! Upstreams.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use http::Method;
use tidegate_http::client::EndpointBounds;
use tidegate_input::{HttpUrl, Problems};
use tidegate_policy::MAX_LEVELS;
use tidegate_policy::endpoints::{BalancerSettings, EjectionSettings, HealthThresholds, SuccessRateSettings, Weight};
use tidegate_serve::tls::SystemRoots;
use tidegate_store::Name;

use super::limits::{LimitIndexes, named};
use super::policies::named_policy;
use super::{EndpointEntry, HealthCheckSettings, UpstreamSettings};
use crate::config::model::{self, Config, DEFAULT_UPSTREAM};
use crate::config::ranges::Ranged as _;
use crate::key::KeyParts;
use crate::tls;

/// The most endpoints of an upstream, as written.
const MOST_ENDPOINTS: usize = 1_000;

pub(super) fn check_upstreams(
    config: &Config,
    indexes: &LimitIndexes<'_>,
    problems: &Problems,
) -> Vec<UpstreamSettings> {
    let usual = BTreeMap::from([("default".to_owned(), model::Upstream::at(DEFAULT_UPSTREAM))]);
    let written = if config.upstreams.is_empty() { &usual } else { &config.upstreams };
    let system = SystemRoots::default();
    let checked = written
        .iter()
        .filter_map(|(name, upstream)| check_upstream(name, upstream, config, indexes, &system, problems));
    checked.collect()
}

fn check_upstream(
    name: &str,
    upstream: &model::Upstream,
    config: &Config,
    indexes: &LimitIndexes<'_>,
    system: &SystemRoots,
    problems: &Problems,
) -> Option<UpstreamSettings> {
    let path = format!("upstreams.{name}");
    problems.ok(&path, Name::new(name));
    let limits = named(&format!("{path}.limits"), &upstream.limits, indexes, problems);
    if limits.len() > MAX_LEVELS {
        problems.add(format!("{path}.limits"), format!("must be at most {MAX_LEVELS}, got {}", limits.len()));
    }
    let health_check = upstream.health_check.as_ref().map(|check| check_health_check(&path, check, problems));
    let policy = named_policy(&format!("{path}.policy"), upstream.policy.as_deref(), config, problems);
    let hash_key = problems.ok(&format!("{path}.hash_key"), upstream.hash_key().parse::<KeyParts>());
    let failure_statuses = statuses(&format!("{path}.ejection.statuses"), &upstream.ejection.statuses, problems);
    let endpoints = check_endpoints(&path, upstream, system, problems)?;
    let bounds = EndpointBounds {
        connect_timeout: upstream.connect_timeout().get(),
        response_timeout: upstream.answer_timeout().get(),
        body_timeout: upstream.body_timeout().get(),
        idle_timeout: upstream.idle_timeout().get(),
        max_idle: upstream.max_idle(),
        max_connections: upstream.max_connections(),
        max_head_bytes: upstream.max_head_bytes(),
    };
    Some(UpstreamSettings {
        name: name.into(),
        endpoints,
        bounds,
        balancing: balancing(&path, upstream, problems),
        hash_key: hash_key?,
        failure_statuses,
        health_check: health_check.map(Arc::new),
        preserve_host: upstream.preserve_host,
        limits,
        request_buffer_bytes: upstream.request_buffer_bytes(),
        response_buffer_bytes: upstream.response_buffer_bytes(),
        policy,
    })
}

/// The endpoints of an upstream. None if one of them is not valid.
fn check_endpoints(
    path: &str,
    upstream: &model::Upstream,
    system: &SystemRoots,
    problems: &Problems,
) -> Option<Vec<Arc<EndpointEntry>>> {
    let entry = |at: &str, url: &str, weight| check_endpoint(path, at, url, weight, upstream, system, problems);
    match (&upstream.url, &upstream.endpoints) {
        (Some(url), None) => Some(vec![Arc::new(entry(&format!("{path}.url"), url, 1)?)]),
        (None, Some(endpoints)) if (1..=MOST_ENDPOINTS).contains(&endpoints.len()) => {
            let numbered = endpoints.iter().enumerate();
            let checked = numbered.map(|(index, endpoint)| {
                entry(&format!("{path}.endpoints[{index}]"), endpoint.url(), endpoint.weight()).map(Arc::new)
            });
            // All of them, so that every mistake is reported.
            let checked: Vec<Option<Arc<EndpointEntry>>> = checked.collect();
            let checked: Vec<Arc<EndpointEntry>> = checked.into_iter().collect::<Option<_>>()?;
            check_differ(path, &checked, problems);
            Some(checked)
        }
        (None, Some(endpoints)) => {
            let found = endpoints.len();
            problems.add(
                format!("{path}.endpoints"),
                format!("must have between 1 and {MOST_ENDPOINTS} endpoints, got {found}"),
            );
            None
        }
        (Some(_), Some(_)) => {
            problems.add(format!("{path}.url"), "must be left out with `endpoints`");
            None
        }
        (None, None) => {
            problems.add(path.to_owned(), "must have `url` or `endpoints`");
            None
        }
    }
}

/// Two entries for one address would be one endpoint with two weights, however each is spelled.
fn check_differ(path: &str, entries: &[Arc<EndpointEntry>], problems: &Problems) {
    let mut known = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let host = entry.host.parse().map_or_else(|_| entry.host.to_ascii_lowercase(), |ip: IpAddr| ip.to_string());
        if !known.insert((host, entry.port)) {
            let at = format!("{path}.endpoints[{index}]");
            problems.add(at, format!("must differ from earlier endpoints in host or port, got {:?}", entry.url()));
        }
    }
}

fn check_endpoint(
    path: &str,
    at: &str,
    written: &str,
    weight: u32,
    upstream: &model::Upstream,
    system: &SystemRoots,
    problems: &Problems,
) -> Option<EndpointEntry> {
    let url = read_url(written).map_err(|reason| invalid_url(written, reason));
    let url = problems.ok(at, url)?;
    if !url.is_tls && (upstream.ca.is_some() || upstream.server_name.is_some()) {
        problems.add(at, "must be https with `ca` or `server_name`");
    }
    let server_name = upstream.server_name.as_deref().unwrap_or(&url.host);
    let tls = if url.is_tls {
        match tls::client(upstream.ca.as_deref(), system, server_name) {
            Ok(tls) => Some(Arc::new(tls)),
            Err((field, error)) => {
                problems.add(format!("{path}.{field}"), error);
                return None;
            }
        }
    } else {
        None
    };
    Some(EndpointEntry {
        is_tls: url.is_tls,
        host: url.host.into(),
        port: url.port,
        tls,
        base: url.path_and_query.trim_end_matches('/').into(),
        authority: http::HeaderValue::from_str(&url.authority).ok()?,
        // The range was checked.
        weight: Weight::new(weight).unwrap_or(Weight::ONE),
    })
}

fn balancing(path: &str, upstream: &model::Upstream, problems: &Problems) -> BalancerSettings {
    let ejection = &upstream.ejection;
    if ejection.time > ejection.max_time {
        let (time, most) = (ejection.time.found(), ejection.max_time.found());
        let at = format!("{path}.ejection.time");
        problems.add(at, format!("must be at most `max_time`, which is {most}, got {time}"));
    }
    let count = |number: u32, usual: NonZeroU32| NonZeroU32::new(number).unwrap_or(usual);
    let thresholds = HealthThresholds::default();
    let thresholds = upstream.health_check.as_ref().map_or(thresholds, |check| HealthThresholds {
        healthy: count(check.healthy, thresholds.healthy),
        unhealthy: count(check.unhealthy, thresholds.unhealthy),
    });
    BalancerSettings {
        balance: upstream.balance,
        slow_start: upstream.slow_start().get(),
        ejection: Some(EjectionSettings {
            consecutive_failures: NonZeroU32::new(ejection.consecutive_failures),
            success_rate: ejection.success_rate.then(SuccessRateSettings::default),
            interval: ejection.interval.get(),
            base: ejection.time.get(),
            max: ejection.max_time.get(),
            max_share: ejection.max_share,
        }),
        health: thresholds,
    }
}

fn check_health_check(path: &str, check: &model::HealthCheck, problems: &Problems) -> HealthCheckSettings {
    let path = format!("{path}.health_check");
    let method = check.method();
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS];
    let method = methods.into_iter().find(|known| known.as_str() == method).unwrap_or_else(|| {
        problems.add(format!("{path}.method"), format!("must be GET, HEAD or OPTIONS, got {method:?}"));
        Method::GET
    });
    if let Some(requested) = &check.path {
        let is_path = requested.starts_with('/') && requested.parse::<http::uri::PathAndQuery>().is_ok();
        if !is_path {
            problems.add(format!("{path}.path"), format!("must begin with `/` and be a valid path, got {requested:?}"));
        }
    }
    for (setting, is_written) in [("method", check.method.is_some()), ("statuses", check.statuses.is_some())] {
        if is_written && check.path.is_none() {
            problems.add(format!("{path}.{setting}"), "must be left out without `path`");
        }
    }
    let written = check.statuses.as_ref();
    if written.is_some_and(Vec::is_empty) {
        problems.add(format!("{path}.statuses"), "must have at least one status; leave it out for 200 to 299");
    }
    HealthCheckSettings {
        request: check.path.as_deref().map(|path| (method, path.into())),
        statuses: written.map(|written| statuses(&format!("{path}.statuses"), written, problems)),
        interval: check.interval.get(),
        timeout: check.timeout.get(),
    }
}

/// Statuses of responses.
fn statuses(path: &str, written: &[u64], problems: &Problems) -> Vec<u16> {
    let mut statuses = Vec::new();
    for status in written {
        match u16::try_from(*status).ok().filter(|status| (200..=599).contains(status)) {
            Some(status) => statuses.push(status),
            None => problems.add(path.to_owned(), format!("must be statuses between 200 and 599, got {status}")),
        }
    }
    statuses
}

/// Reads the URL of a service: its address, and the start of every path.
pub(super) fn read_url(url: &str) -> Result<HttpUrl, &'static str> {
    let url = HttpUrl::read(url)?;
    if url.path_and_query.contains('?') { Err("has a query") } else { Ok(url) }
}

/// What is wrong with the URL of a service.
pub(super) fn invalid_url(url: &str, reason: &str) -> String {
    // A URL with a user may have a password, which must not be shown.
    let found = if url.contains('@') { "a URL that".to_owned() } else { format!("{url:?}, which") };
    format!("must be http://host[:port] or https://host[:port], got {found} {reason}")
}
