//! What an operator sees of endpoints, and can do about them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::{endpoints, gateway, named, named_at, shares, state};
use crate::framing::origin::Origin;
use tidegate_testkit::{Client, Gateway, Response, wait_until};

fn set(gateway: &Gateway, endpoint: &str, body: &str) -> Response {
    gateway.post(&format!("/config/upstreams/app/{endpoint}"), body)
}

#[test]
fn an_endpoint_can_be_drained_taken_down_and_returned() {
    let [one, two] = [named("one"), named("two")];
    let gateway = gateway(&[one.address, two.address], "slow_start: 0");
    for (state_set, shown) in [("drain", "drain"), ("down", "down")] {
        let response = set(&gateway, &one.address.to_string(), &format!("{{\"state\": \"{state_set}\"}}"));
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(state(&gateway, one.address), shown);
        assert_eq!(shares(&gateway, 20, &[&one, &two]), [0, 20], "{state_set}");
        gateway.wait_for_line(&format!("set to `{state_set}` by an operator"));
    }
    // A drained one is better than none. One that is down is never used.
    set(&gateway, &two.address.to_string(), "{\"state\": \"drain\"}");
    assert_eq!(shares(&gateway, 10, &[&one, &two]), [0, 10]);
    let health = gateway.get("/actuator/health").json();
    assert_eq!(health["upstreams"]["app"], serde_json::json!({"status": "UP", "endpoints": 2, "available": 0}));
    set(&gateway, &two.address.to_string(), "{\"state\": \"down\"}");
    let response = gateway.get("/");
    assert_eq!((response.status, &response.json()["error"]), (503, &"no_endpoint".into()));
    assert_eq!(gateway.get("/actuator/health").json()["upstreams"]["app"]["status"], "DOWN");
    set(&gateway, &one.address.to_string(), "{\"state\": \"auto\"}");
    assert_eq!(shares(&gateway, 10, &[&one, &two]), [10, 0]);
    let health = gateway.get("/actuator/health").json();
    assert_eq!(health["upstreams"]["app"]["available"], 1);
    assert_eq!(health["upstreams"]["app"]["endpoints"], 2);
}

/// Requests in flight end undisturbed.
#[test]
fn requests_in_flight_on_a_drained_endpoint_end() {
    let (origin, other) = (Origin::new(), named("other"));
    let gateway = gateway(&[origin.address, other.address], "balance: round_robin");
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut visit = origin.accept();
    visit.head();
    assert_eq!(super::shown(&gateway, origin.address)["inFlight"], 1);
    set(&gateway, &origin.address.to_string(), "{\"state\": \"drain\"}");
    visit.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
    assert!(clients.iter_mut().all(|client| client.response().status == 200));
    wait_until("none is in flight", || super::shown(&gateway, origin.address)["inFlight"] == 0);
}

#[test]
fn mistakes_are_named() {
    let one = named("one");
    let gateway = gateway(&[one.address], "");
    let name = one.address.to_string();
    for (path, body, status, detail) in [
        (name.as_str(), "{\"state\": \"asleep\"}", 400, "got \"asleep\""),
        (&name, "{}", 400, "got nothing"),
        (&name, "[]", 400, "JSON object"),
        (&name, "{\"state\": \"up\", \"weight\": 2}", 400, "unknown field \"weight\""),
        (&name, "{", 400, "not JSON"),
        ("127.0.0.9:1", "{\"state\": \"up\"}", 404, &name),
    ] {
        let response = set(&gateway, path, body);
        assert_eq!(response.status, status, "{path} {body}");
        assert!(response.json()["detail"].as_str().is_some_and(|text| text.contains(detail)), "{}", response.text());
    }
    let response = gateway.post("/config/upstreams/shop/x", "{}");
    assert_eq!(response.status, 404);
    assert!(response.text().contains("known upstreams: app"), "{}", response.text());
    assert_eq!(gateway.get(&format!("/config/upstreams/app/{name}")).status, 405);
    assert_eq!(gateway.post("/config/upstreams", "{}").status, 405);
}

/// What is known of an endpoint outlives a reload that keeps it. Requests in flight on one that is removed end.
#[test]
fn a_reload_keeps_what_is_known_and_lets_requests_end() {
    let (origin, two, three) = (Origin::new(), named("two"), named("three"));
    let gateway = gateway(&[origin.address, two.address], "balance: round_robin, slow_start: 0");
    set(&gateway, &two.address.to_string(), "{\"state\": \"down\"}");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    let file = std::fs::read_to_string(&gateway.config).expect("its file");
    let changed = file.replace(&origin.address.to_string(), &three.address.to_string());
    std::fs::write(&gateway.config, changed).expect("it can be written");
    assert_eq!(gateway.post("/reload", "").status, 200);
    let (added, removed) = (three.address, origin.address);
    gateway.wait_for_line(&format!("upstream app: endpoints added http://{added}; removed http://{removed}"));
    assert_eq!(endpoints(&gateway).len(), 2);
    assert_eq!(state(&gateway, two.address), "down", "an operator's word outlives a reload");
    assert_eq!(shares(&gateway, 10, &[&two, &three]), [0, 10]);
    visit.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
    assert_eq!(client.response().status, 200);
    assert_eq!(visit.read_to_end(), b"", "its connection is not kept");
}

/// What was counted for endpoints that left was taken away again: a counter that falls is read as a restart.
#[test]
fn the_counters_of_endpoints_without_their_own_series_never_fall() {
    let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
    let port = everywhere.local_addr().expect("an address").port();
    let _upstream = named_at("everywhere", everywhere);
    let all: Vec<SocketAddr> = (1..=105).map(|last| SocketAddr::from(([127, 0, 1, last], port))).collect();
    let gateway = gateway(&all, "balance: round_robin, slow_start: 0");
    let others =
        || gateway.metric("tidegate_endpoint_requests_total{service=\"app\",endpoint=\"others\",outcome=\"success\"}");
    let requests = |count: usize| (0..count).for_each(|_| assert_eq!(gateway.get("/").status, 200));
    requests(2 * all.len());
    assert_eq!(others(), Some(10.0));
    let reload = |endpoints: &[SocketAddr]| {
        let urls: Vec<String> = endpoints.iter().map(|endpoint| format!("\"http://{endpoint}\"")).collect();
        let file = std::fs::read_to_string(&gateway.config).expect("its file");
        let (head, rest) = file.split_once("endpoints: [").expect("a list");
        let (_, tail) = rest.split_once(']').expect("its end");
        let changed = format!("{head}endpoints: [{}]{tail}", urls.join(", "));
        std::fs::write(&gateway.config, changed).expect("it can be written");
        assert_eq!(gateway.post("/reload", "").status, 200);
    };
    reload(&all[..102]);
    assert_eq!(others(), Some(10.0), "three of them have left");
    reload(&all[10..]);
    assert_eq!(others(), Some(10.0), "they have returned, and others have left");
    requests(2 * 95);
    assert!(others().is_some_and(|count| count >= 10.0), "{:?}", others());
    reload(&all);
    let before = others().expect("there are others");
    requests(2 * all.len());
    assert!(others().is_some_and(|count| count > before), "{:?}", others());
}
