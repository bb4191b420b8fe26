//! Changes while running. Whose word counts: the file's, over it that of `ratelimiter:config` in Redis (without Redis: of this process).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_policy::Algorithm;
use tidegate_store::{Document, Store, Topology};
use tokio::sync::Mutex;

use crate::config::model::{Config, Numbers};
use crate::config::numbers::{InvalidNumbers, LimitNumbers};
use crate::config::{InvalidConfig, LimitSettings, Settings};
use crate::gateway::Gateway;
use crate::limits::Limit;
use crate::plan::{Kept, Overrides, Plan};
use crate::server::Listener;
use crate::stored::Stored;

/// How often Redis is asked whether somebody else has changed the limits.
pub(crate) const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// How often a change is tried when others change something at the same time.
const ATTEMPTS: usize = 8;

/// Reads the configuration anew: file, environment and flags as at the start.
pub type Source = Box<dyn Fn() -> Result<Config, InvalidConfig> + Send + Sync>;

/// Where changes are made, one at a time.
pub(crate) struct Control(Mutex<State>);

struct State {
    source: Source,
    /// The limits as the file has them.
    base: Vec<LimitSettings>,
    overrides: Overrides,
    kept: Kept,
    document: Option<Document>,
    /// What Redis held when it was last looked at.
    seen: String,
    version: u64,
    /// Whose certificates a reload changes.
    listeners: Vec<Arc<Listener>>,
    /// What a reload can't change.
    fixed: Fixed,
}

/// What only a restart changes.
#[derive(PartialEq, Eq)]
struct Fixed {
    listeners: Vec<(std::net::SocketAddr, bool, bool)>,
    workers: usize,
    admin: Option<std::net::SocketAddr>,
    /// The address with what its files hold, and the rest of its section.
    redis: Option<(Topology, String)>,
    log: String,
    access_log: String,
    max_connections: usize,
    drain_timeout: Duration,
}

impl Fixed {
    fn of(settings: &Settings) -> Self {
        let listener =
            |listener: &crate::config::ListenerSettings| (listener.address, listener.tls.is_some(), listener.h2c);
        Self {
            listeners: settings.listeners.iter().map(listener).collect(),
            workers: settings.workers,
            admin: settings.admin_listen,
            redis: settings.redis.as_ref().map(|redis| (redis.topology.clone(), format!("{:?}", redis.model))),
            log: format!("{:?}", settings.log),
            access_log: format!("{:?}", settings.access_log),
            max_connections: settings.connections.max,
            drain_timeout: settings.connections.drain_timeout.get(),
        }
    }

    fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            ("listeners", self.listeners == other.listeners),
            ("workers", self.workers == other.workers),
            ("admin.listen", self.admin == other.admin),
            ("redis", self.redis == other.redis),
            ("log", self.log == other.log),
            ("access_log", self.access_log == other.access_log),
            ("connections.max", self.max_connections == other.max_connections),
            ("connections.drain_timeout", self.drain_timeout == other.drain_timeout),
        ]
        .into_iter()
        .find_map(|(field, same)| (!same).then_some(field))
    }
}

/// Why a change was not made. Nothing has changed then.
#[derive(Debug)]
pub(crate) enum NotChanged {
    NoSuchLimit(String),
    Invalid(String),
    /// Redis keeps the limits, and can't be asked.
    StoreAway,
    /// Others changed them again and again.
    Contended,
}

impl fmt::Display for NotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchLimit(name) => write!(f, "there is no limit `{name}`"),
            Self::Invalid(reason) => f.write_str(reason),
            Self::StoreAway => f.write_str("the limits are kept in Redis, which is away; nothing was changed"),
            Self::Contended => f.write_str("others change the limits at the same time; nothing was changed"),
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
    ) -> Result<(Self, Plan, Option<String>), String> {
        let name = tidegate_store::Name::new("config").map_err(|error| error.to_string())?;
        let mut state = State {
            source,
            base: settings.limits.clone(),
            overrides: Overrides::new(),
            kept: Kept::default(),
            document: store.map(|store| store.document(&name)),
            seen: String::new(),
            version: 0,
            listeners,
            fixed: Fixed::of(&settings),
        };
        let mut warning = None;
        if let Some(document) = &state.document
            && let Ok(text) = document.read().await
        {
            match Stored::read(&text, &state.base) {
                Ok(stored) => (state.version, state.overrides) = (stored.version, stored.overrides),
                Err(error) => warning = Some(error),
            }
            state.seen = text;
        }
        let plan = Plan::build(settings, &state.overrides, &mut state.kept, store, now)?;
        Ok((Self(Mutex::new(state)), plan, warning))
    }

    /// Sets the numbers of a limit.
    pub(crate) async fn set(&self, gateway: &Gateway, name: &str, numbers: Numbers) -> Result<(), NotChanged> {
        let mut state = self.0.lock().await;
        let base = state.base_of(name)?;
        let numbers = LimitNumbers::new(numbers, base.soft)?.remembering(state.current(name)?);
        state.change(gateway, name, Some(numbers)).await
    }

    /// Sets the algorithm of a limit, with the numbers that were set before; those in `numbers` come first.
    pub(crate) async fn set_algorithm(
        &self,
        gateway: &Gateway,
        name: &str,
        numbers: Numbers,
    ) -> Result<(), NotChanged> {
        let mut state = self.0.lock().await;
        let soft = state.base_of(name)?.soft;
        let wanted =
            numbers.algorithm.clone().ok_or_else(|| NotChanged::Invalid("`algorithm` is missing".to_owned()))?;
        let algorithm: Algorithm =
            wanted.parse().map_err(|error| NotChanged::Invalid(format!("`algorithm`: {error}")))?;
        let current = state.current(name)?;
        let given = current.with(&numbers);
        let numbers = given.with_algorithm(algorithm, soft)?;
        state.change(gateway, name, Some(numbers)).await
    }

    /// Takes back what was set while running: the file's numbers count again.
    pub(crate) async fn unset(&self, gateway: &Gateway, name: &str) -> Result<(), NotChanged> {
        let mut state = self.0.lock().await;
        state.base_of(name)?;
        state.change(gateway, name, None).await
    }

    /// Reads the configuration and Redis anew. A bad one changes nothing.
    pub(crate) async fn reload(&self, gateway: &Gateway) -> Result<(), NotChanged> {
        let mut state = self.0.lock().await;
        let invalid = |error: InvalidConfig| NotChanged::Invalid(error.to_string());
        let config = (state.source)().map_err(invalid)?;
        let settings = Settings::check(&config).map_err(invalid)?;
        if let Some(field) = state.fixed.difference(&Fixed::of(&settings)) {
            return Err(NotChanged::Invalid(format!("{field}: can't be changed without a restart")));
        }
        let overrides = match &state.document {
            // Without Redis what was set while running lasts until here.
            None => Overrides::new(),
            Some(document) => {
                let text = document.read().await.map_err(|_| NotChanged::StoreAway)?;
                let stored = Stored::read(&text, &settings.limits).map_err(NotChanged::Invalid)?;
                (state.version, state.seen) = (stored.version, text);
                stored.overrides
            }
        };
        let base = settings.limits.clone();
        let certificates: Vec<_> = settings.listeners.iter().map(|listener| listener.tls.clone()).collect();
        let plan = Plan::build(settings, &overrides, &mut state.kept, gateway.store(), gateway.now());
        gateway.swap(plan.map_err(NotChanged::Invalid)?);
        (state.base, state.overrides) = (base, overrides);
        gateway.metrics.config_version.store(state.version, std::sync::atomic::Ordering::Relaxed);
        state.listeners.iter().zip(certificates).for_each(|(listener, certificate)| listener.show(certificate));
        Ok(())
    }

    /// Looks whether somebody else has changed the limits in Redis, and follows.
    pub(crate) async fn follow(&self, gateway: &Gateway) {
        let mut state = self.0.lock().await;
        let Some(document) = &state.document else { return };
        let Ok(text) = document.read().await else { return };
        if text == state.seen {
            return;
        }
        let read = Stored::read(&text, &state.base);
        state.seen = text;
        let applied = read.and_then(|stored| state.apply(gateway, stored.overrides, stored.version));
        if let Err(error) = applied {
            gateway.log.warn(
                "ConfigController",
                format_args!("the limits in Redis can't be used, the last valid ones stay: {error}"),
            );
        }
    }

    /// Calls `f` with what outlives plans, for metrics.
    pub(crate) async fn with_kept<T>(&self, f: impl FnOnce(&Kept) -> T) -> T {
        f(&self.0.lock().await.kept)
    }

    /// A limit as JSON.
    pub(crate) async fn describe(&self, limit: &Limit) -> Value {
        let is_set = self.0.lock().await.overrides.contains_key(limit.name());
        describe(limit, is_set)
    }

    pub(crate) async fn version(&self) -> u64 {
        self.0.lock().await.version
    }
}

impl State {
    fn base_of(&self, name: &str) -> Result<&LimitSettings, NotChanged> {
        let found = self.base.iter().find(|limit| limit.name.as_str() == name);
        found.ok_or_else(|| NotChanged::NoSuchLimit(name.to_owned()))
    }

    fn current(&self, name: &str) -> Result<&LimitNumbers, NotChanged> {
        let base = self.base_of(name)?;
        Ok(self.overrides.get(name).unwrap_or(&base.numbers))
    }

    /// Sets or unsets a limit's numbers, in Redis first where it keeps them.
    async fn change(&mut self, gateway: &Gateway, name: &str, numbers: Option<LimitNumbers>) -> Result<(), NotChanged> {
        let mut overrides = self.overrides.clone();
        put(&mut overrides, name, numbers.clone());
        Plan::check_numbers(&self.base, &overrides, gateway.store()).map_err(NotChanged::Invalid)?;
        let Some(document) = self.document.clone() else {
            return self.apply(gateway, overrides, self.version + 1).map_err(NotChanged::Invalid);
        };
        for _ in 0..ATTEMPTS {
            let text = document.read().await.map_err(|_| NotChanged::StoreAway)?;
            // What can't be read is replaced: an operator's new word mends it.
            let mut stored = Stored::read(&text, &self.base).unwrap_or_else(|_| Stored {
                version: self.version,
                overrides: self.overrides.clone(),
                others: serde_json::Map::new(),
            });
            put(&mut stored.overrides, name, numbers.clone());
            // Also over a text that somebody wrote without a version.
            stored.version = stored.version.max(self.version) + 1;
            let new = stored.write();
            if document.replace(&text, &new).await.map_err(|_| NotChanged::StoreAway)? {
                self.seen = new;
                return self.apply(gateway, stored.overrides, stored.version).map_err(NotChanged::Invalid);
            }
        }
        Err(NotChanged::Contended)
    }

    /// Puts other numbers in force.
    fn apply(&mut self, gateway: &Gateway, overrides: Overrides, version: u64) -> Result<(), String> {
        let before = gateway.plan();
        let plan = before.with_numbers(&self.base, &overrides, &mut self.kept, gateway.store(), gateway.now())?;
        for (old, new) in before.limits.iter().zip(&plan.limits) {
            let (was, is) = (&old.settings.numbers, &new.settings.numbers);
            if was.to_string() == is.to_string() {
                continue;
            }
            let which = if new.name() == "default" { String::new() } else { format!(" (limit `{}`)", new.name()) };
            gateway.log.info("ConfigController", format_args!("Applied new config: {is}{which}"));
            if was.algorithm() != is.algorithm() {
                let (from, to) = (was.algorithm(), is.algorithm());
                gateway
                    .log
                    .info("RateLimiter", format_args!("Switched rate-limiting algorithm from {from} to {to}{which}"));
            }
        }
        gateway.swap(plan);
        (self.overrides, self.version) = (overrides, version);
        gateway.metrics.config_version.store(version, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}

fn put(overrides: &mut Overrides, name: &str, numbers: Option<LimitNumbers>) {
    match numbers {
        Some(numbers) => {
            overrides.insert(name.to_owned(), numbers);
        }
        None => {
            overrides.remove(name);
        }
    }
}

pub(crate) fn describe(limit: &Limit, is_set: bool) -> Value {
    let settings = &limit.settings;
    let mut value = serde_json::to_value(settings.numbers.relevant()).unwrap_or_default();
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
        fields.insert("set_by".to_owned(), if is_set { "api" } else { "file" }.into());
    }
    value
}

/// Follows Redis for ever.
pub(crate) async fn follow(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        gateway.control.follow(&gateway).await;
    }
}
