//! The endpoints of an upstream: those of the configuration, with the addresses that their host names have at the
//! moment. Workers read the pool in force; it is replaced as a whole when a name has other addresses.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tidegate_http::client::{Endpoint, EndpointBounds, Pools, Trouble};
use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balancer, BalancerSettings, EndpointState};

use crate::names::NameWatch;
use crate::settings::{EndpointEntry, UpstreamSettings};

/// The endpoints of an upstream.
pub(crate) struct Endpoints {
    entries: Vec<Arc<EndpointEntry>>,
    bounds: EndpointBounds,
    balancing: BalancerSettings,
    workers: usize,
    /// The addresses of each entry. Locked while the pool is replaced.
    addresses: Mutex<Vec<Arc<[IpAddr]>>>,
    pool: PoolInForce,
    /// Names that are looked up as long as this exists.
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

/// The endpoints in force.
pub(crate) struct Pool {
    /// Chooses one of `members`, by index.
    pub(crate) balancer: Balancer,
    pub(crate) members: Box<[Arc<Member>]>,
}

/// One endpoint.
pub(crate) struct Member {
    pub(crate) entry: Arc<EndpointEntry>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) state: Arc<EndpointState>,
}

impl Member {
    fn new(entry: &Arc<EndpointEntry>, ip: IpAddr, bounds: EndpointBounds, state: EndpointState, pools: Pools) -> Self {
        let endpoint = Endpoint {
            address: SocketAddr::new(ip, entry.port),
            tls: entry.tls.clone(),
            bounds,
            pools: Arc::new(pools),
        };
        Self { entry: Arc::clone(entry), endpoint: Arc::new(endpoint), state: Arc::new(state) }
    }

    /// The same endpoint under a configuration that may have changed: with its connections, if they are as good for it.
    fn renewed(&self, entry: &Arc<EndpointEntry>, bounds: EndpointBounds, workers: usize) -> Self {
        let before = &self.endpoint;
        let pools = if Trust::of(&self.entry).is_same(&Trust::of(entry)) {
            Arc::clone(&before.pools)
        } else {
            before.pools.close();
            Arc::new(Pools::new(workers))
        };
        let endpoint = Endpoint { address: before.address, tls: entry.tls.clone(), bounds, pools };
        Self { entry: Arc::clone(entry), endpoint: Arc::new(endpoint), state: Arc::clone(&self.state) }
    }
}

/// Whom connections to an endpoint trust: the name that its certificate must have, and the authorities that may have
/// signed it. None without TLS.
struct Trust<'a>(Option<(&'a ServerName<'static>, &'a Arc<RootCertStore>)>);

impl<'a> Trust<'a> {
    fn of(entry: &'a EndpointEntry) -> Self {
        Self(entry.tls.as_ref().map(|tls| (&tls.name, &tls.roots)))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some((name, roots)), Some((other, others))) => name == other && roots.roots == others.roots,
            (None, Some(_)) | (Some(_), None) => false,
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
        let empty = Pool { balancer: Balancer::new([], settings.balancing), members: Box::default() };
        let mut endpoints = Self {
            entries: settings.endpoints.clone(),
            bounds: settings.bounds,
            balancing: settings.balancing,
            workers,
            addresses: Mutex::default(),
            pool: PoolInForce::Fixed(Arc::new(empty)),
            watches: Mutex::default(),
        };
        let before = before.map(Self::pool);
        let pool = Arc::new(endpoints.built(&addresses, before.as_deref(), now));
        let has_names = endpoints.names().next().is_some();
        endpoints.pool = if has_names { PoolInForce::Changing(ArcSwap::new(pool)) } else { PoolInForce::Fixed(pool) };
        endpoints.addresses = Mutex::new(addresses);
        endpoints
    }

    fn addresses_of(&self, host: &str) -> Option<Arc<[IpAddr]>> {
        let index = self.entries.iter().position(|entry| *entry.host == *host)?;
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
        let named = self.entries.iter().enumerate().filter(|(_, entry)| entry.host.parse::<IpAddr>().is_err());
        named.map(|(index, entry)| (index, &*entry.host))
    }

    /// The entries as written.
    pub(crate) fn entries(&self) -> &[Arc<EndpointEntry>] {
        &self.entries
    }

    /// Why there is no endpoint: a name has no address.
    pub(crate) fn no_address(&self) -> Trouble {
        let names: Vec<&str> = self.names().map(|(_, host)| host).collect();
        Trouble::Connect(std::io::Error::other(format!("no address is known for {}", names.join(", "))))
    }

    /// The most connections to all endpoints, as far as their number is known.
    pub(crate) fn most_connections(&self) -> usize {
        self.bounds.max_connections.saturating_mul(self.entries.len().max(self.pool().members.len()))
    }

    /// Keeps a name looked up.
    pub(crate) fn keep(&self, watch: NameWatch) {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).push(watch);
    }

    /// The name of an entry has these addresses now. Requests in flight on others end undisturbed. A name without
    /// addresses keeps those that it had: an empty response must not take a service down.
    pub(crate) fn resolved(&self, entry: usize, addresses: &Arc<[IpAddr]>, now: Timestamp) {
        let PoolInForce::Changing(pool) = &self.pool else { return };
        if addresses.is_empty() {
            return;
        }
        let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = known.get_mut(entry).filter(|before| *before != addresses) else { return };
        *before = Arc::clone(addresses);
        let changed = self.built(&known, Some(&pool.load()), now);
        pool.store(Arc::new(changed));
    }

    /// The pool for these addresses of the entries. Endpoints that `before` had keep what is known of them; connections
    /// to those that have gone are closed when they are idle.
    fn built(&self, addresses: &[Arc<[IpAddr]>], before: Option<&Pool>, now: Timestamp) -> Pool {
        let kept = before.map_or(&[][..], |before| &before.members);
        let mut members: Vec<Arc<Member>> = Vec::new();
        for (entry, addresses) in self.entries.iter().zip(addresses) {
            for ip in addresses.iter() {
                let address = SocketAddr::new(*ip, entry.port);
                // Two names may have the same address. It is one endpoint, by the first of them.
                if members.iter().any(|member| member.endpoint.address == address) {
                    continue;
                }
                let known = kept.iter().find(|member| member.endpoint.address == address);
                let member = known.map_or_else(
                    || {
                        let name = address.to_string();
                        let is_first = kept.is_empty();
                        let state =
                            if is_first { EndpointState::new(&name) } else { EndpointState::joining(&name, now) };
                        Member::new(entry, *ip, self.bounds, state, Pools::new(self.workers))
                    },
                    |known| known.renewed(entry, self.bounds, self.workers),
                );
                members.push(Arc::new(member));
            }
        }
        for gone in kept {
            let stays = members.iter().any(|member| member.endpoint.address == gone.endpoint.address);
            if !stays {
                gone.endpoint.pools.close();
            }
        }
        let weighted = members.iter().map(|member| (Arc::clone(&member.state), member.entry.weight));
        Pool { balancer: Balancer::new(weighted, self.balancing), members: members.into() }
    }

    /// Closes connections to all endpoints: idle ones now, the others when their requests have ended.
    pub(crate) fn close(&self) {
        self.pool().members.iter().for_each(|member| member.endpoint.pools.close());
    }
}
