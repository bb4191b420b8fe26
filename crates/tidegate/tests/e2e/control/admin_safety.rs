//! Who may see and change limits, and from where.

use std::net::SocketAddr;

use crate::control::setting::{PLENTY, before, once};
use tidegate_testkit::command::run;
use tidegate_testkit::{Client, Gateway, Response, Upstream, request, text};

const GOOD: &str = r#"{"algorithm": "fixed", "limit": 5, "window": 60}"#;
const FAST: &str = "{algorithm: fixed, limit: 1000000, window: 60}";
const TOKEN: &str = "a-token-of-some-length";

/// Every endpoint that needs permission.
const GUARDED: [(&str, &str, &str); 6] = [
    ("GET", "/config/limits", ""),
    ("POST", "/config/limits", GOOD),
    ("GET", "/config/limits/default", ""),
    ("DELETE", "/config/limits/default", ""),
    ("POST", "/config/algorithm?algorithm=token", ""),
    ("POST", "/reload", ""),
];

fn ask(address: SocketAddr, (method, path, body): (&str, &str, &str), headers: &[(&str, &str)]) -> Response {
    request(address, method, path, headers, body.as_bytes())
}

fn with_admin(upstream: &Upstream, admin: &str) -> Gateway {
    Gateway::start(&before(upstream, &format!("{admin}\nlimits: {{default: {FAST}}}")))
}

#[test]
fn on_the_loopback_they_are_open() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "");
    for endpoint in GUARDED {
        assert_eq!(ask(gateway.address, endpoint, &[]).status, 200, "{endpoint:?}");
    }
}

#[test]
fn on_other_addresses_they_are_rejected_and_it_is_said_how_to_open_them() {
    let upstream = Upstream::start();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let gateway = with_admin(&upstream, &format!("listeners: [{{address: \"{address}\"}}]"));
        let near = SocketAddr::from(([127, 0, 0, 1], gateway.address.port()));
        for endpoint in GUARDED {
            let response = ask(near, endpoint, &[]);
            assert_eq!(response.status, 403, "{endpoint:?}");
            let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
            for way in ["admin.token", "admin.listen", "ADMIN_OPEN"] {
                assert!(detail.contains(way), "{detail}");
            }
        }
        assert_eq!(request(near, "GET", "/actuator/health", &[], b"").status, 200, "health and metrics are not secret");
        assert_eq!(request(near, "GET", "/actuator/prometheus", &[], b"").status, 200);
        assert_eq!(request(near, "GET", "/", &[], b"").status, 200);
    }
    assert_eq!(upstream.count(), 2, "refused, not proxied");
}

#[test]
fn admin_open_opens_them_everywhere() {
    let upstream = Upstream::start();
    let config = before(&upstream, &format!("listeners: [{{address: \"0.0.0.0:0\"}}]\nlimits: {{default: {PLENTY}}}"));
    let status = |gateway: &Gateway| {
        let near = SocketAddr::from(([127, 0, 0, 1], gateway.address.port()));
        ask(near, GUARDED[1], &[]).status
    };
    for (value, expected) in [("true", 200), ("1", 200), ("false", 403), ("", 403)] {
        let gateway = Gateway::start_with(&config, |command| {
            command.env("ADMIN_OPEN", value);
        });
        assert_eq!(status(&gateway), expected, "ADMIN_OPEN={value}");
    }
    let in_file = Gateway::start(&format!("{config}admin: {{open: true}}\n"));
    assert_eq!(status(&in_file), 200);
}

#[test]
fn with_a_token_they_need_it_wherever_the_listener_is() {
    let upstream = Upstream::start();
    for listener in ["127.0.0.1:0", "0.0.0.0:0"] {
        let admin = format!("listeners: [{{address: \"{listener}\"}}]\nadmin: {{token: {TOKEN}}}");
        let gateway = with_admin(&upstream, &admin);
        let near = SocketAddr::from(([127, 0, 0, 1], gateway.address.port()));
        for endpoint in GUARDED {
            for wrong in [
                &[][..],
                &[("Authorization", "Bearer wrong")],
                &[("Authorization", "Bearer a-token-of-some-lengtH")],
                &[("Authorization", "Bearer a-token-of-some-length-and-more")],
                &[("Authorization", "Bearer ")],
                &[("Authorization", "Basic a-token-of-some-length")],
                &[("X-Token", TOKEN)],
            ] {
                let response = ask(near, endpoint, wrong);
                assert_eq!(response.status, 401, "{endpoint:?} {wrong:?}");
                assert!(!response.text().contains(TOKEN));
            }
            let bearer = format!("Bearer {TOKEN}");
            assert_eq!(ask(near, endpoint, &[("Authorization", &bearer)]).status, 200, "{endpoint:?}");
        }
        assert_eq!(request(near, "GET", "/actuator/prometheus", &[], b"").status, 200, "a scraper needs none");
    }
}

/// RFC 9110 §11.6.1: a 401 must carry `WWW-Authenticate`.
#[test]
fn a_missing_token_is_asked_for_by_its_scheme() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, &format!("admin: {{token: {TOKEN}}}"));
    let response = gateway.get("/config/limits");
    let scheme = response.header("www-authenticate").unwrap_or_default();
    assert!(response.status == 401 && scheme.starts_with("Bearer"), "{:?}", response.headers);
}

#[test]
fn the_token_can_stand_in_a_file_of_its_own() {
    let upstream = Upstream::start();
    let directory = tidegate_testkit::Directory::new();
    let file = directory.file("token", &format!("{TOKEN}\n"));
    let gateway = with_admin(&upstream, &format!("admin: {{token_file: \"{}\"}}", text(&file)));
    assert_eq!(gateway.get("/config/limits").status, 401);
    assert_eq!(gateway.get_with("/config/limits", &[("Authorization", &format!("Bearer {TOKEN}"))]).status, 200);
}

#[test]
fn with_a_listener_of_their_own_the_main_one_proxies_everything() {
    let upstream = Upstream::start();
    let config = before(
        &upstream,
        &format!(
            "listeners: [{{address: \"0.0.0.0:0\"}}]\nadmin: {{listen: \"127.0.0.1:0\"}}\nlimits: {{default: {}}}",
            once(10)
        ),
    );
    let gateway = Gateway::start(&config);
    let admin = gateway.admin.expect("the ready line names it");
    assert_ne!(admin, gateway.address);
    for path in ["/config/limits", "/actuator/health", "/actuator/prometheus", "/config/anything", "/"] {
        let response = gateway.get(path);
        assert_eq!((response.status, response.text().as_str()), (200, "OK"), "{path}");
        assert!(upstream.last().line.contains(path));
        assert!(response.header("ratelimit").is_some(), "{path} is limited like everything else");
    }
    assert_eq!(gateway.post("/reload", "").text(), "OK");
    assert_eq!(upstream.count(), 6);

    assert_eq!(request(admin, "GET", "/config/limits", &[], b"").json()["limit"], 10);
    assert_eq!(request(admin, "POST", "/config/limits", &[], GOOD.as_bytes()).json()["limit"], 5);
    assert_eq!(request(admin, "GET", "/actuator/health", &[], b"").json()["status"], "UP");
    assert_eq!(gateway.metric("ratelimiter_requests_total{decision=\"forwarded\"}"), Some(6.0));
    assert_eq!(request(admin, "POST", "/reload", &[], b"").json()["limit"], 10);
    assert_eq!(request(admin, "GET", "/", &[("Host", "localhost")], b"").status, 404, "it proxies nothing");
    assert_eq!(upstream.count(), 6);
}

#[test]
fn a_listener_of_their_own_can_need_the_token_too() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, &format!("admin: {{listen: \"127.0.0.1:0\", token: {TOKEN}}}"));
    let admin = gateway.admin.expect("the ready line names it");
    assert_eq!(request(admin, "GET", "/config/limits", &[], b"").status, 401);
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(request(admin, "GET", "/config/limits", &[("Authorization", &bearer)], b"").status, 200);
}

#[test]
fn a_page_in_a_browser_can_not_change_limits_without_the_token() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "");
    let config = gateway.get("/config/limits").json();
    for headers in [
        &[("Origin", "https://evil.example")][..],
        &[("Origin", "null")],
        &[("Origin", "http://127.0.0.1:8082")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Origin", "https://evil.example"), ("Sec-Fetch-Site", "same-origin"), ("Content-Type", "text/plain")],
    ] {
        for endpoint in [GUARDED[1], GUARDED[3], GUARDED[4], GUARDED[5]] {
            let response = ask(gateway.address, endpoint, headers);
            assert_eq!(response.status, 403, "{endpoint:?} {headers:?}");
            assert_eq!(response.header("access-control-allow-origin"), None);
        }
    }
    let preflight = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
    let response = request(gateway.address, "OPTIONS", "/config/limits", &preflight, b"");
    assert!(response.status >= 400 && response.header("access-control-allow-origin").is_none());
    assert_eq!(gateway.get("/config/limits").json(), config, "nothing has changed");
    assert_eq!(
        ask(gateway.address, GUARDED[0], &[("Sec-Fetch-Site", "none")]).status,
        200,
        "typed into the address bar"
    );

    let guarded = with_admin(&upstream, &format!("admin: {{token: {TOKEN}}}"));
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Origin", "https://console.example"), ("Authorization", bearer.as_str())];
    assert_eq!(ask(guarded.address, GUARDED[1], &headers).status, 200, "whoever has the token may");
}

/// nginx in front of a loopback listener connects from the loopback, whoever asked.
#[test]
fn what_a_proxy_has_sent_on_needs_the_token_on_the_loopback_too() {
    let upstream = Upstream::start();
    let forwarded =
        [("X-Forwarded-For", "203.0.113.9"), ("Forwarded", "for=203.0.113.9"), ("Via", "1.1 nginx"), ("Via", "")];
    for admin in ["", "admin: {listen: \"127.0.0.1:0\"}"] {
        let gateway = with_admin(&upstream, admin);
        let address = gateway.admin.unwrap_or(gateway.address);
        for endpoint in GUARDED {
            for header in forwarded {
                let response = ask(address, endpoint, &[header]);
                assert_eq!(response.status, 403, "{endpoint:?} {header:?}");
                let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
                assert!(detail.contains("admin.token") && detail.contains("ADMIN_OPEN"), "{detail}");
            }
        }
        assert_eq!(request(address, "GET", "/actuator/health", &forwarded[..1], b"").status, 200);
    }
    let open = with_admin(&upstream, "admin: {open: true}");
    assert_eq!(ask(open.address, GUARDED[1], &forwarded[..3]).status, 200);
    let guarded = with_admin(&upstream, &format!("admin: {{token: {TOKEN}}}"));
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(ask(guarded.address, GUARDED[1], &[("Authorization", &bearer), forwarded[0]]).status, 200);
}

/// nginx with `proxy_pass` connects from the loopback and sends `Host` anew, so that the only sign of it may be
/// `X-Real-IP`, or whatever else it was set to add. `/config/limits` could be changed from outside then.
#[test]
fn every_header_that_proxies_add_is_a_sign_of_a_proxy() {
    let upstream = Upstream::start();
    for admin in ["", "admin: {listen: \"127.0.0.1:0\"}"] {
        let gateway = with_admin(&upstream, admin);
        let address = gateway.admin.unwrap_or(gateway.address);
        for header in [
            "X-Real-IP",
            "x-real-ip",
            "CF-Connecting-IP",
            "CF-Ray",
            "CDN-Loop",
            "True-Client-IP",
            "X-Forwarded-Proto",
            "X-Forwarded-Host",
            "X-Forwarded-Port",
            "X-Forwarded",
            "X-Client-IP",
            "X-Cluster-Client-IP",
            "Fastly-Client-IP",
            "Fly-Client-IP",
            "X-Azure-ClientIP",
            "X-ProxyUser-Ip",
            "X-Original-URI",
            "X-Original-Forwarded-For",
            "X-Envoy-External-Address",
            "X-Amzn-Trace-Id",
        ] {
            let response = ask(address, GUARDED[1], &[(header, "198.51.100.1")]);
            assert_eq!(response.status, 403, "{header}");
            let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
            for word in [&*header.to_lowercase(), "proxy", "admin.token", "admin.listen"] {
                assert!(detail.contains(word), "{detail}");
            }
        }
        assert_eq!(
            request(address, "GET", "/config/limits", &[], b"").json()["limit"],
            1_000_000,
            "nothing has changed"
        );
        let harmless = [("X-Request-Id", "7"), ("X-Requested-With", "curl"), ("Traceparent", "00-1-2-01")];
        assert_eq!(ask(address, GUARDED[1], &harmless).status, 200);
    }
}

/// Without any header of its own nginx before 1.29.7 still shows itself: it speaks HTTP/1.0 unless configured
/// otherwise.
#[test]
fn http_1_0_is_a_sign_of_a_proxy() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "");
    let ask = |head: &str| {
        let mut client = Client::connect(gateway.address);
        client.send(format!(
            "{head}Host: 127.0.0.1:8082\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{GOOD}",
            GOOD.len()
        ));
        client.response()
    };
    let response = ask("POST /config/limits HTTP/1.0\r\n");
    assert_eq!(response.status, 403);
    assert!(
        response.json()["detail"].as_str().is_some_and(|detail| detail.contains("HTTP/1.0")),
        "{}",
        response.text()
    );
    assert_eq!(ask("POST /config/limits HTTP/1.1\r\n").status, 200);
}

/// A page whose name leads to 127.0.0.1 (DNS rebinding) is of the same origin as far as the browser knows, and sends no
/// `Origin` with GET.
#[test]
fn on_the_loopback_only_who_asks_for_this_machine_gets_a_response() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "");
    let port = gateway.address.port();
    for host in ["evil.example", &format!("evil.example:{port}"), "localhost.evil.example", "10.0.0.1", "[::2]"] {
        for endpoint in GUARDED {
            let response = ask(gateway.address, endpoint, &[("Host", host), ("Sec-Fetch-Site", "same-origin")]);
            assert_eq!(response.status, 403, "{endpoint:?} {host}");
        }
    }
    for host in ["localhost", "LocalHost:1", "127.0.0.1", &gateway.address.to_string(), "[::1]", "[::1]:8082"] {
        assert_eq!(ask(gateway.address, GUARDED[0], &[("Host", host)]).status, 200, "{host}");
    }
    let open = with_admin(&upstream, "admin: {open: true}");
    assert_eq!(ask(open.address, GUARDED[0], &[("Host", "gateway.example")]).status, 200);
}

/// The listener has room for 64: clients that hold connections and send nothing must not keep operators out. None of
/// these are connections of clients, as the metrics count them.
#[test]
fn idle_connections_do_not_keep_operators_out() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "admin: {listen: \"127.0.0.1:0\"}");
    let admin = gateway.admin.expect("the ready line names it");
    let _idle: Vec<Client> = (0..200).map(|_| Client::connect(admin)).collect();
    for _ in 0..3 {
        assert_eq!(request(admin, "GET", "/config/limits", &[], b"").status, 200);
    }
    assert_eq!(gateway.metric("tidegate_connections"), Some(0.0));
    assert_eq!(gateway.metric("tidegate_connections_closed_total{reason=\"evicted\"}"), Some(0.0));
}

#[test]
fn a_change_may_have_64_kib_and_no_more() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "");
    let padded = |length: usize| format!("{GOOD}{}", " ".repeat(length - GOOD.len()));
    assert_eq!(gateway.post("/config/limits", &padded(65_536)).status, 200);
    let response = gateway.post("/config/limits", &padded(65_537));
    assert_eq!((response.status, &response.json()["error"]), (413, &"bad_body".into()));
    let mut client = Client::connect(gateway.address);
    client.send("POST /config/limits HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, padded(70_000)));
    assert_eq!(client.response().status, 413);
    assert_eq!(gateway.get("/config/limits").status, 200);
}

#[test]
fn a_change_can_come_in_chunks() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "");
    let mut client = Client::connect(gateway.address);
    client.send("POST /config/limits HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n{GOOD}\r\n0\r\n\r\n", GOOD.len()));
    assert_eq!(client.response().json()["limit"], 5);
    assert_eq!(client.request("GET", "/config/limits", &[], b"").json()["limit"], 5, "the connection stays usable");
}

#[test]
fn head_gets_the_response_of_get_without_a_body() {
    let upstream = Upstream::start();
    let gateway = with_admin(&upstream, "");
    for path in ["/config/limits", "/config/limits/default", "/actuator/health", "/actuator/prometheus"] {
        let mut client = Client::connect(gateway.address);
        let head = client.request("HEAD", path, &[], b"");
        assert_eq!(head.status, 200, "{path}");
        assert!(head.header("content-type").is_some());
        assert_eq!(client.request("GET", path, &[], b"").status, 200, "nothing of a body was left in the way");
    }
}

#[test]
fn a_weak_or_doubled_token_is_rejected_at_the_start() {
    let directory = tidegate_testkit::Directory::new();
    for (admin, path) in [
        ("token: short", "admin.token"),
        ("token: \"a token with some blanks\"", "admin.token"),
        ("token_file: /nonexistent/token", "admin.token_file"),
        ("token: a-token-of-some-length, token_file: /dev/null", "admin.token_file"),
        ("listen: nowhere", "admin.listen"),
    ] {
        let file = directory.file("gateway.yaml", &format!("admin: {{{admin}}}\n"));
        let outcome = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &text(&file)], &[]);
        assert!(outcome.code != 0 && outcome.err.contains(path), "{admin}: {outcome:?}");
    }
}
