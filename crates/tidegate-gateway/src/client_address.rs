//! The address by which a client is counted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address by which a client is counted: IPv4 whole, IPv6 by its /64, which is what one customer gets. An IPv4
/// client that comes through a translator (NAT64) counts by its IPv4 address, because all of those have the same /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress {
    bytes: [u8; 8],
    length: usize,
}

impl ClientAddress {
    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::whole(ip),
            IpAddr::V6(ip) => embedded_ipv4(ip).map_or_else(|| Self::network(ip), Self::whole),
        }
    }

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

impl AsRef<[u8]> for ClientAddress {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The IPv4 address within an IPv6 address that only stands for it: under the well-known prefix `64:ff9b::/96` (RFC
/// 6052 §2.1), or IPv4-compatible (`::a.b.c.d`, RFC 4291 §2.5.5.1) without the unspecified address and the loopback. It
/// is used to count only: the check of trusted proxies, the log and `X-Forwarded-For` have the address as it came.
fn embedded_ipv4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let stands_for_ipv4 = match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => true,
        [0, 0, 0, 0, 0, 0, _, _] => !ip.is_unspecified() && !ip.is_loopback(),
        _ => false,
    };
    stands_for_ipv4.then(|| Ipv4Addr::from_bits(ip.to_bits() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_part(address: &str) -> Vec<u8> {
        ClientAddress::of(address.parse().expect("an address")).as_ref().to_vec()
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
