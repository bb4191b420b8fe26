//! What clients cause is never held against an endpoint. A single failure would eject it here.

use std::net::SocketAddr;
use std::time::Duration;

use super::metrics::{of_endpoint, requests};
use super::{shown, with_upstream};
use crate::framing::origin::Origin;
use tidegate_testkit::frames::{DATA, Frame, Wire};
use tidegate_testkit::{Client, Gateway, Upstream, pause, wait_until};

/// A gateway before these endpoints. One failure ejects.
fn gateway(endpoints: &[SocketAddr], settings: &str, connections: &str) -> Gateway {
    let urls: Vec<String> = endpoints.iter().map(|endpoint| format!("\"http://{endpoint}\"")).collect();
    let upstream = format!(
        "endpoints: [{}], balance: round_robin, ejection: {{consecutive_failures: 1, time: 1h, max_time: 1h}}, \
         {settings}",
        urls.join(", ")
    );
    let more = format!("connections: {{{connections}}}\nlisteners: [{{address: \"127.0.0.1:0\", h2c: true}}]\n");
    with_upstream(&upstream, &more)
}

/// When all requests have ended, no endpoint has a failure.
fn assert_blameless(gateway: &Gateway, endpoints: &[SocketAddr], what: &str) {
    for endpoint in endpoints {
        wait_until("no request is in flight", || of_endpoint(gateway, "in_flight", endpoint) == 0);
        let shown = shown(gateway, *endpoint);
        assert_eq!((&shown["state"], &shown["ejections"]), (&"up".into(), &0.into()), "{what}: {shown}");
        assert_eq!(requests(gateway, endpoint, "failure"), 0, "{what}");
    }
    let page = gateway.get("/actuator/prometheus").text();
    let failures = page.lines().filter(|line| line.starts_with("tidegate_upstream_failures_total"));
    let counted: Vec<&str> = failures.filter(|line| !line.ends_with(" 0")).collect();
    assert!(counted.is_empty(), "{what}: {counted:?}");
}

/// Responds with 10 MB, which no buffer holds.
fn long() -> Upstream {
    Upstream::responding(|_| {
        let mut response = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n".to_vec();
        response.resize(response.len() + 10_000_000, b'x');
        response
    })
}

fn addresses(pool: &[Upstream]) -> Vec<SocketAddr> {
    pool.iter().map(|upstream| upstream.address).collect()
}

/// How the client's side of a connection ends.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// It closes both directions.
    Closing,
    /// It closes what it sends, and waits.
    HalfClosing,
}

#[test]
fn clients_that_send_half_a_body_and_leave() {
    for (buffer, body) in [(0, 5), (65_536, 5), (65_536, 80_000)] {
        for (leaving, framing) in [
            (Leaving::Closing, "Content-Length: 100000"),
            (Leaving::HalfClosing, "Content-Length: 100000"),
            (Leaving::Closing, "Transfer-Encoding: chunked"),
            (Leaving::HalfClosing, "Transfer-Encoding: chunked"),
        ] {
            let what = format!("{buffer}, {body}, {leaving:?}, {framing}");
            let pool = [Upstream::start(), Upstream::start()];
            let gateway = gateway(&addresses(&pool), &format!("request_buffer_bytes: {buffer}"), "");
            for number in 1..=4 {
                let mut client = Client::connect(gateway.address);
                let content = "x".repeat(body);
                let content = if framing.contains("chunked") { format!("{body:x}\r\n{content}") } else { content };
                client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{content}"));
                if body > buffer {
                    let connections = || pool.iter().map(|upstream| upstream.bytes().len()).sum::<usize>();
                    wait_until("it is sent on", || connections() == number);
                }
                match leaving {
                    Leaving::Closing => client.close(),
                    Leaving::HalfClosing => {
                        client.stream.get_ref().shutdown(std::net::Shutdown::Write).expect("it is open");
                        let _response = client.try_response_to("POST");
                    }
                }
            }
            assert_blameless(&gateway, &addresses(&pool), &what);
            assert!((0..4).all(|_| gateway.get("/").status == 200), "{what}");
        }
    }
}

#[test]
fn clients_whose_bodies_are_broken_or_too_long() {
    let pool = [Upstream::start(), Upstream::start()];
    let gateway = gateway(&addresses(&pool), "request_buffer_bytes: 0", "max_body_bytes: 1000");
    for (body, status) in [("5\r\nhello\r\nzz\r\n", 400), ("5\r\nhello\r\n5000\r\n", 413)] {
        for number in 1..=4 {
            let before = pool.iter().map(|upstream| upstream.bytes().concat().len()).sum::<usize>();
            let mut client = Client::connect(gateway.address);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(&body[..10]);
            wait_until("it is sent on", || {
                pool.iter().map(|upstream| upstream.bytes().concat().len()).sum::<usize>() > before
            });
            client.send(format!("{}{}", &body[10..], "x".repeat(5_000)));
            let response = client.try_response_to("POST");
            assert!(response.is_none_or(|response| response.status == status), "{body:?}, {number}");
        }
        assert_blameless(&gateway, &addresses(&pool), body);
    }
}

/// Too slow by the pace, and by a pause.
#[test]
fn clients_that_send_slowly() {
    for (connections, error) in [
        ("min_rate: 1000, min_rate_window: 1s, body_timeout: 1h", "client_too_slow"),
        ("min_rate: 0, body_timeout: 100ms", "client_timeout"),
    ] {
        for buffer in [0, 65_536] {
            let pool = [Upstream::start(), Upstream::start()];
            let gateway = gateway(&addresses(&pool), &format!("request_buffer_bytes: {buffer}"), connections);
            let mut slow: Vec<Client> = (0..4).map(|_| Client::connect(gateway.address)).collect();
            for client in &mut slow {
                client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx");
            }
            for mut client in slow {
                while error == "client_too_slow" && !client.has_response() {
                    client.try_send("x");
                    pause(Duration::from_millis(20));
                }
                let response = client.response();
                assert_eq!((response.status, &response.json()["error"]), (408, &error.into()));
            }
            assert_blameless(&gateway, &addresses(&pool), &format!("{error}, {buffer}"));
        }
    }
}

/// It sends slowly, but fast enough: the endpoint waits for longer than it may take to respond.
#[test]
fn clients_that_send_slowly_and_arrive() {
    let pool = [Upstream::start(), Upstream::start()];
    let settings = "request_buffer_bytes: 0, answer_timeout: 100ms, body_timeout: 100ms";
    let gateway = gateway(&addresses(&pool), settings, "");
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut clients {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx");
    }
    pause(Duration::from_millis(500));
    for client in &mut clients {
        client.send("x");
        assert_eq!(client.response().status, 200);
    }
    assert_blameless(&gateway, &addresses(&pool), "slow");
}

/// There are bytes that the client has not read, so closing its socket is a reset.
#[test]
fn clients_that_reset_their_connection_in_the_middle_of_a_response() {
    let pool = [long(), long()];
    for buffer in [0, 65_536] {
        let gateway = gateway(&addresses(&pool), &format!("response_buffer_bytes: {buffer}"), "");
        for _ in 0..6 {
            let mut client = Client::connect(gateway.address);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            std::io::Read::read_exact(&mut client.stream, &mut [0; 1_000]).expect("the beginning");
        }
        assert_blameless(&gateway, &addresses(&pool), &format!("HTTP/1, {buffer}"));
        let mut wire = Wire::connect(gateway.address);
        for stream in [1, 3, 5, 7] {
            let head: [(&str, &[u8]); 4] =
                [(":method", b"GET"), (":scheme", b"http"), (":path", b"/"), (":authority", b"a")];
            assert!(wire.send(&[Frame::request(stream, &head)]));
            assert_eq!(wire.read_until(DATA).map(|frame| frame.stream), Some(stream));
            assert!(wire.send(&[Frame::reset(stream), Frame::window_update(0, 100_000)]));
            while wire.settle() && of_endpoint(&gateway, "in_flight", pool[0].address) > 0 {}
        }
        assert_blameless(&gateway, &addresses(&pool), &format!("HTTP/2, {buffer}"));
    }
}

#[test]
fn clients_that_leave_before_there_is_a_response() {
    let pool = [Origin::new(), Origin::new()];
    let endpoints = pool.each_ref().map(|origin| origin.address);
    let gateway = gateway(&endpoints, "answer_timeout: 1h", "");
    for origin in &pool {
        let mut client = Client::connect(gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut visit = origin.accept();
        visit.head();
        client.close();
        assert_eq!(visit.read_to_end(), b"", "the endpoint learns it");
    }
    assert_blameless(&gateway, &endpoints, "left");
}

/// The endpoint can't send because nobody reads: that is no pause of its own.
#[test]
fn clients_that_read_nothing_for_longer_than_an_endpoint_may_pause() {
    let pool = [long(), long()];
    let gateway = gateway(&addresses(&pool), "body_timeout: 100ms", "min_rate: 0");
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    wait_until("both are read ahead", || {
        gateway.metric("tidegate_buffered_bytes").is_some_and(|bytes| bytes >= 2.0 * 65_536.0)
    });
    pause(Duration::from_millis(500));
    assert!(clients.iter_mut().all(|client| client.response().body.len() == 10_000_000));
    assert_blameless(&gateway, &addresses(&pool), "read nothing");
}

/// Another request needs the connection of one that is waited for.
#[test]
fn clients_that_lose_their_connection_to_another() {
    let pool = [long()];
    let settings = "max_connections: 1, connect_timeout: 20s";
    let gateway = gateway(&addresses(&pool), settings, "max_client_share: 1");
    let mut stalled = Client::connect(gateway.address);
    stalled.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is read ahead", || gateway.metric("tidegate_buffered_bytes").is_some_and(|bytes| bytes >= 65_536.0));
    assert_eq!(gateway.get("/").body.len(), 10_000_000);
    assert_eq!(gateway.metric("tidegate_clients_cut_total{cause=\"evicted\"}"), Some(1.0));
    assert_blameless(&gateway, &addresses(&pool), "evicted");
}

/// With a share of 1 one address may hold every connection to an endpoint.
#[test]
fn a_client_share_of_one_is_no_bound() {
    for (share, most) in [("1", 10), ("0.5", 5)] {
        let origin = Origin::new();
        let gateway = gateway(&[origin.address], "max_connections: 10", &format!("max_client_share: {share}"));
        let ask = || {
            let mut client = Client::connect(gateway.address);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        };
        let mut held = Vec::new();
        for _ in 0..most {
            let (client, mut visit) = (ask(), origin.accept());
            visit.head();
            held.push((client, visit));
        }
        if most < 10 {
            let response = ask().response();
            assert_eq!((response.status, &response.json()["error"]), (503, &"client_share".into()));
        }
        for (client, visit) in &mut held {
            visit.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
            assert_eq!(client.response().status, 200);
        }
        assert_blameless(&gateway, &[origin.address], share);
    }
}

/// A share of 1 was no bound as long as a connection was free. Then an address that held four was rejected, where
/// another would have got the connection of a client that is waited for.
#[test]
fn with_a_client_share_of_one_an_address_makes_room_for_itself() {
    let pool = [long()];
    let settings = "max_connections: 6, connect_timeout: 20s";
    let gateway = gateway(&addresses(&pool), settings, "max_client_share: 1");
    let mut stalled: Vec<Client> = (0..6).map(|_| Client::connect(gateway.address)).collect();
    for client in &mut stalled {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    wait_until("all are read ahead", || {
        gateway.metric("tidegate_buffered_bytes").is_some_and(|bytes| bytes >= 6.0 * 65_536.0)
    });
    let response = gateway.get("/");
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(gateway.metric("tidegate_clients_cut_total{cause=\"evicted\"}"), Some(1.0));
}
