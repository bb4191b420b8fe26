//! What concerns one connection stays on it; what a proxy must add is added; what nobody may claim of himself is taken
//! away.

mod forwarding;
mod interim;

use std::io::{BufRead as _, Read as _};

use crate::framing::judge;
use crate::framing::origin::Origin;
use tidegate_testkit::{Client, Gateway, OK, Received, Response, Upstream, request};

const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 60}";

fn values<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
}

fn echo(received: &Received) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", received.line.len(), received.line).into_bytes()
}

#[test]
fn what_concerns_the_clients_connection_does_not_reach_the_upstream() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-One,x-two\r\nConnection: X-Three\r\nX-One: 1\r\n\
         x-TWO: 2\r\nX-Three: 3\r\n\
         X-Kept: 4\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAA\r\n\
         Proxy-Authorization: Basic eDp5\r\nContent-Length: 2\r\n\r\nhi",
    );
    assert_eq!(client.response().status, 200);
    let received = upstream.last();
    for name in ["x-one", "x-two", "x-three", "keep-alive", "proxy-connection", "te", "upgrade", "proxy-authorization"]
    {
        assert_eq!(received.header(name), None, "{name}");
    }
    assert_eq!(received.header("connection"), None);
    assert_eq!((received.header("x-kept"), &received.body[..]), (Some("4"), &b"hi"[..]));
}

/// Nominating what the proxy itself adds has hidden clients' addresses elsewhere.
#[test]
fn nobody_can_make_the_gateways_own_headers_hop_by_hop() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close, Host, Content-Length, X-Forwarded-For, X-Forwarded-Host, \
         X-Forwarded-Proto, \
         Forwarded, Via, X-Request-Id\r\nContent-Length: 2\r\n\r\nhi",
    );
    assert_eq!(client.response().status, 200);
    let received = upstream.last();
    for name in [
        "host",
        "content-length",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "forwarded",
        "via",
        "x-request-id",
    ] {
        assert_eq!(values(&received.headers, name).len(), 1, "{name}");
    }
    assert_eq!(received.body, b"hi");
}

#[test]
fn what_concerns_the_upstreams_connection_does_not_reach_the_client() {
    let upstream = Upstream::responding(|_| {
        b"HTTP/1.1 200 OK\r\nConnection: X-One, Content-Length\r\nConnection: x-two\r\nX-One: 1\r\nX-Two: 2\r\n\
          X-Kept: 3\r\n\
          Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nTE: trailers\r\n\
          Content-Length: 2\r\n\r\nOK"
            .to_vec()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for _ in 0..2 {
        let response = client.request("GET", "/", &[], b"");
        for name in ["x-one", "x-two", "keep-alive", "proxy-connection", "upgrade", "te", "connection"] {
            assert_eq!(response.header(name), None, "{name}");
        }
        assert_eq!((response.header("x-kept"), response.text().as_str()), (Some("3"), "OK"));
    }
    assert_eq!(upstream.last().connection, 0, "the upstream's connection is kept");
}

#[test]
fn an_upstream_that_closes_does_not_close_the_clients_connection() {
    let upstream = Upstream::behaving(|_, stream| {
        use std::io::Write as _;
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nOK").is_err()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for _ in 0..3 {
        let response = client.request("GET", "/", &[], b"");
        assert_eq!((response.text().as_str(), response.header("connection")), ("OK", None));
    }
    let response = client.request("GET", "/", &[("Connection", "close")], b"");
    assert_eq!(response.header("connection"), Some("close"));
    assert!(client.is_closed());
}

#[test]
fn via_names_everyone_on_the_way_with_the_version_they_were_spoken_to() {
    let upstream = Upstream::responding(|received| {
        let version = if received.line.contains("old") { "1.0" } else { "1.1" };
        format!("HTTP/{version} 200 OK\r\nVia: 1.1 inner\r\nContent-Length: 2\r\n\r\nOK").into_bytes()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let response = gateway.get_with("/", &[("Via", "1.0 fred"), ("Via", "1.1 wilma")]);
    assert_eq!(values(&upstream.last().headers, "via").join(", "), "1.0 fred, 1.1 wilma, 1.1 tidegate");
    assert_eq!(values(&response.headers, "via").join(", "), "1.1 inner, 1.1 tidegate");
    let mut client = Client::connect(gateway.address);
    client.send("GET /old HTTP/1.0\r\n\r\n");
    let response = client.response();
    assert_eq!(upstream.last().header("via"), Some("1.0 tidegate"));
    // RFC 9110 §7.6.3: the version of the message that was received.
    assert_eq!(values(&response.headers, "via").join(", "), "1.1 inner, 1.0 tidegate");
}

#[test]
fn the_upstream_gets_its_own_name_unless_set_otherwise() {
    let upstream = Upstream::start();
    let address = upstream.address;
    let gateway = Gateway::start(&format!(
        "upstreams:\n  own: {{url: \"http://{address}\"}}\n  kept: {{url: \"http://{address}\", preserve_host: true}}\n\
         routes: [{{prefix: /own, upstream: own}}, {{prefix: /kept, upstream: kept}}]\n"
    ));
    let host = |path: &str, host: &str| {
        assert_eq!(gateway.get_with(path, &[("Host", host)]).status, 200);
        let headers = upstream.last().headers;
        (values(&headers, "host").join("|"), values(&headers, "x-forwarded-host").join("|"))
    };
    assert_eq!(host("/own", "Shop.example:81"), (address.to_string(), "shop.example:81".to_owned()));
    assert_eq!(host("/kept", "Shop.example:81"), ("shop.example:81".to_owned(), "shop.example:81".to_owned()));
    let mut client = Client::connect(gateway.address);
    client.send("GET /kept HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let headers = upstream.last().headers;
    assert_eq!(values(&headers, "host"), [address.to_string()], "who names no host gets the upstream's own");
    assert_eq!(values(&headers, "x-forwarded-host"), [""; 0]);
}

#[test]
fn a_base_path_goes_before_the_requests_own() {
    let upstream = Upstream::responding(echo);
    for (base, path, expected) in [
        ("/base", "/a?b=c", "GET /base/a?b=c HTTP/1.1"),
        ("/base/", "/a", "GET /base/a HTTP/1.1"),
        ("/base", "/", "GET /base/ HTTP/1.1"),
        ("/", "//a//b/", "GET //a//b/ HTTP/1.1"),
        ("", "/?", "GET /? HTTP/1.1"),
    ] {
        let url = format!("http://{}{base}", upstream.address);
        let gateway = Gateway::start(&format!("upstreams: {{app: {{url: \"{url}\"}}}}\n"));
        assert_eq!(gateway.get(path).text(), expected);
    }
}

#[test]
fn responses_without_a_body_have_none() {
    let upstream = Upstream::responding(|received| {
        let head = match received.line.split(' ').nth(1) {
            Some("/length") => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            Some("/chunked") => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Some("/silent") => "HTTP/1.1 200 OK\r\n\r\n",
            Some("/204") => "HTTP/1.1 204 No Content\r\nX-Kept: 1\r\n\r\n",
            Some("/304") => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
            Some("/304-length") => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 1000\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK",
        };
        head.as_bytes().to_vec()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    for (method, path, status, length) in [
        ("HEAD", "/length", 200, Some("1000")),
        // RFC 9110 §8.6: a length that differs from that of a GET must not be sent.
        ("HEAD", "/chunked", 200, None),
        ("HEAD", "/silent", 200, None),
        ("GET", "/204", 204, None),
        ("HEAD", "/204", 204, None),
        ("GET", "/304", 304, None),
        ("HEAD", "/304", 304, None),
    ] {
        let mut client = Client::connect(gateway.address);
        let response = client.request(method, path, &[], b"");
        assert_eq!((response.status, response.header("content-length")), (status, length), "{method} {path}");
        assert_eq!(response.header("transfer-encoding"), None, "{method} {path}");
        assert_eq!(client.request("GET", "/", &[], b"").text(), "OK", "behind {method} {path}");
    }
    let mut client = Client::connect(gateway.address);
    let response = client.request("GET", "/304-length", &[], b"");
    assert_eq!((response.status, response.header("etag")), (304, Some("\"a\"")));
    assert!(matches!(response.header("content-length"), None | Some("1000")));
    assert_eq!(client.request("GET", "/", &[], b"").text(), "OK");
    assert_eq!(gateway.metric("tidegate_upstream_failures_total{service=\"app\",reason=\"bad_answer\"}"), Some(0.0));
}

#[test]
fn a_rejection_of_a_head_has_no_body() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, "{algorithm: token, capacity: 1, fillRate: 0.0003}");
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.request("HEAD", "/", &[], b"").status, 200);
    assert_eq!(client.request("HEAD", "/", &[], b"").status, 429);
    assert_eq!(client.request("GET", "/", &[], b"").status, 429);
}

#[test]
fn a_clients_trailers_arrive_without_those_that_have_no_place_there() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: X-Hop\r\nTrailer: X-Sum\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\
         X-Sum: 7\r\nContent-Length: 99\r\nHost: evil\r\nTransfer-Encoding: gzip\r\nAuthorization: Basic eDp5\r\n\
         Connection: close\r\n\
         X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Request-Id: mine\r\nX-Tidegate-Degraded: x\r\n\r\n",
    );
    assert_eq!(client.response().status, 200);
    let carried = judge::read(&upstream.bytes()[0]).expect("well-formed");
    let [request] = &carried.requests[..] else { panic!("{carried:?}") };
    assert_eq!(
        (request.all("te"), request.all("connection"), request.all("trailer")),
        (vec!["trailers"], vec!["te"], vec!["X-Sum"])
    );
    assert_eq!((&request.body[..], &request.trailers[..]), (&b"hi"[..], &[("x-sum".to_owned(), "7".to_owned())][..]));
}

#[test]
fn an_upstreams_trailers_reach_clients_that_ask_for_them() {
    let upstream = Upstream::responding(|received| {
        let reported = if received.line.contains("untold") { "" } else { "Trailer: X-Sum\r\n" };
        let head = format!("HTTP/1.1 200 OK\r\n{reported}Transfer-Encoding: chunked\r\n\r\n");
        (head + "2\r\nOK\r\n0\r\nX-Sum: 7\r\nContent-Length: 99\r\nX-Other: 8\r\n\r\n").into_bytes()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let end = |path: &str, headers: &str| {
        let mut client = Client::connect(gateway.address);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close{headers}\r\n\r\n"));
        let bytes = String::from_utf8(client.read_to_end()).expect("text");
        bytes.split_once("\r\n\r\n").expect("a head").1.to_owned()
    };
    assert_eq!(end("/", ", te\r\nTE: trailers"), "2\r\nOK\r\n0\r\nx-sum: 7\r\nx-other: 8\r\n\r\n");
    assert_eq!(end("/", ""), "2\r\nOK\r\n0\r\n\r\n");
    let unreported = end("/untold", ", te\r\nTE: trailers");
    assert!(unreported.starts_with("2\r\nOK\r\n0\r\n") && unreported.ends_with("\r\n\r\n"), "{unreported}");
    assert!(!unreported.contains("99"), "{unreported}");
}

#[test]
fn chunks_of_any_size_pass_both_ways() {
    let upstream = Upstream::responding(|received| {
        let mut response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in received.body.chunks(977) {
            response.extend_from_slice(format!("{:X};x=y\r\n", chunk.len()).as_bytes());
            response.extend_from_slice(chunk);
            response.extend_from_slice(b"\r\n");
        }
        response.extend_from_slice(b"0\r\n\r\n");
        response
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let body: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    let mut sent = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for (size, chunk) in body.chunks(1_499).enumerate() {
        sent.extend_from_slice(format!("{:x};n={size}\r\n", chunk.len()).as_bytes());
        sent.extend_from_slice(chunk);
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b"0\r\n\r\n");
    let mut client = Client::connect(gateway.address);
    for _ in 0..2 {
        client.send(&sent);
        let response = client.response();
        assert_eq!(response.header("transfer-encoding"), Some("chunked"));
        assert!(response.body == body, "the body came back changed");
    }
    let carried = judge::read(&upstream.bytes()[0]).expect("well-formed");
    assert_eq!(carried.requests.len(), 2);
    assert!(carried.requests.iter().all(|request| request.body == body));
}

#[test]
fn a_response_that_ends_with_its_connection_is_whole() {
    let upstream = Upstream::behaving(|received, stream| {
        use std::io::Write as _;
        let version = if received.line.contains("old") { "1.0" } else { "1.1" };
        let _written = stream.write_all(format!("HTTP/{version} 200 OK\r\n\r\n{}", "x".repeat(100_000)).as_bytes());
        false
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for path in ["/old", "/new"] {
        let response = client.request("GET", path, &[], b"");
        assert_eq!((response.body.len(), response.header("transfer-encoding")), (100_000, Some("chunked")), "{path}");
    }
    let mut client = Client::connect(gateway.address);
    client.send("GET /old HTTP/1.0\r\n\r\n");
    let bytes = String::from_utf8(client.read_to_end()).expect("text");
    let (head, body) = bytes.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n") && !head.to_lowercase().contains("transfer-encoding"), "{head}");
    assert_eq!(body.len(), 100_000);
}

#[test]
fn old_clients_get_responses_they_can_read() {
    let upstream = Upstream::responding(|received| {
        if received.line.contains("chunked") {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n".to_vec()
        } else {
            OK.to_vec()
        }
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send("GET /chunked HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let bytes = String::from_utf8(client.read_to_end()).expect("text");
    let (head, body) = bytes.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert!(!head.to_lowercase().contains("transfer-encoding") && !head.contains("keep-alive"), "{head}");
    assert_eq!(body, "onetwo");

    let mut client = Client::connect(gateway.address);
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response();
        assert_eq!((response.text().as_str(), response.header("connection")), ("OK", Some("keep-alive")));
    }
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().text(), "OK");
    assert!(client.is_closed());
}

#[test]
fn requests_sent_ahead_get_responses_in_their_order() {
    let upstream = Upstream::responding(|received| {
        let body = [received.line.as_bytes(), b"|", &received.body].concat();
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let sent = |number: u32| match number % 4 {
        0 => format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
        1 => format!("POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none"),
        2 => format!("POST /{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"),
        _ => format!("GET /actuator/health?{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
    };
    let mut client = Client::connect(gateway.address);
    client.send((0..40).map(sent).collect::<Vec<String>>().concat());
    for number in 0..40 {
        let response = client.response();
        match number % 4 {
            0 => assert_eq!(response.text(), format!("GET /{number} HTTP/1.1|")),
            1 => assert_eq!(response.text(), format!("POST /{number} HTTP/1.1|one")),
            2 => assert_eq!(response.text(), format!("POST /{number} HTTP/1.1|two")),
            _ => assert_eq!(response.json()["status"], "UP"),
        }
    }
    assert_eq!(upstream.count(), 30);
}

#[test]
fn a_response_in_spite_of_a_wish_to_go_over_leaves_plain_http() {
    let upstream = Upstream::responding(echo);
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    let wish = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.send(format!("{wish}GET /b HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.response().text(), "GET /a HTTP/1.1");
    assert_eq!(client.response().text(), "GET /b HTTP/1.1");
    let received = upstream.received();
    assert_eq!((received[0].header("connection"), received[0].header("upgrade")), (Some("upgrade"), Some("websocket")));
    assert_eq!((received[1].header("connection"), received[1].header("upgrade")), (None, None));
}

/// Elsewhere this has carried requests past a proxy that nobody there saw.
#[test]
fn nobody_goes_over_to_http_2_behind_the_gateways_back() {
    let upstream = Upstream::responding(echo);
    let gateway = Gateway::before(upstream.address, PLENTY);
    for protocol in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.3"] {
        let headers =
            [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", protocol), ("HTTP2-Settings", "AAMAAABkAAQAAP__")];
        assert_eq!(request(gateway.address, "GET", "/", &headers, b"").status, 200);
        let received = upstream.last();
        for name in ["connection", "upgrade", "http2-settings"] {
            assert_eq!(received.header(name), None, "{name} of {protocol}");
        }
    }
}

/// What a client sends before the upstream has agreed must not reach it, and is a request if it does not agree.
#[test]
fn nothing_goes_into_a_tunnel_before_it_is_open() {
    let origin = Origin::new();
    let gateway = Gateway::before(origin.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly bytes");
    let mut visit = origin.accept();
    assert!(visit.head().contains("upgrade: websocket\r\n"));
    visit.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst");
    assert_eq!(visit.read(11), b"early bytes");
    let response: Response = client.response();
    assert_eq!(
        (response.status, response.header("upgrade"), response.header("connection")),
        (101, Some("websocket"), Some("upgrade"))
    );
    let mut first = [0; 5];
    client.stream.read_exact(&mut first).expect("what came with the head");
    assert_eq!(&first, b"first");
    visit.close();
    assert!(client.stream.fill_buf().is_ok_and(<[u8]>::is_empty), "the end is passed on");
}
