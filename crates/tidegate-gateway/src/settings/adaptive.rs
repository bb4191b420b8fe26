//! Adaptation: where the forecaster is, what is adapted, within which bounds.

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
    /// Where the forecaster is.
    pub forecaster: Forecaster,
    /// Whether anything is changed.
    pub mode: AdaptiveMode,
    /// The name of the limit that is adapted.
    pub limit: Box<str>,
    /// What its load is called, if it was given a name.
    pub source: Option<Box<str>>,
    /// How often the forecaster is asked.
    pub interval: Duration,
    /// What is never left.
    pub rails: Rails,
    /// The latency above which the upstream is overloaded; none if that is to be learnt.
    pub latency: Option<Duration>,
    /// The share of errors above which it is.
    pub errors: f64,
    /// After how many misses in a row it is reported.
    pub misses: u32,
    /// How many entries the history keeps.
    pub history: usize,
    /// As it is written, to see whether a reload changes it.
    pub model: model::Adaptive,
}

/// How the forecaster is reached.
#[derive(Clone)]
pub struct Forecaster {
    /// Host to connect to.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// The `Host` it is sent.
    pub authority: Box<str>,
    /// What is asked for.
    pub path: Box<str>,
    /// For `https`.
    pub(crate) tls: Option<Arc<ClientTls>>,
    /// The longest time for a response.
    pub timeout: Duration,
}

/// How long the forecaster may take, if nothing is configured and it is not asked more often.
const USUAL_TIMEOUT: Span = Span::from_secs(5);

pub(super) fn check_adaptive(
    config: &model::Config,
    limits: &[LimitSettings],
    problems: &Problems,
) -> Option<AdaptiveSettings> {
    let adaptive = &config.adaptive;
    adaptive.check_ranges("adaptive", problems);
    let rails = rails(adaptive);
    if rails.ceiling.is_some_and(|ceiling| ceiling < rails.floor) {
        problems.add("adaptive.floor", format!("must be at most `adaptive.ceiling`, got {}", rails.floor));
    }
    let interval = adaptive.interval();
    let timeout = adaptive.timeout.unwrap_or(USUAL_TIMEOUT.min(interval)).get();
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
    // One that is written but wrong has been reported already.
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

/// The guard rails, as written or by default.
fn rails(adaptive: &model::Adaptive) -> Rails {
    // The default floor gives way to a low ceiling.
    let usual = adaptive.ceiling.map_or(adaptive.floor(), |ceiling| adaptive.floor().min(ceiling));
    Rails {
        ceiling: adaptive.ceiling,
        floor: adaptive.floor.unwrap_or(usual),
        step: adaptive.step(),
        dwell: adaptive.dwell().get(),
        algorithm_dwell: adaptive.algorithm_dwell().get(),
    }
}

/// What can't be adapted: a rate for everyone together is what a forecast speaks of.
fn check_limit(name: &str, limits: &[LimitSettings], problems: &Problems) {
    let path = "adaptive.limit";
    let Some(limit) = limits.iter().find(|limit| limit.name.as_str() == name) else {
        let known: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
        problems.add(path, format!("unknown limit `{name}`; known limits: {}", known.join(", ")));
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
