//! A limit of a route holds for its path however it is spelled.

use crate::control::setting::{before, once};
use tidegate_testkit::{Client, Gateway, Upstream};

fn limited(upstream: &Upstream, matcher: &str) -> Gateway {
    let rest = format!(
        "limits: {{search: {}}}\nroutes: [{{name: search, {matcher}, limits: [search]}}, {{name: rest, prefix: /}}]",
        once(1)
    );
    Gateway::start(&before(upstream, &rest))
}

const SPELLINGS: [&str; 14] = [
    "/api/search",
    "/api/search?x=1",
    "//api/search",
    "/api//search",
    "/api/./search",
    "/./api/search",
    "/api/other/../search",
    "/../api/search",
    "/api/%73earch",
    "/%61%70%69/search",
    "/api%2Fsearch",
    "/api/%2e/search",
    "/api/x/%2E%2e/search",
    "/api/x/..%2fsearch",
];

#[test]
fn of_an_exact_path() {
    let upstream = Upstream::start();
    let gateway = limited(&upstream, "path: /api/search");
    assert_eq!(gateway.get("/api/search").status, 200);
    for spelling in SPELLINGS {
        assert_eq!(gateway.get(spelling).status, 429, "{spelling}");
    }
    assert_eq!(gateway.get("/api/search/").status, 429, "a slash at the end makes no difference");
    for other in ["/api", "/api/searches", "/api/%2573earch", "/search"] {
        assert_eq!(gateway.get(other).status, 200, "{other} is another path");
    }
}

#[test]
fn of_a_prefix() {
    let upstream = Upstream::start();
    let gateway = limited(&upstream, "prefix: /api");
    assert_eq!(gateway.get("/api").status, 200);
    for spelling in SPELLINGS.into_iter().chain(["/api/", "/api/x", "/%61pi/x"]) {
        assert_eq!(gateway.get(spelling).status, 429, "{spelling}");
    }
    assert_eq!((gateway.get("/apis").status, gateway.get("/other").status), (200, 200));
}

#[test]
fn of_a_pattern() {
    let upstream = Upstream::start();
    let gateway = limited(&upstream, "pattern: \"/users/{id}/orders/**\"");
    assert_eq!(gateway.get("/users/7/orders").status, 200);
    for spelling in ["/users/8/orders/9", "/users//8/orders", "/users/%38/%6frders", "/users/./8/orders/x/.."] {
        assert_eq!(gateway.get(spelling).status, 429, "{spelling}");
    }
    assert_eq!((gateway.get("/users/7").status, gateway.get("/users/7/carts").status), (200, 200));
}

#[test]
fn of_a_target_in_absolute_form() {
    let upstream = Upstream::start();
    let gateway = limited(&upstream, "path: /api/search");
    assert_eq!(gateway.get("/api/search").status, 200);
    let mut client = Client::connect(gateway.address);
    client.send("GET http://test.example/api/search HTTP/1.1\r\nHost: test.example\r\n\r\n");
    assert_eq!(client.response().status, 429);
}

/// One account for a resource, whatever its spelling; and a host is one host in any case and with any port.
#[test]
fn of_keys_by_resource_and_host() {
    let upstream = Upstream::start();
    let limit = once(1).replace('}', ", key: resource+host}");
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {limit}}}")));
    assert_eq!(gateway.get_with("/a/b", &[("Host", "one.example")]).status, 200);
    for (path, host) in [("//a/b", "one.example"), ("/a/%62", "One.Example"), ("/a/./b?c", "one.example:80")] {
        assert_eq!(gateway.get_with(path, &[("Host", host)]).status, 429, "{path} {host}");
    }
    assert_eq!(gateway.get_with("/a/c", &[("Host", "one.example")]).status, 200);
}

/// What we take for another path, an upstream may take for the limited one: the path goes on as it came.
#[test]
fn of_a_path_that_an_upstream_may_read_in_another_way() {
    let upstream = Upstream::start();
    let gateway = limited(&upstream, "prefix: /api/search");
    assert_eq!(gateway.get("/api/search").status, 200);
    for spelling in [
        "/api/search/../../free",
        "/api/search/..%2f..%2ffree",
        "/api/search/%2e%2e/%2e%2e/free",
        "/api/%73earch/../../free",
        "/api/search;x=1/a",
        "/api;v=1/search/a",
        "/api/search%5c..%5c..%5cfree",
    ] {
        assert_eq!(gateway.get(spelling).status, 429, "{spelling}");
    }
    assert_eq!(gateway.get("/api/../free").status, 200, "nobody could take it for the limited one");
    let gateway = limited(&upstream, "pattern: \"/users/{id}\"");
    assert_eq!(gateway.get("/users/7").status, 200);
    for spelling in ["/users/a%2Fb", "/%75sers/a%2Fb", "/users/a%2F..%2F..%2Ffree", "/users/7/"] {
        assert_eq!(gateway.get(spelling).status, 429, "{spelling}");
    }
}

#[test]
fn of_a_host_and_a_method() {
    let upstream = Upstream::start();
    let gateway = limited(&upstream, "host: \"*.one.example\", methods: [get]");
    let status = |method, host| {
        let mut client = Client::connect(gateway.address);
        client.request(method, "/", &[("Host", host)], b"").status
    };
    assert_eq!(status("GET", "a.one.example"), 200);
    for host in ["a.one.example", "A.One.Example", "a.one.example.", "a.one.example.:80", "b.one.example:8080"] {
        assert_eq!((status("GET", host), status("HEAD", host)), (429, 429), "{host}");
    }
    assert_eq!((status("GET", "one.example"), status("POST", "a.one.example")), (200, 200));
}

/// Some upstreams take `get` for GET.
#[test]
fn of_a_method_in_small_letters() {
    let upstream = Upstream::start();
    let gateway = limited(&upstream, "methods: [GET]");
    let status = |method| Client::connect(gateway.address).request(method, "/", &[], b"").status;
    assert_eq!((status("GET"), status("GET")), (200, 429));
    assert_eq!(["get", "Get", "gET", "pUrge"].map(status), [400; 4]);
    assert_eq!((status("PURGE"), upstream.count()), (200, 2), "a method of one's own is another one");
}

/// Each further route that the path may be of had its own account, and so one more request.
#[test]
fn of_keys_by_route_under_another_reading() {
    let upstream = Upstream::start();
    let limit = once(1).replace('}', ", key: endpoint}");
    let routes = "[{name: search, prefix: /api/search, limits: [one]}, {name: a, prefix: /a}, {name: b, prefix: /b}, \
                  {name: rest}]";
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{one: {limit}}}\nroutes: {routes}")));
    assert_eq!(gateway.get("/api/search").status, 200);
    for spelling in ["/api/search/../../x", "/api/search/../../a/x", "/api/search/../../b/x"] {
        assert_eq!(gateway.get(spelling).status, 429, "{spelling}");
    }
    let common =
        format!("limits: {{one: {limit}}}\ncommon_limits: [one]\nroutes: {}", routes.replace(", limits: [one]", ""));
    let gateway = Gateway::start(&before(&upstream, &common));
    assert_eq!(gateway.get("/a/../b").status, 200, "on both accounts");
    assert_eq!((gateway.get("/a").status, gateway.get("/b").status), (429, 429));
    assert_eq!(gateway.get("/api/search").status, 200);
}

/// It was a panic for each such request.
#[test]
fn of_more_limits_than_can_be_asked_together() {
    let upstream = Upstream::start();
    let names = |start: &str| (0..9).map(|n| format!("{start}{n}")).collect::<Vec<_>>().join(", ");
    let limits: Vec<String> =
        ["a", "b"].iter().flat_map(|start| (0..9).map(move |n| format!("{start}{n}: {}", once(5)))).collect();
    let gateway = Gateway::start(&before(
        &upstream,
        &format!(
            "limits: {{{}}}\nroutes: [{{prefix: /a, limits: [{}]}}, {{prefix: /b, limits: [{}]}}]",
            limits.join(", "),
            names("a"),
            names("b")
        ),
    ));
    let mut client = Client::connect(gateway.address);
    let response = client.request("GET", "/a/../b", &[], b"");
    assert_eq!((response.status, &response.json()["error"]), (400, &"ambiguous_path".into()));
    assert_eq!(client.request("GET", "/a", &[], b"").status, 200, "the connection goes on");
    assert_eq!(upstream.count(), 1);
}
