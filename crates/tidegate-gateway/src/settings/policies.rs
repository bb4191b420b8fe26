//! Policies, and who names them.

use std::time::Duration;

use http::HeaderName;
use tidegate_input::Problems;
use tidegate_policy::breaker::{BreakerSettings, SlowCalls, Window};
use tidegate_policy::bulkhead::BulkheadSettings;
use tidegate_policy::journey::{RetryTerms, Terms};
use tidegate_policy::retry::{Backoff, BudgetSettings, HedgeSettings};
use tidegate_policy::{Failure, FailureSet, InvalidSetting};
use tidegate_store::Name;

use super::limits::list;
use crate::config::model::{self, BreakerWindow, Config};
use crate::config::span::Span;

/// What is done around the attempts of a request.
#[derive(Clone, Debug)]
pub struct PolicySettings {
    /// Its name.
    pub name: Box<str>,
    /// What a request has to pass, without the limits of an upstream.
    pub terms: Terms,
    /// Which failed attempts are repeated.
    pub retry: Option<RetrySettings>,
    /// The circuit breaker.
    pub breaker: Option<BreakerSettings>,
    /// What the breaker counts as failures.
    pub failures: FailureSet,
    /// The bulkhead.
    pub bulkhead: Option<BulkheadSettings>,
}

/// Which failed attempts are repeated.
#[derive(Clone, Debug)]
pub struct RetrySettings {
    /// What has to have happened to them.
    pub on: FailureSet,
    /// The header by which an upstream notices that a request comes again.
    pub idempotency_key: Option<HeaderName>,
    /// How many of them are repeated.
    pub budget: BudgetSettings,
    /// When a second attempt is made beside the first.
    pub hedge: Option<HedgeSettings>,
}

/// How many attempts a breaker has to see, unless its window is smaller.
const MINIMUM: u32 = 10;

/// All policies. One that is not valid is among them as a policy that does nothing, so that those who name it report no
/// second mistake.
pub(super) fn check_policies(config: &Config, problems: &Problems) -> Vec<PolicySettings> {
    let checked = config.policies.iter().map(|(name, policy)| check_policy(name, policy, problems));
    checked.collect()
}

/// The index of the policy that is named at `path`.
pub(super) fn named_policy(path: &str, name: Option<&str>, config: &Config, problems: &Problems) -> Option<usize> {
    let name = name?;
    let found = config.policies.keys().position(|known| known == name);
    if found.is_none() {
        let known = list(&config.policies);
        problems.add(path, format!("unknown policy {name:?}; known policies: {known}"));
    }
    found
}

fn check_policy(name: &str, policy: &model::Policy, problems: &Problems) -> PolicySettings {
    let path = format!("policies.{name}");
    problems.ok(&path, Name::new(name));
    let retry = policy.retry.as_ref().map(|retry| check_retry(&format!("{path}.retry"), retry, problems));
    let breaker = policy.breaker.as_ref();
    let at = format!("{path}.breaker");
    let settings = breaker.and_then(|breaker| check_breaker(&at, breaker, problems));
    let failures = breaker.map_or_else(FailureSet::default, |breaker| failures(&at, &breaker.on, problems));
    let bulkhead = policy.bulkhead.as_ref().map(|bulkhead| check_bulkhead(&path, bulkhead, problems));
    let terms = Terms {
        timeout: policy.timeout.map(Span::get),
        attempt_timeout: policy.attempt_timeout.map(Span::get),
        has_breaker: settings.is_some(),
        has_limits: false,
        bulkhead: bulkhead.as_ref().map(|(_, wait)| *wait),
        retry: retry.as_ref().and_then(|(_, terms)| *terms),
    };
    PolicySettings {
        name: name.into(),
        terms,
        retry: retry.map(|(settings, _)| settings),
        breaker: settings,
        failures,
        bulkhead: bulkhead.map(|(settings, _)| settings),
    }
}

fn check_retry(path: &str, retry: &model::Retry, problems: &Problems) -> (RetrySettings, Option<RetryTerms>) {
    let backoff = Backoff::new(retry.base.get(), retry.max.get(), retry.factor, retry.jitter.0);
    let backoff = valid(path, backoff, problems);
    let idempotency_key = retry.idempotency_key.as_ref().and_then(|name| {
        let message = || format!("must be the name of a header, got {name:?}");
        let parsed = HeaderName::from_bytes(name.as_bytes());
        parsed.map_err(|_| problems.add(format!("{path}.idempotency_key"), message())).ok()
    });
    let settings = RetrySettings {
        on: failures(path, &retry.on, problems),
        idempotency_key,
        budget: BudgetSettings { share: retry.budget.share, floor: retry.budget.floor },
        hedge: retry.hedge.as_ref().and_then(|hedge| check_hedge(path, hedge, retry.attempts, problems)),
    };
    (settings, backoff.map(|backoff| RetryTerms { attempts: retry.attempts, backoff }))
}

fn check_hedge(path: &str, hedge: &model::Hedge, attempts: u32, problems: &Problems) -> Option<HedgeSettings> {
    if attempts < 2 {
        let message = format!("needs `attempts` of 2 or more, because it is the second attempt; got {attempts}");
        problems.add(format!("{path}.hedge"), message);
    }
    let settings = HedgeSettings { quantile: hedge.quantile, min_delay: hedge.min_delay.get() };
    valid(&format!("{path}.hedge"), settings.checked(), problems)
}

fn check_breaker(path: &str, breaker: &model::Breaker, problems: &Problems) -> Option<BreakerSettings> {
    if breaker.slow_calls.is_some() && breaker.slow.is_none() {
        problems.add(format!("{path}.slow_calls"), "must be left out without `slow`");
    }
    let (window, most) = match breaker.window {
        BreakerWindow::Calls(calls) => (Window::Calls(calls), calls.max(1)),
        BreakerWindow::Time(span) => (Window::Time(span.get()), u32::MAX),
    };
    let failures = breaker.failures.or_else(|| breaker.consecutive.is_none().then_some(0.5));
    let settings = BreakerSettings {
        window,
        minimum: breaker.minimum.unwrap_or(MINIMUM.min(most)),
        failures,
        slow: breaker.slow.map(|slow| SlowCalls { threshold: slow.get(), share: breaker.slow_calls() }),
        consecutive: breaker.consecutive,
        open: breaker.open.get(),
        growth: breaker.growth,
        longest_open: breaker.max_open.get(),
        probes: breaker.probes,
        probe_timeout: breaker.probe_timeout.get(),
    };
    valid(path, settings.checked(), problems)
}

/// Its settings, and the longest wait.
fn check_bulkhead(path: &str, bulkhead: &model::Bulkhead, problems: &Problems) -> (BulkheadSettings, Duration) {
    let queue = bulkhead.queue();
    if bulkhead.wait.is_some() && queue == 0 {
        problems.add(format!("{path}.bulkhead.wait"), "must be left out without `queue`: no request waits");
    }
    let wait = if queue == 0 { Duration::ZERO } else { bulkhead.wait().get() };
    (BulkheadSettings { limit: bulkhead.limit, queue }, wait)
}

/// The ways to fail that a list names.
fn failures(path: &str, words: &[String], problems: &Problems) -> FailureSet {
    let path = format!("{path}.on");
    if words.is_empty() {
        problems.add(&path, "must have at least one of connect, timeout, reset, 4xx, 5xx or a status");
    }
    let parsed = words.iter().enumerate();
    parsed.filter_map(|(index, word)| problems.ok(&format!("{path}[{index}]"), word.parse::<Failure>())).collect()
}

/// The settings, or a problem at the setting that is at fault. What is outside the range of a single setting has been
/// reported already.
fn valid<T>(path: &str, settings: Result<T, InvalidSetting>, problems: &Problems) -> Option<T> {
    let report = |invalid: InvalidSetting| {
        let field = if invalid.field == "longest_open" { "max_open" } else { invalid.field };
        let at = format!("{path}.{field}");
        if !problems.has(&at) {
            problems.add(at, invalid.reason);
        }
    };
    settings.map_err(report).ok()
}
