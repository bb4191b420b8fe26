//! The resolver of host names.

use std::net::{IpAddr, SocketAddr};

use tidegate_input::Problems;

use crate::config::model::{self, MOST_SERVERS};
use crate::config::ranges::Ranged as _;
use crate::names::{ResolverSettings, TtlBounds};

const DNS_PORT: u16 = 53;

pub(super) fn check_resolver(resolver: &model::Resolver, problems: &Problems) -> ResolverSettings {
    if resolver.servers.len() > MOST_SERVERS {
        let count = resolver.servers.len();
        problems.add("resolver.servers", format!("must be at most {MOST_SERVERS} name servers, got {count}"));
    }
    if resolver.min_ttl > resolver.max_ttl {
        let (min, max) = (resolver.min_ttl.found(), resolver.max_ttl.found());
        problems.add("resolver.min_ttl", format!("must be at most `resolver.max_ttl`, which is {max}, got {min}"));
    }
    let mut servers = Vec::new();
    for (index, text) in resolver.servers.iter().enumerate() {
        let path = format!("resolver.servers[{index}]");
        match server(text) {
            Some(server) if servers.contains(&server) => {
                problems.add(path, format!("must differ from earlier name servers, got {text:?}"));
            }
            Some(server) => servers.push(server),
            None => {
                let expected = "must be an IP address with or without a port (10.0.0.2, 127.0.0.1:5353, [fd00::2]:53)";
                problems.add(path, format!("{expected}, got {text:?}"));
            }
        }
    }
    ResolverSettings {
        servers,
        timeout: resolver.timeout.get(),
        attempts: resolver.attempts,
        ttl: TtlBounds { min: resolver.min_ttl.get(), max: resolver.max_ttl.get() },
        hosts_file: resolver.hosts_file,
    }
}

/// The address of a name server. None if nothing can be sent there.
fn server(text: &str) -> Option<SocketAddr> {
    let with_port = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DNS_PORT));
    let server = text.parse::<SocketAddr>().ok().or_else(with_port)?;
    (server.port() != 0).then_some(server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::span::Span;

    fn problems_of(resolver: &model::Resolver) -> Vec<String> {
        let problems = Problems::unbounded();
        check_resolver(resolver, &problems);
        problems.all().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn name_servers_have_port_53_unless_another_is_written() {
        let texts = ["10.0.0.2", "127.0.0.1:5353", "fd00::2", "[fd00::2]:54"];
        let resolver = model::Resolver { servers: texts.map(str::to_owned).into(), ..Default::default() };
        let settings = check_resolver(&resolver, &Problems::unbounded());
        let servers: Vec<String> = settings.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["10.0.0.2:53", "127.0.0.1:5353", "[fd00::2]:53", "[fd00::2]:54"]);
        assert!(problems_of(&resolver).is_empty());
    }

    #[test]
    fn what_is_wrong_is_reported_with_what_is_expected_and_what_was_found() {
        let of = |servers: &[&str]| {
            let servers = servers.iter().map(|text| (*text).to_owned()).collect();
            problems_of(&model::Resolver { servers, ..Default::default() })
        };
        let expected = "must be an IP address with or without a port (10.0.0.2, 127.0.0.1:5353, [fd00::2]:53), got";
        for text in ["dns.example", "10.0.0.2:x", "10.0.0.2:0", "", "udp://10.0.0.2"] {
            assert_eq!(of(&["10.0.0.1", text]), [format!("resolver.servers[1]: {expected} {text:?}")]);
        }
        let twice = "resolver.servers[1]: must differ from earlier name servers, got \"10.0.0.1:53\"";
        assert_eq!(of(&["10.0.0.1", "10.0.0.1:53"]), [twice]);
        let many: Vec<String> = (1..=9).map(|last| format!("10.0.0.{last}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(of(&many), ["resolver.servers: must be at most 8 name servers, got 9"]);
        let ttl = model::Resolver { min_ttl: Span::from_secs(20), max_ttl: Span::from_secs(10), ..Default::default() };
        let wanted = "resolver.min_ttl: must be at most `resolver.max_ttl`, which is \"10s\", got \"20s\"";
        assert_eq!(problems_of(&ttl), [wanted]);
    }
}
