//! Tunnels when the gateway stops.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{CUT_OFF, TWO_PLACES, ends_well, file, stop};
use crate::shared::holding::leave;
use crate::shared::setup::{STRICT, config, places_taken};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway, PATIENCE, Upstream};

/// An upstream that talks WebSocket, or something like it: it says everything again.
fn echo() -> Upstream {
    Upstream::behaving(|_, stream| {
        let switched =
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        let mut buffer = [0; 1024];
        while let (true, Ok(count @ 1..)) = (switched.is_ok(), stream.read(&mut buffer)) {
            if stream.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        false
    })
}

fn tunnel(gateway: SocketAddr) -> Client {
    let mut client = Client::connect(gateway);
    client.send("GET /ws HTTP/1.1\r\nHost: test.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().status, 101);
    assert!(says_again(&mut client, b"hello"));
    client
}

fn says_again(client: &mut Client, bytes: &[u8]) -> bool {
    let mut heard = vec![0; bytes.len()];
    client.try_send(bytes) && client.stream.read_exact(&mut heard).is_ok() && heard == bytes
}

/// Whether the other side says nothing for so long, and does not go either.
fn is_silent(client: &mut Client, span: Duration) -> bool {
    client.stream.get_ref().set_read_timeout(Some(span)).expect("a timeout");
    let heard = client.stream.fill_buf().map(<[u8]>::len);
    client.stream.get_ref().set_read_timeout(Some(PATIENCE)).expect("a timeout");
    heard.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// A request that has become a tunnel is under way as long as the tunnel is, and has the same time to end.
#[test]
fn a_tunnel_lives_on_after_the_order_to_stop_until_it_ends() {
    let upstream = echo();
    let mut gateway = Gateway::start(&file(upstream.address, ""));
    let mut client = tunnel(gateway.address);
    stop(&gateway, "TERM");
    assert!(is_silent(&mut client, Duration::from_millis(500)), "cut off");
    assert!(says_again(&mut client, b"still here?"), "cut off");
    leave(&client);
    assert!(ends_well(&mut gateway));
    assert!(!gateway.lines().iter().any(|line| line.contains(CUT_OFF)), "{:#?}", gateway.lines());
}

#[test]
fn a_tunnel_that_never_ends_is_cut_off_by_the_drain_deadline() {
    let upstream = echo();
    let mut gateway = Gateway::start(&file(upstream.address, "connections: {drain_timeout: 300ms}\n"));
    let mut client = tunnel(gateway.address);
    let start = Instant::now();
    stop(&gateway, "TERM");
    assert!(ends_well(&mut gateway));
    assert!(start.elapsed() >= Duration::from_millis(300), "it had its time: {:?}", start.elapsed());
    gateway.wait_for_line(CUT_OFF);
    assert!(client.is_closed());
}

#[test]
fn a_tunnel_that_is_cut_off_gives_its_slot_back() {
    let (server, upstream) = (Server::start(), echo());
    let text = config(upstream.address, &server.url(), STRICT, TWO_PLACES);
    let mut gateway = Gateway::start(&(text + "connections: {drain_timeout: 100ms}\n"));
    let _tunnels = [0, 1].map(|_| tunnel(gateway.address));
    assert_eq!(places_taken(&server), 2);
    stop(&gateway, "TERM");
    assert!(ends_well(&mut gateway));
    assert_eq!(places_taken(&server), 0);
}
