//! HTTPS and HTTP/2, against our own gateway.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::load::http2_peer::{Manner, Peer};
use crate::load::service::Service;
use tidegate_testkit::authority::Authority;
use tidegate_testkit::load_run::{Ran, Running, constant, with};
use tidegate_testkit::{Directory, Gateway, Upstream, pause, text};

struct Secured {
    gateway: Gateway,
    upstream: Upstream,
    directory: Directory,
}

/// A gateway that speaks TLS, HTTP/2 and HTTP/1.1, before an upstream.
fn secured(names: &[&str]) -> Secured {
    let (authority, directory) = (Authority::new(), Directory::new());
    let issued = authority.issue(names);
    let (certificate, key) = (directory.file("cert.pem", &issued.certificate), directory.file("key.pem", &issued.key));
    directory.file("ca.pem", &authority.pem());
    let upstream = Upstream::start();
    let config = format!(
        "listeners: [{{address: \"127.0.0.1:0\", tls: {{certificate: {:?}, key: {:?}}}}}]\n\
         upstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n",
        text(&certificate),
        text(&key),
        upstream.address,
    );
    Secured { gateway: Gateway::start(&config), upstream, directory }
}

impl Secured {
    fn run(&self, options: serde_json::Value, with_ca: bool) -> Ran {
        let url = format!("https://localhost:{}/api/test", self.gateway.address.port());
        let plan = with(constant(url, 100, 0.5), "requestOptions", options);
        let ca = self.directory.0.join("ca.pem");
        Running::start(&plan, |command| {
            if with_ca {
                command.arg("--ca").arg(&ca);
            }
        })
        .ended()
    }
}

#[test]
fn https_is_spoken_with_whom_the_authority_vouches_for() {
    let secured = secured(&["localhost"]);
    let ran = secured.run(json!({}), true);
    assert_eq!((ran.requests("success"), secured.upstream.count()), (50, 50), "{}", ran.result["requests"]);
    // Nobody vouches for it, and the system may trust nobody at all.
    let ran = secured.run(json!({}), false);
    assert!(
        ran.code == 2 && ran.stderr.contains("authorities") || ran.failures("tls") == 50,
        "{} {}",
        ran.stderr,
        ran.result["requests"]
    );
    let ran = secured.run(json!({ "insecure": true }), false);
    assert_eq!(ran.requests("success"), 50, "{}", ran.result["requests"]);
}

#[test]
fn a_service_trusts_the_authorities_that_are_set() {
    let secured = secured(&["localhost"]);
    let ca = secured.directory.0.join("ca.pem");
    let service = Service::start_with(|command, _| {
        command.arg("--ca").arg(&ca);
    });
    service.begin(&constant(format!("https://localhost:{}/", secured.gateway.address.port()), 50, 0.2));
    service.wait_for_end();
    assert_eq!(secured.upstream.count(), 10);
}

#[test]
fn a_certificate_for_somebody_else_is_no_certificate() {
    let secured = secured(&["elsewhere.example"]);
    let ran = secured.run(json!({}), true);
    assert_eq!(
        (ran.failures("tls"), ran.requests("sent"), secured.upstream.count()),
        (50, 50, 0),
        "{}",
        ran.result["requests"]
    );
}

#[test]
fn http2_is_spoken_where_it_is_asked_for() {
    let secured = secured(&["localhost"]);
    let options = json!({ "protocol": "2", "method": "POST", "body": "hello", "headers": { "X-A": "1" } });
    let ran = secured.run(options, true);
    assert_eq!(ran.requests("success"), 50, "{}", ran.result["requests"]);
    let received = secured.upstream.received();
    assert!(
        received.len() == 50
            && received.iter().all(|request| request.body == b"hello" && request.header("x-a") == Some("1"))
    );
    assert!(received[0].header("via").is_some_and(|via| via.starts_with('2')), "{:?}", received[0]);
}

#[test]
fn http2_without_tls_is_for_those_who_know() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nupstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 30, window: 3600}}}}\n",
        upstream.address
    ));
    let mut plan = constant(format!("http://{}/", gateway.address), 100, 0.5);
    plan["requestOptions"] = json!({ "protocol": "2" });
    let ran = Running::start(&plan, |_| {}).ended();
    assert_eq!((ran.requests("success"), ran.requests("rateLimited")), (30, 20), "{}", ran.result["requests"]);
    assert!(upstream.received().iter().all(|request| request.header("via").is_some_and(|via| via.starts_with('2'))));

    // Who speaks only HTTP/1.1 does not understand it.
    plan["limiterUrl"] = json!(format!("http://{}/", upstream.address));
    let ran = Running::start(&plan, |_| {}).ended();
    assert_eq!((ran.requests("errors"), ran.requests("success")), (50, 0), "{}", ran.result["requests"]);
}

/// A server that says goodbye after some requests, as many do: what it has not begun with goes to the next connection.
#[test]
fn a_goodbye_over_http2_costs_no_request() {
    let peer = Peer::start(Manner::Leaving(10));
    let mut plan = constant(format!("http://{}/", peer.address), 400, 1.0);
    plan["requestOptions"] = json!({ "protocol": "2" });
    let ran = Running::start(&plan, |_| {}).ended();
    assert_eq!((ran.requests("sent"), ran.requests("success")), (400, 400), "{}", ran.result["requests"]);
    assert!(peer.connections.load(Ordering::SeqCst) >= 5);
}

/// Nobody is there any more: that costs what was sent until the first time-out, not the rest of the run.
#[test]
fn a_connection_of_http2_that_falls_silent_is_not_used_for_ever() {
    let peer = Peer::start(Manner::SilentAtFirst);
    let mut plan = constant(format!("http://{}/", peer.address), 50, 2.0);
    plan["requestOptions"] = json!({ "protocol": "2", "timeout": 0.3 });
    let ran = Running::start(&plan, |_| {}).ended();
    // Those of the first 0.3 s time out; another connection is made for the others.
    assert!(ran.requests("success") > 40 && ran.failures("timed_out") > 0, "{}", ran.result["requests"]);
}

/// What does not fit into TLS' own buffer goes on by itself, on a connection that is kept, too.
#[test]
fn large_bodies_go_over_tls() {
    let secured = secured(&["localhost"]);
    let ran = secured.run(json!({ "method": "POST", "body": "y".repeat(300_000), "timeout": 20 }), true);
    assert_eq!(ran.requests("success"), 50, "{}", ran.result["requests"]);
    assert!(secured.upstream.received().iter().all(|request| request.body.len() == 300_000));
}

/// A silent target over HTTP/2: each request has its own time-out, and the connection lives on for the others.
#[test]
fn a_time_out_over_http2_ends_its_request_alone() {
    let upstream = Upstream::behaving(|request, stream| {
        use std::io::Write as _;
        if request.header("x-who") == Some("slow") {
            pause(std::time::Duration::from_secs(5));
            return false;
        }
        stream.write_all(tidegate_testkit::OK).is_ok()
    });
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nupstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n",
        upstream.address
    ));
    let mut plan = constant(format!("http://{}/", gateway.address), 100, 0.5);
    plan["requestOptions"] = json!({ "protocol": "2", "timeout": 1.0 });
    plan["clients"] = json!([{ "name": "quick" }, { "name": "slow", "headers": { "X-Who": "slow" } }]);
    let ran = Running::start(&plan, |_| {}).ended();
    let (quick, slow) = (&ran.result["groups"][0]["requests"], &ran.result["groups"][1]["requests"]);
    assert_eq!(quick["success"], quick["sent"], "{quick}");
    assert_eq!(slow["failures"]["timed_out"], slow["sent"], "{slow}");
}
