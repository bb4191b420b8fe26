//! Redis over TLS: the same limits, and a gateway that knows with whom it talks.

use std::fs;
use std::net::SocketAddr;

use crate::shared::crowd::{Tally, send};
use crate::shared::setup::{FIVE, STRICT, admitted, config};
use tidegate_testkit::redis_tls::{Certificates, SecureServer};
use tidegate_testkit::{Gateway, Upstream, text, wait_until};

const UNREACHED: &str = "WARN RedisClient - Redis could not be reached at ";

/// What the section `redis` says of this authority.
fn ca(certificates: &Certificates) -> String {
    format!("ca: \"{}\"", text(&certificates.file("ca.pem")))
}

/// The same, with a certificate of its own.
fn own(certificates: &Certificates) -> String {
    let (certificate, key) = (text(&certificates.file("client.pem")), text(&certificates.file("client.key")));
    format!("{}, certificate: \"{certificate}\", key: \"{key}\"", ca(certificates))
}

/// Two gateways, four times what is allowed.
fn share_exactly(server: &SecureServer, files: &str) {
    let upstream = Upstream::start();
    let limit = "{algorithm: gcra, capacity: 60, fill_rate: 0.001}";
    let file = config(upstream.address, &server.url(), &format!("{STRICT}, {files}"), limit);
    let gateways = [0, 1].map(|_| Gateway::start(&file));
    let addresses: Vec<SocketAddr> = gateways.iter().map(|gateway| gateway.address).collect();
    assert_eq!(send(&addresses, 3, 40), Tally { responses: [(200, 60), (429, 180)].into(), broken: 0 });
    assert_eq!(upstream.count(), 60);
}

#[test]
fn two_gateways_share_a_limit_exactly_over_tls() {
    let certificates = Certificates::new();
    share_exactly(&SecureServer::start(&certificates, "no"), &ca(&certificates));
}

#[test]
fn two_gateways_share_a_limit_exactly_in_a_redis_that_asks_for_certificates() {
    let certificates = Certificates::new();
    share_exactly(&SecureServer::start(&certificates, "yes"), &own(&certificates));
}

#[test]
fn without_a_certificate_that_redis_asks_for_it_is_away() {
    let (certificates, upstream) = (Certificates::new(), Upstream::start());
    let server = SecureServer::start(&certificates, "yes");
    let gateway = Gateway::start(&config(upstream.address, &server.url(), &ca(&certificates), FIVE));
    gateway.wait_for_line(UNREACHED);
    assert_eq!(admitted(&gateway, "/", 20), 20);
}

#[test]
fn a_redis_of_another_authority_is_away_and_the_log_says_why() {
    let (ours, theirs, upstream) = (Certificates::new(), Certificates::new(), Upstream::start());
    let server = SecureServer::start(&theirs, "no");
    let gateway = Gateway::start(&config(upstream.address, &server.url(), &own(&ours), FIVE));
    let line = gateway.wait_for_line(UNREACHED);
    assert!(line.contains("invalid peer certificate"), "{line}");
    assert_eq!(gateway.metric("ratelimiter_redis_connected"), Some(0.0));
    assert_eq!(admitted(&gateway, "/", 20), 20);
    let key = fs::read_to_string(ours.file("client.key")).expect("a key");
    let secret = key.lines().nth(1).expect("its first line");
    assert!(!gateway.lines().iter().any(|line| line.contains(secret)), "the log holds no secret");
}

/// Everything comes from the environment, as in a container.
fn with_environment(upstream: &Upstream, server: &SecureServer, more: (&str, &str)) -> Gateway {
    let file = format!("upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {FIVE}}}\n", upstream.address);
    let port = server.port.to_string();
    Gateway::start_with(&file, |command| {
        command.envs([("REDIS_HOST", "127.0.0.1"), ("REDIS_PORT", &port), ("REDIS_TLS", "true"), more]);
    })
}

/// On a busy machine the first attempt may come too late, and the next one counts.
fn connects(gateway: &Gateway) {
    wait_until("Redis is there", || gateway.metric("ratelimiter_redis_connected") == Some(1.0));
}

#[test]
fn tls_and_its_authority_come_from_the_environment() {
    let (certificates, upstream) = (Certificates::new(), Upstream::start());
    let server = SecureServer::start(&certificates, "no");
    let file = text(&certificates.file("ca.pem"));
    connects(&with_environment(&upstream, &server, ("REDIS_CA", &file)));
    // The address of a flag has the same authority.
    let by_flag = Gateway::start_with("", |command| {
        command.args(["--redis", &server.url()]).env("REDIS_CA", &file);
    });
    connects(&by_flag);
}

#[test]
fn without_an_authority_of_its_own_the_systems_are_trusted() {
    let (certificates, others, upstream) = (Certificates::new(), Certificates::new(), Upstream::start());
    let server = SecureServer::start(&certificates, "no");
    // The system's are read from here if it says so.
    let system = |certificates: &Certificates| text(&certificates.file("ca.pem"));
    connects(&with_environment(&upstream, &server, ("SSL_CERT_FILE", &system(&certificates))));
    let strange = with_environment(&upstream, &server, ("SSL_CERT_FILE", &system(&others)));
    assert!(strange.wait_for_line(UNREACHED).contains("invalid peer certificate"));
}

/// Certificates are renewed in place, by others and all the time: that blocked every reload, whatever else it was for.
#[test]
fn a_reload_with_renewed_files_is_applied_and_warns_that_redis_keeps_the_old_ones() {
    let (certificates, others, upstream) = (Certificates::new(), Certificates::new(), Upstream::start());
    let server = SecureServer::start(&certificates, "no");
    let gateway = Gateway::start(&config(upstream.address, &server.url(), &ca(&certificates), FIVE));
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert!(!gateway.lines().iter().any(|line| line.contains("renewed")), "{:?}", gateway.lines());
    fs::copy(others.file("ca.pem"), certificates.file("ca.pem")).expect("a copy");
    let six = "{algorithm: fixed, limit: 6, window: 30d}";
    let file = |files: &str| config(upstream.address, &server.url(), files, six);
    fs::write(&gateway.config, file(&ca(&certificates))).expect("written");
    let response = gateway.post("/reload", "");
    assert_eq!((response.status, &response.json()["limit"]), (200, &6.into()), "{}", response.text());
    let warning = gateway.wait_for_line("redis: its certificates or keys have been renewed");
    assert!(warning.contains(" WARN ") && warning.contains("until a restart"), "{warning}");
    assert_eq!(gateway.metric("ratelimiter_redis_connected"), Some(1.0));

    // Other files are another thing: what is written can't be had without a restart.
    fs::write(&gateway.config, file(&ca(&others))).expect("written");
    let response = gateway.post("/reload", "");
    assert_eq!(response.status, 400, "{}", response.text());
    assert!(response.json()["detail"].as_str().is_some_and(|detail| detail.contains("redis")), "{}", response.text());
}
