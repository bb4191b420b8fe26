//! Host names: all their addresses are endpoints, and changes are followed.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use super::{endpoints, named_at, state, with_upstream};
use crate::framing::origin::Origin;
use tidegate_testkit::dns_server::{DnsBehaviour, DnsServer, RecordType};
use tidegate_testkit::{Client, Gateway, PATIENCE, Upstream, wait_until};

const FIRST: [u8; 4] = [127, 0, 0, 1];
const SECOND: [u8; 4] = [127, 0, 0, 2];
const DAY: u32 = 86_400;
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst";

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

/// The same, with a first service that the test plays.
fn origin_pair() -> (Origin, Upstream, u16) {
    loop {
        let first = Origin::new();
        let port = first.address.port();
        if let Ok(second) = TcpListener::bind(SocketAddr::from((SECOND, port))) {
            return (first, named_at("second", second), port);
        }
    }
}

fn gateway(dns: &DnsServer, port: u16, settings: &str) -> Gateway {
    with_resolver(dns, "shop.test", port, "timeout: 500ms, hosts_file: false", settings)
}

/// A gateway before a name, with these settings of the resolver and of the upstream.
fn with_resolver(dns: &DnsServer, host: &str, port: u16, resolver: &str, settings: &str) -> Gateway {
    let resolver = format!("resolver: {{servers: [\"{}\"], {resolver}}}\n", dns.address);
    with_upstream(&format!("url: \"http://{host}:{port}\", slow_start: 0{settings}"), &resolver)
}

/// Changes the gateway's file, and has it read again. Returns the status.
fn reload(gateway: &Gateway, changes: &[(&str, &str)]) -> u16 {
    let mut file = std::fs::read_to_string(&gateway.config).expect("its file");
    for (from, to) in changes {
        assert!(file.contains(from), "{from} is not in {file}");
        file = file.replace(from, to);
    }
    std::fs::write(&gateway.config, file).expect("it can be written");
    gateway.post("/reload", "").status
}

fn ips(addresses: &[[u8; 4]]) -> Vec<IpAddr> {
    addresses.iter().map(|address| IpAddr::from(*address)).collect()
}

/// Gives the name these addresses, and waits until they are the endpoints.
fn resolve(dns: &DnsServer, gateway: &Gateway, port: u16, addresses: &[[u8; 4]]) {
    dns.set("shop.test", 1, &ips(addresses));
    let wanted: Vec<String> = addresses.iter().map(|ip| SocketAddr::from((*ip, port)).to_string()).collect();
    wait_until("the addresses are followed", || names(gateway) == wanted);
}

/// Waits until the name was looked up so many times more.
fn wait_for_lookups(dns: &DnsServer, host: &str, lookups: usize) {
    let before = dns.queries(host, RecordType::A);
    wait_until("it is looked up again", || dns.queries(host, RecordType::A) >= before + lookups);
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
    dns.set("shop.test", 60, &ips(&[FIRST]));
    dns.set("other.test", 60, &ips(&[SECOND]));
    let gateway = gateway(&dns, port, "");
    assert_eq!(reload(&gateway, &[("shop.test", "other.test")]), 200);
    assert!((0..20).all(|_| gateway.get("/").text() == "second"));
}

/// Each reload left one watch of each name behind, and a request that lasts kept them all.
#[test]
fn a_name_that_a_reload_removes_is_no_longer_looked_up() {
    let (origin, _second, port) = origin_pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &ips(&[FIRST]));
    dns.set("other.test", 1, &ips(&[SECOND]));
    let gateway = gateway(&dns, port, "");
    let mut client = Client::connect(gateway.address);
    client.send(GET);
    let mut visit = origin.accept();
    visit.head();
    assert_eq!(reload(&gateway, &[("shop.test", "other.test")]), 200);
    wait_until("only the new name is watched", || gateway.metric("tidegate_names") == Some(1.0));
    let asked = dns.queries("shop.test", RecordType::A);
    wait_for_lookups(&dns, "other.test", 3);
    assert_eq!(dns.queries("shop.test", RecordType::A), asked);
    visit.send(OK);
    assert_eq!(client.response().text(), "first");
}

/// "Nothing has changed" was logged, and names were looked up at the new servers.
#[test]
fn a_rejected_reload_leaves_the_resolver_as_it_is() {
    let (_first, _second, port) = pair();
    let (dns, new) = (DnsServer::start(), DnsServer::start());
    dns.set("shop.test", 1, &ips(&[FIRST]));
    new.set("shop.test", 1, &ips(&[SECOND]));
    let gateway = gateway(&dns, port, "");
    let servers = (&*dns.address.to_string(), &*new.address.to_string());
    assert_eq!(reload(&gateway, &[("workers: 2", "workers: 3"), servers]), 400);
    wait_for_lookups(&dns, "shop.test", 2);
    assert_eq!(new.queries("shop.test", RecordType::A), 0);
    assert_eq!(gateway.get("/").text(), "first");
    // Without the other change it is applied, and the response of the reload comes after it.
    assert_eq!(reload(&gateway, &[("workers: 3", "workers: 2")]), 200);
    assert!((0..20).all(|_| gateway.get("/").text() == "second"));
    wait_for_lookups(&new, "shop.test", 2);
    assert!(gateway.metric("tidegate_name_lookups_total{result=\"succeeded\"}").is_some_and(|count| count >= 4.0));
}

/// Name servers that respond with some of the addresses at a time undid what an operator had set.
#[test]
fn an_operators_state_outlives_an_address_that_leaves_and_returns() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &ips(&[FIRST, SECOND]));
    let gateway = gateway(&dns, port, "");
    let first = SocketAddr::from((FIRST, port));
    assert_eq!(gateway.post(&format!("/config/upstreams/app/{first}"), "{\"state\": \"down\"}").status, 200);
    resolve(&dns, &gateway, port, &[SECOND]);
    resolve(&dns, &gateway, port, &[FIRST, SECOND]);
    assert_eq!(state(&gateway, first), "down");
    // A reload in between keeps it too.
    resolve(&dns, &gateway, port, &[SECOND]);
    assert_eq!(reload(&gateway, &[("slow_start: 0", "slow_start: 0, max_idle: 3")]), 200);
    resolve(&dns, &gateway, port, &[FIRST, SECOND]);
    assert_eq!(state(&gateway, first), "down");
    assert!((0..20).all(|_| gateway.get("/").text() == "second"));
}

/// It was counted anew, while connections to it were still in use.
#[test]
fn max_connections_holds_for_an_address_that_leaves_and_returns() {
    let (origin, _second, port) = origin_pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &ips(&[FIRST]));
    let gateway = gateway(&dns, port, ", max_connections: 1");
    let mut client = Client::connect(gateway.address);
    client.send(GET);
    let mut visit = origin.accept();
    visit.head();
    resolve(&dns, &gateway, port, &[SECOND]);
    assert_eq!(gateway.get("/").text(), "second");
    resolve(&dns, &gateway, port, &[FIRST]);
    let response = gateway.get("/");
    assert_eq!((response.status, &response.json()["error"]), (503, &"upstream_full".into()));
    visit.send(OK);
    assert_eq!(client.response().text(), "first");
    // Its connection is as good as before.
    client.send(GET);
    visit.head();
    visit.send(OK);
    assert_eq!(client.response().text(), "first");
}

#[test]
fn requests_in_flight_on_an_address_that_leaves_end_and_their_connections_are_closed() {
    let (origin, _second, port) = origin_pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &ips(&[FIRST]));
    let gateway = gateway(&dns, port, "");
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(gateway.address)).collect();
    let mut visits: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            client.send(GET);
            let mut visit = origin.accept();
            visit.head();
            visit
        })
        .collect();
    // One has ended: its connection is idle.
    visits[0].send(OK);
    assert_eq!(clients[0].response().text(), "first");
    resolve(&dns, &gateway, port, &[SECOND]);
    assert_eq!(visits[0].read_to_end(), b"", "an idle connection is closed");
    for (client, visit) in clients[1..].iter_mut().zip(&mut visits[1..]) {
        visit.send(OK);
        assert_eq!(client.response().text(), "first");
        assert_eq!(visit.read_to_end(), b"", "it is closed when its request has ended");
    }
}

#[test]
fn no_request_fails_while_the_addresses_change_again_and_again() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &ips(&[FIRST]));
    let gateway = gateway(&dns, port, "");
    for round in 0..5 {
        let (address, name) = if round % 2 == 0 { (SECOND, "second") } else { (FIRST, "first") };
        dns.set("shop.test", 1, &ips(&[address]));
        wait_until("the change is followed", || {
            let response = gateway.get("/");
            assert_eq!(response.status, 200, "{}", response.text());
            response.text() == name
        });
    }
    assert_eq!(gateway.metric("ratelimiter_responses_total{status=\"502\"}"), Some(0.0));
}

#[test]
fn a_slow_name_server_holds_nothing_up() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &ips(&[FIRST]));
    dns.behave("shop.test", DnsBehaviour::Slow(2 * PATIENCE));
    let gateway = gateway(&dns, port, "");
    let response = gateway.get("/");
    assert_eq!((response.status, &response.json()["error"]), (502, &"connect_failed".into()));
    assert!(response.text().contains("shop.test"), "{}", response.text());
    gateway.wait_for_line("no name server responded within");
    // It responds late, but in time.
    dns.behave("shop.test", DnsBehaviour::Slow(Duration::from_millis(100)));
    wait_until("the name is known", || gateway.get("/").text() == "first");
    // Then too late again: the last addresses stay.
    dns.behave("shop.test", DnsBehaviour::Slow(2 * PATIENCE));
    let line = gateway.wait_for_line("still using");
    assert!(line.contains("127.0.0.1") && line.contains("shop.test"), "{line}");
    assert!((0..20).all(|_| gateway.get("/").text() == "first"));
    // A reload does not wait for it either.
    assert_eq!(reload(&gateway, &[("slow_start: 0", "slow_start: 0, max_idle: 3")]), 200);
    assert_eq!(gateway.get("/").text(), "first");
}

#[test]
fn addresses_of_both_families_get_requests() {
    let (four, six) = loop {
        let four = TcpListener::bind(SocketAddr::from((FIRST, 0))).expect("a free port");
        let port = four.local_addr().expect("an address").port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(six) => break (four, six),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                eprintln!("IPv6 is not available: {error}");
                return;
            }
        }
    };
    let port = four.local_addr().expect("an address").port();
    let (_four, _six) = (named_at("four", four), named_at("six", six));
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &[IpAddr::from(FIRST), Ipv6Addr::LOCALHOST.into()]);
    let gateway = gateway(&dns, port, ", balance: round_robin");
    wait_until("both are known", || names(&gateway) == [format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
    let texts: Vec<String> = (0..10).map(|_| gateway.get("/").text()).collect();
    for name in ["four", "six"] {
        assert_eq!(texts.iter().filter(|text| *text == name).count(), 5, "{texts:?}");
    }
}

#[test]
fn a_name_server_is_asked_as_often_as_attempts_says() {
    let (_first, _second, port) = pair();
    for (attempts, least, most) in [(5, 5, usize::MAX), (1, 1, 4)] {
        let dns = DnsServer::start();
        dns.behave("shop.test", DnsBehaviour::Silent);
        let resolver = format!("timeout: 100ms, hosts_file: false, attempts: {attempts}");
        let gateway = with_resolver(&dns, "shop.test", port, &resolver, "");
        gateway.wait_for_line("Can't resolve shop.test");
        let queries = dns.queries("shop.test", RecordType::A);
        assert!((least..=most).contains(&queries), "{queries} queries with {attempts} attempts");
    }
}

/// The default follows the records of a second.
#[test]
fn a_name_is_not_looked_up_again_before_min_ttl_is_over() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    dns.set("shop.test", 1, &ips(&[FIRST]));
    dns.set("other.test", 1, &ips(&[FIRST]));
    let gateway =
        with_resolver(&dns, "shop.test", port, "timeout: 5s, hosts_file: false, min_ttl: 1h, max_ttl: 1h", "");
    let usual = with_resolver(&dns, "other.test", port, "timeout: 5s, hosts_file: false", "");
    assert_eq!((gateway.get("/").text(), usual.get("/").text()), ("first".to_owned(), "first".to_owned()));
    let asked = dns.queries("shop.test", RecordType::A);
    wait_for_lookups(&dns, "other.test", 3);
    assert_eq!(dns.queries("shop.test", RecordType::A), asked);
}

/// The default follows the records of a day only after ten minutes.
#[test]
fn a_name_is_looked_up_again_when_max_ttl_is_over() {
    let (_first, _second, port) = pair();
    let dns = DnsServer::start();
    dns.set("shop.test", DAY, &ips(&[FIRST]));
    let gateway = with_resolver(&dns, "shop.test", port, "timeout: 500ms, hosts_file: false, max_ttl: 1s", "");
    assert_eq!(gateway.get("/").text(), "first");
    dns.set("shop.test", DAY, &ips(&[SECOND]));
    wait_until("the change is followed", || gateway.get("/").text() == "second");
}

/// A name of the hosts file that is not localhost, and its addresses.
fn entry_of_hosts() -> Option<(String, Vec<IpAddr>)> {
    let text = std::fs::read_to_string("/etc/hosts").ok()?;
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        Some((words.next()?.parse::<IpAddr>().ok()?, words.map(str::to_owned).collect::<Vec<_>>()))
    });
    let lines: Vec<(IpAddr, Vec<String>)> = lines.collect();
    let name = lines.iter().flat_map(|(_, names)| names).find(|name| !name.starts_with("localhost"))?;
    let of_name = lines.iter().filter(|(_, names)| names.contains(name)).map(|(ip, _)| *ip);
    Some((name.clone(), of_name.collect()))
}

#[test]
fn the_hosts_file_comes_before_name_servers_unless_it_is_switched_off() {
    let Some((host, addresses)) = entry_of_hosts() else {
        eprintln!("the hosts file has no name but localhost here");
        return;
    };
    let dns = DnsServer::start();
    let unlike = IpAddr::from([127, 9, 9, 9]);
    dns.set(&host.to_ascii_lowercase(), 60, &[unlike]);
    for (is_used, wanted) in [(true, &addresses[..]), (false, &[unlike])] {
        let gateway = with_resolver(&dns, &host, 80, &format!("timeout: 5s, hosts_file: {is_used}"), "");
        let found: Vec<String> = names(&gateway);
        let mut wanted: Vec<IpAddr> = wanted.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let wanted: Vec<String> = wanted.iter().map(|ip| SocketAddr::new(*ip, 80).to_string()).collect();
        assert_eq!(found, wanted, "hosts_file: {is_used}");
    }
}
