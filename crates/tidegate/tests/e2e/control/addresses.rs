//! Limits by address: whose address counts, and which addresses are one client.

use crate::control::setting::{before, once};
use tidegate_testkit::{Gateway, Upstream, request};

fn by_ip(upstream: &Upstream, trusted: &str) -> Gateway {
    let limit = once(1).replace('}', ", key: ip}");
    Gateway::start(&before(upstream, &format!("trusted_proxies: {trusted}\nlimits: {{default: {limit}}}")))
}

fn status_for(gateway: &Gateway, forwarded_for: &str) -> u16 {
    gateway.get_with("/", &[("X-Forwarded-For", forwarded_for)]).status
}

#[test]
fn what_a_client_says_of_its_own_address_is_not_believed() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[]");
    assert_eq!(gateway.get("/").status, 200);
    for header in ["X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP"] {
        let value = if header == "Forwarded" { "for=203.0.113.5" } else { "203.0.113.5" };
        assert_eq!(gateway.get_with("/", &[(header, value)]).status, 429, "{header}");
    }
    assert_eq!(upstream.last().header("x-forwarded-for"), Some("127.0.0.1"));
}

#[test]
fn a_trusted_proxy_names_its_client() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.0/8]");
    assert_eq!(status_for(&gateway, "203.0.113.5"), 200);
    assert_eq!(status_for(&gateway, "203.0.113.5"), 429);
    assert_eq!(status_for(&gateway, "203.0.113.6"), 200);
    assert_eq!(gateway.get("/").status, 200, "the proxy itself");
    assert_eq!(gateway.get("/").status, 429);
    assert_eq!(upstream.received()[0].header("x-forwarded-for"), Some("203.0.113.5, 127.0.0.1"));
}

/// RFC 7239. Where there is `X-Forwarded-For` it decides: a proxy that knows only that one passes on whatever its
/// client put into the other.
#[test]
fn a_trusted_proxy_may_name_its_client_in_forwarded() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1, 10.0.0.0/8]");
    let status = |value: &str| gateway.get_with("/", &[("Forwarded", value)]).status;
    assert_eq!(status("for=203.0.113.5"), 200);
    for same in [
        "for=203.0.113.5;proto=https;by=10.1.1.1",
        "for=198.51.100.1, For=\"203.0.113.5:4711\"",
        "for=198.51.100.1, for=203.0.113.5, for=10.1.1.1",
        "for=unknown, for=\"[::ffff:203.0.113.5]\"",
    ] {
        assert_eq!(status(same), 429, "{same}");
    }
    assert_eq!(status("for=\"[2001:db8::1]\""), 200, "another client");
    assert_eq!(status("for=_hidden"), 200, "the proxy itself");
    for garbage in ["for=unknown", "for=\"198.51.100.1", "198.51.100.1", "for=198.51.100.1;for=198.51.100.2"] {
        assert_eq!(status(garbage), 429, "{garbage} is the proxy's account");
    }
    let both = [("Forwarded", "for=198.51.100.9"), ("X-Forwarded-For", "203.0.113.5")];
    assert_eq!(gateway.get_with("/", &both).status, 429);
}

#[test]
fn of_several_addresses_the_last_that_is_no_proxy_counts_and_never_the_leftmost() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1, 10.0.0.0/8, \"fd00::/8\"]");
    assert_eq!(status_for(&gateway, "198.51.100.1, 203.0.113.5, 10.1.1.1"), 200);
    for spoofed in [
        "198.51.100.2, 203.0.113.5, 10.1.1.1",
        "10.9.9.9, 203.0.113.5",
        "203.0.113.5",
        "203.0.113.5, fd00::7, 10.1.1.1",
        "unknown, 203.0.113.5",
    ] {
        assert_eq!(status_for(&gateway, spoofed), 429, "{spoofed}");
    }
    assert_eq!(status_for(&gateway, "203.0.113.5, 203.0.113.6"), 200, "another client");
}

#[test]
fn several_lines_of_the_header_are_one_list() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1, 10.0.0.0/8]");
    let twice = |one, other| gateway.get_with("/", &[("X-Forwarded-For", one), ("X-Forwarded-For", other)]).status;
    assert_eq!(twice("198.51.100.1", "203.0.113.5"), 200);
    assert_eq!(twice("198.51.100.2", "203.0.113.5"), 429);
    assert_eq!(twice("203.0.113.5", "10.0.0.1"), 429);
}

#[test]
fn what_is_not_an_address_counts_as_the_proxy_that_passed_it_on() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1]");
    assert_eq!(status_for(&gateway, "unknown"), 200);
    for garbage in ["_hidden", "", "300.1.1.1", "203.0.113.5 x", "203.0.113.9, nonsense", "%00"] {
        assert_eq!(status_for(&gateway, garbage), 429, "{garbage:?} is the proxy's account");
    }
}

#[test]
fn an_ipv4_address_is_one_client_however_it_is_written() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1]");
    assert_eq!(status_for(&gateway, "203.0.113.5"), 200);
    for same in
        ["::ffff:203.0.113.5", "::FFFF:cb00:7105", "203.0.113.5:4711", "[::ffff:203.0.113.5]:80", " 203.0.113.5 "]
    {
        assert_eq!(status_for(&gateway, same), 429, "{same}");
    }
}

#[test]
fn an_ipv6_client_is_its_first_64_bits() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1]");
    assert_eq!(status_for(&gateway, "2001:db8:1:2::1"), 200);
    for same in ["2001:db8:1:2::2", "2001:db8:1:2:ffff:ffff:ffff:ffff", "[2001:db8:1:2::3]", "[2001:db8:1:2::3]:443"] {
        assert_eq!(status_for(&gateway, same), 429, "{same}");
    }
    assert_eq!(status_for(&gateway, "2001:db8:1:3::1"), 200);
}

/// Clients of an IPv6-only network reach IPv4 servers, and IPv4 clients reach IPv6-only ones, through a NAT64: all of
/// them had one account, that of `64:ff9b::/64`.
#[test]
fn clients_behind_a_nat64_are_reported_apart() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1]");
    for prefix in ["64:ff9b::", "::"] {
        for number in 1..=5 {
            let client =
                if prefix == "::" { format!("::198.51.100.{number}") } else { format!("64:ff9b::203.0.113.{number}") };
            assert_eq!((status_for(&gateway, &client), status_for(&gateway, &client)), (200, 429), "{client}");
        }
    }
    for same in ["203.0.113.1", "[64:ff9b::cb00:7102]:443", "::ffff:203.0.113.3", "198.51.100.5"] {
        assert_eq!(status_for(&gateway, same), 429, "{same}: the same client, written in another way");
    }
    // Neither stands for an IPv4 address, and both have the same first 64 bits.
    assert_eq!((status_for(&gateway, "::1"), status_for(&gateway, "::")), (200, 429));
}

/// Who is trusted is a matter of the address that connected, not of one within it.
#[test]
fn an_address_is_not_trusted_for_the_sake_of_one_within_it() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1, 10.0.0.0/8]");
    // A proxy in 10.0.0.0/8 would be passed over, and its client counted.
    for (number, not_trusted) in ["64:ff9b::10.0.0.1", "::10.0.0.2"].into_iter().enumerate() {
        assert_eq!(status_for(&gateway, &format!("203.0.113.{number}, {not_trusted}")), 200);
        assert_eq!(status_for(&gateway, &format!("198.51.100.{number}, {not_trusted}")), 429, "{not_trusted}");
    }
    let listed = by_ip(&upstream, "[127.0.0.1, \"64:ff9b::10.0.0.0/104\"]");
    assert_eq!(status_for(&listed, "203.0.113.1, 64:ff9b::10.0.0.1"), 200);
    assert_eq!(status_for(&listed, "198.51.100.1, 64:ff9b::10.0.0.1"), 200);
    assert_eq!(upstream.last().header("x-forwarded-for"), Some("198.51.100.1, 64:ff9b::10.0.0.1, 127.0.0.1"));
}

/// A listener for both families sees IPv4 clients as mapped addresses.
#[test]
fn on_a_listener_for_both_families_a_mapped_peer_is_an_ipv4_peer() {
    let upstream = Upstream::start();
    let limit = once(1).replace('}', ", key: ip}");
    let rest =
        format!("listeners: [{{address: \"[::]:0\"}}]\ntrusted_proxies: [127.0.0.1]\nlimits: {{default: {limit}}}");
    let gateway = Gateway::start(&before(&upstream, &rest));
    let mapped = std::net::SocketAddr::from(([127, 0, 0, 1], gateway.address.port()));
    let status = |client| request(mapped, "GET", "/", &[("X-Forwarded-For", client)], b"").status;
    assert_eq!((status("203.0.113.5"), status("203.0.113.5"), status("203.0.113.6")), (200, 429, 200));
    assert_eq!(upstream.last().header("x-forwarded-for"), Some("203.0.113.6, 127.0.0.1"));
}

/// A byte that is no text must not hide what the proxy wrote behind it.
#[test]
fn what_is_no_text_is_no_address_and_hides_none() {
    let upstream = Upstream::start();
    let gateway = by_ip(&upstream, "[127.0.0.1]");
    let status = |number: u8| {
        let mut client = tidegate_testkit::Client::connect(gateway.address);
        client.send(
            [
                format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.{number}\r\nX-Forwarded-For: ")
                    .as_bytes(),
                b"\xff, 203.0.113.9\r\n\r\n",
            ]
            .concat(),
        );
        client.response().status
    };
    // The upstream of these tests takes text only.
    assert_eq!(status(1), 502);
    assert_eq!((status(2), status_for(&gateway, "203.0.113.9")), (429, 429));
}
