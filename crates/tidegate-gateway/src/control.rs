//! Changes while running. Numbers set while running replace those of the file. They are kept in Redis under
//! `ratelimiter:config`, or in this process if Redis is not configured.

mod document_check;
mod fixed;
mod write_back;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_serve::Log;
use tidegate_store::{Document, DocumentFault, Store};
use tokio::sync::Mutex;

use crate::config::model::{Config, Numbers};
use crate::config::numbers::{InvalidNumbers, LimitNumbers, algorithm, checked, values, written};
use crate::config::{InvalidConfig, Problem};
use crate::endpoint_tasks::Lookups;
use crate::gateway::Gateway;
use crate::limit::{Limit, SetBy};
use crate::listener::Listener;
use crate::plan::{Kept, Overlay, Overrides, Plan, RuntimeNumbers};
use crate::settings::{LimitSettings, Settings};
use crate::stored::{Stored, next_version, put};
use document_check::DocumentCheck;
use fixed::Fixed;
use write_back::{Fault, Found, Held, Retry, compare, reconcile, report_written_back};

/// How often to look whether another gateway or an operator has changed the limits in Redis.
pub(crate) const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// How many times a change is attempted while others change the limits at the same time.
const ATTEMPTS: usize = 8;

/// Reads the configuration again: file, environment and flags as at the start.
pub type Source = Box<dyn Fn() -> Result<Config, InvalidConfig> + Send + Sync>;

/// Makes changes, one at a time.
pub(crate) struct Control {
    source: Arc<dyn Fn() -> Result<Config, InvalidConfig> + Send + Sync>,
    /// Held from reading a file until it is in force: an older file must not replace a newer one.
    reloading: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    /// The limits of the file.
    base: Vec<LimitSettings>,
    overrides: Overrides,
    /// Adapted numbers, which replace those of the operator.
    overlay: Option<Overlay>,
    /// Grows when the operator's numbers change.
    generation: u64,
    kept: Kept,
    document: Option<Document>,
    /// What Redis held when it was last read.
    seen: Vec<u8>,
    /// The document in force. It is written back if Redis loses it.
    held: Held,
    /// The next attempt to write it, if the last one failed.
    retry: Option<Retry>,
    /// Why it could not be read or written, as last reported.
    fault: Option<Fault>,
    /// Threads that serve requests. A reload does not change their number, even if the number of CPUs has changed.
    workers: usize,
    /// Listeners whose certificates a reload changes.
    listeners: Vec<Arc<Listener>>,
    /// What a reload can't change.
    fixed: Fixed,
}

/// What is in force if numbers in Redis can't be used: at the start, and later.
const FILES_INSTEAD: &str = "using those of the file";
const LAST_INSTEAD: &str = "keeping the last valid ones";

/// Why a change was not made. Nothing has changed, except perhaps for `Unknown`.
#[derive(Debug)]
pub(crate) enum NotChanged {
    NoSuchLimit {
        name: String,
        /// All limits that there are.
        known: Vec<String>,
    },
    Invalid(String),
    /// The limits are kept in Redis, which is unavailable.
    StoreAway,
    /// The limits are kept in Redis, which rejects the change; the reason.
    StoreRejects(String),
    /// The change was sent to Redis, which has not responded.
    Unknown,
    /// Others changed the limits at the same time, in every attempt.
    Contended,
}

impl fmt::Display for NotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchLimit { name, known } => {
                write!(f, "unknown limit {name:?}; known limits: {}", known.join(", "))
            }
            Self::Invalid(reason) => f.write_str(reason),
            Self::StoreAway => f.write_str("Redis, which keeps the limits, is unavailable; nothing was changed"),
            Self::StoreRejects(reason) => write!(f, "Redis rejected the change; nothing was changed: {reason}"),
            Self::Unknown => {
                f.write_str("Redis did not confirm the change; it may still take effect. Read the limits again.")
            }
            Self::Contended => {
                f.write_str("others changed the limits at the same time; nothing was changed. Try again.")
            }
        }
    }
}

impl From<DocumentFault> for NotChanged {
    fn from(fault: DocumentFault) -> Self {
        match fault {
            DocumentFault::Away => Self::StoreAway,
            DocumentFault::Unknown => Self::Unknown,
            DocumentFault::Rejected(_) | DocumentFault::TooLong => Self::StoreRejects(fault.to_string()),
        }
    }
}

impl From<InvalidNumbers> for NotChanged {
    fn from(invalid: InvalidNumbers) -> Self {
        Self::Invalid(invalid.to_string())
    }
}

impl Control {
    /// Builds the first plan, and the control that changes it from then on.
    pub(crate) async fn start(
        settings: Settings,
        source: Source,
        listeners: Vec<Arc<Listener>>,
        store: Option<&Store>,
        now: tidegate_policy::Timestamp,
        log: &Log,
    ) -> Result<(Self, Plan), String> {
        let name = tidegate_store::Name::new("config").map_err(|error| error.to_string())?;
        let mut state = State {
            base: settings.limits.clone(),
            overrides: Overrides::new(),
            overlay: None,
            generation: 0,
            kept: Kept::logging(log),
            document: store.map(|store| store.document(&name)),
            seen: Vec::new(),
            held: Held::default(),
            retry: None,
            fault: None,
            workers: settings.workers,
            listeners,
            fixed: Fixed::of(&settings),
        };
        let DocumentCheck { usable, seen, held, fault } = state.check_document(&settings.limits, store, log).await;
        let mut plan = Plan::build(settings, &usable.overrides, &mut state.kept, store, now)?;
        usable.report(log, FILES_INSTEAD);
        state.note(seen, fault, store, log, FILES_INSTEAD);
        plan.version = held.version;
        (state.overrides, state.held) = (usable.overrides, held);
        Ok((Self { source: source.into(), reloading: Mutex::new(()), state: Mutex::new(state) }, plan))
    }

    /// Sets the numbers of a limit.
    pub(crate) async fn set(&self, gateway: &Gateway, name: &str, numbers: Numbers) -> Result<(), NotChanged> {
        let mut state = self.state.lock().await;
        let base = state.base_of(name)?;
        let numbers = checked(&numbers, base.soft)?;
        fits(base, &numbers, gateway.store())?;
        state.change(gateway, name, |current| Ok(Some(numbers.clone().remembering(current)))).await
    }

    /// Sets the algorithm of a limit. Values that `numbers` lacks come from the numbers that were set before.
    pub(crate) async fn set_algorithm(
        &self,
        gateway: &Gateway,
        name: &str,
        numbers: Numbers,
    ) -> Result<(), NotChanged> {
        let mut state = self.state.lock().await;
        let base = state.base_of(name)?.clone();
        let algorithm = algorithm(&numbers)?;
        let accepts = |numbers: &LimitNumbers| fits(&base, numbers, gateway.store());
        let given = values(&numbers);
        let switched = |current: &LimitNumbers| current.with_algorithm(algorithm, &given, base.soft, accepts);
        state.change(gateway, name, |current| switched(current).map(Some)).await
    }

    /// Removes the numbers that were set while running: those of the file are in force again.
    pub(crate) async fn unset(&self, gateway: &Gateway, name: &str) -> Result<(), NotChanged> {
        let mut state = self.state.lock().await;
        state.change(gateway, name, |_| Ok(None)).await
    }

    /// Reads the configuration and Redis again. An invalid file changes nothing. If Redis is unavailable or its
    /// document can't be used, the last valid numbers stay in force with the new file.
    pub(crate) async fn reload(&self, gateway: &Gateway) -> Result<(), NotChanged> {
        let _one_at_a_time = self.reloading.lock().await;
        let source = Arc::clone(&self.source);
        // Reading files and certificates blocks: a worker must not wait for it.
        let checked = gateway.blocking(move || source().and_then(|config| Settings::check(&config))).await;
        let checked = checked.map_err(|error| NotChanged::Invalid(error.to_string()))?;
        let mut settings = checked.map_err(|error| NotChanged::Invalid(error.to_string()))?;

        let fixed = Fixed::of(&settings);
        if let Some(field) = self.state.lock().await.fixed.difference(&fixed) {
            return Err(NotChanged::Invalid(format!("{field}: can't be changed without a restart")));
        }
        // The resolver in force stays as it is: the reload may still be rejected.
        let names = gateway.names.with(settings.resolver.clone());
        let lookups = Lookups::of(&names, &settings.upstreams, settings.resolver.timeout).await;
        let mut guard = self.state.lock().await;
        let state = &mut *guard;
        settings.workers = state.workers;
        let DocumentCheck { usable, seen, held, fault } =
            state.check_document(&settings.limits, gateway.store(), &gateway.log).await;
        let base = settings.limits.clone();
        let lints = std::mem::take(&mut settings.lints);
        let certificates: Vec<_> = settings.listeners.iter().map(|listener| listener.tls.clone()).collect();
        let plan = Plan::build(settings, &usable.overrides, &mut state.kept, gateway.store(), gateway.now());
        let plan = plan.map_err(NotChanged::Invalid)?;
        gateway.names.adopt(&names);
        lookups.apply(&plan, gateway.now());
        usable.report(&gateway.log, LAST_INSTEAD);
        state.note(seen, fault, gateway.store(), &gateway.log, LAST_INSTEAD);
        report_lints(&gateway.log, &lints);
        if state.fixed.has_renewed_files(&fixed) {
            let message =
                "redis: its certificates or keys have been renewed; those read at the start stay until a restart";
            gateway.log.warn("ConfigController", message);
        }
        state.rebase();
        state.swap(gateway, plan, usable.overrides, held);
        state.base = base;
        state.listeners.iter().zip(certificates).for_each(|(listener, certificate)| listener.show(certificate));
        Ok(())
    }

    /// Puts in force what another gateway or an operator has changed in Redis. If Redis has lost the limits, writes
    /// them back.
    pub(crate) async fn follow(&self, gateway: &Gateway) {
        let mut guard = self.state.lock().await;
        let state = &mut *guard;
        let (Some(document), Some(store)) = (&state.document, gateway.store()) else { return };
        let reconciled = match document.read().await {
            Ok(text) if text == state.seen && state.retry.is_none() => {
                state.fault = None;
                return;
            }
            Ok(text) if text == state.seen && !state.is_retry_due(store) => return,
            Ok(text) => reconcile(document, &state.held, text, &gateway.log).await,
            Err(fault) => Err(Fault::Read(fault)),
        };
        let reconciled = match reconciled {
            Ok(reconciled) => reconciled,
            Err(fault) => return state.report(fault, &gateway.log, LAST_INSTEAD),
        };
        let is_in_force = reconciled.text == state.held.text;
        let check = state.evaluate(reconciled, &state.base, gateway.store());
        state.note(check.seen, check.fault, gateway.store(), &gateway.log, LAST_INSTEAD);
        if is_in_force {
            return;
        }
        check.usable.report(&gateway.log, LAST_INSTEAD);
        if let Err(error) = state.apply(gateway, check.usable.overrides, check.held, None) {
            report_unusable(&gateway.log, LAST_INSTEAD, &[error]);
        }
    }
}

/// Why adapted numbers were not put in force.
#[derive(Debug)]
pub(crate) enum NotAdapted {
    /// The operator has changed the numbers since.
    Rebased,
    Invalid(String),
}

impl Control {
    /// Puts adapted numbers in force, or removes them. `generation` is that of the plan they were made for.
    pub(crate) async fn adapt(
        &self,
        gateway: &Gateway,
        overlay: Option<Overlay>,
        generation: u64,
    ) -> Result<(), NotAdapted> {
        let mut guard = self.state.lock().await;
        let state = &mut *guard;
        if state.generation != generation {
            return Err(NotAdapted::Rebased);
        }
        let (before, now) = (gateway.plan(), gateway.now());
        let runtime = RuntimeNumbers { overrides: &state.overrides, overlay: overlay.as_ref() };
        let plan = before.with_numbers(&state.base, runtime, &mut state.kept, gateway.store(), now);
        let plan = plan.map_err(NotAdapted::Invalid)?;
        for new in &plan.limits {
            if let Some(old) = before.limit(new.name()) {
                report_switch(gateway, new.name(), &old.settings.numbers, &new.settings.numbers);
            }
        }
        gateway.swap(plan);
        state.overlay = overlay;
        Ok(())
    }
}

/// Reports the warnings about a valid configuration.
pub(crate) fn report_lints(log: &Log, lints: &[Problem]) {
    for lint in lints {
        log.warn("ConfigController", format_args!("{lint}"));
    }
}

fn report_unusable(log: &Log, instead: &str, warnings: &[String]) {
    for warning in warnings {
        log.warn("ConfigController", format_args!("the limits in Redis can't be used; {instead}: {warning}"));
    }
}

/// Checks that the limit's state can hold these numbers.
fn fits(limit: &LimitSettings, numbers: &LimitNumbers, store: Option<&Store>) -> Result<(), NotChanged> {
    let checked = Plan::check_numbers(limit, numbers, store);
    checked.map_err(|error| NotChanged::Invalid(format!("limits.{}: {error}", limit.name.as_str())))
}

impl State {
    fn base_of(&self, name: &str) -> Result<&LimitSettings, NotChanged> {
        let found = self.base.iter().find(|limit| limit.name.as_str() == name);
        let known = || self.base.iter().map(|limit| limit.name.as_str().to_owned()).collect();
        found.ok_or_else(|| NotChanged::NoSuchLimit { name: name.to_owned(), known: known() })
    }

    /// A limit's numbers under these overrides.
    fn current<'a>(&'a self, name: &str, overrides: &'a Overrides) -> Result<&'a LimitNumbers, NotChanged> {
        let base = self.base_of(name)?;
        Ok(overrides.get(name).unwrap_or(&base.numbers))
    }

    /// Sets or unsets a limit's numbers, first in Redis if it keeps them. `new` computes them from the current ones: in
    /// Redis others may have changed them since this gateway last read them, and that change must not be lost.
    async fn change(
        &mut self,
        gateway: &Gateway,
        name: &str,
        new: impl Fn(&LimitNumbers) -> Result<Option<LimitNumbers>, NotChanged>,
    ) -> Result<(), NotChanged> {
        let Some(document) = self.document.clone() else {
            let mut overrides = self.overrides.clone();
            let numbers = new(self.current(name, &overrides)?)?;
            put(&mut overrides, name, numbers);
            let held = Held { text: Vec::new(), version: next_version(self.held.version, 0) };
            return self.apply(gateway, overrides, held, Some(name)).map_err(NotChanged::Invalid);
        };
        self.base_of(name)?;
        let check =
            |limit: &LimitSettings, numbers: &LimitNumbers| Plan::check_numbers(limit, numbers, gateway.store());
        for _ in 0..ATTEMPTS {
            let found = document.read().await?;
            // What Redis has lost is written back with the change.
            let outdated = match compare(&self.held, &found) {
                Found::Newest | Found::Conflicting | Found::Unversioned(_) => None,
                Found::Outdated(why) => Some(why),
            };
            let newest = if outdated.is_some() { &self.held.text } else { &found };
            // A text that is not a document is replaced by the operator's new numbers.
            let read = |text: &[u8]| Stored::read(text, &self.base, check);
            let mut stored = read(newest).or_else(|_| read(&self.held.text)).unwrap_or_default();
            let mut overrides = self.with_known(&stored, &self.base, gateway.store());
            let numbers = new(self.current(name, &overrides)?)?;
            stored.put(name, numbers.as_ref());
            put(&mut overrides, name, numbers);
            // Higher also than the version of a text that can't be used.
            let known = stored.version.max(self.held.version).max(Stored::version_of(&found));
            stored.version = next_version(known, document.clock_millis().await?);
            let written = stored.write().into_bytes();
            if document.replace(&found, &written).await? {
                if let Some(why) = outdated {
                    report_written_back(&gateway.log, &document, why, stored.version);
                }
                (self.seen, self.retry) = (written.clone(), None);
                return self.apply(gateway, overrides, Held::new(written), Some(name)).map_err(NotChanged::Invalid);
            }
        }
        Err(NotChanged::Contended)
    }

    /// Puts other numbers in force. Adapted numbers of the limit that was `set`, or that others have changed, are
    /// removed.
    fn apply(&mut self, gateway: &Gateway, overrides: Overrides, held: Held, set: Option<&str>) -> Result<(), String> {
        let (before, now) = (gateway.plan(), gateway.now());
        let is_same = |limit: &str| set != Some(limit) && overrides.get(limit) == self.overrides.get(limit);
        let adapted = before.site.adaptive.as_ref().map(|adaptive| &*adaptive.limit);
        let overlay = self.overlay.as_ref().filter(|overlay| is_same(&overlay.limit));
        let runtime = RuntimeNumbers { overrides: &overrides, overlay };
        let plan = before.with_numbers(&self.base, runtime, &mut self.kept, gateway.store(), now)?;
        if adapted.is_some_and(|limit| !is_same(limit)) {
            self.rebase();
        }
        self.swap(gateway, plan, overrides, held);
        Ok(())
    }

    /// The operator has set numbers: adapted ones are void.
    fn rebase(&mut self) {
        self.overlay = None;
        self.generation = self.generation.saturating_add(1);
    }

    /// Puts a plan in force, and reports the numbers that it changes.
    fn swap(&mut self, gateway: &Gateway, mut plan: Plan, overrides: Overrides, held: Held) {
        let before = gateway.plan();
        for new in &plan.limits {
            let Some(old) = before.limit(new.name()) else { continue };
            let (was, is) = (&old.settings.numbers, &new.settings.numbers);
            if was.to_string() == is.to_string() {
                continue;
            }
            let which = limit_in_words(new.name());
            gateway.log.info("ConfigController", format_args!("Applied new config: {is}{which}"));
            report_switch(gateway, new.name(), was, is);
        }
        (plan.version, plan.generation) = (held.version, self.generation);
        gateway.swap(plan);
        gateway.metrics.config_version.store(held.version, std::sync::atomic::Ordering::Relaxed);
        (self.overrides, self.held) = (overrides, held);
    }
}

/// The limit that a log line is about, unless it is `default`.
pub(crate) fn limit_in_words(name: &str) -> String {
    if name == "default" { String::new() } else { format!(" (limit `{name}`)") }
}

fn report_switch(gateway: &Gateway, limit: &str, was: &LimitNumbers, is: &LimitNumbers) {
    let (from, to, which) = (was.algorithm(), is.algorithm(), limit_in_words(limit));
    if from != to {
        gateway.log.info("RateLimiter", format_args!("Switched rate-limiting algorithm from {from} to {to}{which}"));
    }
}

/// A limit as JSON.
pub(crate) fn describe(limit: &Limit) -> Value {
    let settings = &limit.settings;
    let mut value = serde_json::to_value(written(&settings.numbers.relevant())).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("name".to_owned(), limit.name().into());
        fields.insert("key".to_owned(), settings.key.to_string().into());
        fields.insert("state".to_owned(), serde_json::to_value(settings.state).unwrap_or_default());
        fields.insert("status".to_owned(), settings.status.as_u16().into());
        if settings.soft > 0 {
            fields.insert("soft".to_owned(), settings.soft.into());
        }
        if settings.dry_run {
            fields.insert("dry_run".to_owned(), true.into());
        }
        let set_by = match &limit.set_by {
            SetBy::File => "file",
            SetBy::Api => "api",
            SetBy::Adaptive(base) => {
                fields.insert("base".to_owned(), serde_json::to_value(written(&base.relevant())).unwrap_or_default());
                "adaptive"
            }
        };
        fields.insert("set_by".to_owned(), set_by.into());
    }
    value
}

/// Follows the limits in Redis without end.
pub(crate) async fn follow(gateway: Arc<Gateway>, control: Arc<Control>) {
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        control.follow(&gateway).await;
    }
}
