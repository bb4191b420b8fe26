//! Services behind the gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use tidegate_policy::MAX_LEVELS;
use tidegate_store::Name;

use super::limits::{Places, named};
use super::{DAY, Problems, UpstreamSettings};
use crate::config::model::{self, Config};
use crate::config::span::Span;
use crate::tls;

pub(super) fn check_upstreams(config: &Config, places: &Places<'_>, problems: &mut Problems) -> Vec<UpstreamSettings> {
    let seed = BTreeMap::from([("default".to_owned(), upstream_at("http://127.0.0.1:8081"))]);
    let written = if config.upstreams.is_empty() { &seed } else { &config.upstreams };
    let system = tls::SystemRoots::default();
    let checked =
        written.iter().filter_map(|(name, upstream)| check_upstream(name, upstream, places, &system, problems));
    checked.collect()
}

/// An upstream with the usual settings.
pub fn upstream_at(url: &str) -> model::Upstream {
    model::Upstream {
        url: url.to_owned(),
        connect_timeout: None,
        answer_timeout: None,
        body_timeout: None,
        idle_timeout: None,
        max_idle: None,
        max_connections: None,
        max_head_bytes: None,
        preserve_host: false,
        ca: None,
        server_name: None,
        limits: Vec::new(),
    }
}

fn check_upstream(
    name: &str,
    upstream: &model::Upstream,
    places: &Places<'_>,
    system: &tls::SystemRoots,
    problems: &mut Problems,
) -> Option<UpstreamSettings> {
    let path = format!("upstreams.{name}");
    problems.ok(&path, Name::new(name));
    let mut span = |field: &str, span: Option<Span>, usual: u64| {
        let span = span.unwrap_or(Span::from_millis(usual));
        problems.span(&format!("{path}.{field}"), span, Duration::from_millis(20), DAY)
    };
    let connect_timeout = span("connect_timeout", upstream.connect_timeout, 2_000);
    let answer_timeout = span("answer_timeout", upstream.answer_timeout, 60_000);
    let body_timeout = span("body_timeout", upstream.body_timeout, 60_000);
    let idle_timeout = span("idle_timeout", upstream.idle_timeout, 55_000);
    let max_idle = problems.within(&format!("{path}.max_idle"), upstream.max_idle.unwrap_or(64), 0, 100_000);
    let max_connections = upstream.max_connections.unwrap_or(4_096);
    problems.within(&format!("{path}.max_connections"), max_connections, 1, 1_000_000);
    let max_head_bytes = upstream.max_head_bytes.unwrap_or(65_536);
    problems.within(&format!("{path}.max_head_bytes"), max_head_bytes, 1_024, 1 << 20);
    let limits = named(&format!("{path}.limits"), &upstream.limits, places, problems);
    if limits.len() > MAX_LEVELS {
        problems.add(format!("{path}.limits"), format!("are {}; at most {MAX_LEVELS}", limits.len()));
    }
    let url_path = format!("{path}.url");
    let (scheme, authority, base) = match parse_url(&upstream.url) {
        Ok(parts) => parts,
        Err(reason) => {
            // A user comes with a password.
            let url = if upstream.url.contains('@') { String::new() } else { format!("{:?} ", upstream.url) };
            problems.add(url_path, format!("{url}{reason}; write http://host:port or https://host"));
            return None;
        }
    };
    let is_tls = scheme == Scheme::HTTPS;
    if !is_tls && (upstream.ca.is_some() || upstream.server_name.is_some()) {
        problems.add(&url_path, "is not https, but `ca` or `server_name` is set");
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let server_name = upstream.server_name.as_deref().unwrap_or(host);
    let tls = if is_tls {
        match tls::client(upstream.ca.as_deref(), system, server_name) {
            Ok(tls) => Some(tls),
            Err((field, error)) => {
                problems.add(format!("{path}.{field}"), error);
                return None;
            }
        }
    } else {
        None
    };
    Some(UpstreamSettings {
        name: name.into(),
        host: host.into(),
        port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
        base: base.into(),
        authority: http::HeaderValue::from_str(authority.as_str()).ok()?,
        tls,
        connect_timeout,
        answer_timeout,
        body_timeout,
        idle_timeout,
        max_idle,
        max_connections,
        max_head_bytes,
        preserve_host: upstream.preserve_host,
        limits,
    })
}

/// Scheme, authority and base path of an upstream's URL.
fn parse_url(url: &str) -> Result<(Scheme, Authority, String), &'static str> {
    let uri: http::Uri = url.parse().map_err(|_| "is no URL")?;
    let parts = uri.into_parts();
    let scheme = parts.scheme.ok_or("has no scheme")?;
    if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
        return Err("has a scheme other than http and https");
    }
    let authority = parts.authority.ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("carries a user");
    }
    // What is no port is none to the parser: what follows the host must be one.
    let after_host = authority.as_str().rsplit_once(authority.host()).map_or("", |(_, after)| after);
    let has_bad_port = !after_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0);
    if authority.host().is_empty() || has_bad_port {
        return Err("has no usable host or port");
    }
    let path = parts.path_and_query.map(|path| path.to_string()).unwrap_or_default();
    if path.contains('?') {
        return Err("has a query");
    }
    Ok((scheme, authority, path.trim_end_matches('/').to_owned()))
}
