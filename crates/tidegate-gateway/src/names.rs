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

use arc_swap::ArcSwap;
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
pub(crate) struct Names {
    in_force: ArcSwap<NameSet>,
    shared: Arc<Shared>,
}

/// Names that are looked up by the same settings.
struct NameSet {
    resolver: Resolver,
    /// Names that are watched, in lower case.
    names: Mutex<HashMap<Box<str>, Arc<watch::Sender<Snapshot>>>>,
    shared: Arc<Shared>,
}

/// What does not depend on the settings.
struct Shared {
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
        let shared = Arc::new(Shared {
            lookups: Semaphore::new(MOST_LOOKUPS),
            runtime,
            clock: Clock::start(),
            log,
            counts: LookupCounts::default(),
        });
        Self { in_force: ArcSwap::new(NameSet::new(settings, &shared)), shared }
    }

    /// Names that are looked up by these settings. If they differ from those in force, names are looked up apart from
    /// the others; `adopt` puts that in force. Dropped before that, they have changed nothing.
    pub(crate) fn with(&self, settings: ResolverSettings) -> Self {
        let in_force = self.in_force.load_full();
        let set = if in_force.resolver.settings == settings { in_force } else { NameSet::new(settings, &self.shared) };
        Self { in_force: ArcSwap::new(set), shared: Arc::clone(&self.shared) }
    }

    /// Looks names up as `other` does from now on. Watches that exist already stay as they are.
    pub(crate) fn adopt(&self, other: &Self) {
        self.in_force.store(other.in_force.load_full());
    }

    /// Watches a name. All watches of a name share its lookups, which end when the last of them is dropped. An IP
    /// address is its own and is not looked up.
    pub(crate) fn watch(&self, host: &str) -> Result<NameWatch, TooManyNames> {
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(NameWatch::fixed(address));
        }
        let host: Box<str> = host.to_ascii_lowercase().into();
        let set = self.in_force.load_full();
        let mut names = set.names();
        if let Some(known) = names.get(&host) {
            return Ok(NameWatch::new(known.subscribe()));
        }
        if names.len() >= MOST_NAMES {
            return Err(TooManyNames);
        }
        let (sender, receiver) = watch::channel(Snapshot::default());
        let sender = Arc::new(sender);
        names.insert(host.clone(), Arc::clone(&sender));
        self.shared.runtime.spawn(while_watched(Arc::clone(&set), host, sender));
        Ok(NameWatch::new(receiver))
    }

    /// How lookups have ended until now.
    pub(crate) fn counts(&self) -> &LookupCounts {
        &self.shared.counts
    }

    /// How many names are watched.
    pub(crate) fn watched(&self) -> usize {
        self.in_force.load().names().len()
    }

    /// How many of the names that are watched could not be looked up the last time.
    pub(crate) fn failing(&self) -> usize {
        self.in_force.load().names().values().filter(|name| name.borrow().is_failing).count()
    }
}

impl NameSet {
    fn new(settings: ResolverSettings, shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { resolver: Resolver::new(settings), names: Mutex::default(), shared: Arc::clone(shared) })
    }

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
async fn while_watched(set: Arc<NameSet>, host: Box<str>, sender: Arc<watch::Sender<Snapshot>>) {
    let mut following = pin!(follow(&set, &host, &sender));
    loop {
        tokio::select! {
            () = sender.closed() => if set.forget_unwatched(&host, &sender) {
                return;
            },
            () = &mut following => return,
        }
    }
}

/// Looks a name up again and again, without end.
async fn follow(set: &NameSet, host: &str, sender: &watch::Sender<Snapshot>) {
    let shared = &set.shared;
    let mut schedule = Schedule::new(set.resolver.settings.ttl);
    loop {
        let outcome = {
            let _turn = shared.lookups.acquire().await;
            set.resolver.lookup(host).await
        };
        let now = shared.clock.now();
        let changes = schedule.record(outcome, now, jitter());
        let counter = if schedule.is_failing() { &shared.counts.failed } else { &shared.counts.succeeded };
        counter.inc();
        let is_first = sender.borrow().addresses.is_empty();
        for change in &changes {
            report::report(&shared.log, host, change, schedule.addresses(), is_first);
        }
        sender.send_if_modified(|snapshot| snapshot.update(schedule.addresses(), schedule.is_failing()));
        sleep(schedule.due().since(now)).await;
    }
}

/// A random number from 0 to 1.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0) as u32;
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
