//! Interim responses: `100 Continue`, early hints.

use std::io::Write;

use super::PLENTY;
use crate::framing::origin::Origin;
use tidegate_testkit::{Client, Gateway, OK, PATIENCE, Upstream, pause, wait_until};

#[test]
fn a_100_continue_is_sent_when_the_upstream_wants_the_body() {
    let origin = Origin::new();
    let gateway = Gateway::before(origin.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let mut visit = origin.accept();
    assert!(visit.head().contains("expect: 100-continue\r\n"));
    visit.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.response().status, 100);
    client.send("hello");
    assert_eq!(visit.read(5), b"hello");
    visit.send(OK);
    assert_eq!(client.response().text(), "OK");
}

#[test]
fn no_100_continue_is_sent_when_the_upstream_rejects() {
    let origin = Origin::new();
    let gateway = Gateway::before(origin.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut visit = origin.accept();
    assert!(visit.head().contains("expect: 100-continue\r\n"));
    visit.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nNO");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (417, "NO"));
    // What it sends now is the body, or nothing: never a request.
    client.try_send("21\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n..\r\n0\r\n\r\n");
    assert_eq!(visit.read_to_end(), b"", "a connection that waits for a body carries nothing else");
    assert!(!origin.has_visitor());
}

#[test]
fn an_upstream_that_does_not_know_expectations_gets_the_body_all_the_same() {
    let origin = Origin::new();
    let gateway = Gateway::before(origin.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    let mut visit = origin.accept();
    visit.head();
    assert_eq!(visit.read(5), b"hello");
    visit.send(OK);
    let mut response = client.response();
    if response.status == 100 {
        response = client.response();
    }
    assert_eq!(response.text(), "OK");
}

/// RFC 9110 §10.1.1: in HTTP/1.0 the expectation is ignored.
#[test]
fn an_old_client_expects_nothing() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().status, 200, "no 100 goes before it");
    assert_eq!((upstream.last().header("expect"), &upstream.last().body[..]), (None, &b"hello"[..]));
}

const HINTS: &str = "HTTP/1.1 100 Continue\r\n\r\n\
    HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nContent-Length: 9\r\n\
    \r\n\
    HTTP/1.1 102 Processing\r\n\r\n\
    HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

/// RFC 9110 §15.2: all but the 100 that we ask for ourselves are the client's.
#[test]
fn interim_responses_are_passed_on_before_the_final_one() {
    let upstream = Upstream::responding(|_| HINTS.into());
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for _ in 0..2 {
        let hints = client.request("GET", "/", &[], b"");
        assert_eq!(hints.status, 103);
        let names: Vec<&str> = hints.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, hints.header("link")), (vec!["link", "via"], Some("</a>")));
        assert_eq!(client.response().status, 102);
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (200, "OK"));
    }
}

/// It would take them for the response.
#[test]
fn an_old_client_gets_no_interim_responses() {
    let upstream = Upstream::responding(|_| HINTS.into());
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "OK"));
}

/// They arrive while the final one is still awaited: that is what they are for.
#[test]
fn interim_responses_do_not_wait_for_the_final_one() {
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let upstream = Upstream::behaving(move |_, stream| {
        let sent = stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").is_ok();
        sent && gone.lock().expect("no panic").recv_timeout(PATIENCE).is_ok() && stream.write_all(OK).is_ok()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.request("GET", "/", &[], b"").status, 103);
    go.send(()).expect("it waits");
    assert_eq!(client.response().status, 200);
}

/// A client that asks without reading fills its socket with them: what does not fit is written later, at the place
/// where it belongs.
#[test]
fn interim_responses_into_a_full_socket_stay_whole() {
    const REQUESTS: usize = 600;
    let hints = format!("HTTP/1.1 103 Early Hints\r\nLink: <{}>\r\n\r\n", "x".repeat(900)).repeat(15);
    let upstream =
        Upstream::responding(move |_| format!("{hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK").into());
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    let mut sender = client.stream.get_ref().try_clone().expect("a handle");
    let sending = std::thread::spawn(move || {
        (0..REQUESTS).all(|_| sender.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok())
    });
    // Until it goes on no longer. If it looks so too early, the test is only easier.
    let mut before = None;
    wait_until("the socket is full", || {
        pause(std::time::Duration::from_millis(100));
        let count = Some(upstream.count());
        std::mem::replace(&mut before, count) == count
    });
    let (mut responded, mut hints) = (0, 0);
    while responded < REQUESTS {
        let response = client.response();
        match response.status {
            103 => {
                assert_eq!(response.header("link").map(str::len), Some(902));
                hints += 1;
            }
            200 => {
                assert_eq!(response.text(), "OK");
                responded += 1;
            }
            _ => panic!("{response:?}"),
        }
    }
    assert!(hints >= REQUESTS, "{hints}");
    assert!(sending.join().expect("no panic"));
}
