//! Long bodies through a gateway before a [`Depot`](crate::protocols::depot::Depot), made and checked on the way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::protocols::depot::BodyReader;
use crate::protocols::pattern::{Pattern, PatternBody};
use crate::protocols::session::{Http2, get, request};
use tidegate_testkit::{Client, read_head};

/// Whether the length of an upload is declared beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Told,
    Unreported,
}

/// Downloads over HTTP/1.1 piece by piece: how much came, and whether it is right.
pub(crate) fn download(address: SocketAddr, path: &str) -> (u64, bool) {
    let mut client = Client::connect(address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
    read_response(&mut client)
}

/// Reads a response piece by piece.
pub(crate) fn read_response(client: &mut Client) -> (u64, bool) {
    let (line, headers) = read_head(&mut client.stream).expect("a head");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    let mut body = BodyReader::of(&headers);
    let (mut pattern, mut right, mut piece) = (Pattern::default(), true, vec![0; 64 * 1024]);
    loop {
        let count = body.read(&mut client.stream, &mut piece).expect("more");
        if count == 0 {
            return (pattern.position, right);
        }
        right &= pattern.takes(&piece[..count]);
    }
}

/// The head of an upload over HTTP/1.1.
pub(crate) fn head(path: &str, length: u64, reported: Length) -> String {
    let framing = match reported {
        Length::Told => format!("Content-Length: {length}"),
        Length::Unreported => "Transfer-Encoding: chunked".to_owned(),
    };
    format!("POST {path} HTTP/1.1\r\nHost: test.example\r\n{framing}\r\n\r\n")
}

/// The body of an upload over HTTP/1.1. What the kernel has taken is counted in `sent`.
pub(crate) fn send_body(client: &mut Client, length: u64, reported: Length, sent: &AtomicU64) {
    let mut pattern = Pattern::default();
    while pattern.position < length {
        let piece = pattern.next(length - pattern.position);
        if reported == Length::Unreported {
            client.send(format!("{:x}\r\n", piece.len()));
        }
        client.send(&piece);
        if reported == Length::Unreported {
            client.send("\r\n");
        }
        sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    if reported == Length::Unreported {
        client.send("0\r\n\r\n");
    }
}

/// Uploads over HTTP/1.1: what the depot says of it.
pub(crate) fn upload(address: SocketAddr, length: u64, reported: Length) -> String {
    let mut client = Client::connect(address);
    client.send(head("/upload", length, reported));
    send_body(&mut client, length, reported, &AtomicU64::new(0));
    client.response().text()
}

/// Downloads over HTTP/2.
pub(crate) async fn download_h2(session: &mut Http2, path: &str) -> (u64, bool) {
    session.ready().await.expect("it takes requests");
    let response = session.send_request(get(path)).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    read_response_h2(response.into_body()).await
}

/// Reads a response frame by frame.
pub(crate) async fn read_response_h2(mut body: Incoming) -> (u64, bool) {
    let (mut pattern, mut right) = (Pattern::default(), true);
    while let Some(frame) = body.frame().await {
        let data = frame.expect("more").into_data().expect("data");
        right &= pattern.takes(&data);
    }
    (pattern.position, right)
}

/// An upload over HTTP/2; what has been taken of it is counted.
pub(crate) fn upload_h2(
    path: &str,
    length: u64,
    reported: Length,
) -> (http::Request<crate::protocols::session::RequestBody>, Arc<AtomicU64>) {
    let body = PatternBody::new(length, reported == Length::Told);
    let sent = body.sent();
    let mut asked = request("POST", path, body.boxed());
    if reported == Length::Told {
        asked.headers_mut().insert("content-length", length.into());
    }
    (asked, sent)
}
