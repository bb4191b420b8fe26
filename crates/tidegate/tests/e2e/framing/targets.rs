//! Targets that name a site, and methods and headers that are meant for other proxies than this one.

use std::net::SocketAddr;

use tidegate_testkit::{Client, Gateway, Received, Response, Upstream};

fn echo(received: &Received) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", received.line.len(), received.line).into_bytes()
}

fn gateway(upstream: &Upstream, more: &str) -> Gateway {
    Gateway::start(&format!("upstreams: {{app: {{url: \"http://{}\"}}}}\n{more}", upstream.address))
}

fn ask(address: SocketAddr, line: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!("{line} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
    client.response()
}

/// CONNECT was rejected and the connection kept. Whoever sends it may send what is meant for the tunnel at once: it was
/// read as requests.
#[test]
fn nothing_behind_a_connect_is_read_as_a_request() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream, "");
    let mut client = Client::connect(gateway.address);
    client.send(
        "CONNECT other.example:80 HTTP/1.1\r\nHost: other.example:80\r\n\r\n\
         GET /tunnelled HTTP/1.1\r\nHost: other.example\r\n\r\n",
    );
    let response = client.response();
    assert_eq!((response.status, response.header("connection")), (501, Some("close")));
    assert!(client.is_closed());
    assert_eq!(upstream.count(), 0);
    // Another rejection keeps the connection.
    let mut client = Client::connect(gateway.address);
    client.send("get / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!([client.response().status, client.response().status], [400, 200]);
}

/// RFC 9112 §3.2.2, §3.2.4. `http://host?q` was rejected, because its path does not begin with a slash.
#[test]
fn a_url_without_a_path_gets_one() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream, "");
    for (line, expected) in [
        ("GET http://other.example/a?b", "GET /a?b HTTP/1.1"),
        ("GET http://other.example/", "GET / HTTP/1.1"),
        ("GET http://other.example", "GET / HTTP/1.1"),
        ("GET http://other.example?q=1", "GET /?q=1 HTTP/1.1"),
        ("GET http://other.example:81?q=/a?b", "GET /?q=/a?b HTTP/1.1"),
        ("OPTIONS http://other.example", "OPTIONS * HTTP/1.1"),
        ("OPTIONS http://other.example/", "OPTIONS / HTTP/1.1"),
        ("OPTIONS http://other.example?q", "OPTIONS /?q HTTP/1.1"),
    ] {
        let response = ask(gateway.address, line);
        assert_eq!((response.status, response.text().as_str()), (200, expected), "{line}");
        let host = line.trim_start_matches(|character| character != ':').trim_start_matches("://");
        let host = host.split(['/', '?']).next();
        assert_eq!(upstream.last().header("x-forwarded-host"), host, "{line}");
    }
    for line in ["GET http://?q", "GET http://other.example?a#b", "GET http:other.example?q", "GET ?q"] {
        assert_eq!(ask(gateway.address, line).status, 400, "{line}");
    }
}

/// RFC 9110 §7.4. A URL of any scheme was passed on as if it were `http`, so that a client could have a response in
/// clear text for what its site serves over TLS alone.
#[test]
fn a_url_is_served_only_over_a_connection_that_fits_its_scheme() {
    let upstream = Upstream::responding(echo);
    let untrusting = gateway(&upstream, "");
    for (line, status) in [
        ("GET https://other.example/", 421),
        ("GET HTTPS://other.example/", 421),
        ("GET https://other.example?q", 421),
        ("GET ftp://other.example/", 400),
        ("GET ws://other.example/", 400),
        ("GET wss://other.example/", 400),
    ] {
        assert_eq!(ask(untrusting.address, line).status, status, "{line}");
    }
    assert_eq!(upstream.count(), 0);
    let response = ask(untrusting.address, "GET https://other.example/");
    assert_eq!(response.json()["error"], "misdirected_request");
    assert_eq!(ask(untrusting.address, "GET HTTP://other.example/").status, 200);
    // A trusted proxy has ended the TLS, and may say so in the target.
    let trusting = gateway(&upstream, "trusted_proxies: [127.0.0.1]\n");
    assert_eq!(ask(trusting.address, "GET https://other.example/").status, 200);
    assert_eq!(upstream.last().header("x-forwarded-proto"), Some("https"));
    assert_eq!(ask(trusting.address, "GET http://other.example/").status, 200);
    assert_eq!(upstream.last().header("x-forwarded-proto"), Some("http"));
    assert_eq!(ask(trusting.address, "GET ftp://other.example/").status, 400);
}

/// CVE-2016-5385: CGI makes `HTTP_PROXY` of it, and programs then send their own requests to wherever a client says.
#[test]
fn a_client_can_not_choose_the_upstreams_proxy() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "trusted_proxies: [127.0.0.1]\n");
    let mut client = Client::connect(gateway.address);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nProxy: http://evil.example\r\npROXY: http://evil.example\r\nProxying: 1\r\n\
         X-Proxy: 2\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\nProxy: http://evil.example\r\nX-Last: 3\r\n\r\n",
    );
    assert_eq!(client.response().status, 200);
    let received = upstream.last();
    assert_eq!((received.header("proxying"), received.header("x-proxy")), (Some("1"), Some("2")));
    let bytes = upstream.bytes().concat();
    assert!(!String::from_utf8_lossy(&bytes).contains("evil"), "{}", bytes.escape_ascii());
}
