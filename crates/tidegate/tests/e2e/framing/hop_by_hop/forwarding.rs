//! Headers by which proxies name the client: who is believed, and what is passed on.

use super::{PLENTY, values};
use tidegate_testkit::{Gateway, Upstream};

const CLAIMS: [(&str, &str); 9] = [
    ("X-Forwarded-For", "1.2.3.4"),
    ("X-Forwarded-For", "5.6.7.8"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "bank.example"),
    ("X-Forwarded-Port", "443"),
    ("X-Forwarded-Prefix", "/admin"),
    ("X-Real-IP", "1.2.3.4"),
    ("Forwarded", "for=1.2.3.4;proto=https"),
    ("X-Tidegate-Degraded", "default"),
];

#[test]
fn what_a_stranger_claims_of_himself_is_replaced() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    assert_eq!(gateway.get_with("/", &CLAIMS).status, 200);
    let headers = upstream.last().headers;
    assert_eq!(values(&headers, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(values(&headers, "x-forwarded-proto"), ["http"]);
    assert_eq!(values(&headers, "x-forwarded-host"), ["test.example"]);
    assert_eq!(values(&headers, "forwarded"), ["for=127.0.0.1;host=\"test.example\";proto=http"]);
    for name in ["x-forwarded-port", "x-forwarded-prefix", "x-tidegate-degraded"] {
        assert_eq!(values(&headers, name), [""; 0], "{name}");
    }
    assert!(!values(&headers, "x-real-ip").contains(&"1.2.3.4"));
}

/// To CGI and its kin `X_Forwarded_For` is the same as `X-Forwarded-For`.
#[test]
fn an_underscore_does_not_hide_a_claim() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nidentity: {{trusted_headers: {{user: x-auth-user}}}}\n",
        upstream.address
    ));
    let claims = [
        ("X_Forwarded_For", "1.2.3.4"),
        ("X-Forwarded_Proto", "https"),
        ("X_Real_IP", "1.2.3.4"),
        ("X_Tidegate_Degraded", "default"),
        ("X_Auth_User", "root"),
        ("Content_Length", "5"),
        ("Transfer_Encoding", "chunked"),
        ("Proxy_Authorization", "Basic eDp5"),
        ("X_Other", "kept"),
    ];
    assert_eq!(gateway.get_with("/", &claims).status, 200);
    let names: Vec<String> = upstream.last().headers.into_iter().map(|(name, _)| name).collect();
    let underscored: Vec<&String> = names.iter().filter(|name| name.contains('_')).collect();
    assert_eq!(underscored, ["x_other"]);
}

#[test]
fn only_a_trusted_proxy_says_who_somebody_is() {
    let upstream = Upstream::start();
    let config = |trusted: &str| {
        format!(
            "upstreams: {{app: {{url: \"http://{}\"}}}}\ntrusted_proxies: [{trusted}]\n\
             identity: {{trusted_headers: {{user: x-auth-user, tier: x-auth-tier}}}}\n",
            upstream.address
        )
    };
    let claims = [("X-Auth-User", "root"), ("x-auth-tier", "pro"), ("X-Auth-Other", "kept")];
    for (trusted, expected) in [("10.0.0.0/8", None), ("127.0.0.1", Some("root"))] {
        let gateway = Gateway::start(&config(trusted));
        assert_eq!(gateway.get_with("/", &claims).status, 200);
        let received = upstream.last();
        assert_eq!(received.header("x-auth-user"), expected, "trusted: [{trusted}]");
        assert_eq!(received.header("x-auth-tier").is_some(), expected.is_some(), "trusted: [{trusted}]");
        assert_eq!(received.header("x-auth-other"), Some("kept"));
    }
}

#[test]
fn a_request_is_known_by_its_own_id_if_that_is_harmless() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let id = |given: &str| {
        let response = gateway.get_with("/", &[("X-Request-Id", given)]);
        assert_eq!(values(&upstream.last().headers, "x-request-id"), values(&response.headers, "x-request-id"));
        response.header("x-request-id").expect("an id").to_owned()
    };
    assert_eq!(id("0af7651916cd43dd-8448:eb/2+1=1.c_d"), "0af7651916cd43dd-8448:eb/2+1=1.c_d");
    let mut ours = vec![id(""), id("two words"), id("\"quoted\""), id("<script>"), id(&"x".repeat(129)), id("a\tb")];
    assert!(ours.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())), "{ours:?}");
    ours.sort();
    ours.dedup();
    assert_eq!(ours.len(), 6);
}

#[test]
fn what_a_trusted_proxy_says_of_others_is_extended() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\ntrusted_proxies: [127.0.0.1]\n",
        upstream.address
    ));
    assert_eq!(gateway.get_with("/", &CLAIMS).status, 200);
    let headers = upstream.last().headers;
    assert_eq!(values(&headers, "x-forwarded-for").join(", "), "1.2.3.4, 5.6.7.8, 127.0.0.1");
    assert_eq!(values(&headers, "x-forwarded-proto"), ["https"]);
    assert_eq!(values(&headers, "x-forwarded-host"), ["bank.example"]);
    assert_eq!(values(&headers, "x-forwarded-port"), ["443"]);
    assert_eq!(values(&headers, "x-forwarded-prefix"), ["/admin"]);
    let forwarded = values(&headers, "forwarded").join(", ");
    let first = "for=1.2.3.4;host=\"bank.example\";proto=https";
    assert_eq!(forwarded, format!("{first}, for=5.6.7.8, for=127.0.0.1;host=\"test.example\";proto=http"));
    assert_eq!(values(&headers, "x-tidegate-degraded"), [""; 0], "that is the gateway's own to say");
}

/// Which of the two an upstream reads is up to it: frameworks that preferred `Forwarded` saw the proxy for the client,
/// and sent clients of `https` to `http`.
#[test]
fn both_kinds_of_header_tell_the_same_whichever_a_trusted_proxy_speaks() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\ntrusted_proxies: [127.0.0.1, 10.0.0.0/8]\n",
        upstream.address
    ));
    let own = "for=127.0.0.1;host=\"test.example\";proto=http";
    let sent_on = |sent: &[(&str, &str)]| {
        assert_eq!(gateway.get_with("/", sent).status, 200);
        let headers = upstream.last().headers;
        ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"]
            .map(|name| values(&headers, name).join("|"))
    };
    let old = sent_on(&[
        ("X-Forwarded-For", "2001:db8::1, 203.0.113.5:80, nonsense"),
        ("X-Forwarded-Proto", "https, http"),
        ("X-Forwarded-Host", "shop.example"),
    ]);
    let hops = "for=\"[2001:db8::1]\";host=\"shop.example\";proto=https, for=203.0.113.5, for=unknown";
    let list = "2001:db8::1, 203.0.113.5:80, nonsense, 127.0.0.1".to_owned();
    assert_eq!(old, [list, "https".to_owned(), "shop.example".to_owned(), format!("{hops}, {own}")]);

    let only_proto = sent_on(&[("X-Forwarded-Proto", "https")]);
    let forwarded = "for=127.0.0.1;host=\"test.example\";proto=https";
    assert_eq!(only_proto, ["127.0.0.1", "https", "test.example", forwarded]);

    // What stands before the element of a trusted proxy's client anyone could have written.
    let hops = "for=6.6.6.6;proto=gopher;host=evil, For=\"[2001:db8::1]:4711\";Proto=https;host=\"shop.example\", \
                for=10.1.1.1;proto=http";
    let standard = sent_on(&[("Forwarded", hops)]);
    let list = "6.6.6.6, 2001:db8::1, 10.1.1.1, 127.0.0.1".to_owned();
    assert_eq!(standard, [list, "https".to_owned(), "shop.example".to_owned(), format!("{hops}, {own}")]);

    // Nothing that could swallow what is added behind it is passed on.
    for broken in ["for=\"6.6.6.6", "for=6.6.6.6;for=7.7.7.7", "for=\"a\\"] {
        assert_eq!(sent_on(&[("Forwarded", broken)]), ["127.0.0.1", "http", "test.example", own], "{broken}");
    }
}

#[test]
fn a_client_behind_a_trusted_proxy_can_not_choose_whose_limit_it_uses() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\ntrusted_proxies: [127.0.0.1, 10.0.0.0/8]\n\
         limits: {{default: {{algorithm: token, capacity: 1, fillRate: 0.0003, key: ip}}}}\n",
        upstream.address
    ));
    let ask = |addresses: &str| gateway.get_with("/", &[("X-Forwarded-For", addresses)]).status;
    // The proxy appends the address it sees; what stands before it, the client wrote.
    assert_eq!(ask("203.0.113.7"), 200);
    for addresses in [
        "203.0.113.7",
        "1.1.1.1, 203.0.113.7",
        "2.2.2.2,3.3.3.3 , 203.0.113.7",
        "nonsense, 203.0.113.7",
        "1.1.1.1, 203.0.113.7, 10.1.2.3",
        "1.1.1.1, ::ffff:203.0.113.7",
        "1.1.1.1, 203.0.113.7:4321",
    ] {
        assert_eq!(ask(addresses), 429, "{addresses}");
    }
    assert_eq!(ask("203.0.113.8"), 200);
}
