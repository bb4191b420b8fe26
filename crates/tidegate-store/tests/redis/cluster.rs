//! A Redis Cluster of three masters and three replicas, made here.

use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_store::election::{Lifetimes, Publication};
use tidegate_store::{FailureMode, LeaseTerms, Sharing, Source, Store, StoreConfig, TlsFiles};

use crate::failure::until;
use crate::setup::{MODES, admitted, all_rules, ask, leasable_rules, limit, name, patient};
use crate::tls;
use tidegate_testkit::pause_async;
use tidegate_testkit::redis_server::{Server, eventually};
use tidegate_testkit::redis_tls::{Certificates, SecureServer};

const SETTINGS: [&str; 10] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1000",
    "--repl-diskless-sync-delay",
    "0",
    "--cluster-replica-validity-factor",
    "0",
    "--cluster-require-full-coverage",
    "no",
];

struct Cluster {
    nodes: Vec<Server>,
    /// What clients write before the nodes' addresses.
    scheme: &'static str,
    /// Where clients find them.
    ports: Vec<u16>,
}

impl Cluster {
    fn start() -> Self {
        let nodes: Vec<Server> = (0..6).map(|_| Server::start_with(&SETTINGS)).collect();
        let ports = nodes.iter().map(|node| node.port).collect();
        Self::join(Self { nodes, scheme: "redis+cluster", ports }, &[])
    }

    /// Nodes that speak TLS with their clients and each other, and know each other and their clients by certificates.
    fn start_secure(certificates: &Certificates) -> Self {
        let settings = [&SETTINGS[..], &["--tls-cluster", "yes", "--tls-replication", "yes"]].concat();
        let nodes = (0..6).map(|_| SecureServer::start_with(certificates, "yes", &settings));
        let (ports, nodes) = nodes.map(|node| (node.port, node.plain)).unzip();
        let file = |name| certificates.file(name).display().to_string();
        let (ca, certificate, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
        let secure = ["--tls", "--cacert", &ca, "--cert", &certificate, "--key", &key];
        Self::join(Self { nodes, scheme: "rediss+cluster", ports }, &secure)
    }

    fn join(self, how_to_connect: &[&str]) -> Self {
        let addresses = self.ports.iter().map(|port| format!("127.0.0.1:{port}"));
        let created = Command::new("redis-cli")
            .args(how_to_connect)
            .args(["--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .stdout(Stdio::null())
            .status();
        assert!(created.expect("redis-cli is installed").success());
        self.wait_until_whole();
        self
    }

    fn wait_until_whole(&self) {
        eventually("the cluster is whole and in step", || {
            self.nodes.iter().all(|node| {
                let mut connection = node.connection();
                let mut info = |command: &str, argument: &str| {
                    redis::cmd(command).arg(argument).query::<String>(&mut connection).unwrap_or_default()
                };
                let (state, replication) = (info("CLUSTER", "INFO"), info("INFO", "replication"));
                let in_step = replication.contains("master_link_status:up") || replication.contains("state=online");
                state.contains("cluster_state:ok") && in_step
            })
        });
    }

    fn url(&self) -> String {
        let hosts: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("{}://{}", self.scheme, hosts.join(","))
    }

    /// Which node is the master of a namespace.
    fn master_of(&self, namespace: &str) -> usize {
        let key = format!("tidegate:{{{namespace}}}:x");
        let is_master = |node: &Server| {
            let reply = redis::cmd("GET").arg(&key).query::<Option<String>>(&mut node.connection());
            reply.is_ok()
        };
        self.nodes.iter().position(is_master).expect("some node has the slot")
    }
}

fn config(cluster: &Cluster, namespace: &str, mode: FailureMode) -> StoreConfig {
    let lease = LeaseTerms { tokens: 10, ..LeaseTerms::default() };
    StoreConfig { namespace: name(namespace), on_failure: mode, lease, ..patient(&cluster.url()) }
}

#[tokio::test]
async fn exact_and_leased_limits_work_on_every_master() {
    let cluster = Cluster::start();
    let namespaces = ["a", "b", "c", "d", "e", "f"];
    let masters: std::collections::HashSet<_> = namespaces.map(|namespace| cluster.master_of(namespace)).into();
    assert_eq!(masters.len(), 3, "the names are chosen so that each master has some");
    for namespace in namespaces {
        let store = Store::connect(config(&cluster, namespace, FailureMode::Closed)).await.expect("sensible settings");
        for rule in all_rules(5) {
            let limit = limit(&store, "exact", rule, Sharing::Exact);
            assert_eq!(admitted(&store, &limit, "{ann}", 7).await, 5, "{rule:?}");
        }
        for rule in leasable_rules(5) {
            let limit = limit(&store, "leased", rule, Sharing::Leased);
            assert_eq!(admitted(&store, &limit, "{ann}", 7).await, 5, "{rule:?}");
        }
        assert!(!store.is_down());
    }
}

/// The nodes know each other by address and TLS port, and their certificates are checked like those of the nodes
/// that were listed.
#[tokio::test]
async fn limits_hold_over_tls_and_a_replica_is_followed() {
    let certificates = Certificates::new();
    let mut cluster = Cluster::start_secure(&certificates);
    let files = tls::known_to(&certificates);
    for namespace in ["a", "b", "c", "d", "e", "f"] {
        tls::limits_hold(StoreConfig { namespace: name(namespace), ..tls::config(&cluster.url(), &files) }).await;
    }
    let store = Store::connect(StoreConfig { namespace: name("a"), ..tls::config(&cluster.url(), &files) }).await;
    let store = store.expect("sensible settings");
    let limit = limit(&store, "any", all_rules(100)[0], Sharing::Exact);
    assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Shared);
    let master = cluster.master_of("a");
    cluster.nodes[master].kill();
    assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Failure(FailureMode::Closed));
    until("the replica has taken over", async || ask(&store, &limit, "ann", 1).await.source == Source::Shared).await;
}

#[tokio::test]
async fn a_cluster_of_another_authority_is_not_trusted() {
    let (ours, theirs) = (Certificates::new(), Certificates::new());
    let cluster = Cluster::start_secure(&theirs);
    let strange = TlsFiles { ca: Some(ours.file("ca.pem")), ..tls::known_to(&theirs) };
    tls::is_away(&cluster.url(), &strange, "invalid peer certificate").await;
}

/// A host that is listed but does not reply, as one whose machine is gone: the others are asked all the same.
#[tokio::test]
async fn a_dead_host_in_the_list_keeps_nobody_out() {
    let cluster = Cluster::start();
    let dead = std::net::TcpListener::bind("127.0.0.1:0").expect("a port"); // accepts, and says nothing
    let address = dead.local_addr().expect("an address");
    let url = cluster.url().replace("redis+cluster://", &format!("redis+cluster://{address},"));
    let store = Store::connect(StoreConfig { on_failure: FailureMode::Closed, ..patient(&url) }).await;
    let store = store.expect("sensible settings");
    let limit = limit(&store, "any", all_rules(5)[0], Sharing::Exact);
    assert_eq!(admitted(&store, &limit, "ann", 7).await, 5);
}

/// `kill -9` of the master of one namespace: the mode rules until its replica has taken over, other namespaces notice
/// nothing, and in all no more than one limit's worth comes on top.
#[tokio::test]
async fn the_kill_of_a_master_is_survived_in_every_mode() {
    for (mode, sharing) in MODES.into_iter().flat_map(|mode| [(mode, Sharing::Exact), (mode, Sharing::Leased)]) {
        let mut cluster = Cluster::start();
        let store = Store::connect(config(&cluster, "a", mode)).await.expect("sensible settings");
        let other = Store::connect(config(&cluster, "b", mode)).await.expect("sensible settings");
        assert_ne!(cluster.master_of("a"), cluster.master_of("b"));
        let limits = [leasable_rules(100)[0], leasable_rules(100)[4]].map(|rule| limit(&store, "any", rule, sharing));
        let elsewhere = limit(&other, "any", all_rules(100)[0], Sharing::Exact);
        for limit in &limits {
            assert_eq!(admitted(&store, limit, "ann", 60).await, 60);
        }

        let master = cluster.master_of("a");
        cluster.nodes[master].kill();
        let mut shared = [60; 2];
        let (mut outage, mut rejected) = (0, [false; 2]);
        let mut local = [0; 2];
        let patience = std::time::Instant::now();
        while rejected != [true; 2] {
            assert!(patience.elapsed() < Duration::from_secs(30), "{mode:?}: {shared:?}, {outage} during the outage");
            for (index, limit) in limits.iter().enumerate() {
                let verdict = ask(&store, limit, "ann", 1).await;
                match verdict.source {
                    Source::Shared if verdict.admitted => shared[index] += 1,
                    Source::Shared => rejected[index] = true,
                    Source::Failure(_) => {
                        outage += 1;
                        assert_eq!(verdict.source, Source::Failure(mode));
                        match mode {
                            FailureMode::Open => assert!(verdict.admitted),
                            FailureMode::Closed => assert!(!verdict.admitted),
                            FailureMode::Local => local[index] += u32::from(verdict.admitted),
                        }
                    }
                }
            }
            assert_eq!(ask(&other, &elsewhere, "ann", 1).await.source, Source::Shared, "another namespace");
            pause_async(Duration::from_millis(10)).await;
        }
        assert!(local.iter().all(|count| *count <= 100), "this process' own memory limits too: {local:?}");
        for count in shared {
            assert!(count <= 200, "more than one limit's worth extra: {count} {mode:?}");
            assert!(count >= 80, "under-used by more than two leases: {count} {mode:?}");
        }
        assert!(outage > 0, "the outage was noticed: {mode:?}");
    }
}

#[tokio::test]
async fn an_election_works_on_every_master() {
    let cluster = Cluster::start();
    for namespace in ["a", "b", "c", "d", "e", "f"] {
        let store = Store::connect(config(&cluster, namespace, FailureMode::Closed)).await.expect("sensible settings");
        let member = || store.election(&name("limits"), Lifetimes::default()).expect("sensible lifetimes");
        let (mut ann, mut bob) = (member(), member());
        let first = ann.heartbeat(b"a", None).await.expect("a heartbeat");
        assert!(first.is_leader());
        let publication = Publication { term: first.term, overlay: Some(b"more") };
        ann.heartbeat(b"a", Some(publication)).await.expect("a heartbeat");
        let overlay = bob.heartbeat(b"b", None).await.expect("a heartbeat").overlay;
        assert_eq!(overlay.expect("it is in force").bytes, b"more");
        ann.leave().await.expect("it has left");
        assert!(bob.heartbeat(b"b", None).await.expect("a heartbeat").is_leader());
    }
}
