//! Host names: all their addresses are endpoints, and changes are followed.

use std::net::{IpAddr, SocketAddr, TcpListener};

use super::{endpoints, named_at, with_upstream};
use tidegate_testkit::dns_server::{DnsBehaviour, DnsServer};
use tidegate_testkit::{Gateway, Upstream, wait_until};

const FIRST: [u8; 4] = [127, 0, 0, 1];
const SECOND: [u8; 4] = [127, 0, 0, 2];

/// Two services on one port of two addresses.
fn pair() -> (Upstream, Upstream, u16) {
    let (first, second) = loop {
        let first = TcpListener::bind(SocketAddr::from((FIRST, 0))).expect("a free port");
        let port = first.local_addr().expect("an address").port();
        if let Ok(second) = TcpListener::bind(SocketAddr::from((SECOND, port))) {
            break (first, second);
        }
    };
    let port = first.local_addr().expect("an address").port();
    (named_at("first", first), named_at("second", second), port)
}

fn gateway(dns: &DnsServer, port: u16, settings: &str) -> Gateway {
    let resolver = format!("resolver: {{servers: [\"{}\"], timeout: 500ms, hosts_file: false}}\n", dns.address);
    with_upstream(&format!("url: \"http://shop.test:{port}\", slow_start: 0{settings}"), &resolver)
}

fn names(gateway: &Gateway) -> Vec<String> {
    let name = |shown: &serde_json::Value| shown["endpoint"].as_str().unwrap_or_default().to_owned();
    endpoints(gateway).iter().map(name).collect()
}

#[test]
fn all_addresses_of_a_name_are_endpoints_and_changes_are_followed() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &[IpAddr::from(FIRST)]);
    let gateway = gateway(&dns, port, "");
    assert_eq!(gateway.get("/").text(), "first", "the name is known before the first request");
    dns.set("shop.test", 1, &[IpAddr::from(FIRST), IpAddr::from(SECOND)]);
    wait_until("both get requests", || gateway.get("/").text() == "second");
    assert_eq!(names(&gateway), [format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}")]);
    dns.set("shop.test", 1, &[IpAddr::from(SECOND)]);
    wait_until("one has gone", || names(&gateway) == [format!("127.0.0.2:{port}")]);
    assert!((0..20).all(|_| gateway.get("/").text() == "second"));
    gateway.wait_for_line("The addresses of shop.test have changed");
}

/// A name server that is away, or responds without records, takes no service down.
#[test]
fn the_last_addresses_stay_in_use_while_the_name_can_not_be_looked_up() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    for behaviour in [DnsBehaviour::NoSuchName, DnsBehaviour::Empty, DnsBehaviour::ServerFailure, DnsBehaviour::Silent]
    {
        dns.set("shop.test", 1, &[IpAddr::from(FIRST)]);
        let gateway = gateway(&dns, port, "");
        assert_eq!(gateway.get("/").text(), "first");
        dns.behave("shop.test", behaviour);
        let line = gateway.wait_for_line("Can't resolve shop.test");
        assert!(line.contains("127.0.0.1"), "{behaviour:?}: {line}");
        assert_eq!(gateway.get("/").text(), "first", "{behaviour:?}");
        wait_until("it is counted", || gateway.metric("tidegate_names_failing") == Some(1.0));
    }
}

/// The gateway starts without a name server, and serves as soon as the name is known.
#[test]
fn a_name_that_is_not_known_yet_is_a_502_until_it_is() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    let gateway = gateway(&dns, port, "");
    let response = gateway.get("/");
    assert_eq!((response.status, &response.json()["error"]), (502, &"connect_failed".into()));
    assert!(response.text().contains("shop.test"), "{}", response.text());
    dns.set("shop.test", 1, &[IpAddr::from(SECOND)]);
    wait_until("it is known", || gateway.get("/").text() == "second");
}

/// A reload waits for the names of the new file, so that no request finds an upstream without an address.
#[test]
fn a_reload_to_another_name_loses_no_request() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 60, &[IpAddr::from(FIRST)]);
    dns.set("other.test", 60, &[IpAddr::from(SECOND)]);
    let gateway = gateway(&dns, port, "");
    let file = std::fs::read_to_string(&gateway.config).expect("its file");
    std::fs::write(&gateway.config, file.replace("shop.test", "other.test")).expect("it can be written");
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert!((0..20).all(|_| gateway.get("/").text() == "second"));
}
