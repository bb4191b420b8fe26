//! The system's files about names: hosts, and the list of name servers. They are read again for every lookup, as other
//! programs do: containers and laptops change them while the gateway runs.

use std::net::{IpAddr, SocketAddr};

use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, system_conf};

const DNS_PORT: u16 = 53;

/// The most name servers of the system that are used, as in the C library.
const MOST_SYSTEM_SERVERS: usize = 3;
/// The most domains that a name is looked up in.
const MOST_SEARCH_DOMAINS: usize = 6;

/// Name servers, and how names are completed for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerList {
    pub(super) addresses: Vec<SocketAddr>,
    /// Domains that are appended to names.
    search: Vec<Name>,
    /// Names with at least so many dots are looked up as they are first.
    ndots: usize,
    /// Whether queries permit responses over UDP of more than 512 bytes.
    pub(super) uses_edns: bool,
}

impl ServerList {
    /// These servers; names are looked up as they are.
    pub(super) fn of(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, search: Vec::new(), ndots: 0, uses_edns: true }
    }

    /// The system's.
    fn of_system() -> Result<Self, String> {
        let (config, options) = system_conf::read_system_conf().map_err(|error| error.to_string())?;
        let addresses = config.name_servers().iter().map(|server| SocketAddr::new(server.ip, DNS_PORT));
        Ok(Self {
            addresses: addresses.take(MOST_SYSTEM_SERVERS).collect(),
            search: config.search().iter().take(MOST_SEARCH_DOMAINS).cloned().collect(),
            ndots: options.ndots,
            uses_edns: options.edns0,
        })
    }

    /// The complete names to look up, in their order.
    pub(super) fn candidates(&self, name: &Name) -> Vec<Name> {
        let mut as_it_is = name.clone();
        as_it_is.set_fqdn(true);
        if name.is_fqdn() {
            return vec![as_it_is];
        }
        let completed = self.search.iter().filter_map(|domain| name.clone().append_domain(domain).ok());
        let is_first = usize::from(name.num_labels()) > self.ndots;
        if is_first {
            std::iter::once(as_it_is).chain(completed).collect()
        } else {
            completed.chain([as_it_is]).collect()
        }
    }
}

/// What is in the files.
#[derive(Default)]
pub(super) struct SystemFiles {
    hosts: Option<Hosts>,
    /// None if they were not asked for; an error if they can't be read.
    pub(super) servers: Option<Result<ServerList, String>>,
}

impl SystemFiles {
    pub(super) async fn read(with_hosts: bool, with_servers: bool) -> Self {
        let read = move || Self {
            // A system without the file has no hosts in it.
            hosts: with_hosts.then(|| Hosts::from_system().unwrap_or_default()),
            servers: with_servers.then(ServerList::of_system),
        };
        // A disk may be slow, and the runtime has more to do. It fails only when the process ends.
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    /// The addresses of a name in the hosts file. None if it is not there.
    pub(super) fn addresses(&self, name: &Name) -> Option<Vec<IpAddr>> {
        let hosts = self.hosts.as_ref()?;
        let families = [RecordType::A, RecordType::AAAA].map(|kind| Query::query(name.clone(), kind));
        let found = families.iter().filter_map(|query| hosts.lookup_static_host(query));
        let records = found.flat_map(|lookup| lookup.answers().to_vec());
        let addresses: Vec<IpAddr> = records.filter_map(|record| record.data.ip_addr()).collect();
        (!addresses.is_empty()).then_some(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_utf8(text).expect("a name")
    }

    #[test]
    fn names_are_completed_as_the_system_says() {
        let search = vec![name("shop.svc.cluster.local"), name("svc.cluster.local.")];
        let cluster = ServerList { search, ndots: 2, ..ServerList::of(Vec::new()) };
        let own = ServerList::of(Vec::new());
        for (list, text, wanted) in [
            (&own, "app", &["app."][..]),
            (&own, "app.example.com", &["app.example.com."]),
            (&cluster, "app", &["app.shop.svc.cluster.local.", "app.svc.cluster.local.", "app."]),
            (&cluster, "a.b.c", &["a.b.c.", "a.b.c.shop.svc.cluster.local.", "a.b.c.svc.cluster.local."]),
            (&cluster, "app.", &["app."]),
        ] {
            let found: Vec<String> = list.candidates(&name(text)).iter().map(Name::to_string).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn the_hosts_file_has_addresses_of_both_families_in_any_case() {
        let mut hosts = Hosts::default();
        let text = "10.0.0.1 app app.example # a comment\nfd00::1 APP\n10.0.0.2 app\n";
        hosts.read_hosts_conf(text.as_bytes()).expect("it can be read");
        let files = SystemFiles { hosts: Some(hosts), servers: None };
        let addresses = |text: &str| files.addresses(&name(text)).unwrap_or_default();
        let parsed = |texts: &[&str]| texts.iter().map(|ip| ip.parse().expect("an address")).collect::<Vec<IpAddr>>();
        assert_eq!(addresses("App"), parsed(&["10.0.0.1", "10.0.0.2", "fd00::1"]));
        assert_eq!(addresses("app.example."), parsed(&["10.0.0.1"]));
        assert!(files.addresses(&name("other")).is_none());
    }
}
