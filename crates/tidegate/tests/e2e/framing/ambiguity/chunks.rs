//! Bodies in chunks that could be read in two ways.

use super::{BAD, HELLO, echo, gateway, judge};
use tidegate_testkit::{Client, Gateway, Upstream};

#[test]
fn chunks_are_read_strictly_and_written_plainly() {
    judge(&[
        ("extensions", chunked!("2;a\r\nhe\r\n3 ;a=\"b;c\"\r\nllo\r\n0;x\r\n\r\n"), HELLO),
        ("zeros before a size", chunked!("0005\r\nhello\r\n000\r\n\r\n"), HELLO),
        ("a word for a size", chunked!("xyz\r\nhello\r\n0\r\n\r\n"), BAD),
        ("no size", chunked!("\r\nhello\r\n0\r\n\r\n"), BAD),
        ("only an extension", chunked!(";a\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a plus", chunked!("+5\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a minus", chunked!("-5\r\nhello\r\n0\r\n\r\n"), BAD),
        ("0x", chunked!("0x5\r\nhello\r\n0\r\n\r\n"), BAD),
        ("an underscore", chunked!("0_5\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a blank before", chunked!(" 5\r\nhello\r\n0\r\n\r\n"), BAD),
        ("two sizes", chunked!("5 5\r\nhello\r\n0\r\n\r\n"), BAD),
        ("beyond 64 bits", chunked!("10000000000000005\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a bare LF", chunked!("5\nhello\r\n0\r\n\r\n"), BAD),
        ("a bare CR", chunked!("5\rXhello\r\n0\r\n\r\n"), BAD),
        ("a bare LF in an extension", chunked!("5;a\nhello\r\n0\r\n\r\n"), BAD),
        ("a bare LF behind the data", chunked!("5\r\nhello\n0\r\n\r\n"), BAD),
        ("more data than the size", chunked!("5\r\nhello!\r\n0\r\n\r\n"), BAD),
        ("less data than the size", chunked!("6\r\nhello\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"), BAD),
        ("a form feed behind a size", chunked!("5\x0c\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a bare LF behind the last size", chunked!("5\r\nhello\r\n0\n\r\n"), BAD),
        ("a bare LF for the last line", chunked!("0\r\n\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"), BAD),
        ("a bare LF in trailers", chunked!("0\r\nX: y\nZ: z\r\n\r\n"), BAD),
        ("a bare LF behind trailers", chunked!("0\r\nX: y\r\n\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"), BAD),
        ("a bare CR in trailers", chunked!("0\r\nX: y\rZ: z\r\n\r\n"), BAD),
        ("a blank before a trailer's colon", chunked!("0\r\nX : y\r\n\r\n"), BAD),
        ("folding in trailers", chunked!("0\r\nX: y\r\n z\r\n\r\n"), BAD),
        ("a request for trailers", chunked!("0\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"), BAD),
    ]);
}

/// RFC 9112 §7.1. A blank behind a size, a semicolon without an extension and a quote without an end were all taken for
/// nothing, which not everyone does: a quote may hide the end of the line.
#[test]
fn a_chunks_size_is_followed_by_extensions_or_by_nothing() {
    judge(&[
        ("a quoted value", chunked!("5;a=\"b;c=d\"\r\nhello\r\n0\r\n\r\n"), HELLO),
        ("a quote in a quoted value", chunked!("5;a=\"\\\"\\\\\"\r\nhello\r\n0\r\n\r\n"), HELLO),
        ("several, with the blanks that are allowed", chunked!("5 ; a\t= b;c\r\nhello\r\n0 ;d\r\n\r\n"), HELLO),
        ("a blank", chunked!("5 \r\nhello\r\n0\r\n\r\n"), BAD),
        ("a tab", chunked!("5\t\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a blank behind the last size", chunked!("5\r\nhello\r\n0 \r\n\r\n"), BAD),
        ("nothing", chunked!("5;\r\nhello\r\n0\r\n\r\n"), BAD),
        ("no name", chunked!("5;=a\r\nhello\r\n0\r\n\r\n"), BAD),
        ("no value", chunked!("5;a=\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a quote that does not end", chunked!("5;a=\"b\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a quote that does not end because it is escaped", chunked!("5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n"), BAD),
        ("something behind a quote", chunked!("5;a=\"b\"c\r\nhello\r\n0\r\n\r\n"), BAD),
        ("a control character in quotes", chunked!("5;a=\"\0\"\r\nhello\r\n0\r\n\r\n"), BAD),
    ]);
}

/// "The body broke off" sent people looking for trouble with their network.
#[test]
fn a_malformed_chunk_is_rejected_with_its_fault() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 1000000, window: 60}");
    for (size, fault) in [("5;", "invalid chunk extension"), ("+5", "invalid chunk size")] {
        let mut client = Client::connect(gateway.address);
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nhello\r\n0\r\n\r\n"
        ));
        let response = client.response();
        assert_eq!(response.status, 400, "{size}");
        assert!(response.text().contains(&format!("the request's body is invalid: {fault}")), "{}", response.text());
    }
}

/// Each chunk's extensions were bounded and their sum was not, so that a body of a few bytes could be sent for ever.
#[test]
fn all_extensions_of_a_body_are_bounded_together() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let post = |extension: usize, data: &str, chunks: usize| {
        let chunk = format!("{:x};{}\r\n{data}\r\n", data.len(), "x".repeat(extension));
        let mut client = Client::connect(gateway.address);
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.try_send(chunk.repeat(chunks) + "0\r\n\r\n");
        client.try_response_to("POST").map(|response| response.status)
    };
    assert_eq!(post(1_000, "y", 16), Some(200));
    assert_eq!(post(1_000, "y", 20), Some(400));
    assert_eq!(post(100, &"y".repeat(1_000), 300), Some(200), "what comes with data may be longer");
    assert_eq!(upstream.count(), 2);
}

#[test]
fn a_chunks_extension_is_bounded() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let mut client = Client::connect(gateway.address);
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;");
    client.try_send(vec![b'x'; 64 * 1024]);
    assert_eq!(client.try_response_to("POST").map(|response| response.status), Some(400));
    assert_eq!(gateway.get("/b").text(), "GET /b HTTP/1.1\n");
    assert_eq!(upstream.count(), 1);
}
