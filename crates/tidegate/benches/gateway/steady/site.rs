//! A gateway with everything in use, and what stands around it.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Runtime;

use super::desk;
use super::mix::{HUGE, LARGE};
use crate::process::{Process, free_port};
use crate::redis::Redis;
use crate::scratch::Scratch;
use crate::{nginx, tidegate};

/// Users with an API key, of three tiers in turn.
pub(crate) const USERS: usize = 90;
/// Requests that may be in flight at once, by the limits that count those.
pub(crate) const PLACES: u64 = 1_000;

pub(crate) struct Site {
    pub(crate) gateway: Process,
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    pub(crate) access_log: PathBuf,
    /// What clients of `tls_port` trust.
    pub(crate) tls: Arc<ClientConfig>,
    _upstream: nginx::Upstream,
    _redis: Redis,
}

impl Site {
    /// Starts all of it; what is played by this program runs on `runtime`.
    pub(crate) fn start(scratch: &Scratch, runtime: &Runtime) -> Self {
        let upstream = nginx::upstream_with(scratch, &files(scratch));
        let redis = Redis::start(scratch);
        let desk = TcpListener::bind("127.0.0.1:0").expect("a port");
        desk.set_nonblocking(true).expect("it can be");
        let desk_port = desk.local_addr().expect("it is bound").port();
        runtime.spawn(desk::serve(desk));
        let (port, tls_port, access_log) = (free_port(), free_port(), scratch.join("access.log"));
        let (certificate, key, tls) = certificate(scratch);
        let config = format!(
            r#"listeners:
  - {{address: "127.0.0.1:{port}"}}
  - {{address: "127.0.0.1:{tls_port}", tls: {{certificate: "{}", key: "{}"}}}}
access_log: {{file: "{}"}}
redis: {{url: "redis://127.0.0.1:{}", namespace: steady, on_failure: closed, budget: 1s}}
upstreams:
  app: {{url: "http://127.0.0.1:{}", idle_timeout: 5s}}
  desk: {{url: "http://127.0.0.1:{desk_port}", idle_timeout: 5s}}
{POLICY}
identity:
  default_tier: free
  api_keys:
    keys:
{}"#,
            certificate.display(),
            key.display(),
            access_log.display(),
            redis.port,
            upstream.port,
            api_keys(),
        );
        let gateway = tidegate::serve(scratch, "tidegate", &config, port);
        Self { gateway, port, tls_port, access_log, tls, _upstream: upstream, _redis: redis }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn tls_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.tls_port).into()
    }
}

/// Two workers, so that there is something to share. Clients have the addresses that they say they have, as if a load
/// balancer had. Limits that are not meant to reject are far away: whatever they reject is an error.
const POLICY: &str = "workers: 2
trusted_proxies: [127.0.0.1]
limits:
  everyone: {algorithm: sliding, limit: 1000000000, window: 60, state: memory}
  address: {algorithm: sliding, limit: 100000, window: 10, key: ip, state: memory}
  plan:
    algorithm: token
    capacity: 100000
    fill_rate: 100000
    key: user
    missing: ip
    state: memory
    tiers: {pro: {capacity: 200000, fill_rate: 200000}, enterprise: unlimited}
  watched: {algorithm: gcra, capacity: 10, fill_rate: 10, key: ip+endpoint, dry_run: true, state: memory}
  search: {algorithm: gcra, capacity: 100, fill_rate: 200, state: memory}
  closed: {algorithm: fixed, limit: 1, window: 1h, state: memory}
  shaped: {algorithm: leaky, capacity: 100, fill_rate: 500, state: memory}
  places: {algorithm: concurrency, limit: 1000, state: memory}
  shared-places: {algorithm: concurrency, limit: 1000, state: exact}
  leased: {algorithm: token, capacity: 1000000, fill_rate: 1000000, state: leased}
  exact: {algorithm: sliding, limit: 1000000, window: 60, key: user, state: exact}
common_limits: [everyone, address, plan]
routes:
  - {name: search, prefix: /search, upstream: app, limits: [search]}
  - {name: closed, prefix: /closed, upstream: app, limits: [closed]}
  - {name: shaped, prefix: /shaped, upstream: app, limits: [shaped]}
  - {name: leased, prefix: /leased, upstream: app, limits: [leased]}
  - {name: exact, prefix: /exact, upstream: app, limits: [exact]}
  - {name: slow, path: /slow, upstream: desk, limits: [places, shared-places]}
  - {name: take, path: /take, methods: [POST], upstream: desk, limits: [places]}
  - {name: socket, path: /socket, upstream: desk, limits: [places]}
  - {name: items, pattern: \"/api/{kind}/**\", upstream: app, limits: [watched]}
  - {name: rest, prefix: /, upstream: app}
";

fn api_keys() -> String {
    let mut keys = String::new();
    for user in 0..USERS {
        let tier = ["free", "pro", "enterprise"][user % 3];
        // Writing to memory can't fail.
        let _written = writeln!(keys, "      - {{key: key-{user}, user: user-{user}, tier: {tier}}}");
    }
    keys
}

/// Writes the files that are downloaded, and says where nginx finds them.
fn files(scratch: &Scratch) -> String {
    let mut locations = String::new();
    for (name, length) in [("large", LARGE), ("huge", HUGE)] {
        let file = scratch.write(name, &"x".repeat(length));
        let _written = writeln!(locations, "location = /{name} {{ alias {}; sendfile on; }}", file.display());
    }
    locations
}

/// A certificate and its key for the gateway, and what a client trusts that trusts it.
fn certificate(scratch: &Scratch) -> (PathBuf, PathBuf, Arc<ClientConfig>) {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(pair.cert.der().clone()).expect("it is well made");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut tls = builder.expect("they are supported").with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let certificate = scratch.write("certificate.pem", &pair.cert.pem());
    let key = scratch.write("key.pem", &pair.signing_key.serialize_pem());
    (certificate, key, Arc::new(tls))
}
