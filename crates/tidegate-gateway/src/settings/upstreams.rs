//! Services behind the gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_policy::MAX_LEVELS;
use tidegate_serve::HttpUrl;
use tidegate_serve::tls::SystemRoots;
use tidegate_store::Name;

use super::limits::{Places, named};
use super::{DAY, Problems, UpstreamSettings};
use crate::config::model::{self, Config};
use crate::config::span::Span;
use crate::tls;

pub(super) fn check_upstreams(config: &Config, places: &Places<'_>, problems: &mut Problems) -> Vec<UpstreamSettings> {
    let seed = BTreeMap::from([("default".to_owned(), upstream_at("http://127.0.0.1:8081"))]);
    let written = if config.upstreams.is_empty() { &seed } else { &config.upstreams };
    let system = SystemRoots::default();
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
    system: &SystemRoots,
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
    let url = match read_url(&upstream.url) {
        Ok(url) => url,
        Err(reason) => {
            // A user comes with a password.
            let url = if upstream.url.contains('@') { String::new() } else { format!("{:?} ", upstream.url) };
            problems.add(url_path, format!("{url}{reason}; write http://host:port or https://host"));
            return None;
        }
    };
    if !url.is_tls && (upstream.ca.is_some() || upstream.server_name.is_some()) {
        problems.add(&url_path, "is not https, but `ca` or `server_name` is set");
    }
    let server_name = upstream.server_name.as_deref().unwrap_or(&url.host);
    let tls = if url.is_tls {
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
        host: url.host.into(),
        port: url.port,
        base: url.path_and_query.trim_end_matches('/').into(),
        authority: http::HeaderValue::from_str(&url.authority).ok()?,
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

/// Where an upstream is, and the path that everything asked of it begins with.
fn read_url(url: &str) -> Result<HttpUrl, &'static str> {
    let url = HttpUrl::read(url)?;
    if url.path_and_query.contains('?') { Err("has a query") } else { Ok(url) }
}
