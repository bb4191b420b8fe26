//! The endpoints of an upstream: those of the configuration, with the addresses that their host names have at the
//! moment. Workers read the pool in force; it is replaced as a whole when a name has other addresses.

mod member;
mod pool;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tidegate_http::client::Trouble;
use tidegate_policy::Timestamp;

use self::pool::PoolTerms;
use crate::names::NameWatch;
use crate::settings::{EndpointEntry, UpstreamSettings};

pub(crate) use self::member::{Member, Series};
pub(crate) use self::pool::Pool;

/// The endpoints of an upstream.
pub(crate) struct Endpoints {
    terms: PoolTerms,
    /// The addresses of each entry. Locked while the pool is replaced.
    addresses: Mutex<Vec<Arc<[IpAddr]>>>,
    pool: PoolInForce,
    /// Names that are looked up for this until its tasks do that.
    watches: Mutex<Vec<NameWatch>>,
}

/// The pool in force. Without host names it never changes, and reading it costs nothing.
enum PoolInForce {
    Fixed(Arc<Pool>),
    Changing(ArcSwap<Pool>),
}

/// The pool in force, while it is read.
pub(crate) enum PoolGuard<'a> {
    Fixed(&'a Pool),
    Changing(Guard<Arc<Pool>>),
}

impl Deref for PoolGuard<'_> {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        match self {
            Self::Fixed(pool) => pool,
            Self::Changing(pool) => pool,
        }
    }
}

impl Endpoints {
    /// The endpoints of a configuration, with what is known of those that `before` had.
    pub(crate) fn new(settings: &UpstreamSettings, before: Option<&Self>, workers: usize, now: Timestamp) -> Self {
        let known = |entry: &Arc<EndpointEntry>| match entry.host.parse::<IpAddr>() {
            Ok(ip) => Arc::from([ip]),
            Err(_) => before.and_then(|before| before.addresses_of(&entry.host)).unwrap_or_default(),
        };
        let addresses: Vec<Arc<[IpAddr]>> = settings.endpoints.iter().map(known).collect();
        let terms = PoolTerms {
            entries: settings.endpoints.clone(),
            bounds: settings.bounds,
            balancing: settings.balancing,
            workers,
            has_checks: settings.health_check.is_some(),
        };
        let pool = match before {
            Some(before) => Pool::build(&terms, &addresses, &before.pool(), now),
            None => Pool::build(&terms, &addresses, &Pool::empty(&terms), now),
        };
        let (pool, has_names) = (Arc::new(pool), names(&terms.entries).next().is_some());
        if let Some(before) = before {
            // Whoever replaces it has watches of its own already.
            before.release_watches();
        }
        Self {
            terms,
            addresses: Mutex::new(addresses),
            pool: if has_names { PoolInForce::Changing(ArcSwap::new(pool)) } else { PoolInForce::Fixed(pool) },
            watches: Mutex::default(),
        }
    }

    fn addresses_of(&self, host: &str) -> Option<Arc<[IpAddr]>> {
        let index = self.terms.entries.iter().position(|entry| *entry.host == *host)?;
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned()
    }

    /// The endpoints in force.
    #[inline]
    pub(crate) fn pool(&self) -> PoolGuard<'_> {
        match &self.pool {
            PoolInForce::Fixed(pool) => PoolGuard::Fixed(pool),
            PoolInForce::Changing(pool) => PoolGuard::Changing(pool.load()),
        }
    }

    /// The entries whose addresses have to be looked up, by index.
    pub(crate) fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        names(&self.terms.entries)
    }

    /// The entries as written.
    pub(crate) fn entries(&self) -> &[Arc<EndpointEntry>] {
        &self.terms.entries
    }

    /// Why there is no endpoint: a name has no address.
    pub(crate) fn no_address(&self) -> Trouble {
        let names: Vec<&str> = self.names().map(|(_, host)| host).collect();
        Trouble::Connect(std::io::Error::other(format!("no address is known for {}", names.join(", "))))
    }

    /// The most connections to all endpoints, as far as their number is known.
    pub(crate) fn most_connections(&self) -> usize {
        self.terms.bounds.max_connections.saturating_mul(self.terms.entries.len().max(self.pool().members.len()))
    }

    /// Keeps a name looked up until `release_watches`.
    pub(crate) fn keep(&self, watch: NameWatch) {
        self.watches().push(watch);
    }

    /// Others keep the names looked up from now on. Requests that last must not: they may hold this long after a reload
    /// has replaced it.
    pub(crate) fn release_watches(&self) {
        self.watches().clear();
    }

    fn watches(&self) -> MutexGuard<'_, Vec<NameWatch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of these entries have these addresses now. Requests in flight on others end undisturbed. A name
    /// without addresses keeps those that it had: an empty response must not take a service down.
    pub(crate) fn resolved(&self, found: &[(usize, Arc<[IpAddr]>)], now: Timestamp) {
        let PoolInForce::Changing(pool) = &self.pool else { return };
        let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_changed = false;
        for (entry, addresses) in found.iter().filter(|(_, addresses)| !addresses.is_empty()) {
            if let Some(before) = known.get_mut(*entry).filter(|before| *before != addresses) {
                *before = Arc::clone(addresses);
                has_changed = true;
            }
        }
        if has_changed {
            pool.store(Arc::new(Pool::build(&self.terms, &known, &pool.load(), now)));
        }
    }

    /// Closes connections to endpoints that have left, as far as they are idle. To be called once a second.
    pub(crate) fn close_idle_of_gone(&self) {
        self.pool().close_idle_of_gone();
    }

    /// Closes connections to all endpoints: idle ones now, the others when their requests have ended. Their names are
    /// no longer looked up.
    pub(crate) fn close(&self) {
        self.pool().close();
        self.release_watches();
    }
}

/// The entries that are host names, by index.
fn names(entries: &[Arc<EndpointEntry>]) -> impl Iterator<Item = (usize, &str)> {
    let named = entries.iter().enumerate().filter(|(_, entry)| entry.host.parse::<IpAddr>().is_err());
    named.map(|(index, entry)| (index, &*entry.host))
}

#[cfg(test)]
mod tests;
