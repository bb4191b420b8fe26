//! What a proxy must keep, and what it must change.

use tidegate_testkit::{Gateway, Upstream};

const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 60}";

#[test]
fn method_path_query_headers_and_body_arrive_as_they_were_sent() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let response = tidegate_testkit::request(
        gateway.address,
        "PATCH",
        "/a%20b/../c?x=1&y=%2F",
        &[("X-Thing", "one, two"), ("Cookie", "a=b")],
        b"some body",
    );
    assert_eq!((response.status, response.text().as_str()), (200, "OK"));
    let received = upstream.last();
    assert_eq!(received.line, "PATCH /a%20b/../c?x=1&y=%2F HTTP/1.1");
    assert_eq!(received.header("x-thing"), Some("one, two"));
    assert_eq!(received.header("cookie"), Some("a=b"));
    assert_eq!(received.body, b"some body");
    assert_eq!(received.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(received.header("x-forwarded-host"), Some("test.example"));
    assert_eq!(received.header("x-forwarded-proto"), Some("http"));
    assert_eq!(received.header("forwarded"), Some("for=127.0.0.1;host=\"test.example\";proto=http"));
    assert_eq!(received.header("via"), Some("1.1 tidegate"));
    assert_eq!(received.header("x-request-id"), response.header("x-request-id"));
}
