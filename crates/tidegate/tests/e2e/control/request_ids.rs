//! A request's id links its response, its lines in the logs and what the upstream saw.

use std::io::Write as _;

use crate::control::setting::{PLENTY, once};
use tidegate_testkit::{Client, Gateway, Upstream};

#[test]
fn every_request_gets_an_id_of_its_own() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, &once(2));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let response = gateway.get("/");
        let id = response.header("x-request-id").expect("an id").to_owned();
        assert_eq!(upstream.last().header("x-request-id"), Some(id.as_str()));
        ids.push(id);
    }
    let rejected = gateway.get("/");
    let id = rejected.header("x-request-id").expect("refusals have one too").to_owned();
    assert_eq!((rejected.status, rejected.json()["request_id"].as_str()), (429, Some(id.as_str())));
    ids.push(id);
    ids.extend(gateway.get("/config/limits").header("x-request-id").map(str::to_owned));
    assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())), "{ids:?}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), count), (4, 4));
}

#[test]
fn a_harmless_id_is_kept() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, &once(100));
    let longest = "a".repeat(128);
    for id in ["abc-123", "7f3a:9/b_c.d+e=", "550e8400-e29b-41d4-a716-446655440000", longest.as_str()] {
        let response = gateway.get_with("/", &[("X-Request-Id", id)]);
        assert_eq!(response.header("x-request-id"), Some(id));
        assert_eq!(upstream.last().header("x-request-id"), Some(id));
    }
}

#[test]
fn a_harmful_id_is_replaced() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, &once(100));
    let too_long = "a".repeat(129);
    for id in ["", "a b", "a\"b", "<script>", "${jndi:ldap://x}", "a\tb", "a\\nb", "ü", "{\"a\":1}", too_long.as_str()]
    {
        let response = gateway.get_with("/", &[("X-Request-Id", id)]);
        assert_eq!(response.status, 200, "{id:?}");
        let given = response.header("x-request-id").expect("an id").to_owned();
        assert_ne!(given, id);
        assert_eq!(given.len(), 32);
        let at_upstream: Vec<_> =
            upstream.last().headers.iter().filter(|(name, _)| name == "x-request-id").cloned().collect();
        assert_eq!(at_upstream, [("x-request-id".to_owned(), given)], "and nothing else, for {id:?}");
    }
}

/// An id links the response to the log, also where there is no access log.
#[test]
fn the_line_of_trouble_with_an_upstream_names_the_request() {
    let broken = Upstream::behaving(|received, stream| {
        let response =
            if received.line.contains("/half") { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf" } else { "" };
        let _sent = stream.write_all(response.as_bytes());
        false
    });
    for (path, id) in [("/", "my-id-1"), ("/half", "my-id-2")] {
        let gateway = Gateway::before(broken.address, PLENTY);
        let mut client = Client::connect(gateway.address);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: test.example\r\nX-Request-Id: {id}\r\n\r\n"));
        let _response = client.try_response_to("GET");
        let line = gateway.wait_for_line("upstream `app`: ");
        assert!(line.contains(" ERROR ") && line.contains(&format!("(request {id})")), "{line}");
    }
}
