//! Changes while running. Whose word counts: the file's, over it that of `ratelimiter:config` in Redis (without Redis: of this process).

mod fixed;
mod look;
mod write_back;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_policy::Algorithm;
use tidegate_serve::Log;
use tidegate_store::{Document, DocumentFault, Store};
use tokio::sync::Mutex;

use crate::config::model::{Config, Numbers};
use crate::config::numbers::{InvalidNumbers, LimitNumbers, checked, values, written};
use crate::config::{InvalidConfig, Problem};
use crate::gateway::Gateway;
use crate::limit::{Limit, SetBy};
use crate::listener::Listener;
use crate::plan::{Kept, Over, Overlay, Overrides, Plan};
use crate::settings::{LimitSettings, Settings};
use crate::stored::{Stored, next_version, put};
use fixed::Fixed;
use look::Look;
use write_back::{Fault, Found, Held, Retry, compare, report_written_back, settle};

/// How often Redis is asked whether somebody else has changed the limits.
pub(crate) const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// How often a change is tried when others change something at the same time.
const ATTEMPTS: usize = 8;

/// Reads the configuration anew: file, environment and flags as at the start.
pub type Source = Box<dyn Fn() -> Result<Config, InvalidConfig> + Send + Sync>;

/// Where changes are made, one at a time.
pub(crate) struct Control {
    source: Arc<dyn Fn() -> Result<Config, InvalidConfig> + Send + Sync>,
    /// Held from the reading of a file until it is in force: an older one must not come after a newer one.
    reloading: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    /// The limits as the file has them.
    base: Vec<LimitSettings>,
    overrides: Overrides,
    /// What adaptation has put over them.
    overlay: Option<Overlay>,
    /// Grows when the operator's word changes.
    generation: u64,
    kept: Kept,
    document: Option<Document>,
    /// What Redis held when it was last looked at.
    seen: Vec<u8>,
    /// The document in force: it is written back if Redis forgets it.
    held: Held,
    /// Redis does not have it, because it could not be written there.
    retry: Option<Retry>,
    /// What kept us from reading or writing it, and has been reported.
    fault: Option<Fault>,
    /// Threads that serve: a reload does not change their number, whatever has become of the CPUs.
    workers: usize,
    /// Whose certificates a reload changes.
    listeners: Vec<Arc<Listener>>,
    /// What a reload can't change.
    fixed: Fixed,
}

/// What is in force where numbers in Redis can't be: at the start, and later.
const FILES_INSTEAD: &str = "those of the file are";
const LAST_INSTEAD: &str = "the last valid ones stay";

/// Why a change was not made. Nothing has changed then, but where it says otherwise.
#[derive(Debug)]
pub(crate) enum NotChanged {
    NoSuchLimit {
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    Invalid(String),
    /// Redis keeps the limits, and can't be asked.
    StoreAway,
    /// Redis keeps the limits, and refuses; why.
    StoreRefuses(String),
    /// Redis was told, and has not answered.
    Unknown,
    /// Others changed them again and again.
    Contended,
}

impl fmt::Display for NotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchLimit { name, known } => {
                write!(f, "there is no limit `{name}`; at /config/limits/NAME there are: {}", known.join(", "))
            }
            Self::Invalid(reason) => f.write_str(reason),
            Self::StoreAway => f.write_str("the limits are kept in Redis, which is away; nothing was changed"),
            Self::StoreRefuses(reason) => write!(f, "the limits are kept in Redis; nothing was changed: {reason}"),
            Self::Unknown => f.write_str(
                "the limits are kept in Redis, which has not answered: they may have been changed, now or in a moment, or not; \
                 look at them again",
            ),
            Self::Contended => f.write_str("others change the limits at the same time; nothing was changed"),
        }
    }
}

impl From<DocumentFault> for NotChanged {
    fn from(fault: DocumentFault) -> Self {
        match fault {
            DocumentFault::Away => Self::StoreAway,
            DocumentFault::Unknown => Self::Unknown,
            DocumentFault::Rejected(_) | DocumentFault::TooLong => Self::StoreRefuses(fault.to_string()),
        }
    }
}

impl From<InvalidNumbers> for NotChanged {
    fn from(invalid: InvalidNumbers) -> Self {
        Self::Invalid(invalid.to_string())
    }
}

impl Control {
    /// The first plan, and where it is changed from then on.
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
            kept: Kept::default(),
            document: store.map(|store| store.document(&name)),
            seen: Vec::new(),
            held: Held::default(),
            retry: None,
            fault: None,
            workers: settings.workers,
            listeners,
            fixed: Fixed::of(&settings),
        };
        let Look { judged, seen, held, fault } = state.look(&settings.limits, store, log).await;
        let mut plan = Plan::build(settings, &judged.overrides, &mut state.kept, store, now)?;
        judged.report(log, FILES_INSTEAD);
        state.note(seen, fault, store, log, FILES_INSTEAD);
        plan.version = held.version;
        (state.overrides, state.held) = (judged.overrides, held);
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

    /// Sets the algorithm of a limit, with the numbers that were set before; those in `numbers` come first.
    pub(crate) async fn set_algorithm(
        &self,
        gateway: &Gateway,
        name: &str,
        numbers: Numbers,
    ) -> Result<(), NotChanged> {
        let mut state = self.state.lock().await;
        let base = state.base_of(name)?.clone();
        let wanted =
            numbers.algorithm.as_deref().ok_or_else(|| NotChanged::Invalid("`algorithm` is missing".to_owned()))?;
        let algorithm: Algorithm =
            wanted.parse().map_err(|error| NotChanged::Invalid(format!("`algorithm`: {error}")))?;
        let accepts = |numbers: &LimitNumbers| fits(&base, numbers, gateway.store());
        let given = values(&numbers);
        let switched = |current: &LimitNumbers| current.with_algorithm(algorithm, &given, base.soft, accepts);
        state.change(gateway, name, |current| switched(current).map(Some)).await
    }

    /// Takes back what was set while running: the file's numbers count again.
    pub(crate) async fn unset(&self, gateway: &Gateway, name: &str) -> Result<(), NotChanged> {
        let mut state = self.state.lock().await;
        state.change(gateway, name, |_| Ok(None)).await
    }

    /// Reads the configuration and Redis anew. A bad file changes nothing. Without Redis, or with a text there that can't be used, the
    /// numbers last known stay over the new file.
    pub(crate) async fn reload(&self, gateway: &Gateway) -> Result<(), NotChanged> {
        let _one_at_a_time = self.reloading.lock().await;
        let source = Arc::clone(&self.source);
        // Files, certificates: a worker that waited for them would serve nobody.
        let checked = gateway.blocking(move || source().and_then(|config| Settings::check(&config))).await;
        let checked = checked.map_err(|error| NotChanged::Invalid(error.to_string()))?;
        let mut settings = checked.map_err(|error| NotChanged::Invalid(error.to_string()))?;

        let mut guard = self.state.lock().await;
        let state = &mut *guard;
        let fixed = Fixed::of(&settings);
        if let Some(field) = state.fixed.difference(&fixed) {
            return Err(NotChanged::Invalid(format!("{field}: can't be changed without a restart")));
        }
        settings.workers = state.workers;
        let Look { judged, seen, held, fault } = state.look(&settings.limits, gateway.store(), &gateway.log).await;
        let base = settings.limits.clone();
        let lints = std::mem::take(&mut settings.lints);
        let certificates: Vec<_> = settings.listeners.iter().map(|listener| listener.tls.clone()).collect();
        let plan = Plan::build(settings, &judged.overrides, &mut state.kept, gateway.store(), gateway.now());
        let plan = plan.map_err(NotChanged::Invalid)?;
        judged.report(&gateway.log, LAST_INSTEAD);
        state.note(seen, fault, gateway.store(), &gateway.log, LAST_INSTEAD);
        report_lints(&gateway.log, &lints);
        if state.fixed.has_renewed_files(&fixed) {
            let told =
                "redis: its certificates or keys have been renewed; those read at the start stay until a restart";
            gateway.log.warn("ConfigController", told);
        }
        state.rebase();
        state.swap(gateway, plan, judged.overrides, held);
        state.base = base;
        state.listeners.iter().zip(certificates).for_each(|(listener, certificate)| listener.show(certificate));
        Ok(())
    }

    /// Looks whether somebody else has changed the limits in Redis, and follows. If Redis has forgotten them, writes them back.
    pub(crate) async fn follow(&self, gateway: &Gateway) {
        let mut guard = self.state.lock().await;
        let state = &mut *guard;
        let (Some(document), Some(store)) = (&state.document, gateway.store()) else { return };
        let settled = match document.read().await {
            Ok(text) if text == state.seen && state.retry.is_none() => {
                state.fault = None;
                return;
            }
            Ok(text) if text == state.seen && !state.is_retry_due(store) => return,
            Ok(text) => settle(document, &state.held, text, &gateway.log).await,
            Err(fault) => Err(Fault::Read(fault)),
        };
        let settled = match settled {
            Ok(settled) => settled,
            Err(fault) => return state.report(fault, &gateway.log, LAST_INSTEAD),
        };
        let is_in_force = settled.text == state.held.text;
        let look = state.judge(settled, &state.base, gateway.store());
        state.note(look.seen, look.fault, gateway.store(), &gateway.log, LAST_INSTEAD);
        if is_in_force {
            return;
        }
        look.judged.report(&gateway.log, LAST_INSTEAD);
        if let Err(error) = state.apply(gateway, look.judged.overrides, look.held, None) {
            report_unusable(&gateway.log, LAST_INSTEAD, &[error]);
        }
    }
}

/// Why adapted numbers were not put in force.
#[derive(Debug)]
pub(crate) enum NotAdapted {
    /// The operator has spoken meanwhile.
    Rebased,
    Invalid(String),
}

impl Control {
    /// Lays adapted numbers over the operator's, or takes them away. `generation` is that of the plan they were made for.
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
        let over = Over { overrides: &state.overrides, overlay: overlay.as_ref() };
        let plan = before.with_numbers(&state.base, over, &mut state.kept, gateway.store(), now);
        let plan = plan.map_err(NotAdapted::Invalid)?;
        for new in &plan.limits {
            if let Some(old) = before.limit(new.name()) {
                tell_switch(gateway, new.name(), &old.settings.numbers, &new.settings.numbers);
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
        log.warn("ConfigController", format_args!("the limits in Redis can't be used, {instead}: {warning}"));
    }
}

/// Whether a limit's counts can be kept, where they are kept, under these numbers.
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

    /// Sets or unsets a limit's numbers, in Redis first where it keeps them. `new` makes them of those that count in that moment: in Redis
    /// others may have changed them since this gateway last looked, and their change must not be lost.
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
            // What Redis has forgotten is written back with the change.
            let outdated = match compare(&self.held, &found) {
                Found::Newest | Found::Conflicting | Found::Unversioned(_) => None,
                Found::Outdated(why) => Some(why),
            };
            let newest = if outdated.is_some() { &self.held.text } else { &found };
            // What is no document at all is replaced: an operator's new word mends it.
            let read = |text: &[u8]| Stored::read(text, &self.base, check);
            let mut stored = read(newest).or_else(|_| read(&self.held.text)).unwrap_or_default();
            let mut overrides = self.with_known(&stored, &self.base, gateway.store());
            let numbers = new(self.current(name, &overrides)?)?;
            stored.put(name, numbers.as_ref());
            put(&mut overrides, name, numbers);
            // Also over a text that somebody wrote without a version.
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

    /// Puts other numbers in force. What was adapted of the limit that was `set`, or that others have changed, is gone with it.
    fn apply(&mut self, gateway: &Gateway, overrides: Overrides, held: Held, set: Option<&str>) -> Result<(), String> {
        let (before, now) = (gateway.plan(), gateway.now());
        let is_same = |limit: &str| set != Some(limit) && overrides.get(limit) == self.overrides.get(limit);
        let adapted = before.site.adaptive.as_ref().map(|adaptive| &*adaptive.limit);
        let overlay = self.overlay.as_ref().filter(|overlay| is_same(&overlay.limit));
        let over = Over { overrides: &overrides, overlay };
        let plan = before.with_numbers(&self.base, over, &mut self.kept, gateway.store(), now)?;
        if adapted.is_some_and(|limit| !is_same(limit)) {
            self.rebase();
        }
        self.swap(gateway, plan, overrides, held);
        Ok(())
    }

    /// The operator has spoken: what was adapted is void.
    fn rebase(&mut self) {
        self.overlay = None;
        self.generation = self.generation.saturating_add(1);
    }

    /// Puts a plan in force, and tells which numbers it changes.
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
            tell_switch(gateway, new.name(), was, is);
        }
        (plan.version, plan.generation) = (held.version, self.generation);
        gateway.swap(plan);
        gateway.metrics.config_version.store(held.version, std::sync::atomic::Ordering::Relaxed);
        (self.overrides, self.held) = (overrides, held);
    }
}

/// Which limit a line speaks of, if it is not `default`.
pub(crate) fn limit_in_words(name: &str) -> String {
    if name == "default" { String::new() } else { format!(" (limit `{name}`)") }
}

fn tell_switch(gateway: &Gateway, limit: &str, was: &LimitNumbers, is: &LimitNumbers) {
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

/// Follows Redis for ever.
pub(crate) async fn follow(gateway: Arc<Gateway>, control: Arc<Control>) {
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        control.follow(&gateway).await;
    }
}
