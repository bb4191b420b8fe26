//! Responses that are given before the request's body was read: the body must never be taken for the next request.

use std::thread;

use tidegate_testkit::{Client, Gateway, Received, Upstream};

const EVIL: &str = "GET /evil HTTP/1.1\r\nHost: test.example\r\n\r\n";

/// One request an hour below `/limited`, no route to `/nowhere`.
fn gateway(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{few: {{algorithm: token, capacity: 1, fillRate: 0.0003}}}}\n\
         connections: {{max_body_bytes: 20000000}}\n\
         routes: [{{prefix: /limited, limits: [few]}}, {{prefix: /after}}, {{prefix: /evil}}]\n",
        upstream.address
    ));
    assert_eq!(gateway.get("/limited").status, 200);
    assert_eq!(gateway.get("/limited").status, 429);
    gateway
}

fn echo(received: &Received) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", received.line.len(), received.line).into_bytes()
}

fn with_length(path: &str, headers: &str, body: &str) -> (String, String) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    (head, body.to_owned())
}

/// In chunks of one evil request each.
fn in_chunks(path: &str, headers: &str, body: &str) -> (String, String) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{headers}\r\n");
    let chunk = format!("{:x}\r\n{EVIL}\r\n", EVIL.len());
    (head, chunk.repeat(body.len() / EVIL.len()) + "0\r\n\r\n")
}

/// Only honest requests have reached the upstream.
fn assert_nothing_evil(upstream: &Upstream) {
    for bytes in upstream.bytes() {
        assert!(!bytes.windows(5).any(|window| window == b"/evil"), "{}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn the_connection_carries_on_behind_a_small_body() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let mut client = Client::connect(gateway.address);
    for (head, body) in [with_length("/limited", "", EVIL), in_chunks("/limited", "", EVIL)] {
        client.send(head + &body);
        assert_eq!(client.response().status, 429);
        assert_eq!(client.request("GET", "/after", &[], b"").text(), "GET /after HTTP/1.1");
    }
    assert_nothing_evil(&upstream);
}

#[test]
fn the_response_does_not_wait_for_the_body() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    for (head, body) in [with_length("/limited", "", EVIL), in_chunks("/limited", "", EVIL)] {
        let mut client = Client::connect(gateway.address);
        client.send(head);
        assert_eq!(client.response().status, 429);
        client.send(body);
        assert_eq!(client.request("GET", "/after", &[], b"").text(), "GET /after HTTP/1.1");
    }
    assert_nothing_evil(&upstream);
}

#[test]
fn the_response_is_read_in_spite_of_a_large_body() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let large = EVIL.repeat(10_000_000 / EVIL.len());
    for (head, body) in [with_length("/limited", "", &large), in_chunks("/limited", "", &large)] {
        let mut client = Client::connect(gateway.address);
        let mut sender = client.stream.get_ref().try_clone().expect("a second handle");
        let sending = thread::spawn(move || {
            use std::io::Write as _;
            let after = "GET /after HTTP/1.1\r\nHost: a\r\n\r\n";
            sender.write_all((head + &body + after).as_bytes()).is_ok()
        });
        assert_eq!(client.response().status, 429);
        // Nobody reads that much for a request that was rejected.
        assert!(client.try_response_to("GET").is_none());
        drop(client);
        let _sent = sending.join().expect("no panic");
    }
    assert_eq!(gateway.get("/after").status, 200);
    assert_nothing_evil(&upstream);
}

#[test]
fn no_100_continue_is_sent_when_a_limit_rejects() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    for (head, body) in [
        with_length("/limited", "Expect: 100-continue\r\n", EVIL),
        in_chunks("/limited", "Expect: 100-Continue\r\n", EVIL),
    ] {
        let mut client = Client::connect(gateway.address);
        client.send(head);
        let response = client.response();
        assert_eq!(
            (response.status, response.header("connection")),
            (429, Some("close")),
            "the first answer is the last"
        );
        // RFC 9110 §10.1.1: it may send the body nevertheless. Or another request, which the gateway can't distinguish
        // from a body.
        client.try_send(&body);
        client.try_send("GET /after HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.try_response_to("GET").is_none());
    }
    assert_nothing_evil(&upstream);
    assert!(upstream.received().iter().all(|received| !received.line.contains("/after")));
}

/// RFC 9110 §10.1.1: a client need not wait. What it has sent before it could hear anything is the body, so its
/// connection goes on, whether the body was wanted or not.
#[test]
fn a_client_that_expects_100_continue_and_sends_at_once_is_understood() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    for (head, body) in [
        with_length("/limited", "Expect: 100-continue\r\n", EVIL),
        in_chunks("/limited", "Expect: 100-continue\r\n", EVIL),
        with_length("/after", "Expect: 100-continue\r\n", "a body"),
    ] {
        let mut client = Client::connect(gateway.address);
        client.send(format!("{head}{body}GET /after HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (response, expected) = (client.response(), if head.contains("/limited") { 429 } else { 200 });
        assert_eq!((response.status, response.header("connection")), (expected, None), "{head}: {response:?}");
        assert_eq!(client.response().text(), "GET /after HTTP/1.1", "{head}");
    }
    assert_nothing_evil(&upstream);
}

#[test]
fn every_early_response_leaves_the_connection_in_order() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let large = EVIL.repeat(100_000 / EVIL.len());
    for (path, status) in [
        ("/limited", 429),
        ("/nowhere", 404),
        ("/actuator/health", 200),
        ("/config/none", 404),
        ("/config/limits", 400),
    ] {
        for body in [EVIL, &large] {
            for (head, body) in [with_length(path, "", body), in_chunks(path, "", body)] {
                let mut client = Client::connect(gateway.address);
                let method = if path == "/actuator/health" { "GET" } else { "POST" };
                let head = head.replacen("POST", method, 1).replacen("Host: a\r", "Host: localhost\r", 1);
                client.try_send(head + &body + "GET /after HTTP/1.1\r\nHost: a\r\n\r\n");
                let response = client.response();
                assert!(response.status == status || response.status == 413, "{path}: {}", response.status);
                assert_eq!(client.response().text(), "GET /after HTTP/1.1", "behind {path}");
            }
        }
    }
    assert_nothing_evil(&upstream);
}

#[test]
fn a_body_that_is_declared_too_large_is_not_waited_for() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let mut client = Client::connect(gateway.address);
    client.send("POST /after HTTP/1.1\r\nHost: a\r\nContent-Length: 20000001\r\n\r\n");
    assert_eq!(client.response().status, 413);
    client.try_send(EVIL);
    assert_eq!(gateway.get("/after").status, 200);
    assert_nothing_evil(&upstream);
}
