use std::net::IpAddr;

/// `localhost` or an address of the loopback, with or without a port.
pub fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn localhost_and_the_loopbacks_addresses_are_this_machine() {
        for host in
            ["localhost", "LOCALHOST:8082", "127.0.0.1", "127.8.8.8:1", "[::1]", "[::1]:8082", "[::ffff:127.0.0.1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:1", "[fe80::1]"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
