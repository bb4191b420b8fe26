//! Who shares a limit.

use crate::control::setting::{before, once};
use tidegate_testkit::{Client, Gateway, Response, Upstream};

const PEOPLE: &str = "
trusted_proxies: [127.0.0.1]
identity:
  api_keys:
    keys:
      - {key: key-of-ann, user: ann, tier: pro, client_id: shop}
      - {key: second-of-ann, user: ann, tier: pro, client_id: office}
      - {key: key-of-bob, user: bob, tier: free, client_id: shop}
      - {key: key-of-cid, user: cid, tier: free}
";

/// A request: method, path, host, headers.
type Sent = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

fn send(gateway: &Gateway, (method, path, host, headers): Sent) -> Response {
    let mut all = vec![("Host", host)];
    all.extend_from_slice(headers);
    Client::connect(gateway.address).request(method, path, &all, b"")
}

const PLAIN: Sent = ("GET", "/a/x", "one.example", &[]);
const ANN: Sent = ("GET", "/a/x", "one.example", &[("X-Api-Key", "key-of-ann")]);
const ANN_AGAIN: Sent = ("GET", "/a/x", "one.example", &[("X-Api-Key", "second-of-ann")]);
const BOB: Sent = ("GET", "/a/x", "one.example", &[("X-Api-Key", "key-of-bob")]);
const CID: Sent = ("GET", "/a/x", "one.example", &[("X-Api-Key", "key-of-cid")]);
const FAR: Sent = ("GET", "/a/x", "one.example", &[("X-Forwarded-For", "203.0.113.5")]);
const POST: Sent = ("POST", "/a/x", "one.example", &[]);
const OTHER_PATH: Sent = ("GET", "/a/y", "one.example", &[]);
const QUERY: Sent = ("GET", "/a/x?page=2", "one.example", &[]);
const OTHER_ROUTE: Sent = ("GET", "/b/x", "one.example", &[]);
const OTHER_HOST: Sent = ("GET", "/a/x", "two.example", &[]);
const SAME_HOST: Sent = ("GET", "/a/x", "ONE.example:8080", &[]);
const RED: Sent = ("GET", "/a/x", "one.example", &[("X-Team", "red")]);
const BLUE: Sent = ("GET", "/a/x", "one.example", &[("x-TEAM", "blue")]);
const ANN_ELSEWHERE: Sent = ("GET", "/b/x", "one.example", &[("X-Api-Key", "key-of-ann")]);

fn limited_by(upstream: &Upstream, key: &str) -> Gateway {
    let address = upstream.address;
    let limit = once(1).replace('}', &format!(", key: \"{key}\"}}"));
    Gateway::start(&format!(
        "{PEOPLE}
upstreams: {{app: {{url: \"http://{address}\"}}, other: {{url: \"http://{address}\"}}}}
limits: {{default: {limit}}}
routes: [{{name: a, prefix: /a, upstream: app}}, {{name: b, prefix: /b, upstream: other}}]
"
    ))
}

#[test]
fn a_key_tells_accounts_apart_by_what_it_names_and_by_nothing_else() {
    let upstream = Upstream::start();
    let cases: &[(&str, Sent, &[Sent], &[Sent])] = &[
        // key, the first request, those on the same account, those on others
        ("global", PLAIN, &[ANN, FAR, POST, OTHER_PATH, OTHER_ROUTE, OTHER_HOST, RED], &[]),
        ("ip", PLAIN, &[ANN, POST, OTHER_PATH, OTHER_ROUTE, OTHER_HOST], &[FAR]),
        ("user", ANN, &[ANN_AGAIN, ANN_ELSEWHERE], &[BOB, PLAIN]),
        ("apiKey", ANN, &[ANN_ELSEWHERE], &[ANN_AGAIN, BOB, PLAIN]),
        ("clientId", ANN, &[BOB], &[ANN_AGAIN, CID, PLAIN]),
        ("tier", BOB, &[CID], &[ANN, PLAIN]),
        ("endpoint", PLAIN, &[OTHER_PATH, POST, ANN, FAR], &[OTHER_ROUTE]),
        ("resource", PLAIN, &[QUERY, POST, ANN], &[OTHER_PATH, OTHER_ROUTE]),
        ("provider", PLAIN, &[OTHER_PATH, ANN, FAR], &[OTHER_ROUTE]),
        ("method", PLAIN, &[OTHER_PATH, ANN], &[POST]),
        ("host", PLAIN, &[SAME_HOST, OTHER_PATH], &[OTHER_HOST]),
        ("header:x-team", RED, &[], &[BLUE, PLAIN]),
        ("user+endpoint", ANN, &[ANN_AGAIN], &[ANN_ELSEWHERE, BOB]),
        ("ip+method+host", PLAIN, &[OTHER_PATH], &[FAR, POST, OTHER_HOST]),
    ];
    for (key, first, same, others) in cases {
        let gateway = limited_by(&upstream, key);
        assert_eq!(send(&gateway, *first).status, 200, "{key}: {first:?}");
        assert_eq!(send(&gateway, *first).status, 429, "{key}: {first:?} again");
        for sent in *same {
            assert_eq!(send(&gateway, *sent).status, 429, "{key}: {sent:?} is the same account as {first:?}");
        }
        for sent in *others {
            assert_eq!(send(&gateway, *sent).status, 200, "{key}: {sent:?} is another account than {first:?}");
        }
        let reported = gateway.get("/config/limits").json();
        assert_eq!(reported["limits"]["default"]["key"], **key, "it is told as it is written");
    }
}

/// `ab` + `c` is not `a` + `bc`, and a value is never taken for one that is missing.
#[test]
fn parts_of_a_key_never_run_together() {
    let upstream = Upstream::start();
    let gateway = limited_by(&upstream, "header:x-one+header:x-two");
    let status = |one, other| gateway.get_with("/a", &[("X-One", one), ("X-Two", other)]).status;
    assert_eq!((status("ab", "c"), status("a", "bc"), status("abc", ""), status("", "abc")), (200, 200, 200, 200));
    assert_eq!((status("ab", "c"), status("a", "bc"), status("abc", ""), status("", "abc")), (429, 429, 429, 429));
    assert_eq!(status("?", ""), 200);
    assert_eq!(status("@", "127.0.0.1"), 200);
    assert_eq!(gateway.get_with("/a", &[("X-One", "ab")]).status, 200, "one that lacks a part");
    assert_eq!(gateway.get_with("/a", &[("X-Two", "c")]).status, 429, "and another, on the shared account");
}

fn with_missing(upstream: &Upstream, missing: &str) -> Gateway {
    let limit = once(1).replace('}', &format!(", key: user, missing: {missing}}}"));
    Gateway::start(&before(upstream, &format!("{PEOPLE}\nlimits: {{default: {limit}}}")))
}

#[test]
fn requests_without_a_key_share_one_unless_set_otherwise() {
    let upstream = Upstream::start();
    let gateway = with_missing(&upstream, "share");
    assert_eq!((send(&gateway, PLAIN).status, send(&gateway, PLAIN).status), (200, 429));
    assert_eq!(send(&gateway, FAR).status, 429, "from elsewhere too");
    assert_eq!(
        (send(&gateway, ANN).status, send(&gateway, ANN).status),
        (200, 429),
        "whoever has one is not concerned"
    );
}

#[test]
fn those_who_lack_a_key_can_be_counted_by_address() {
    let upstream = Upstream::start();
    let gateway = with_missing(&upstream, "ip");
    assert_eq!((send(&gateway, PLAIN).status, send(&gateway, PLAIN).status), (200, 429));
    assert_eq!((send(&gateway, FAR).status, send(&gateway, FAR).status), (200, 429));
    assert_eq!((send(&gateway, ANN).status, send(&gateway, ANN).status), (200, 429));
}

#[test]
fn requests_without_a_key_can_be_rejected() {
    let upstream = Upstream::start();
    let gateway = with_missing(&upstream, "refuse");
    let rejected = send(&gateway, PLAIN);
    assert_eq!(rejected.status, 400);
    let body = rejected.json();
    assert_eq!(body["error"], "key_missing");
    assert!(
        body["detail"].as_str().is_some_and(|detail| detail.contains("default") && detail.contains("user")),
        "{body}"
    );
    assert_eq!((send(&gateway, ANN).status, upstream.count()), (200, 1));
    // It has exceeded nothing.
    let exceeded =
        |tier: &str| gateway.metric(&format!("rate_limit_exceeded_total{{endpoint=\"default\",user_tier=\"{tier}\"}}"));
    while send(&gateway, ANN).status == 200 {}
    assert_eq!((exceeded("anonymous"), exceeded("pro")), (Some(0.0), Some(1.0)));
    let line = gateway.wait_for_line("limit exceeded");
    assert!(line.contains("(1 request, "), "the first that is told of: {line}");
}

#[test]
fn those_who_lack_a_key_can_be_left_alone() {
    let upstream = Upstream::start();
    let gateway = with_missing(&upstream, "skip");
    for _ in 0..5 {
        let response = send(&gateway, PLAIN);
        assert_eq!((response.status, response.header("ratelimit")), (200, None));
    }
    assert_eq!((send(&gateway, ANN).status, send(&gateway, ANN).status), (200, 429));
}

/// Which of two values the upstream takes nobody here can know.
#[test]
fn a_header_that_is_there_twice_names_nobody() {
    let upstream = Upstream::start();
    let limit = once(1).replace('}', ", key: \"header:x-team\"}");
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {limit}}}")));
    let twice = |other| gateway.get_with("/", &[("X-Team", other), ("X-Team", "red")]).status;
    assert_eq!(twice("one"), 200, "the account of those without a team");
    assert_eq!((twice("two"), twice("three"), gateway.get("/").status), (429, 429, 429));
    assert_eq!(gateway.get_with("/", &[("X-Team", "red")]).status, 200);
}
