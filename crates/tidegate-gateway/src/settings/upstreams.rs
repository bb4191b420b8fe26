//! Upstreams.

use std::collections::BTreeMap;

use tidegate_http::client::EndpointSettings;
use tidegate_input::{HttpUrl, Problems};
use tidegate_policy::MAX_LEVELS;
use tidegate_serve::tls::SystemRoots;
use tidegate_store::Name;

use super::UpstreamSettings;
use super::limits::{LimitIndexes, named};
use crate::config::model::{self, Config, DEFAULT_UPSTREAM};
use crate::tls;

pub(super) fn check_upstreams(
    config: &Config,
    indexes: &LimitIndexes<'_>,
    problems: &Problems,
) -> Vec<UpstreamSettings> {
    let usual = BTreeMap::from([("default".to_owned(), model::Upstream::at(DEFAULT_UPSTREAM))]);
    let written = if config.upstreams.is_empty() { &usual } else { &config.upstreams };
    let system = SystemRoots::default();
    let checked =
        written.iter().filter_map(|(name, upstream)| check_upstream(name, upstream, indexes, &system, problems));
    checked.collect()
}

fn check_upstream(
    name: &str,
    upstream: &model::Upstream,
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
    let url_path = format!("{path}.url");
    let url = read_url(&upstream.url).map_err(|reason| invalid_url(&upstream.url, reason));
    let url = problems.ok(&url_path, url)?;
    if !url.is_tls && (upstream.ca.is_some() || upstream.server_name.is_some()) {
        problems.add(url_path, "must be https with `ca` or `server_name`");
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
    let endpoint = EndpointSettings {
        host: url.host.into(),
        port: url.port,
        tls,
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
        endpoint,
        base: url.path_and_query.trim_end_matches('/').into(),
        authority: http::HeaderValue::from_str(&url.authority).ok()?,
        preserve_host: upstream.preserve_host,
        limits,
        request_buffer_bytes: upstream.request_buffer_bytes(),
        response_buffer_bytes: upstream.response_buffer_bytes(),
    })
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
