//! A client that leaves in the middle of a body.

use std::time::Duration;

use super::{assert_taken, buffering, gateway, read_until, rounds, send_get};
use crate::framing::origin::{Origin, Visit};
use tidegate_testkit::{Client, wait_until};

#[test]
fn in_the_middle_of_its_body() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    for framing in ["Content-Length: 100\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        rounds(&origin, &gateway, |gateway, origin| {
            let mut client = Client::connect(gateway.address);
            client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\n{framing}"));
            let mut visit = origin.accept();
            visit.head();
            let begun = if framing.contains("chunked") { &b"5\r\nhello\r\n"[..] } else { b"hello" };
            assert_eq!(visit.read(begun.len()), begun);
            assert_taken(gateway);
            client.close();
            assert_eq!(visit.read_to_end(), b"", "half a body must not seem whole");
        });
    }
}

/// The body is read before the request takes a connection. The client's limits were checked before that.
#[test]
fn in_the_middle_of_its_body_before_a_connection_is_taken() {
    let origin = Origin::new();
    let gateway = buffering(1_000, origin.address, &[], "");
    for framing in ["Content-Length: 100\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        rounds(&origin, &gateway, |gateway, origin| {
            let mut client = Client::connect(gateway.address);
            client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\n{framing}"));
            wait_until("it has its slot", || gateway.get("/b").status == 429);
            assert_eq!(gateway.metric("tidegate_buffered_bytes"), Some(5.0));
            client.close();
            wait_until("its memory is given back", || gateway.metric("tidegate_buffered_bytes") == Some(0.0));
            assert!(!origin.has_visitor(), "half a body was sent on");
        });
    }
}

#[test]
fn in_the_middle_of_its_body_while_the_upstream_takes_none() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, origin| {
        let mut client = Client::connect(gateway.address);
        client.stream.get_ref().set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
        let mut visit = origin.accept();
        visit.head();
        client.try_send(vec![b'x'; 20_000_000]);
        assert_taken(gateway);
        client.close();
        // It reads what is on its way, and then the end.
        assert!(visit.read_to_end().len() < 100_000_000);
    });
}

#[test]
fn in_the_middle_of_the_responses_body() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\n\r\nhello",
    ] {
        rounds(&origin, &gateway, |gateway, origin| {
            let mut client = send_get(gateway);
            let mut visit = origin.accept();
            visit.head();
            visit.send(head);
            read_until(&mut client, b"hello");
            assert_taken(gateway);
            client.close();
            assert_eq!(visit.read_to_end(), b"", "the upstream is told");
        });
    }
}

#[test]
fn in_the_middle_of_a_response_that_it_does_not_read() {
    let origin = Origin::new();
    let gateway = gateway(origin.address, &[], "");
    rounds(&origin, &gateway, |gateway, origin| {
        let client = send_get(gateway);
        let mut visit = origin.accept();
        visit.head();
        visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
        let flood = std::thread::spawn(move || (visit.flood(100_000_000), visit));
        wait_until("bytes wait for it", || client.stream.get_ref().peek(&mut [0]).is_ok());
        assert_taken(gateway);
        client.close();
        let (sent, _visit): (usize, Visit) = flood.join().expect("no panic");
        assert!(sent < 100_000_000, "the upstream is told");
    });
}
