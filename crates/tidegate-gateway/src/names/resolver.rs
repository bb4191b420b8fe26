//! Lookups: the hosts file, then name servers, for both families at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RecordType};
use tokio::time::timeout;

use super::lookup_error::LookupError;
use super::schedule::{Found, Outcome, Records, TtlBounds};
use super::system_files::{ServerList, SystemFiles};

/// The TTL of what has none: entries of the hosts file, which is read again then.
const HOSTS_TTL: Duration = Duration::from_secs(10);

/// How names are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolverSettings {
    /// Name servers. Empty: those of the system.
    pub(crate) servers: Vec<SocketAddr>,
    /// The longest time for one query to one server.
    pub(crate) timeout: Duration,
    /// How often each server is asked before a lookup fails.
    pub(crate) attempts: usize,
    /// Bounds of TTLs.
    pub(crate) ttl: TtlBounds,
    /// Whether names are looked up in the system's hosts file first.
    pub(crate) hosts_file: bool,
}

/// Looks names up.
pub(super) struct Resolver {
    pub(super) settings: ResolverSettings,
    /// Those last used, with the list that they were made from.
    servers: Mutex<Option<(ServerList, Arc<Servers>)>>,
}

impl Resolver {
    pub(super) fn new(settings: ResolverSettings) -> Self {
        Self { settings, servers: Mutex::new(None) }
    }

    /// Looks up both families of a name.
    pub(super) async fn lookup(&self, host: &str) -> Outcome {
        // Relaxed: containers have names with underscores.
        let Ok(name) = Name::from_str_relaxed(host) else { return both(LookupError::InvalidName) };
        let files = SystemFiles::read(self.settings.hosts_file, self.settings.servers.is_empty()).await;
        if let Some(addresses) = files.addresses(&name) {
            return without_server(&addresses);
        }
        if name.is_localhost() {
            return without_server(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let list = match files.servers {
            None => ServerList::of(self.settings.servers.clone()),
            Some(Ok(list)) => list,
            Some(Err(reason)) => return both(LookupError::NoServers(reason)),
        };
        let names = list.candidates(&name);
        match self.servers(list) {
            Ok(servers) => self.lookup_first(&servers, names).await,
            Err(error) => both(error),
        }
    }

    /// The servers of a list: those of the last lookup, unless the system's have changed since.
    fn servers(&self, list: ServerList) -> Result<Arc<Servers>, LookupError> {
        let mut last = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, servers)) = last.as_ref().filter(|(known, _)| *known == list) {
            return Ok(Arc::clone(servers));
        }
        let servers = Servers::new(&list, self.settings.timeout);
        let servers = Arc::new(servers.map_err(|error| LookupError::Other(error.to_string()))?);
        *last = Some((list, Arc::clone(&servers)));
        Ok(servers)
    }

    /// Looks up the first of the names that exists.
    async fn lookup_first(&self, servers: &Servers, names: Vec<Name>) -> Outcome {
        let mut last = both(LookupError::NoSuchName);
        for name in names {
            let outcome = self.lookup_both(servers, &name).await;
            // After a failure the next name is not asked for: it may be that of another service.
            let is_missing = |found: &Found| found.as_ref().is_err_and(LookupError::is_definite);
            if !is_missing(&outcome.v4) || !is_missing(&outcome.v6) {
                return outcome;
            }
            last = outcome;
        }
        last
    }

    async fn lookup_both(&self, servers: &Servers, name: &Name) -> Outcome {
        let mut v4 = pin!(self.lookup_family(servers, name, RecordType::A));
        let mut v6 = pin!(self.lookup_family(servers, name, RecordType::AAAA));
        tokio::select! {
            v4 = &mut v4 => Outcome { v6: self.rest(&v4, v6).await, v4 },
            v6 = &mut v6 => Outcome { v4: self.rest(&v6, v4).await, v6 },
        }
    }

    /// Waits for the other family. Once there are addresses, not for long: some networks drop queries for AAAA.
    async fn rest(&self, first: &Found, other: impl Future<Output = Found>) -> Found {
        if first.is_err() {
            return other.await;
        }
        let patience = self.settings.timeout / 4;
        timeout(patience, other).await.unwrap_or(Err(LookupError::Timeout(patience)))
    }

    /// Asks one server after the other until one of them knows.
    async fn lookup_family(&self, servers: &Servers, name: &Name, kind: RecordType) -> Found {
        let mut last = LookupError::Timeout(self.settings.timeout);
        for server in servers.in_turn(self.settings.attempts) {
            let lookup = servers.all[server].lookup(name.clone(), kind);
            let found = timeout(self.settings.timeout, lookup).await.unwrap_or(Err(NetError::Timeout));
            match found.map_err(|error| LookupError::of(&error, self.settings.timeout)) {
                Ok(lookup) => {
                    servers.prefer(server);
                    return records(&lookup, kind);
                }
                Err(error) if error.is_definite() => {
                    servers.prefer(server);
                    return Err(error);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The addresses in a response.
fn records(lookup: &Lookup, kind: RecordType) -> Found {
    let answers = lookup.answers();
    let of_kind = answers.iter().filter(|record| record.record_type() == kind);
    let addresses: Vec<IpAddr> = of_kind.filter_map(|record| record.data.ip_addr()).collect();
    // Aliases count too: they may lead elsewhere when their time is over.
    let ttl = answers.iter().map(|record| record.ttl).min();
    let ttl = ttl.filter(|_| !addresses.is_empty()).ok_or(LookupError::NoAddress)?;
    Ok(Records { addresses, ttl: Duration::from_secs(ttl.into()) })
}

fn both(error: LookupError) -> Outcome {
    Outcome { v4: Err(error.clone()), v6: Err(error) }
}

/// Addresses that no server was asked for.
fn without_server(addresses: &[IpAddr]) -> Outcome {
    let family = |is_v4: bool| {
        let addresses: Vec<IpAddr> = addresses.iter().filter(|ip| ip.is_ipv4() == is_v4).copied().collect();
        if addresses.is_empty() { Err(LookupError::NoAddress) } else { Ok(Records { addresses, ttl: HOSTS_TTL }) }
    };
    Outcome { v4: family(true), v6: family(false) }
}

/// Name servers, each with a client of its own: a client of several would take the SERVFAIL of one of them for the
/// response of all.
struct Servers {
    all: Vec<TokioResolver>,
    /// The index of the last one that has responded.
    preferred: AtomicUsize,
}

impl Servers {
    fn new(list: &ServerList, timeout: Duration) -> Result<Self, NetError> {
        let client = |address: &SocketAddr| client(*address, list.uses_edns, timeout);
        let all = list.addresses.iter().map(client).collect::<Result<_, _>>()?;
        Ok(Self { all, preferred: AtomicUsize::new(0) })
    }

    /// Indexes of servers in the order to ask them: all of them, as often as there are attempts.
    fn in_turn(&self, attempts: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.preferred.load(Ordering::Relaxed), self.all.len());
        (0..attempts * count).map(move |turn| (first + turn) % count)
    }

    fn prefer(&self, server: usize) {
        self.preferred.store(server, Ordering::Relaxed);
    }
}

/// A client of one name server, without cache: it is asked only when records have reached the end of their TTL.
fn client(address: SocketAddr, uses_edns: bool, timeout: Duration) -> Result<TokioResolver, NetError> {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    let server = NameServerConfig::new(address.ip(), true, connections.into());
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = timeout;
    // Attempts are counted by `lookup_family`.
    options.attempts = 0;
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.edns0 = uses_edns;
    builder.build()
}
