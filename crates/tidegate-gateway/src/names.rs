//! The addresses of host names. A name is looked up again by the TTL of its records, for as long as somebody watches
//! it. Lookups run on the main runtime; workers only read the addresses.

mod lookup_error;
mod name_watch;
mod report;
mod resolver;
mod schedule;
mod system_files;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_serve::{Counter, Log};
use tidegate_wait::Clock;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use self::name_watch::Snapshot;
use self::resolver::Resolver;
use self::schedule::Schedule;

pub(crate) use self::name_watch::NameWatch;
pub(crate) use self::resolver::ResolverSettings;
pub(crate) use self::schedule::TtlBounds;

/// The most names at once.
pub(crate) const MOST_NAMES: usize = 1_000;

/// The most lookups at once. Each may have several sockets open, and a name server that is away must not take all file
/// descriptors.
const MOST_LOOKUPS: usize = 16;

/// There are [`MOST_NAMES`] names already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyNames;

impl std::fmt::Display for TooManyNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "more than {MOST_NAMES} host names")
    }
}

impl std::error::Error for TooManyNames {}

/// Keeps the addresses of host names up to date.
#[derive(Clone)]
pub(crate) struct Names(Arc<Shared>);

struct Shared {
    resolver: watch::Sender<Arc<Resolver>>,
    /// Names that are watched, in lower case.
    names: Mutex<HashMap<Box<str>, Arc<watch::Sender<Snapshot>>>>,
    lookups: Semaphore,
    runtime: Handle,
    clock: Clock,
    log: Log,
    counts: LookupCounts,
}

/// How lookups have ended.
#[derive(Default)]
pub(crate) struct LookupCounts {
    /// At least one family has addresses.
    pub(crate) succeeded: Counter,
    /// No family has addresses.
    pub(crate) failed: Counter,
}

impl Names {
    /// Names that will be looked up on this runtime.
    pub(crate) fn new(settings: ResolverSettings, runtime: Handle, log: Log) -> Self {
        Self(Arc::new(Shared {
            resolver: watch::Sender::new(Arc::new(Resolver::new(settings))),
            names: Mutex::default(),
            lookups: Semaphore::new(MOST_LOOKUPS),
            runtime,
            clock: Clock::start(),
            log,
            counts: LookupCounts::default(),
        }))
    }

    /// Looks names up in another way from now on. If the settings differ, every name is looked up at once; the
    /// addresses stay until then.
    pub(crate) fn set(&self, settings: ResolverSettings) {
        self.0.resolver.send_if_modified(|resolver| {
            let differs = resolver.settings != settings;
            if differs {
                *resolver = Arc::new(Resolver::new(settings));
            }
            differs
        });
    }

    /// Watches a name. All watches of a name share its lookups, which end when the last of them is dropped. An IP
    /// address is its own and is not looked up.
    pub(crate) fn watch(&self, host: &str) -> Result<NameWatch, TooManyNames> {
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(NameWatch::fixed(host, address));
        }
        let host: Box<str> = host.to_ascii_lowercase().into();
        let mut names = self.0.names();
        if let Some(known) = names.get(&host) {
            return Ok(NameWatch::new(host, known.subscribe()));
        }
        if names.len() >= MOST_NAMES {
            return Err(TooManyNames);
        }
        let (sender, receiver) = watch::channel(Snapshot::default());
        let sender = Arc::new(sender);
        names.insert(host.clone(), Arc::clone(&sender));
        self.0.runtime.spawn(while_watched(Arc::clone(&self.0), host.clone(), sender));
        Ok(NameWatch::new(host, receiver))
    }

    /// How lookups have ended until now.
    pub(crate) fn counts(&self) -> &LookupCounts {
        &self.0.counts
    }

    /// How many names are watched.
    pub(crate) fn watched(&self) -> usize {
        self.0.names().len()
    }

    /// How many of the names that are watched could not be looked up the last time.
    pub(crate) fn failing(&self) -> usize {
        self.0.names().values().filter(|name| name.borrow().is_failing).count()
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<watch::Sender<Snapshot>>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a name that nobody watches. Returns whether that is so: with the lock held, nobody can begin to.
    fn forget_unwatched(&self, host: &str, sender: &watch::Sender<Snapshot>) -> bool {
        let mut names = self.names();
        let is_unwatched = sender.receiver_count() == 0;
        if is_unwatched {
            names.remove(host);
        }
        is_unwatched
    }
}

/// Keeps a name's addresses up to date for as long as somebody watches it.
async fn while_watched(shared: Arc<Shared>, host: Box<str>, sender: Arc<watch::Sender<Snapshot>>) {
    let mut following = pin!(follow(&shared, &host, &sender));
    loop {
        tokio::select! {
            () = sender.closed() => if shared.forget_unwatched(&host, &sender) {
                return;
            },
            () = &mut following => return,
        }
    }
}

/// Looks a name up again and again. Ends only with the process.
async fn follow(shared: &Shared, host: &str, sender: &watch::Sender<Snapshot>) {
    let mut resolvers = shared.resolver.subscribe();
    let mut schedule = Schedule::new(resolvers.borrow().settings.ttl);
    loop {
        let resolver = Arc::clone(&resolvers.borrow_and_update());
        schedule.set_ttl(resolver.settings.ttl);
        let lookup = async {
            let _turn = shared.lookups.acquire().await;
            resolver.lookup(host).await
        };
        let outcome = tokio::select! {
            outcome = lookup => outcome,
            changed = resolvers.changed() => if changed.is_ok() { continue } else { return },
        };
        let now = shared.clock.now();
        let changes = schedule.record(outcome, now, jitter());
        let counter = if schedule.is_failing() { &shared.counts.failed } else { &shared.counts.succeeded };
        counter.inc();
        let is_first = !sender.borrow().was_looked_up;
        for change in &changes {
            report::report(&shared.log, host, change, schedule.addresses(), is_first);
        }
        sender.send_if_modified(|snapshot| snapshot.update(schedule.addresses(), schedule.is_failing()));
        tokio::select! {
            () = sleep(schedule.due().since(now)) => {}
            changed = resolvers.changed() => if changed.is_err() { return },
        }
    }
}

/// A random number from 0 to 1.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0) as u32;
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
