//! What a head says of the way that its request goes, and what becomes of that.

use tidegate_testkit::{Client, Gateway, Upstream};

const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 60}";

/// RFC 9110 §7.6.2.
#[test]
fn a_request_for_the_way_itself_goes_no_further_than_it_may() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    let mut ask = |method, left| client.request(method, "/", &[("Max-Forwards", left)], b"");
    let options = ask("OPTIONS", "0");
    assert_eq!((options.status, options.header("allow"), options.body.len()), (200, Some("OPTIONS"), 0));
    let trace = ask("TRACE", "0");
    assert_eq!((trace.status, trace.header("allow")), (405, Some("OPTIONS")));
    assert_eq!(upstream.count(), 0);
    for (method, left, passed_on) in
        [("OPTIONS", "5", "4"), ("TRACE", "1", "0"), ("GET", "0", "0"), ("GET", "5", "5"), ("OPTIONS", "many", "many")]
    {
        assert_eq!(ask(method, left).status, 200, "{method} {left}");
        assert_eq!(upstream.last().header("max-forwards"), Some(passed_on), "{method} {left}");
    }
}

#[test]
fn trailers_are_asked_for_in_any_way_that_says_so() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    for (te, passed_on) in [
        ("trailers", Some("trailers")),
        ("gzip, Trailers", Some("trailers")),
        ("trailers;q=1", Some("trailers")),
        ("gzip", None),
        ("trailers2", None),
    ] {
        assert_eq!(gateway.get_with("/", &[("TE", te)]).status, 200);
        assert_eq!(upstream.last().header("te"), passed_on, "{te}");
    }
}

/// One byte that is no text hid all other words.
#[test]
fn what_connection_names_stays_behind_whatever_stands_beside_it() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: x-hop,\xff,close\r\nX-Hop: 1\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    assert_eq!(upstream.last().header("x-hop"), None);
}

#[test]
fn a_trusted_proxys_word_for_the_client_is_passed_on() {
    let upstream = Upstream::start();
    let config = |trusted: &str| {
        format!(
            "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {PLENTY}}}\ntrusted_proxies: [{trusted}]\n",
            upstream.address
        )
    };
    for (trusted, passed_on) in [("127.0.0.1", Some("9.9.9.9")), ("127.0.0.2", None)] {
        let gateway = Gateway::start(&config(trusted));
        assert_eq!(gateway.get_with("/", &[("X-Real-IP", "9.9.9.9")]).status, 200);
        assert_eq!(upstream.last().header("x-real-ip"), passed_on, "{trusted}");
    }
}

/// What an HTTP/1.0 client expects is ignored (RFC 9110 §10.1.1).
#[test]
fn what_can_not_be_expected_is_rejected() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    for (head, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", 417),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: miracles\r\n\r\n", 417),
        ("GET / HTTP/1.0\r\nHost: a\r\nExpect: miracles\r\n\r\n", 200),
    ] {
        let mut client = Client::connect(gateway.address);
        client.send(head);
        assert_eq!(client.response().status, status, "{head:?}");
    }
    assert_eq!(upstream.last().header("expect"), None);
}
