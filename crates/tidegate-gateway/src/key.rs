//! The key of a limit: what it counts by, and its value for a request.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::HeaderName;
use tidegate_store::Key;

use crate::config::model::Missing;
use crate::facts::Facts;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Ip,
    User,
    ApiKey,
    ClientId,
    Tier,
    Endpoint,
    Resource,
    Provider,
    Method,
    Host,
    Header(HeaderName),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("ip"),
            Self::User => f.write_str("user"),
            Self::ApiKey => f.write_str("apiKey"),
            Self::ClientId => f.write_str("clientId"),
            Self::Tier => f.write_str("tier"),
            Self::Endpoint => f.write_str("endpoint"),
            Self::Resource => f.write_str("resource"),
            Self::Provider => f.write_str("provider"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

/// The parts of a limit's key. None for a limit that all requests share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyParts {
    parts: Vec<Part>,
    /// The key of requests that share one: all of them, or those that lack a part.
    shared: Key,
}

/// A key that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidKey(String);

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "must be `global`, or one or several (joined by `+`) of ip, user, apiKey, clientId, tier, endpoint, \
             resource, provider, method, host, header:NAME, got {:?}",
            self.0
        )
    }
}

const MOST_PARTS: usize = 6;

impl FromStr for KeyParts {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        if text.trim() == "global" {
            return Ok(Self::new(Vec::new()));
        }
        let parts: Option<Vec<Part>> = text.split('+').map(|word| part(word.trim())).collect();
        let parts = parts.filter(|parts| parts.len() <= MOST_PARTS);
        let distinct = |parts: &Vec<Part>| parts.iter().enumerate().all(|(index, part)| !parts[..index].contains(part));
        parts.filter(distinct).map(Self::new).ok_or_else(|| InvalidKey(text.to_owned()))
    }
}

/// As it is written: `user+endpoint`.
impl fmt::Display for KeyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("global");
        }
        self.parts
            .iter()
            .enumerate()
            .try_for_each(|(index, part)| write!(f, "{}{part}", if index == 0 { "" } else { "+" }))
    }
}

fn part(word: &str) -> Option<Part> {
    if let Some(name) = word.strip_prefix("header:") {
        return HeaderName::from_bytes(name.as_bytes()).ok().map(Part::Header);
    }
    Some(match word {
        "ip" => Part::Ip,
        "user" => Part::User,
        "apiKey" | "api_key" => Part::ApiKey,
        "clientId" | "client_id" => Part::ClientId,
        "tier" => Part::Tier,
        "endpoint" => Part::Endpoint,
        "resource" => Part::Resource,
        "provider" => Part::Provider,
        "method" => Part::Method,
        "host" => Part::Host,
        _ => return None,
    })
}

/// A limit's key for one request.
pub(crate) enum RequestKey {
    /// The key's value.
    Value(Key),
    /// The limit does not apply to the request.
    Exempt,
    /// The request lacks this and is rejected for it.
    Missing(&'static str),
}

impl KeyParts {
    fn new(parts: Vec<Part>) -> Self {
        let shared = Key::of_bytes(if parts.is_empty() { &[b"="] } else { &[b"?"] });
        Self { parts, shared }
    }

    /// Whether the client chooses all values in it, and so can evade the limit by another value.
    pub(crate) fn is_up_to_clients(&self) -> bool {
        let is_free = |part: &Part| matches!(part, Part::Header(_) | Part::Host | Part::Method | Part::Resource);
        self.parts.iter().any(is_free) && self.parts.iter().all(|part| is_free(part) || *part == Part::Endpoint)
    }

    /// Whether all requests share it.
    pub(crate) fn is_global(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it counts by caller.
    pub(crate) fn needs_caller(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::User | Part::ApiKey | Part::ClientId))
    }

    /// The key's value for a request. `missing` decides for a request that lacks a part.
    pub(crate) fn of_request(&self, facts: &Facts<'_>, missing: Missing) -> RequestKey {
        if self.parts.is_empty() {
            return RequestKey::Value(self.shared);
        }
        let ip = address_bytes(facts.ip);
        let mut texts: [&[u8]; MOST_PARTS + 1] = [b"="; MOST_PARTS + 1];
        for (index, part) in self.parts.iter().enumerate() {
            let text = match part {
                Part::Ip => Some(ip.as_ref()),
                Part::User => facts.caller.user.as_deref().map(str::as_bytes),
                Part::ApiKey => facts.caller.api_key.as_deref().map(str::as_bytes),
                Part::ClientId => facts.caller.client_id.as_deref().map(str::as_bytes),
                Part::Tier => Some(facts.tier.as_bytes()),
                Part::Endpoint => Some(facts.route.as_bytes()),
                Part::Resource => Some(facts.path.strip_suffix('/').unwrap_or(facts.path).as_bytes()),
                Part::Provider => Some(facts.upstream.as_bytes()),
                Part::Method => Some(facts.method.as_bytes()),
                Part::Host => Some(facts.host).filter(|host| !host.is_empty()),
                Part::Header(name) => facts.headers.only(name.as_str()),
            };
            // The first text marks complete keys, so that no value can be taken for a missing one.
            match text {
                Some(text) => texts[index + 1] = text,
                None => match missing {
                    Missing::Share => return RequestKey::Value(self.shared),
                    Missing::Ip => return RequestKey::Value(Key::of_bytes(&[b"@", ip.as_ref()])),
                    Missing::Refuse => return RequestKey::Missing(part.name()),
                    Missing::Skip => return RequestKey::Exempt,
                },
            }
        }
        RequestKey::Value(Key::of_bytes(&texts[..=self.parts.len()]))
    }
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Self::User => "a user",
            Self::ApiKey => "an API key",
            Self::ClientId => "a client id",
            Self::Host => "a host",
            Self::Header(_) => "a header",
            Self::Ip | Self::Tier | Self::Endpoint | Self::Resource | Self::Provider | Self::Method => "nothing",
        }
    }
}

/// An address as part of a key: IPv4 whole, IPv6 by its /64, which is what one customer gets. An IPv4 client that comes
/// through a translator (NAT64) counts by its IPv4 address, because all of those have the same /64.
fn address_bytes(ip: IpAddr) -> AddressBytes {
    match ip.to_canonical() {
        IpAddr::V4(ip) => AddressBytes::whole(ip),
        IpAddr::V6(ip) => embedded_ipv4(ip).map_or_else(|| AddressBytes::network(ip), AddressBytes::whole),
    }
}

/// The IPv4 address within an IPv6 address that only stands for it: under the well-known prefix `64:ff9b::/96` (RFC
/// 6052 §2.1), or IPv4-compatible (`::a.b.c.d`, RFC 4291 §2.5.5.1) without the unspecified address and the loopback. It
/// is used in keys only: the check of trusted proxies, the log and `X-Forwarded-For` have the address as it came.
fn embedded_ipv4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let stands_for_ipv4 = match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => true,
        [0, 0, 0, 0, 0, 0, _, _] => !ip.is_unspecified() && !ip.is_loopback(),
        _ => false,
    };
    stands_for_ipv4.then(|| Ipv4Addr::from_bits(ip.to_bits() as u32))
}

struct AddressBytes {
    bytes: [u8; 8],
    length: usize,
}

impl AddressBytes {
    fn whole(ip: Ipv4Addr) -> Self {
        let [a, b, c, d] = ip.octets();
        Self { bytes: [a, b, c, d, 0, 0, 0, 0], length: 4 }
    }

    fn network(ip: Ipv6Addr) -> Self {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&ip.octets()[..8]);
        Self { bytes, length: 8 }
    }
}

impl AsRef<[u8]> for AddressBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_part(address: &str) -> Vec<u8> {
        address_bytes(address.parse().expect("an address")).as_ref().to_vec()
    }

    /// All clients behind a NAT64 used to share one key: that of `64:ff9b::/64`.
    #[test]
    fn an_address_that_stands_for_an_ipv4_address_is_that_client() {
        for same in ["203.0.113.5", "::ffff:203.0.113.5", "64:ff9b::203.0.113.5", "64:ff9b::cb00:7105", "::203.0.113.5"]
        {
            assert_eq!(key_part(same), [203, 0, 113, 5], "{same}");
        }
        assert_ne!(key_part("64:ff9b::203.0.113.6"), key_part("64:ff9b::203.0.113.5"));
        assert_eq!(key_part("64:ff9b::"), [0; 4], "not a client, and not the key of another one");
    }

    #[test]
    fn all_other_addresses_are_their_first_64_bits() {
        for (address, network) in [
            ("2001:db8:1:2::203.0.113.5", [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2]),
            // RFC 8215: for local use, with a prefix of any length.
            ("64:ff9b:1::203.0.113.5", [0, 0x64, 0xff, 0x9b, 0, 1, 0, 0]),
            ("64:ff9b::1:203.0.113.5", [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0]),
            ("::", [0; 8]),
            ("::1", [0; 8]),
            ("::1:203.0.113.5", [0; 8]),
        ] {
            assert_eq!(key_part(address), network, "{address}");
        }
    }
}
