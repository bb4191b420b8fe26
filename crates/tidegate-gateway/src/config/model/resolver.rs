//! The resolver of host names, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DAY;
use crate::config::section::section;
use crate::config::span::Span;

/// The most name servers.
pub(crate) const MOST_SERVERS: usize = 8;

section! {
    /// How host names of upstreams are resolved. Names are resolved again when the TTL of their records is over, to
    /// IPv4 and IPv6 addresses. If that fails, the last addresses stay in use.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Resolver {
        /// Name servers, in the order to ask them: IP addresses, with a port if it is not 53 (`10.0.0.2`,
        /// `127.0.0.1:5353`, `[fd00::2]:53`); at most 8. Default: those of `/etc/resolv.conf`, with its search domains.
        pub servers: Vec<String>;
        /// The longest time that one query to one name server takes.
        pub timeout: Span = Span::from_secs(2), in Span::from_millis(10)..=Span::from_secs(30);
        /// How often each name server is asked before resolving a name fails.
        pub attempts: usize = 2, in 1..=5;
        /// The shortest time until a name is resolved again, whatever its TTL.
        pub min_ttl: Span = Span::from_secs(1), in Span::from_millis(100)..=DAY;
        /// The longest time until a name is resolved again, whatever its TTL.
        pub max_ttl: Span = Span::from_secs(600), in Span::from_secs(1)..=DAY;
        /// Whether names are looked up in the system's hosts file (`/etc/hosts`) first.
        pub hosts_file: bool = true;
    }
}
