//! Responses of an upstream that are not plain HTTP.

use std::io::Write as _;

use super::{PLENTY, assert_problem, failures, with_settings};
use crate::framing::origin::Origin;
use tidegate_testkit::{Client, Gateway, OK, Upstream};

const BAD_RESPONSES: [&[u8]; 31] = [
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    b"hello\r\n\r\n",
    b"\0\0\0\0\r\n\r\n",
    b"HTTP/1.1",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
    b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nOK!",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nX Y: a\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 200 OK\r\nnothing\r\nContent-Length: 2\r\n\r\nOK",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
];

#[test]
fn a_response_that_is_not_plain_http_is_a_502_and_its_connection_ends() {
    let upstream = Upstream::behaving(|received, stream| {
        let number = received.line.split(' ').nth(1).and_then(|path| path[1..].parse::<usize>().ok());
        // Some end within their heads, so all of their connections end.
        let bytes = number.map_or(OK, |number| BAD_RESPONSES[number]);
        stream.write_all(bytes).is_ok() && number.is_none()
    });
    let gateway = with_settings(upstream.address, "answer_timeout: 5s");
    let mut client = Client::connect(gateway.address);
    for (number, bytes) in BAD_RESPONSES.iter().enumerate() {
        let response = client.request("GET", &format!("/{number}"), &[], b"");
        assert_eq!(response.status, 502, "{:?}", String::from_utf8_lossy(bytes));
        assert_problem(&response, 502, "bad_answer");
        let response = client.request("GET", "/honest", &[], b"");
        assert_eq!(response.text(), "OK", "behind {:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(failures(&gateway, "bad_answer"), 31);
}

#[test]
fn bytes_behind_a_response_are_nobodys() {
    let evil = [OK, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"].concat();
    let upstream = Upstream::responding(move |_| evil.clone());
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for _ in 0..5 {
        assert_eq!(client.request("GET", "/", &[], b"").text(), "OK");
    }
    assert_eq!(upstream.last().connection, 4, "such a connection is not used again");
}

#[test]
fn bytes_that_come_between_requests_are_nobodys() {
    let origin = Origin::new();
    let gateway = Gateway::start(&format!("workers: 1\nupstreams: {{app: {{url: \"http://{}\"}}}}\n", origin.address));
    let mut client = Client::connect(gateway.address);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut first = origin.accept();
    first.head();
    first.send(OK);
    assert_eq!(client.response().text(), "OK");
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL");
    client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    let mut second = origin.accept();
    assert!(second.head().starts_with("POST /b HTTP/1.1\r\n"));
    second.send(OK);
    assert_eq!(client.response().text(), "OK");
    assert_eq!(first.read_to_end(), b"");
}

#[test]
fn too_large_a_head_is_a_502() {
    let upstream = Upstream::responding(|received| {
        let head = match received.line.split(' ').nth(1) {
            Some("/long") => format!("X: {}\r\n", "x".repeat(2_000)),
            Some("/many") => "X: y\r\n".repeat(129),
            Some("/endless") => format!("X: {}", "x".repeat(100_000)),
            _ => String::new(),
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{head}\r\nOK").into_bytes()
    });
    let gateway = with_settings(upstream.address, "max_head_bytes: 1024");
    for path in ["/long", "/many", "/endless"] {
        let response = gateway.get(path);
        assert_problem(&response, 502, "bad_answer");
        assert!(response.json()["detail"].as_str().is_some_and(|detail| detail.contains("too large")), "{path}");
    }
    assert_eq!(gateway.get("/").text(), "OK");
}

#[test]
fn interim_responses_without_end_are_a_502() {
    let upstream = Upstream::behaving(|_, stream| {
        (0..100_000).all(|_| stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok())
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    let (mut response, mut interim) = (client.request("GET", "/", &[], b""), 0);
    while response.status == 102 {
        (response, interim) = (client.response(), interim + 1);
    }
    assert!(interim <= 16, "{interim}");
    assert_problem(&response, 502, "bad_answer");
}

/// RFC 9110 §15.3.5: a 204 has no body. What comes behind one all the same is nobody's response.
#[test]
fn what_follows_a_204_is_not_taken_for_the_next_response() {
    let upstream = Upstream::behaving(|_, stream| {
        let _written = stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 43\r\n\r\n");
        let _written = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nSTRAY");
        true
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    for _ in 0..20 {
        assert_eq!(gateway.get("/").status, 204);
    }
}

#[test]
fn a_chunk_that_is_none_behind_the_head_is_a_502() {
    let upstream = Upstream::responding(|_| b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec());
    let gateway = Gateway::before(upstream.address, PLENTY);
    assert_problem(&gateway.get("/"), 502, "bad_answer");
}

/// Each word is compared with each field.
#[test]
fn a_connection_field_of_many_words_is_rejected_on_either_side() {
    let many = "a,".repeat(5_000);
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let response = gateway.get_with("/", &[("Connection", &many)]);
    assert_eq!((response.status, upstream.count()), (400, 0));
    let upstream = Upstream::responding(move |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: {many}\r\n\r\nOK").into_bytes()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    assert_problem(&gateway.get("/"), 502, "bad_answer");
}

/// RFC 9112 §7.1. A chunk's size was taken with whatever stood behind it. An upstream and a gateway that disagree about
/// where a body ends would disagree about whose the next response is.
#[test]
fn an_upstreams_chunks_are_held_to_the_grammar() {
    let chunked = |chunks: &'static str| {
        let upstream = Upstream::responding(move |_| {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").into_bytes()
        });
        let gateway = Gateway::before(upstream.address, PLENTY);
        (gateway.get("/"), upstream)
    };
    for wrong in [
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "5;\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
    ] {
        assert_problem(&chunked(wrong).0, 502, "bad_answer");
    }
    for right in
        ["5\r\nhello\r\n0\r\n\r\n", "5;a=\"b\\\"\"\r\nhello\r\n0;c\r\n\r\n", "05 ; a = b\r\nhello\r\n00\r\n\r\n"]
    {
        let (response, _) = chunked(right);
        assert_eq!((response.status, response.text().as_str()), (200, "hello"), "{right:?}");
    }
}
