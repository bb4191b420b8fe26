//! The order to stop: what is under way ends well, nothing new begins, and there is an end to it.

mod tunnels;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::shared::crowd::Crowd;
use crate::shared::holding::{Door, Holding};
use crate::shared::relay::Relay;
use crate::shared::setup::{PLENTY, STRICT, config, places_taken};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Directory, Gateway, OK, PATIENCE, Upstream, text, wait_until};

const STOPPING: &str = "stopping: requests under way may end";

const CUT_OFF: &str = "cut off when the time to drain was up";

fn file(upstream: SocketAddr, more: &str) -> String {
    format!("upstreams: {{app: {{url: \"http://{upstream}\"}}}}\nlimits: {{default: {PLENTY}}}\n{more}")
}

fn stop(gateway: &Gateway, signal: &str) {
    gateway.signal(signal);
    gateway.wait_for_line(STOPPING);
}

/// Whether it ended well, and by itself: the time to drain is half a minute unless a test says otherwise, and nobody
/// waits here for so long.
fn ends_well(gateway: &mut Gateway) -> bool {
    gateway.wait_for_end()
}

fn requests_under_way_end_well(signal: &str) {
    let upstream = Holding::start();
    let directory = Directory::new();
    let log = directory.0.join("access.log");
    let access_log = format!("access_log: {{format: json, file: \"{}\"}}\n", text(&log));
    let mut gateway = Gateway::start(&file(upstream.address(), &access_log));
    let mut idle = Client::connect(gateway.address);
    assert_eq!(idle.request("GET", "/idle", &[], b"").status, 200);
    let mut held: Vec<Client> = (0..5).map(|_| upstream.visit(gateway.address)).collect();
    stop(&gateway, signal);
    assert!(idle.is_closed(), "nothing is under way there");
    upstream.let_go();
    for client in &mut held {
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (200, "OK"));
        assert_eq!(response.header("connection"), Some("close"), "a client must not send another: {response:?}");
        assert!(client.is_closed());
    }
    assert!(ends_well(&mut gateway));
    gateway.wait_for_line("stopped");
    assert!(!gateway.lines().iter().any(|line| line.contains(CUT_OFF)), "{:#?}", gateway.lines());
    let lines = std::fs::read_to_string(&log).expect("an access log");
    let of = |path: &str| lines.lines().filter(|line| line.contains(&format!("\"path\":\"{path}\""))).count();
    assert_eq!((of("/idle"), of("/held")), (1, 5), "{lines}");
    assert!(lines.ends_with('\n') && lines.lines().all(|line| line.contains("\"complete\":true")), "{lines}");
}

#[test]
fn after_sigterm_requests_under_way_end_well_and_every_line_is_written() {
    requests_under_way_end_well("TERM");
}

#[test]
fn after_ctrl_c_requests_under_way_end_well_and_every_line_is_written() {
    requests_under_way_end_well("INT");
}

/// Whoever tries the next gateway instead must learn at once that this one takes nobody: a connection that is neither
/// rejected nor served hangs until the process ends.
#[test]
fn new_connections_are_refused_while_others_end() {
    let upstream = Holding::start();
    let mut gateway = Gateway::start(&file(upstream.address(), ""));
    let mut held = upstream.visit(gateway.address);
    stop(&gateway, "TERM");
    let connect = || TcpStream::connect_timeout(&gateway.address, Duration::from_millis(500));
    wait_until("new connections are refused", || {
        connect().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    assert!(!held.has_response(), "the gateway still serves a request while it refuses new connections");
    upstream.let_go();
    assert_eq!(held.response().status, 200);
    assert!(ends_well(&mut gateway));
}

/// Bodies that are half way, both ways.
#[test]
fn bodies_under_way_are_carried_to_their_end() {
    let door = Arc::<Door>::default();
    let passing = Arc::clone(&door);
    let upstream = Upstream::behaving(move |received, stream| {
        if received.line.starts_with("POST") {
            return stream.write_all(OK).is_ok();
        }
        let half = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        passing.pass();
        half.and_then(|()| stream.write_all(b"later")).is_ok()
    });
    let mut gateway = Gateway::start(&file(upstream.address, ""));
    let mut downloading = Client::connect(gateway.address);
    downloading.send("GET /down HTTP/1.1\r\nHost: test.example\r\n\r\n");
    let mut begun = [0; 17];
    downloading.stream.read_exact(&mut begun).expect("the answer has begun");
    let mut uploading = Client::connect(gateway.address);
    uploading.send("POST /up HTTP/1.1\r\nHost: test.example\r\nContent-Length: 10\r\n\r\nfirst");
    wait_until("both are under way", || gateway.metric("tidegate_requests_in_flight") == Some(3.0));
    stop(&gateway, "TERM");
    uploading.send("later");
    assert_eq!(uploading.response().status, 200);
    assert_eq!(upstream.last().body, b"firstlater");
    door.set(true);
    let rest = String::from_utf8(downloading.read_to_end()).expect("text");
    assert!(begun.starts_with(b"HTTP/1.1 200 OK\r\n") && rest.ends_with("\r\n\r\nfirstlater"), "{rest}");
    assert!(ends_well(&mut gateway));
}

/// Stops the process in its tracks, so that what is sent meanwhile is there before anything else happens.
fn halt(gateway: &Gateway) {
    gateway.signal("STOP");
    let is_halted = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T')))
    };
    wait_until("it stands still", || {
        std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).expect("it runs").all(is_halted)
    });
}

fn order_and_continue(gateway: &Gateway) {
    gateway.signal("TERM");
    gateway.signal("CONT");
    gateway.wait_for_line(STOPPING);
}

/// Whoever has sent a request before the order came must not lose it: neither on a connection that is kept, nor on one
/// that waits to be accepted. Once the order was looked at first, and most of them were reset.
#[test]
fn requests_that_are_there_when_the_order_comes_get_responses() {
    const CLIENTS: usize = 100;
    for is_kept in [true, false] {
        let upstream = Upstream::start();
        let mut gateway = Gateway::start(&file(upstream.address, "workers: 2\n"));
        let connect = || (0..CLIENTS).map(|_| Client::connect(gateway.address)).collect::<Vec<Client>>();
        let mut clients = if is_kept { connect() } else { Vec::new() };
        for client in &mut clients {
            assert_eq!(client.request("GET", "/before", &[], b"").status, 200);
        }
        halt(&gateway);
        if !is_kept {
            clients = connect();
        }
        for client in &mut clients {
            client.send("GET /there HTTP/1.1\r\nHost: test.example\r\n\r\n");
        }
        order_and_continue(&gateway);
        for client in &mut clients {
            assert_eq!(client.try_response_to("GET").expect("an answer").status, 200);
        }
        assert!(ends_well(&mut gateway));
        assert_eq!(upstream.received().iter().filter(|received| received.line.contains("/there")).count(), CLIENTS);
    }
}

/// Those who wait for a place are served when there is one: connections without a request make room.
#[test]
fn with_all_slots_taken_requests_that_are_there_get_responses() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&file(upstream.address, "workers: 1\nconnections: {max: 2}\n"));
    let mut idle = [0, 1].map(|_| Client::connect(gateway.address));
    for client in &mut idle {
        assert_eq!(client.request("GET", "/", &[], b"").status, 200, "it has a place");
    }
    let mut waiting: Vec<Client> = (0..6).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut waiting {
        client.send("GET /there HTTP/1.1\r\nHost: test.example\r\n\r\n");
    }
    stop(&gateway, "TERM");
    for client in &mut waiting {
        assert_eq!(client.try_response_to("GET").expect("an answer").status, 200);
    }
    assert!(ends_well(&mut gateway));
}

/// Two streams of one HTTP/2 connection: both end, then the connection does.
#[test]
fn http2_streams_under_way_end_well() {
    let upstream = Holding::start();
    let listeners = "listeners: [{address: \"127.0.0.1:0\", h2c: true}]\n";
    let mut gateway = Gateway::start(&file(upstream.address(), listeners));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().expect("a runtime");
    let responses = runtime.block_on(async {
        let tcp = tokio::net::TcpStream::connect(gateway.address).await.expect("it listens");
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp)).await;
        let (mut sender, connection) = shaken.expect("it talks HTTP/2");
        let ended = tokio::spawn(connection);
        let request = || Request::get("http://test.example/held").body(Empty::<Bytes>::new()).expect("a request");
        let under_way = [0, 1].map(|_| tokio::spawn(sender.send_request(request())));
        tokio::task::block_in_place(|| {
            wait_until("both have arrived", || upstream.count() == 2);
            stop(&gateway, "TERM");
        });
        upstream.let_go();
        let mut responses = Vec::new();
        for response in under_way {
            let response = response.await.expect("no panic").expect("an answer");
            let status = response.status().as_u16();
            responses.push((status, response.into_body().collect().await.expect("a whole body").to_bytes()));
        }
        tokio::time::timeout(PATIENCE, ended).await.expect("it ends").expect("no panic").expect("it ends well");
        assert!(sender.send_request(request()).await.is_err(), "nothing more can be sent there");
        responses
    });
    assert_eq!(responses, [(200, Bytes::from("OK")), (200, Bytes::from("OK"))]);
    assert!(ends_well(&mut gateway));
}

/// Clients that send all the time: whatever was sent on got its response, too.
#[test]
fn under_load_no_request_that_reached_the_upstream_is_lost() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&file(upstream.address, ""));
    let crowd = Crowd::start(&[gateway.address], 6);
    crowd.wait_for(300);
    stop(&gateway, "TERM");
    assert!(ends_well(&mut gateway));
    let tally = crowd.join();
    assert_eq!(tally.responses.keys().collect::<Vec<_>>(), [&200], "{tally:?}");
    assert_eq!(upstream.count(), tally.of(200), "{tally:?}");
}

#[test]
fn the_drain_deadline_cuts_off_what_never_ends_and_says_so() {
    let upstream = Holding::start();
    let directory = Directory::new();
    let log = directory.0.join("access.log");
    let more =
        format!("access_log: {{format: json, file: \"{}\"}}\nconnections: {{drain_timeout: 300ms}}\n", text(&log));
    let mut gateway = Gateway::start(&file(upstream.address(), &more));
    let mut held: Vec<Client> = (0..3).map(|_| upstream.visit(gateway.address)).collect();
    let start = Instant::now();
    stop(&gateway, "TERM");
    assert!(ends_well(&mut gateway), "it was told to");
    assert!(start.elapsed() >= Duration::from_millis(300), "they had their time: {:?}", start.elapsed());
    let said = gateway.wait_for_line(CUT_OFF);
    assert!(said.contains(" WARN ") && said.contains("3 connections"), "{said}");
    for client in &mut held {
        assert!(client.try_response_to("GET").is_none(), "an answer that never was");
    }
    let lines = std::fs::read_to_string(&log).expect("an access log");
    assert_eq!(lines.lines().filter(|line| line.contains("/held")).count(), 3, "they are logged all the same: {lines}");
}

/// Once whoever waited for a place kept the gateway from looking at its deadline, and from closing what was idle:
/// overload is when that happens, and when one would like to restart.
#[test]
fn with_all_slots_taken_idle_connections_do_not_delay_the_end() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&file(upstream.address, "workers: 1\nconnections: {max: 2}\n"));
    let mut held: Vec<Client> = (0..2).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut held {
        assert_eq!(client.request("GET", "/", &[], b"").status, 200, "it has a place");
    }
    let _waiting: Vec<Client> = (0..2).map(|_| Client::connect(gateway.address)).collect();
    stop(&gateway, "TERM");
    assert!(ends_well(&mut gateway));
    assert!(!gateway.lines().iter().any(|line| line.contains(CUT_OFF)), "{:#?}", gateway.lines());
}

#[test]
fn with_all_slots_taken_the_drain_deadline_counts() {
    let upstream = Holding::start();
    let more = "workers: 1\nconnections: {max: 1, drain_timeout: 300ms}\n";
    let mut gateway = Gateway::start(&file(upstream.address(), more));
    let _held = upstream.visit(gateway.address);
    let _waiting = Client::connect(gateway.address);
    stop(&gateway, "TERM");
    assert!(ends_well(&mut gateway));
    assert!(gateway.wait_for_line(CUT_OFF).contains("1 connection was"));
}

#[test]
fn a_second_order_to_stop_is_obeyed_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "INT"), ("TERM", "INT")] {
        let upstream = Holding::start();
        let mut gateway = Gateway::start(&file(upstream.address(), ""));
        let mut held = upstream.visit(gateway.address);
        stop(&gateway, first);
        gateway.signal(second);
        assert!(!ends_well(&mut gateway), "{first}, {second}: something was cut off, and the exit code says so");
        assert!(held.try_response_to("GET").is_none());
        gateway.wait_for_line("1 connection was cut off by the second signal");
    }
}

#[test]
fn a_gateway_without_anything_under_way_stops_at_once() {
    for signal in ["TERM", "INT"] {
        let upstream = Upstream::start();
        let mut gateway = Gateway::start(&file(upstream.address, ""));
        assert_eq!(gateway.get("/").status, 200);
        stop(&gateway, signal);
        assert!(ends_well(&mut gateway), "{signal}");
    }
}

/// Whoever waits for the ready line may rely on it: from there on an order to stop is obeyed, never a sudden death.
/// Several start at once, so that some are interrupted at a bad moment.
#[test]
fn an_order_to_stop_right_after_the_ready_line_is_obeyed() {
    let upstream = Upstream::start();
    let start_and_stop = || {
        for _ in 0..8 {
            let mut gateway = Gateway::start(&file(upstream.address, ""));
            gateway.signal("TERM");
            assert!(ends_well(&mut gateway), "{:#?}", gateway.lines());
        }
    };
    std::thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(start_and_stop))));
}

/// A load balancer asks there, and learns to send nobody any more.
#[test]
fn the_admin_listener_says_that_it_is_not_ready_while_requests_end() {
    let upstream = Holding::start();
    let mut gateway = Gateway::start(&file(upstream.address(), "admin: {listen: \"127.0.0.1:0\"}\n"));
    let admin = gateway.admin.expect("a listener of its own");
    let ask = |path: &str| tidegate_testkit::request(admin, "GET", path, &[], b"");
    assert_eq!(ask("/actuator/health/readiness").status, 200);
    let mut held = upstream.visit(gateway.address);
    stop(&gateway, "TERM");
    wait_until("it is not ready", || ask("/actuator/health/readiness").status == 503);
    let health = ask("/actuator/health/readiness").json();
    assert_eq!((health["status"].as_str(), health["mode"].as_str()), (Some("DOWN"), Some("draining")), "{health}");
    assert_eq!(ask("/actuator/health/liveness").status, 200, "it lives");
    upstream.let_go();
    assert_eq!(held.response().status, 200);
    assert!(ends_well(&mut gateway));
}

const TWO_PLACES: &str = "{algorithm: concurrency, limit: 2}";

/// A place that the process takes with it is lost to all others for as long as a request may hold one: an hour, by
/// default.
#[test]
fn the_last_request_gives_its_slot_back_before_the_end() {
    let (server, upstream) = (Server::start(), Holding::start());
    let relay = Relay::start(&server);
    let mut gateway = Gateway::start(&config(upstream.address(), &relay.url(), STRICT, TWO_PLACES));
    let mut held = [0, 1].map(|_| upstream.visit(gateway.address));
    assert_eq!(places_taken(&server), 2);
    // To give back in Redis takes longer than to close a connection.
    relay.delay(Duration::from_millis(200));
    stop(&gateway, "TERM");
    upstream.let_go();
    for client in &mut held {
        assert_eq!(client.response().status, 200);
    }
    assert!(ends_well(&mut gateway));
    assert_eq!(places_taken(&server), 0);
}

#[test]
fn a_request_that_is_cut_off_gives_its_slot_back() {
    let (server, upstream) = (Server::start(), Holding::start());
    let text = config(upstream.address(), &server.url(), STRICT, TWO_PLACES);
    let mut gateway = Gateway::start(&(text + "connections: {drain_timeout: 100ms}\n"));
    let _held = [0, 1].map(|_| upstream.visit(gateway.address));
    assert_eq!(places_taken(&server), 2);
    stop(&gateway, "TERM");
    assert!(ends_well(&mut gateway));
    assert_eq!(places_taken(&server), 0);
}

/// At once, but not at the cost of those who come after: slots are given back in Redis.
#[test]
fn a_second_order_to_stop_gives_slots_back() {
    let (server, upstream) = (Server::start(), Holding::start());
    let mut gateway = Gateway::start(&config(upstream.address(), &server.url(), STRICT, TWO_PLACES));
    let mut held = [0, 1].map(|_| upstream.visit(gateway.address));
    assert_eq!(places_taken(&server), 2);
    stop(&gateway, "TERM");
    gateway.signal("TERM");
    assert!(!ends_well(&mut gateway), "something was cut off, and the exit code says so");
    assert!(held.iter_mut().all(|client| client.try_response_to("GET").is_none()));
    assert_eq!(places_taken(&server), 0);
}

/// What is owed to a Redis that is away is waited for, for a moment.
#[test]
fn a_gateway_that_stops_while_redis_is_away_still_gives_slots_back_if_redis_returns() {
    let (server, upstream) = (Server::start(), Holding::start());
    let redis = "budget: 500ms, on_failure: open";
    let mut gateway = Gateway::start(&config(upstream.address(), &server.url(), redis, TWO_PLACES));
    let mut held = upstream.visit(gateway.address);
    wait_until("it has its place", || places_taken(&server) == 1);
    server.freeze(true);
    wait_until("it is given up", || {
        assert_eq!(gateway.get("/").status, 200);
        gateway.metric("ratelimiter_redis_connected") == Some(0.0)
    });
    upstream.let_go();
    assert_eq!(held.response().status, 200);
    stop(&gateway, "TERM");
    server.freeze(false);
    assert!(ends_well(&mut gateway));
    assert_eq!(places_taken(&server), 0);
}

/// A client whose last response said that the connection stays may just be sending the next request.
#[test]
fn a_kept_connection_may_ask_once_more() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&file(upstream.address, ""));
    let mut client = Client::connect(gateway.address);
    let first = client.request("GET", "/first", &[], b"");
    assert_eq!((first.status, first.header("connection")), (200, None));
    stop(&gateway, "TERM");
    let last = client.request("GET", "/last", &[], b"");
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    assert!(ends_well(&mut gateway));
    assert_eq!(upstream.count(), 2);
}
