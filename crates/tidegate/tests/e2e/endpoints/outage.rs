//! All endpoints of an upstream are away.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use super::{gateway, named, named_at, state};
use tidegate_testkit::{Client, Gateway, OK, Upstream, wait_until};

/// An address where nobody listens yet.
struct Away {
    socket: tokio::net::TcpSocket,
    address: SocketAddr,
}

impl Away {
    fn new() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        Self { address: socket.local_addr().expect("an address"), socket }
    }

    /// From now on somebody does.
    fn come_back(self) -> Upstream {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let listener = runtime.block_on(async {
            self.socket.listen(128).and_then(tokio::net::TcpListener::into_std).expect("it listens")
        });
        listener.set_nonblocking(false).expect("it waits");
        named_at("back", listener)
    }
}

/// A gateway before endpoints that are all away. It would wait for an hour for a connection.
fn before(away: &[Away], settings: &str) -> Gateway {
    let addresses: Vec<SocketAddr> = away.iter().map(|away| away.address).collect();
    gateway(&addresses, &format!("connect_timeout: 1h{settings}"))
}

/// Sends so many requests that all fail.
fn fail(gateway: &Gateway, count: usize) {
    for _ in 0..count {
        let response = gateway.get("/");
        assert_eq!((response.status, &response.json()["error"]), (502, &"connect_failed".into()));
        assert!(response.text().contains("connection refused"), "{}", response.text());
        assert!(response.header("x-request-id").is_some());
    }
}

/// At most half of them are ejected, and the others are tried again and again: the first request after one of these is
/// back finds it.
#[test]
fn requests_fail_at_once_with_a_reason_and_an_endpoint_that_comes_back_gets_them() {
    for size in [1, 2, 3] {
        let mut away: Vec<Away> = (0..size).map(|_| Away::new()).collect();
        let gateway = before(&away, "");
        fail(&gateway, 30);
        let health = gateway.get("/actuator/health");
        assert_eq!((health.status, &health.json()["status"]), (200, &"UP".into()), "the gateway itself is well");
        assert_eq!(health.json()["upstreams"]["app"]["status"], "DOWN");
        let index = away.iter().position(|away| state(&gateway, away.address) == "up").expect("not all are ejected");
        let back = away.remove(index).come_back();
        for _ in 0..30 {
            assert_eq!(gateway.get("/").text(), "back");
        }
        assert_eq!(back.count(), 30);
        assert_eq!(gateway.get("/actuator/health").json()["upstreams"]["app"]["status"], "UP");
    }
}

/// The same when checks have found it out before any request.
#[test]
fn an_endpoint_that_comes_back_is_found_by_its_checks_too() {
    let mut away: Vec<Away> = (0..2).map(|_| Away::new()).collect();
    let gateway = before(&away, ", slow_start: 0, health_check: {interval: 100ms, healthy: 1}");
    wait_until("both are out", || away.iter().all(|away| state(&gateway, away.address) == "unhealthy"));
    fail(&gateway, 5);
    let (back, other) = (away.remove(1).come_back(), away.remove(0));
    wait_until("it is up", || state(&gateway, back.address) == "up");
    assert!((0..20).all(|_| gateway.get("/").text() == "back"));
    assert_eq!(state(&gateway, other.address), "unhealthy");
}

/// Endpoints that were not ejected, because half of them were, got each request again and again, though it had just
/// failed there: the only one that worked got nothing until its ejection was over.
#[test]
fn an_ejected_endpoint_that_comes_back_before_the_others_gets_requests() {
    for size in [2, 3] {
        let mut away: Vec<Away> = (0..size).map(|_| Away::new()).collect();
        let gateway = before(&away, ", ejection: {time: 1h, max_time: 1h}");
        fail(&gateway, 60);
        let index = away.iter().position(|away| state(&gateway, away.address) == "ejected").expect("one is ejected");
        let _back = away.remove(index).come_back();
        wait_until("it gets a request", || gateway.get("/").text() == "back");
    }
}

/// It is sent again over another connection. That could not be made, and the client got 502, though another endpoint
/// was there.
#[test]
fn a_request_whose_kept_connection_ends_goes_to_another_endpoint_if_this_one_is_away() {
    let (listener, other) = (TcpListener::bind("127.0.0.1:0").expect("a free port"), named("other"));
    let address = listener.local_addr().expect("an address");
    let dies = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut read_head = || {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                head.extend(byte);
            }
        };
        read_head();
        drop(listener);
        stream.write_all(OK).expect("it is read");
        let mut head = [0; 4_096];
        assert!(stream.read(&mut head).expect("another request") > 0);
    });
    let endpoints =
        format!("endpoints: [{{url: \"http://{address}\", weight: 1000000}}, \"http://{}\"]", other.address);
    let gateway = super::with_upstream(&format!("{endpoints}, balance: round_robin, slow_start: 0"), "");
    let mut client = Client::connect(gateway.address);
    let texts: Vec<String> = (0..2).map(|_| client.request("GET", "/", &[], b"").text()).collect();
    assert_eq!(texts, ["OK", "other"]);
    dies.join().expect("both requests have come");
}
