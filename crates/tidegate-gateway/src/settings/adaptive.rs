//! Adaptation: the forecaster, the limit that is adapted, the bounds.

use std::sync::Arc;
use std::time::Duration;

use tidegate_adapt::{LONGEST_SERIES_NAME, Rails};
use tidegate_http::client::ClientTls;
use tidegate_input::Problems;
use tidegate_policy::Algorithm;
use tidegate_serve::tls::SystemRoots;

use super::LimitSettings;
use super::upstreams::{invalid_url, read_url};
use crate::config::model::{self, AdaptiveMode};
use crate::config::span::Span;
use crate::tls;

/// Adaptation, checked.
pub struct AdaptiveSettings {
    /// How to reach the forecaster.
    pub forecaster: Forecaster,
    /// Whether numbers are changed.
    pub mode: AdaptiveMode,
    /// The name of the limit that is adapted.
    pub limit: Box<str>,
    /// The configured name of the series sent to the forecaster.
    pub source: Option<Box<str>>,
    /// The time between two requests to the forecaster.
    pub interval: Duration,
    /// The guard rails of adapted numbers.
    pub rails: Rails,
    /// The latency above which the upstream counts as overloaded; None: learnt.
    pub latency: Option<Duration>,
    /// The share of errors above which the upstream counts as overloaded.
    pub errors: f64,
    /// After how many misses in a row the forecaster's absence is reported.
    pub misses: u32,
    /// The most entries in the history.
    pub history: usize,
    /// The section as written, to see whether a reload changes it.
    pub model: model::Adaptive,
}

/// How to reach the forecaster.
#[derive(Clone)]
pub struct Forecaster {
    /// Host to connect to.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// The `Host` to send.
    pub authority: Box<str>,
    /// The path of requests.
    pub path: Box<str>,
    /// For `https`.
    pub(crate) tls: Option<Arc<ClientTls>>,
    /// The longest time for a response.
    pub timeout: Duration,
}

/// The longest default timeout of requests to the forecaster; it is never longer than the interval.
const DEFAULT_TIMEOUT: Span = Span::from_secs(5);

pub(super) fn check_adaptive(
    config: &model::Config,
    limits: &[LimitSettings],
    problems: &Problems,
) -> Option<AdaptiveSettings> {
    let adaptive = &config.adaptive;
    let rails = rails(adaptive);
    if let Some(ceiling) = rails.ceiling.filter(|ceiling| *ceiling < rails.floor) {
        let floor = rails.floor;
        problems.add("adaptive.floor", format!("must be at most `adaptive.ceiling`, which is {ceiling}, got {floor}"));
    }
    let interval = adaptive.interval();
    let timeout = adaptive.timeout.unwrap_or(DEFAULT_TIMEOUT.min(interval)).get();
    let mode = adaptive.mode.unwrap_or_default();
    let url = adaptive.forecaster.as_deref();
    let forecaster = url.and_then(|url| check_forecaster(url, adaptive, timeout, problems));
    if url.is_none() && adaptive.ca.is_some() {
        problems.add("adaptive.ca", "needs `adaptive.forecaster` with an https URL");
    }
    let source = adaptive.source.as_deref();
    let is_good =
        |source: &str| (1..=LONGEST_SERIES_NAME).contains(&source.len()) && !source.contains(char::is_control);
    if let Some(source) = source.filter(|source| !is_good(source)) {
        let found = source.len();
        let message = format!("must be 1 to {LONGEST_SERIES_NAME} bytes without control characters, got {found} bytes");
        problems.add("adaptive.source", message);
    }
    if mode == AdaptiveMode::Off || url.is_none() {
        return None;
    }
    let name = adaptive.limit();
    // A limit that is written but invalid has been reported already.
    let is_good = limits.iter().any(|limit| limit.name.as_str() == name);
    if is_good || !config.limits.as_ref().is_some_and(|written| written.contains_key(&name)) {
        check_limit(&name, limits, problems);
    }
    Some(AdaptiveSettings {
        forecaster: forecaster?,
        mode,
        limit: name.into(),
        source: source.map(Box::from),
        interval: interval.get(),
        rails,
        latency: adaptive.latency.map(Span::get),
        errors: adaptive.errors(),
        misses: adaptive.misses(),
        history: adaptive.history(),
        model: adaptive.clone(),
    })
}

/// The guard rails: as written, or the defaults.
fn rails(adaptive: &model::Adaptive) -> Rails {
    // The default floor is never above a configured ceiling.
    let default_floor = adaptive.ceiling.map_or(adaptive.floor(), |ceiling| adaptive.floor().min(ceiling));
    Rails {
        ceiling: adaptive.ceiling,
        floor: adaptive.floor.unwrap_or(default_floor),
        step: adaptive.step(),
        dwell: adaptive.dwell().get(),
        algorithm_dwell: adaptive.algorithm_dwell().get(),
    }
}

/// Checks that a limit can be adapted: a forecast is the rate of all clients together.
fn check_limit(name: &str, limits: &[LimitSettings], problems: &Problems) {
    let path = "adaptive.limit";
    let Some(limit) = limits.iter().find(|limit| limit.name.as_str() == name) else {
        let known: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
        problems.add(path, format!("unknown limit {name:?}; known limits: {}", known.join(", ")));
        return;
    };
    let fault = if !limit.key.is_global() {
        "must be shared by all clients (`key: global`)"
    } else if !limit.tiers.is_empty() {
        "must have no tiers: only one set of numbers can be adapted"
    } else if limit.numbers.algorithm() == Algorithm::Concurrency {
        "must not be `concurrency`, which has no rate that a forecast could set"
    } else if limit.cost != tidegate_policy::Cost::ONE {
        "must have a cost of 1: a forecast counts requests"
    } else if limit.dry_run {
        "must not be `dry_run`: it never rejects"
    } else {
        return;
    };
    problems.add(path, format!("`{name}` {fault}"));
}

fn check_forecaster(
    url: &str,
    adaptive: &model::Adaptive,
    timeout: Duration,
    problems: &Problems,
) -> Option<Forecaster> {
    let path = "adaptive.forecaster";
    let read = problems.ok(path, read_url(url).map_err(|reason| invalid_url(url, reason)))?;
    if !read.is_tls && adaptive.ca.is_some() {
        problems.add(path, "must be https with `ca`");
    }
    let tls = if read.is_tls {
        match tls::client(adaptive.ca.as_deref(), &SystemRoots::default(), &read.host) {
            Ok(tls) => Some(Arc::new(tls)),
            Err((field, error)) => {
                let field = if field == "ca" { "adaptive.ca" } else { path };
                problems.add(field, error);
                return None;
            }
        }
    } else {
        None
    };
    let base = read.path_and_query.trim_end_matches('/');
    Some(Forecaster {
        path: format!("{base}/v1/limit-config").into(),
        host: read.host.into(),
        port: read.port,
        authority: read.authority.into(),
        tls,
        timeout,
    })
}
