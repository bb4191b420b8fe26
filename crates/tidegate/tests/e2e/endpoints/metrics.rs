//! The metrics of endpoints have true values.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::crowd::Crowd;
use super::switched::Switched;
use super::{gateway, named, shown, state};
use crate::framing::origin::Origin;
use tidegate_testkit::{Client, Gateway, pause, wait_until};

fn value(gateway: &Gateway, metric: &str, endpoint: impl Display) -> f64 {
    let name = format!("tidegate_endpoint_{metric}{{service=\"app\",endpoint=\"{endpoint}\"}}");
    gateway.metric(&name).unwrap_or_else(|| panic!("no {name}"))
}

/// A metric of one endpoint that counts something.
pub(super) fn of_endpoint(gateway: &Gateway, metric: &str, endpoint: impl Display) -> u64 {
    value(gateway, metric, endpoint) as u64
}

/// How many requests to an endpoint ended like this.
pub(super) fn requests(gateway: &Gateway, endpoint: impl Display, outcome: &str) -> u64 {
    let labels = format!("service=\"app\",endpoint=\"{endpoint}\",outcome=\"{outcome}\"");
    gateway.metric(&format!("tidegate_endpoint_requests_total{{{labels}}}")).expect("it is there") as u64
}

/// The values of a metric, by endpoint.
fn series(gateway: &Gateway, metric: &str, outcome: &str) -> Vec<(String, u64)> {
    let page = gateway.get("/actuator/prometheus").text();
    let read = |line: &str| {
        let labels = line.strip_prefix(&format!("tidegate_endpoint_{metric}{{service=\"app\",endpoint=\""))?;
        let (endpoint, rest) = labels.split_once('"')?;
        let value: f64 = rest.rsplit(' ').next()?.parse().ok()?;
        rest.contains(outcome).then(|| (endpoint.to_owned(), value as u64))
    };
    page.lines().filter_map(read).collect()
}

fn sum(series: &[(String, u64)]) -> u64 {
    series.iter().map(|(_, value)| value).sum()
}

#[test]
fn requests_in_flight_and_connections_are_those_of_the_endpoint() {
    let (origin, other) = (Origin::new(), named("other"));
    let gateway = gateway(&[origin.address, other.address], "balance: round_robin, idle_timeout: 1s");
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut visits: Vec<_> = (0..3).map(|_| origin.accept()).collect();
    for visit in &mut visits {
        visit.head();
    }
    wait_until("the others have responses", || requests(&gateway, other.address, "success") == 3);
    for metric in ["in_flight", "connections"] {
        assert_eq!(of_endpoint(&gateway, metric, origin.address), 3, "{metric}");
    }
    assert_eq!(of_endpoint(&gateway, "in_flight", other.address), 0);
    assert!((1..=3).contains(&of_endpoint(&gateway, "connections", other.address)), "they are kept");
    assert_eq!(requests(&gateway, origin.address, "success"), 0, "none has ended");
    for visit in &mut visits {
        visit.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
    }
    assert!(clients.iter_mut().all(|client| client.response().status == 200));
    wait_until("none is in flight", || of_endpoint(&gateway, "in_flight", origin.address) == 0);
    assert_eq!(requests(&gateway, origin.address, "success"), 3);
    for endpoint in [origin.address, other.address] {
        wait_until("idle connections are closed", || of_endpoint(&gateway, "connections", endpoint) == 0);
    }
}

/// The gateway can't see less than the endpoint takes, nor more than the client sees. Between the response and the
/// reading, the estimate decays as 10 s ÷ (10 s + idle).
#[test]
fn latency_is_how_long_the_endpoint_takes() {
    const LEAST: Duration = Duration::from_millis(200);
    let origin = Origin::new();
    let gateway = gateway(&[origin.address], "");
    assert!(value(&gateway, "latency_seconds", origin.address) <= 0.0, "nothing is known yet");
    let mut client = Client::connect(gateway.address);
    let began = Instant::now();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    pause(LEAST);
    visit.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
    client.response();
    let most = began.elapsed().as_secs_f64();
    let latency = value(&gateway, "latency_seconds", origin.address);
    let least = LEAST.as_secs_f64() * 10.0 / (10.0 + began.elapsed().as_secs_f64());
    assert!((least..=most).contains(&latency), "{least} to {most}: {latency}");
}

#[test]
fn outcomes_ejections_and_standing_are_those_of_the_endpoint() {
    let [failing, good] = [503, 200].map(Switched::new);
    let settings = "balance: round_robin, ejection: {consecutive_failures: 3, time: 1h, max_time: 1h}";
    let gateway = gateway(&[failing.address, good.address], settings);
    let figures = |endpoint: SocketAddr| {
        let [up, ejections] = ["up", "ejections_total"].map(|metric| of_endpoint(&gateway, metric, endpoint));
        [up, ejections, requests(&gateway, endpoint, "success"), requests(&gateway, endpoint, "failure")]
    };
    assert_eq!([failing.address, good.address].map(figures), [[1, 0, 0, 0]; 2]);
    (0..4).for_each(|_| drop(gateway.get("/")));
    assert_eq!(figures(failing.address), [1, 0, 0, 2]);
    assert_eq!(figures(good.address), [1, 0, 2, 0]);
    (0..6).for_each(|_| drop(gateway.get("/")));
    assert_eq!(figures(failing.address), [0, 1, 0, 3], "ejected after the third failure");
    assert_eq!(figures(good.address), [1, 0, 7, 0]);
    // What the admin API shows is the same.
    let shown = shown(&gateway, failing.address);
    assert_eq!((&shown["failures"], &shown["ejections"]), (&3.into(), &1.into()));
    assert_eq!(state(&gateway, failing.address), "ejected");
}

/// An upstream with more endpoints than have series of their own.
#[test]
fn beyond_a_hundred_endpoints_the_rest_is_added_up() {
    let crowd = Crowd::new(130);
    let settings = "balance: round_robin, ejection: {consecutive_failures: 1, time: 1h, max_time: 1h, max_share: 1}";
    let gateway = gateway(&crowd.addresses, settings);
    assert!((0..260).all(|_| gateway.get("/").status == 200));
    let first = crowd.addresses[0].to_string();
    for (metric, outcome, of_one, of_others) in [
        ("up", "", 1, 30),
        ("in_flight", "", 0, 0),
        ("requests_total", "success", 2, 60),
        ("requests_total", "failure", 0, 0),
        ("ejections_total", "", 0, 0),
    ] {
        let series = series(&gateway, metric, outcome);
        assert_eq!(series.len(), 101, "{metric}");
        let found = |name: &str| series.iter().find(|(endpoint, _)| endpoint == name).map(|(_, value)| *value);
        assert_eq!((found(&first), found("others")), (Some(of_one), Some(of_others)), "{metric} {outcome}");
        let all = of_one * 100 + of_others;
        assert_eq!(sum(&series), all, "{metric} {outcome}");
    }
    let connections = sum(&series(&gateway, "connections", ""));
    let all = gateway.metric("tidegate_upstream_connections{service=\"app\"}").map(|all| all as u64);
    assert!(connections >= 130 && all == Some(connections), "{connections} of {all:?}");
    assert_eq!(series(&gateway, "latency_seconds", "").len(), 101);
    assert!(value(&gateway, "latency_seconds", "others") > 0.0);
    // All fail once, and all but the last one are ejected.
    assert!((0..130).all(|_| gateway.get("/fail").status == 503));
    let [ejected, up] = ["ejections_total", "up"].map(|metric| of_endpoint(&gateway, metric, "others"));
    assert!(ejected >= 29 && ejected + up == 30, "{ejected} and {up}");
    assert_eq!(["ejections_total", "up"].map(|metric| sum(&series(&gateway, metric, ""))), [129, 1]);
    assert_eq!(sum(&series(&gateway, "requests_total", "failure")), 130);
}
