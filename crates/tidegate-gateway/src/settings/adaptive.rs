//! Adaptation: where the forecaster is, what is adapted, within which bounds.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::Algorithm;
use tidegate_serve::HttpUrl;
use tidegate_serve::tls::SystemRoots;

use super::{DAY, HOUR, LimitSettings, Problems};
use crate::adapt::LONGEST_SOURCE;
use crate::config::model::{self, AdaptiveMode};
use crate::config::span::Span;
use crate::tls::{self, ClientTls};

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
    /// After how many misses in a row somebody is told.
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
    /// The longest an answer may take.
    pub timeout: Duration,
}

/// Bounds of what a forecast may do, in requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rails {
    /// Never above; none is three times the operator's rate.
    pub ceiling: Option<f64>,
    /// Never below.
    pub floor: f64,
    /// The largest step, as a factor.
    pub step: f64,
    /// Between two changes.
    pub dwell: Duration,
    /// Between two changes of the algorithm.
    pub algorithm_dwell: Duration,
}

impl Default for Rails {
    fn default() -> Self {
        let (dwell, algorithm_dwell) = (Duration::from_secs(1), Duration::from_secs(300));
        Self { ceiling: None, floor: 5.0, step: 3.0, dwell, algorithm_dwell }
    }
}

/// Rates that make sense: from one in about a day to what no machine serves.
const SLOWEST: f64 = 0.000_01;
const FASTEST: f64 = 1e9;

pub(super) fn check_adaptive(
    config: &model::Config,
    limits: &[LimitSettings],
    problems: &mut Problems,
) -> Option<AdaptiveSettings> {
    let adaptive = &config.adaptive;
    let interval = adaptive.interval.unwrap_or(Span::from_secs(30));
    let interval = problems.span("adaptive.interval", interval, Duration::from_secs(1), HOUR);
    let usual = Span::from_millis(5_000).min(adaptive.interval.unwrap_or(Span::from_secs(30)));
    let timeout = adaptive.timeout.unwrap_or(usual.max(Span::from_millis(20)));
    let timeout = problems.span("adaptive.timeout", timeout, Duration::from_millis(20), Duration::from_secs(60));
    let rails = check_rails(adaptive, problems);
    let latency =
        adaptive.latency.map(|latency| problems.span("adaptive.latency", latency, Duration::from_micros(100), HOUR));
    let errors = number("adaptive.errors", adaptive.errors.unwrap_or(0.05), 0.0, 1.0, problems);
    let misses = problems.within("adaptive.misses", adaptive.misses.unwrap_or(3), 1, 1_000);
    let history = problems.within("adaptive.history", adaptive.history.unwrap_or(100), 1, 10_000);
    let mode = adaptive.mode.unwrap_or_default();
    let url = adaptive.forecaster.as_deref();
    let forecaster = url.and_then(|url| check_forecaster(url, adaptive, timeout, problems));
    if url.is_none() && adaptive.ca.is_some() {
        problems.add("adaptive.ca", "is for a forecaster over https, and there is none");
    }
    let source = adaptive.source.as_deref();
    let is_good = |source: &str| (1..=LONGEST_SOURCE).contains(&source.len()) && !source.contains(char::is_control);
    if let Some(source) = source.filter(|source| !is_good(source)) {
        let allowed = format!("1 to {LONGEST_SOURCE} bytes without control characters are allowed");
        problems.add("adaptive.source", format!("has {} bytes; {allowed}", source.len()));
    }
    let name = adaptive.limit.as_deref().unwrap_or("default");
    if mode == AdaptiveMode::Off || url.is_none() {
        return None;
    }
    // One that is written but wrong has been told of already.
    let is_good = limits.iter().any(|limit| limit.name.as_str() == name);
    if is_good || !config.limits.as_ref().is_some_and(|written| written.contains_key(name)) {
        check_limit(name, limits, problems);
    }
    let limit = name.into();
    let model = adaptive.clone();
    Some(AdaptiveSettings {
        forecaster: forecaster?,
        mode,
        limit,
        source: source.map(Box::from),
        interval,
        rails,
        latency,
        errors,
        misses,
        history,
        model,
    })
}

fn check_rails(adaptive: &model::Adaptive, problems: &mut Problems) -> Rails {
    let usual = Rails::default();
    let ceiling = adaptive.ceiling.map(|ceiling| number("adaptive.ceiling", ceiling, SLOWEST, FASTEST, problems));
    let floor = number("adaptive.floor", adaptive.floor.unwrap_or(usual.floor), SLOWEST, FASTEST, problems);
    // The usual floor gives way to a low ceiling.
    let floor = if adaptive.floor.is_none() { ceiling.map_or(floor, |ceiling| floor.min(ceiling)) } else { floor };
    if ceiling.is_some_and(|ceiling| ceiling < floor) {
        problems.add("adaptive.floor", "is above `adaptive.ceiling`");
    }
    let span = |written: Option<Span>, usual: Duration| written.map_or(usual, Span::get);
    let (dwell, algorithm_dwell) =
        (span(adaptive.dwell, usual.dwell), span(adaptive.algorithm_dwell, usual.algorithm_dwell));
    for (path, value, most) in [("dwell", adaptive.dwell, HOUR), ("algorithm_dwell", adaptive.algorithm_dwell, DAY)] {
        if let Some(value) = value {
            problems.span(&format!("adaptive.{path}"), value, Duration::ZERO, most);
        }
    }
    let step = number("adaptive.step", adaptive.step.unwrap_or(usual.step), 1.01, 1_000.0, problems);
    Rails { ceiling, floor, step, dwell, algorithm_dwell }
}

/// As [`Problems::within`], which takes what is no number for one that is.
fn number(path: &str, value: f64, least: f64, most: f64, problems: &mut Problems) -> f64 {
    if !(least..=most).contains(&value) {
        problems.add(path, format!("is {value}; from {least} to {most} is allowed"));
    }
    value
}

/// What can't be adapted: a rate for everyone together is what a forecast speaks of.
fn check_limit(name: &str, limits: &[LimitSettings], problems: &mut Problems) {
    let path = "adaptive.limit";
    let Some(limit) = limits.iter().find(|limit| limit.name.as_str() == name) else {
        let there_are: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
        problems.add(path, format!("there is no limit `{name}`; there are: {}", there_are.join(", ")));
        return;
    };
    let fault = if !limit.key.is_global() {
        "has a key of its own; only a limit that everyone shares (`key: global`) can be adapted"
    } else if !limit.tiers.is_empty() {
        "has tiers; only one set of numbers can be adapted"
    } else if limit.numbers.algorithm() == Algorithm::Concurrency {
        "is `concurrency`, which has no rate that a forecast could set"
    } else if limit.cost != tidegate_policy::Cost::ONE {
        "has a cost other than 1; a forecast counts requests"
    } else if limit.dry_run {
        "is `dry_run`; what never refuses need not be adapted"
    } else {
        return;
    };
    problems.add(path, format!("`{name}` {fault}"));
}

fn check_forecaster(
    url: &str,
    adaptive: &model::Adaptive,
    timeout: Duration,
    problems: &mut Problems,
) -> Option<Forecaster> {
    let path = "adaptive.forecaster";
    let read =
        HttpUrl::read(url).and_then(|url| if url.path_and_query.contains('?') { Err("has a query") } else { Ok(url) });
    let read = match read {
        Ok(read) => read,
        Err(reason) => {
            // A user comes with a password.
            let shown = if url.contains('@') { String::new() } else { format!("{url:?} ") };
            problems.add(path, format!("{shown}{reason}; write http://host:port or https://host"));
            return None;
        }
    };
    if !read.is_tls && adaptive.ca.is_some() {
        problems.add(path, "is not https, but `ca` is set");
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
